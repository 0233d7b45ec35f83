/* Initialisation, error texts and versions. */
#include "lab.h"

static nvmlReturn_t init(const char *function)
{
    const nvmlReturn_t result = lab_enter_init(function);

    if (result == NVML_SUCCESS)
        lab_count_init();
    return lab_leave(result);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return init(__func__);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags; /* the lab's GPUs need not be attached, so all flags mean the same */
    return init(__func__);
}

nvmlReturn_t nvmlShutdown(void)
{
    return lab_count_shutdown();
}

static const char *const texts[] = {
    [NVML_SUCCESS] = "Success",
    [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
    [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
    [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
    [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
    [NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
    [NVML_ERROR_NOT_FOUND] = "Not Found",
    [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
    [NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
    [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
    [NVML_ERROR_TIMEOUT] = "Timeout",
    [NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
    [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
    [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
    [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
    [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
    [NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
    [NVML_ERROR_OPERATING_SYSTEM] = "The operating system has blocked the request.",
    [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "RM has detected an NVML/RM version mismatch.",
    [NVML_ERROR_IN_USE] = "In use by another client",
    [NVML_ERROR_MEMORY] = "Insufficient Memory",
    [NVML_ERROR_NO_DATA] = "No Data",
    [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
    [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Version mismatch between input and output structure",
};

const char *nvmlErrorString(nvmlReturn_t result)
{
    const char *text = result < sizeof(texts) / sizeof(*texts) ? texts[result] : NULL;

    return text != NULL ? text : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);

    if (result == NVML_SUCCESS)
        result = lab_put_text(state->driver.version, version, length);
    return lab_leave(result);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);

    if (result == NVML_SUCCESS)
        result = lab_put_text(state->driver.nvml, version, length);
    return lab_leave(result);
}
