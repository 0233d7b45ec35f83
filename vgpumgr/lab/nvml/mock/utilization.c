/* How busy vGPUs and GPUs were. The state's stretches of time are seen through ticks (vgpumgr/lab/driver/meter.py). */
#include "lab.h"

#include <string.h>

#define FIRST_INSTANCES_INFO 550 /* the branch whose tools show jpg and ofa */
#define MILLI 1000

struct sample {
    nvmlVgpuInstance_t instance;
    unsigned int sm;
    unsigned int mem;
    unsigned int enc;
    unsigned int dec;
};

static long long later(long long a, long long b)
{
    return a > b ? a : b;
}

/* The nearest percent, halves up, of a sum of thousandths of a percent times us. */
static unsigned int mean(long long sum, long long span)
{
    const long long whole = span * MILLI;

    return (unsigned int)((sum + whole / 2) / whole);
}

/* The mean of a vGPU's ticks newer than `seen`; false if it has none. */
static bool take(const struct lab_state *state, const struct lab_vgpu *vgpu, unsigned long long seen,
                 struct sample *sample)
{
    const long long newest = state->driver.newest;
    long long begin;
    long long span = 0;
    long long sm = 0;
    long long mem = 0;
    long long enc = 0;
    long long dec = 0;

    if (state->driver.tick <= 0 || newest <= 0 || seen >= (unsigned long long)newest)
        return false;
    /* The tick that follows `seen` covers the time since the previous tick. */
    begin = (long long)seen / state->driver.tick * state->driver.tick;
    for (size_t i = 0; i < state->use_count; i++) {
        const struct lab_use *use = &state->uses[i];
        const long long length = use->to - later(use->from, begin);

        if (use->instance != vgpu->instance || length <= 0)
            continue;
        span += length;
        sm += use->sm * length;
        mem += use->mem * length;
        enc += use->enc * length;
        dec += use->dec * length;
    }
    if (span == 0)
        return false;
    *sample = (struct sample){(nvmlVgpuInstance_t)vgpu->instance, mean(sm, span), mean(mem, span), mean(enc, span),
                              mean(dec, span)};
    return true;
}

static bool runs_on(const struct lab_vgpu *vgpu, const struct lab_gpu *gpu)
{
    return vgpu->gpu == gpu->index && vgpu->vm_uuid != NULL;
}

static unsigned int count_running(const struct lab_state *state, const struct lab_gpu *gpu)
{
    unsigned int running = 0;

    for (size_t i = 0; i < state->vgpu_count; i++)
        running += runs_on(&state->vgpus[i], gpu);
    return running;
}

static nvmlReturn_t enter(const char *function, nvmlDevice_t device, const void *argument,
                          const struct lab_state **state, const struct lab_gpu **gpu)
{
    nvmlReturn_t result = lab_enter_device(function, device, state, gpu);

    if (result == NVML_SUCCESS && argument == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && (*gpu)->mig > 0)
        result = NVML_ERROR_NOT_SUPPORTED;
    return result;
}

nvmlReturn_t nvmlDeviceGetVgpuUtilization(nvmlDevice_t device, unsigned long long lastSeenTimeStamp,
                                          nvmlValueType_t *sampleValType, unsigned int *vgpuInstanceSamplesCount,
                                          nvmlVgpuInstanceUtilizationSample_t *utilizationSamples)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, device, vgpuInstanceSamplesCount, &state, &gpu);
    unsigned int written = 0;
    unsigned int running;
    struct sample sample;

    if (result == NVML_SUCCESS &&
        (sampleValType == NULL || (utilizationSamples != NULL && *vgpuInstanceSamplesCount == 0)))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return lab_leave(result);
    *sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
    running = count_running(state, gpu);
    if (running > 0 && (utilizationSamples == NULL || *vgpuInstanceSamplesCount < running)) {
        *vgpuInstanceSamplesCount = running;
        return lab_leave(NVML_ERROR_INSUFFICIENT_SIZE);
    }
    for (size_t i = 0; i < state->vgpu_count; i++) {
        nvmlVgpuInstanceUtilizationSample_t *to;

        if (!runs_on(&state->vgpus[i], gpu) || !take(state, &state->vgpus[i], lastSeenTimeStamp, &sample))
            continue;
        to = &utilizationSamples[written++];
        memset(to, 0, sizeof(*to));
        to->vgpuInstance = sample.instance;
        to->timeStamp = (unsigned long long)state->driver.newest;
        to->smUtil.uiVal = sample.sm;
        to->memUtil.uiVal = sample.mem;
        to->encUtil.uiVal = sample.enc;
        to->decUtil.uiVal = sample.dec;
    }
    *vgpuInstanceSamplesCount = written;
    return lab_leave(running > 0 && written == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetVgpuInstancesUtilizationInfo(nvmlDevice_t device,
                                                       nvmlVgpuInstancesUtilizationInfo_t *vgpuUtilInfo)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, device, vgpuUtilInfo, &state, &gpu);
    unsigned int written = 0;
    unsigned int running;
    struct sample sample;

    if (result == NVML_SUCCESS && lab_branch(state) < FIRST_INSTANCES_INFO)
        result = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && vgpuUtilInfo->version != nvmlVgpuInstancesUtilizationInfo_v1)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result != NVML_SUCCESS)
        return lab_leave(result);
    vgpuUtilInfo->sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
    running = count_running(state, gpu);
    if (running > 0 && (vgpuUtilInfo->vgpuUtilArray == NULL || vgpuUtilInfo->vgpuInstanceCount < running)) {
        vgpuUtilInfo->vgpuInstanceCount = running;
        return lab_leave(NVML_ERROR_INSUFFICIENT_SIZE);
    }
    for (size_t i = 0; i < state->vgpu_count; i++) {
        nvmlVgpuInstanceUtilizationInfo_v1_t *to;

        if (!runs_on(&state->vgpus[i], gpu) ||
            !take(state, &state->vgpus[i], vgpuUtilInfo->lastSeenTimeStamp, &sample))
            continue;
        to = &vgpuUtilInfo->vgpuUtilArray[written++];
        memset(to, 0, sizeof(*to)); /* JPEG and OFA engines: no load of the lab uses them */
        to->vgpuInstance = sample.instance;
        to->timeStamp = (unsigned long long)state->driver.newest;
        to->smUtil.uiVal = sample.sm;
        to->memUtil.uiVal = sample.mem;
        to->encUtil.uiVal = sample.enc;
        to->decUtil.uiVal = sample.dec;
    }
    vgpuUtilInfo->vgpuInstanceCount = written;
    return lab_leave(running > 0 && written == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, device, utilization, &state, &gpu);

    if (result == NVML_SUCCESS)
        result = lab_put_number(gpu->util_sm, &utilization->gpu);
    if (result == NVML_SUCCESS)
        result = lab_put_number(gpu->util_mem, &utilization->memory);
    return lab_leave(result);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, device, temp, &state, &gpu);

    if (result == NVML_SUCCESS && sensorType != NVML_TEMPERATURE_GPU)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = lab_put_number(gpu->temperature, temp);
    return lab_leave(result);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = enter(__func__, device, power, &state, &gpu);

    if (result == NVML_SUCCESS)
        result = lab_put_number(gpu->power, power);
    return lab_leave(result);
}
