/* Initialisation, error texts and versions. */
#include "lab.h"

nvmlReturn_t nvmlInit_v2(void)
{
    const nvmlReturn_t result = lab_enter_init(__func__);

    if (result == NVML_SUCCESS)
        lab_count_init();
    return lab_leave(result);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    const nvmlReturn_t result = lab_enter_init(__func__);

    (void)flags; /* the lab's GPUs need not be attached, so all flags mean the same */
    if (result == NVML_SUCCESS)
        lab_count_init();
    return lab_leave(result);
}

nvmlReturn_t nvmlShutdown(void)
{
    return lab_count_shutdown();
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED:
        return "Already Initialized";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER:
        return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
        return "Timeout";
    case NVML_ERROR_IRQ_ISSUE:
        return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
        return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
        return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM:
        return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
        return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM:
        return "The operating system has blocked the request.";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "RM has detected an NVML/RM version mismatch.";
    case NVML_ERROR_IN_USE:
        return "In use by another client";
    case NVML_ERROR_MEMORY:
        return "Insufficient Memory";
    case NVML_ERROR_NO_DATA:
        return "No Data";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
        return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Version mismatch between input and output structure";
    default:
        return "Unknown Error";
    }
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
