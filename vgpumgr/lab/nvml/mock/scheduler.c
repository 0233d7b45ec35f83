/* vGPU schedulers: what the driver would take, how each engine is shared now, and setting it. */
#include "lab.h"

#include <stdio.h>
#include <string.h>

/* The branches that introduced these calls (NVML's change log). */
#define FIRST_GET 530
#define FIRST_SET 535
#define FIRST_V2 595

static nvmlReturn_t enter(const char *function, unsigned int branch, nvmlDevice_t device, const void *argument,
                          const struct lab_state **state, const struct lab_gpu **gpu)
{
    nvmlReturn_t result = lab_enter_device(function, device, state, gpu);

    if (result == NVML_SUCCESS && lab_branch(*state) < branch)
        result = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && argument == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    return result;
}

nvmlReturn_t nvmlDeviceGetVgpuSchedulerCapabilities(nvmlDevice_t device, nvmlVgpuSchedulerCapabilities_t *pCapabilities)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, FIRST_GET, device, pCapabilities, &state, &gpu);

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    for (size_t i = 0; i < state->caps_count; i++) {
        const struct lab_caps *caps = &state->caps[i];

        if (caps->gpu != gpu->index)
            continue;
        memset(pCapabilities, 0, sizeof(*pCapabilities));
        pCapabilities->supportedSchedulers[0] = NVML_VGPU_SCHEDULER_POLICY_BEST_EFFORT;
        pCapabilities->supportedSchedulers[1] = NVML_VGPU_SCHEDULER_POLICY_EQUAL_SHARE;
        pCapabilities->supportedSchedulers[2] = NVML_VGPU_SCHEDULER_POLICY_FIXED_SHARE;
        pCapabilities->maxTimeslice = (unsigned int)caps->slice_max;
        pCapabilities->minTimeslice = (unsigned int)caps->slice_min;
        pCapabilities->isArrModeSupported = (unsigned int)caps->arr;
        pCapabilities->maxFrequencyForARR = (unsigned int)caps->frequency_max;
        pCapabilities->minFrequencyForARR = (unsigned int)caps->frequency_min;
        pCapabilities->maxAvgFactorForARR = (unsigned int)caps->factor_max;
        pCapabilities->minAvgFactorForARR = (unsigned int)caps->factor_min;
        return lab_leave(NVML_SUCCESS);
    }
    return lab_leave(NVML_ERROR_NOT_SUPPORTED);
}

/* NULL for an engine that the GPU does not have. */
static const struct lab_scheduler *find_engine(const struct lab_state *state, const struct lab_gpu *gpu,
                                               unsigned int engine)
{
    for (size_t i = 0; i < state->scheduler_count; i++) {
        if (state->schedulers[i].gpu == gpu->index && state->schedulers[i].engine == (long long)engine)
            return &state->schedulers[i];
    }
    return NULL;
}

nvmlReturn_t nvmlDeviceGetVgpuSchedulerState(nvmlDevice_t device, nvmlVgpuSchedulerGetState_t *pSchedulerState)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    const struct lab_scheduler *found;
    nvmlReturn_t result = enter(__func__, FIRST_GET, device, pSchedulerState, &state, &gpu);

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    found = find_engine(state, gpu, NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS);
    if (found == NULL)
        return lab_leave(NVML_ERROR_NOT_SUPPORTED);
    memset(pSchedulerState, 0, sizeof(*pSchedulerState));
    pSchedulerState->schedulerPolicy = (unsigned int)found->policy;
    pSchedulerState->arrMode = (unsigned int)found->arr;
    if (found->arr == NVML_VGPU_SCHEDULER_ARR_ENABLE) {
        pSchedulerState->schedulerParams.vgpuSchedDataWithARR.avgFactor = (unsigned int)found->factor;
        pSchedulerState->schedulerParams.vgpuSchedDataWithARR.timeslice = (unsigned int)found->slice;
    } else {
        pSchedulerState->schedulerParams.vgpuSchedData.timeslice = (unsigned int)found->slice;
    }
    return lab_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetVgpuSchedulerState_v2(nvmlDevice_t device,
                                                nvmlVgpuSchedulerStateInfo_v2_t *pSchedulerStateInfo)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    const struct lab_scheduler *found;
    nvmlReturn_t result = enter(__func__, FIRST_V2, device, pSchedulerStateInfo, &state, &gpu);

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    if (pSchedulerStateInfo->engineId < NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS ||
        pSchedulerStateInfo->engineId > NVML_VGPU_SCHEDULER_ENGINE_TYPE_NVENC0)
        return lab_leave(NVML_ERROR_INVALID_ARGUMENT);
    found = find_engine(state, gpu, pSchedulerStateInfo->engineId);
    if (found == NULL)
        return lab_leave(NVML_ERROR_NOT_SUPPORTED);
    pSchedulerStateInfo->schedulerPolicy = (unsigned int)found->policy;
    pSchedulerStateInfo->avgFactor = (unsigned int)found->factor;
    pSchedulerStateInfo->timeslice = (unsigned int)found->slice;
    return lab_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceSetVgpuSchedulerState(nvmlDevice_t device, nvmlVgpuSchedulerSetState_t *pSchedulerState)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, FIRST_SET, device, pSchedulerState, &state, &gpu);
    unsigned int factor = 0;
    unsigned int frequency = 0;
    unsigned int slice = 0;
    char line[LAB_LINE];

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    if (pSchedulerState->enableARRMode == NVML_VGPU_SCHEDULER_ARR_DISABLE) {
        slice = pSchedulerState->schedulerParams.vgpuSchedData.timeslice;
    } else {
        factor = pSchedulerState->schedulerParams.vgpuSchedDataWithARR.avgFactor;
        frequency = pSchedulerState->schedulerParams.vgpuSchedDataWithARR.frequency;
    }
    snprintf(line, sizeof(line), "scheduler pci=%s policy=%u arr=%u factor=%u frequency=%u slice=%u\n", gpu->pci,
             pSchedulerState->schedulerPolicy, pSchedulerState->enableARRMode, factor, frequency, slice);
    return lab_leave(lab_request(line));
}

nvmlReturn_t nvmlDeviceSetVgpuSchedulerState_v2(nvmlDevice_t device, nvmlVgpuSchedulerState_v2_t *pSchedulerState)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, FIRST_V2, device, pSchedulerState, &state, &gpu);
    char line[LAB_LINE];

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    snprintf(line, sizeof(line), "scheduler pci=%s engine=%u policy=%u factor=%u frequency=%u\n", gpu->pci,
             pSchedulerState->engineId, pSchedulerState->schedulerPolicy, pSchedulerState->avgFactor,
             pSchedulerState->frequency);
    return lab_leave(lab_request(line));
}
