/* MIG: the mode, GPU instances with their profiles and places, and compute instances. */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PROFILES_WITHOUT_MIG 580 /* seen there: `nvidia-smi mig -lgip` of a GPU with MIG off */
#define FIRST_BY_ID 580
#define PREFIX "MIG " /* of a profile's name */

/* The profile of a compute instance, and how many compute slices it has; NVML's numbers are the ids (seen so). */
static const unsigned int compute_slices[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {
    [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE] = 1, [NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE] = 2,
    [NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE] = 3, [NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE] = 4,
    [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE] = 7,
};

GPU_CALL(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode), device,
         lab_both(lab_put_number(gpu->mig, currentMode), lab_put_number(gpu->mig_pending, pendingMode)))

/* Send one line to the driver, and read the state after it. */
static nvmlReturn_t change(const char *line, const struct lab_state **state)
{
    const nvmlReturn_t result = lab_request(line);

    return result == NVML_SUCCESS ? lab_read_again(state) : result;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activationStatus)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = lab_enter_device(__func__, device, &state, &gpu);
    char line[LAB_LINE];
    long long index;

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    if (mode > NVML_DEVICE_MIG_ENABLE || activationStatus == NULL)
        return lab_leave(NVML_ERROR_INVALID_ARGUMENT);
    index = gpu->index;
    snprintf(line, sizeof(line), "mig pci=%s on=%u\n", gpu->pci, mode);
    result = change(line, &state);
    if (result == NVML_SUCCESS) {
        gpu = &state->gpus[index];
        *activationStatus = gpu->mig == gpu->mig_pending ? NVML_SUCCESS : NVML_ERROR_RESET_REQUIRED;
    }
    return lab_leave(result);
}

/* profiles */

static const struct lab_profile *find_profile(const struct lab_state *state, const struct lab_gpu *gpu, unsigned int id)
{
    for (size_t i = 0; i < state->profile_count; i++) {
        if (state->profiles[i].gpu == gpu->index && state->profiles[i].id == (long long)id)
            return &state->profiles[i];
    }
    return NULL;
}

static const struct lab_profile *find_number(const struct lab_state *state, const struct lab_gpu *gpu,
                                             unsigned int number)
{
    for (size_t i = 0; i < state->profile_count; i++) {
        if (state->profiles[i].gpu == gpu->index && state->profiles[i].number == (long long)number)
            return &state->profiles[i];
    }
    return NULL;
}

/* The lab has no media engines: their counts are 0. */
#define PUT_PROFILE(to, profile)                                                                                      \
    do {                                                                                                              \
        (to)->id = (unsigned int)(profile)->id;                                                                       \
        (to)->sliceCount = (unsigned int)(profile)->slices;                                                           \
        (to)->instanceCount = (unsigned int)(profile)->max;                                                           \
        (to)->multiprocessorCount = (unsigned int)(profile)->sms;                                                     \
        (to)->copyEngineCount = (unsigned int)(profile)->slices;                                                      \
        (to)->memorySizeMB = (unsigned long long)(profile)->memory_mib;                                               \
    } while (0)

static nvmlReturn_t put_profile(const struct lab_profile *profile, nvmlGpuInstanceProfileInfo_t *info)
{
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (profile == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(info, 0, sizeof(*info));
    PUT_PROFILE(info, profile);
    return NVML_SUCCESS;
}

static nvmlReturn_t put_profile_v(const struct lab_state *state, const struct lab_gpu *gpu,
                                  const struct lab_profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    unsigned int version;

    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    version = info->version;
    if (version != nvmlGpuInstanceProfileInfo_v2 && version != nvmlGpuInstanceProfileInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (profile == NULL || (gpu->mig == 0 && lab_branch(state) < FIRST_PROFILES_WITHOUT_MIG))
        return NVML_ERROR_NOT_SUPPORTED;
    if (version == nvmlGpuInstanceProfileInfo_v2) {
        memset(info, 0, sizeof(*info));
        PUT_PROFILE(info, profile);
        snprintf(info->name, sizeof(info->name), PREFIX "%s", profile->name);
    } else {
        nvmlGpuInstanceProfileInfo_v3_t *newer = (nvmlGpuInstanceProfileInfo_v3_t *)(void *)info;

        memset(newer, 0, sizeof(*newer));
        PUT_PROFILE(newer, profile);
        snprintf(newer->name, sizeof(newer->name), PREFIX "%s", profile->name);
        if (strstr(profile->name, "+gfx") != NULL)
            newer->capabilities = NVML_GPU_INSTANCE_PROFILE_CAPS_GFX;
    }
    info->version = version;
    return NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceGetGpuInstanceProfileInfo,
         (nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info), device,
         profile >= NVML_GPU_INSTANCE_PROFILE_COUNT ? NVML_ERROR_INVALID_ARGUMENT
                                                    : put_profile(find_number(state, gpu, profile), info))

GPU_CALL(nvmlDeviceGetGpuInstanceProfileInfoV,
         (nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_v2_t *info), device,
         profile >= NVML_GPU_INSTANCE_PROFILE_COUNT
             ? NVML_ERROR_INVALID_ARGUMENT
             : put_profile_v(state, gpu, find_number(state, gpu, profile), info))

GPU_CALL(nvmlDeviceGetGpuInstanceProfileInfoByIdV,
         (nvmlDevice_t device, unsigned int profileId, nvmlGpuInstanceProfileInfo_v2_t *info), device,
         lab_branch(state) < FIRST_BY_ID ? NVML_ERROR_FUNCTION_NOT_FOUND
                                         : put_profile_v(state, gpu, find_profile(state, gpu, profileId), info))

/* Where the board has no such profile: *not supported* without MIG, else an invalid id. */
static nvmlReturn_t no_profile(const struct lab_gpu *gpu)
{
    return gpu->mig < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t put_starts(const struct lab_gpu *gpu, const struct lab_profile *profile,
                               nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    const unsigned int room = placements != NULL && count != NULL ? *count : 0;
    unsigned int needed = 0;

    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (profile == NULL)
        return no_profile(gpu);
    for (const char *at = profile->starts; *at != '\0'; needed++) {
        char *end;
        const unsigned long start = strtoul(at, &end, 10);

        if (needed < room) {
            placements[needed].start = (unsigned int)start;
            placements[needed].size = (unsigned int)profile->size;
        }
        at = *end == ',' ? end + 1 : end;
    }
    *count = needed;
    return placements != NULL && needed > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceGetGpuInstancePossiblePlacements_v2,
         (nvmlDevice_t device, unsigned int profileId, nvmlGpuInstancePlacement_t *placements, unsigned int *count),
         device, put_starts(gpu, find_profile(state, gpu, profileId), placements, count))

static nvmlReturn_t put_left(const struct lab_gpu *gpu, const struct lab_profile *profile, unsigned int *count)
{
    if (gpu->mig <= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return profile == NULL ? NVML_ERROR_INVALID_ARGUMENT : lab_put_number(profile->left, count);
}

GPU_CALL(nvmlDeviceGetGpuInstanceRemainingCapacity,
         (nvmlDevice_t device, unsigned int profileId, unsigned int *count), device,
         put_left(gpu, find_profile(state, gpu, profileId), count))

/* GPU instances */

/* The handle is that of the GPU's newest instance of the profile: serials grow. */
static nvmlReturn_t create(const struct lab_state *state, const struct lab_gpu *gpu, unsigned int id,
                           const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *handle)
{
    const struct lab_profile *profile = find_profile(state, gpu, id);
    const struct lab_instance *newest = NULL;
    const long long index = gpu->index;
    char line[LAB_LINE];
    nvmlReturn_t result;

    if (handle == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (placement != NULL && (profile == NULL || placement->size != (unsigned int)profile->size))
        return gpu->mig <= 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    if (placement != NULL)
        snprintf(line, sizeof(line), "create-instance pci=%s profile=%u start=%u\n", gpu->pci, id, placement->start);
    else
        snprintf(line, sizeof(line), "create-instance pci=%s profile=%u\n", gpu->pci, id);
    result = change(line, &state);
    if (result != NVML_SUCCESS)
        return result;
    for (size_t i = 0; i < state->instance_count; i++) {
        const struct lab_instance *one = &state->instances[i];

        if (one->gpu == index && one->profile == (long long)id && (newest == NULL || one->serial > newest->serial))
            newest = one;
    }
    if (newest == NULL)
        return NVML_ERROR_UNKNOWN;
    *handle = lab_handle_of_instance(newest);
    return NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceCreateGpuInstance, (nvmlDevice_t device, unsigned int profileId, nvmlGpuInstance_t *gpuInstance),
         device, create(state, gpu, profileId, NULL, gpuInstance))

GPU_CALL(nvmlDeviceCreateGpuInstanceWithPlacement,
         (nvmlDevice_t device, unsigned int profileId, const nvmlGpuInstancePlacement_t *placement,
          nvmlGpuInstance_t *gpuInstance),
         device,
         placement == NULL ? NVML_ERROR_INVALID_ARGUMENT : create(state, gpu, profileId, placement, gpuInstance))

static nvmlReturn_t destroy(const struct lab_state *state, const struct lab_instance *instance)
{
    char line[LAB_LINE];

    snprintf(line, sizeof(line), "destroy-instance pci=%s serial=%lld\n", state->gpus[instance->gpu].pci,
             instance->serial);
    return lab_request(line);
}

INSTANCE_CALL(nvmlGpuInstanceDestroy, (nvmlGpuInstance_t gpuInstance), gpuInstance, destroy(state, instance))

/* NVML wants the caller to have room for the profile's maximum, and is not told how much room there is. */
static nvmlReturn_t list_instances(const struct lab_state *state, const struct lab_gpu *gpu, unsigned int id,
                                   nvmlGpuInstance_t *handles, unsigned int *count)
{
    unsigned int found = 0;

    if (gpu->mig <= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (handles == NULL || count == NULL || find_profile(state, gpu, id) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < state->instance_count; i++) {
        if (state->instances[i].gpu == gpu->index && state->instances[i].profile == (long long)id)
            handles[found++] = lab_handle_of_instance(&state->instances[i]);
    }
    *count = found;
    return NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceGetGpuInstances,
         (nvmlDevice_t device, unsigned int profileId, nvmlGpuInstance_t *gpuInstances, unsigned int *count), device,
         list_instances(state, gpu, profileId, gpuInstances, count))

static nvmlReturn_t put_instance_of(const struct lab_state *state, const struct lab_gpu *gpu, unsigned int id,
                                    nvmlGpuInstance_t *handle)
{
    if (gpu->mig <= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (handle == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < state->instance_count; i++) {
        if (state->instances[i].gpu != gpu->index || state->instances[i].id != (long long)id)
            continue;
        *handle = lab_handle_of_instance(&state->instances[i]);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

GPU_CALL(nvmlDeviceGetGpuInstanceById, (nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *gpuInstance), device,
         put_instance_of(state, gpu, id, gpuInstance))

static nvmlReturn_t put_instance(const struct lab_state *state, const struct lab_instance *instance,
                                 nvmlGpuInstanceInfo_t *info)
{
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    info->device = lab_handle_of(&state->gpus[instance->gpu]);
    info->id = (unsigned int)instance->id;
    info->profileId = (unsigned int)instance->profile;
    info->placement.start = (unsigned int)instance->start;
    info->placement.size = (unsigned int)instance->size;
    return NVML_SUCCESS;
}

INSTANCE_CALL(nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t gpuInstance, nvmlGpuInstanceInfo_t *info), gpuInstance,
              put_instance(state, instance, info))

/* compute instances */

#define PUT_COMPUTE_PROFILE(to, instance, number)                                                                     \
    do {                                                                                                              \
        (to)->id = (number);                                                                                          \
        (to)->sliceCount = compute_slices[number];                                                                    \
        (to)->instanceCount = (unsigned int)(instance)->slices / compute_slices[number];                              \
        (to)->sharedCopyEngineCount = (unsigned int)(instance)->slices;                                               \
    } while (0)

static nvmlReturn_t check_compute_profile(const struct lab_instance *instance, unsigned int number, unsigned int engine)
{
    if (number >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engine >= NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (compute_slices[number] == 0 || compute_slices[number] > (unsigned int)instance->slices)
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

static nvmlReturn_t put_compute_profile(const struct lab_instance *instance, unsigned int number, unsigned int engine,
                                        nvmlComputeInstanceProfileInfo_t *info)
{
    const nvmlReturn_t result = check_compute_profile(instance, number, engine);

    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memset(info, 0, sizeof(*info));
    PUT_COMPUTE_PROFILE(info, instance, number);
    return NVML_SUCCESS;
}

/* A compute instance over the whole GPU instance has its name; a part of it begins with its own slices: 1c.2g.10gb. */
static void name_compute_profile(const struct lab_state *state, const struct lab_instance *instance,
                                 unsigned int number, char *name, size_t size)
{
    const struct lab_profile *profile =
        find_profile(state, &state->gpus[instance->gpu], (unsigned int)instance->profile);
    const char *whole = profile != NULL ? profile->name : "";

    if (compute_slices[number] == (unsigned int)instance->slices)
        snprintf(name, size, PREFIX "%s", whole);
    else
        snprintf(name, size, PREFIX "%uc.%s", compute_slices[number], whole);
}

static nvmlReturn_t put_compute_profile_v(const struct lab_state *state, const struct lab_instance *instance,
                                          unsigned int number, unsigned int engine,
                                          nvmlComputeInstanceProfileInfo_v2_t *info)
{
    const nvmlReturn_t result = check_compute_profile(instance, number, engine);
    unsigned int version;

    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    version = info->version;
    if (version != nvmlComputeInstanceProfileInfo_v2 && version != nvmlComputeInstanceProfileInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result != NVML_SUCCESS)
        return result;
    /* The third version only adds a field at its end. */
    memset(info, 0, version == nvmlComputeInstanceProfileInfo_v2 ? sizeof(nvmlComputeInstanceProfileInfo_v2_t)
                                                                 : sizeof(nvmlComputeInstanceProfileInfo_v3_t));
    PUT_COMPUTE_PROFILE(info, instance, number);
    name_compute_profile(state, instance, number, info->name, sizeof(info->name));
    info->version = version;
    return NVML_SUCCESS;
}

INSTANCE_CALL(nvmlGpuInstanceGetComputeInstanceProfileInfo,
              (nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile,
               nvmlComputeInstanceProfileInfo_t *info),
              gpuInstance, put_compute_profile(instance, profile, engProfile, info))

INSTANCE_CALL(nvmlGpuInstanceGetComputeInstanceProfileInfoV,
              (nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile,
               nvmlComputeInstanceProfileInfo_v2_t *info),
              gpuInstance, put_compute_profile_v(state, instance, profile, engProfile, info))

static nvmlReturn_t create_compute(const struct lab_state *state, const struct lab_instance *instance, unsigned int id,
                                   nvmlComputeInstance_t *handle)
{
    const struct lab_compute *newest = NULL;
    const long long serial = instance->serial;
    char line[LAB_LINE];
    nvmlReturn_t result;

    if (handle == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(line, sizeof(line), "create-compute pci=%s instance=%lld profile=%u\n", state->gpus[instance->gpu].pci,
             instance->serial, id);
    result = change(line, &state);
    if (result != NVML_SUCCESS)
        return result;
    for (size_t i = 0; i < state->compute_count; i++) {
        const struct lab_compute *one = &state->computes[i];

        if (one->instance == serial && (newest == NULL || one->serial > newest->serial))
            newest = one;
    }
    if (newest == NULL)
        return NVML_ERROR_UNKNOWN;
    *handle = lab_handle_of_compute(newest);
    return NVML_SUCCESS;
}

INSTANCE_CALL(nvmlGpuInstanceCreateComputeInstance,
              (nvmlGpuInstance_t gpuInstance, unsigned int profileId, nvmlComputeInstance_t *computeInstance),
              gpuInstance, create_compute(state, instance, profileId, computeInstance))

static nvmlReturn_t list_computes(const struct lab_state *state, const struct lab_instance *instance, unsigned int id,
                                  nvmlComputeInstance_t *handles, unsigned int *count)
{
    const nvmlReturn_t result = check_compute_profile(instance, id, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED);
    unsigned int found = 0;

    if (handles == NULL || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    for (size_t i = 0; i < state->compute_count; i++) {
        if (state->computes[i].instance == instance->serial && state->computes[i].profile == (long long)id)
            handles[found++] = lab_handle_of_compute(&state->computes[i]);
    }
    *count = found;
    return NVML_SUCCESS;
}

INSTANCE_CALL(nvmlGpuInstanceGetComputeInstances,
              (nvmlGpuInstance_t gpuInstance, unsigned int profileId, nvmlComputeInstance_t *computeInstances,
               unsigned int *count),
              gpuInstance, list_computes(state, instance, profileId, computeInstances, count))

static nvmlReturn_t put_compute_of(const struct lab_state *state, const struct lab_instance *instance, unsigned int id,
                                   nvmlComputeInstance_t *handle)
{
    if (handle == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < state->compute_count; i++) {
        if (state->computes[i].instance != instance->serial || state->computes[i].id != (long long)id)
            continue;
        *handle = lab_handle_of_compute(&state->computes[i]);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

INSTANCE_CALL(nvmlGpuInstanceGetComputeInstanceById,
              (nvmlGpuInstance_t gpuInstance, unsigned int id, nvmlComputeInstance_t *computeInstance), gpuInstance,
              put_compute_of(state, instance, id, computeInstance))

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t computeInstance, nvmlComputeInstanceInfo_t *info)
{
    const struct lab_state *state = NULL;
    const struct lab_compute *compute = NULL;
    nvmlReturn_t result = lab_enter_compute(__func__, computeInstance, &state, &compute);

    if (result == NVML_SUCCESS && info == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return lab_leave(result);
    memset(info, 0, sizeof(*info));
    info->device = lab_handle_of(&state->gpus[compute->gpu]);
    for (size_t i = 0; i < state->instance_count; i++) {
        if (state->instances[i].serial == compute->instance)
            info->gpuInstance = lab_handle_of_instance(&state->instances[i]);
    }
    info->id = (unsigned int)compute->id;
    info->profileId = (unsigned int)compute->profile;
    info->placement.start = (unsigned int)compute->start;
    info->placement.size = (unsigned int)compute->slices;
    return lab_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance)
{
    const struct lab_state *state = NULL;
    const struct lab_compute *compute = NULL;
    const nvmlReturn_t result = lab_enter_compute(__func__, computeInstance, &state, &compute);
    char line[LAB_LINE];

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    snprintf(line, sizeof(line), "destroy-compute pci=%s serial=%lld\n", state->gpus[compute->gpu].pci,
             compute->serial);
    return lab_leave(lab_request(line));
}
