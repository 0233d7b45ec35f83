/* The start and the end of every call: the lock, the count of nvmlInit, reading the state, the errors that the lab injects. */
#include "lab.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Handles are 1-based numbers that cannot be mistaken for pointers; NULL stays invalid. */
#define HANDLE_BASE 0x4e560000U
#define INSTANCE_BASE ((uintptr_t)0x4e57 << 32)
#define COMPUTE_BASE ((uintptr_t)0x4e58 << 32)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int init_count;
static struct lab_state current;

/* Freed when the library is unloaded, so that leak checkers see only true leaks. */
__attribute__((destructor)) static void forget(void)
{
    lab_state_free(&current);
}

const char *lab_path(void)
{
    const char *path = getenv(LAB_PATH_VARIABLE);

    return path != NULL && *path != '\0' ? path : LAB_DEFAULT_PATH;
}

static nvmlReturn_t refresh(void)
{
    lab_state_free(&current);
    return lab_state_read(lab_path(), &current);
}

static bool concerns(const struct lab_fail *fail, const char *function)
{
    if (fail->function == NULL)
        return false;
    return strcmp(fail->function, "*") == 0 || strcmp(fail->function, function) == 0;
}

/* `pci` NULL: an error that is not a single GPU's. */
static nvmlReturn_t failure(const struct lab_state *state, const char *function, const char *pci)
{
    for (size_t i = 0; i < state->fail_count; i++) {
        const struct lab_fail *fail = &state->fails[i];

        if ((pci == NULL ? fail->pci == NULL : fail->pci != NULL && strcmp(fail->pci, pci) == 0) &&
            concerns(fail, function))
            return (nvmlReturn_t)fail->code;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t lab_failure_on(const struct lab_state *state, const char *function, const struct lab_gpu *gpu)
{
    return failure(state, function, gpu->pci);
}

nvmlReturn_t lab_enter_init(const char *function)
{
    nvmlReturn_t result;

    pthread_mutex_lock(&mutex);
    result = refresh();
    return result == NVML_SUCCESS ? failure(&current, function, NULL) : result;
}

nvmlReturn_t lab_enter(const char *function, const struct lab_state **state)
{
    nvmlReturn_t result;

    pthread_mutex_lock(&mutex);
    if (init_count == 0)
        return NVML_ERROR_UNINITIALIZED;
    result = refresh();
    if (result != NVML_SUCCESS)
        return result;
    *state = &current;
    return failure(&current, function, NULL);
}

nvmlReturn_t lab_enter_type(const char *function, nvmlVgpuTypeId_t id, const struct lab_type **type)
{
    nvmlReturn_t result;

    pthread_mutex_lock(&mutex);
    if (init_count == 0)
        return NVML_ERROR_UNINITIALIZED;
    result = current.text == NULL ? refresh() : NVML_SUCCESS;
    if (result == NVML_SUCCESS)
        result = failure(&current, function, NULL);
    if (result != NVML_SUCCESS)
        return result;
    *type = lab_find_type(&current, id);
    return *type != NULL ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t lab_enter_device(const char *function, nvmlDevice_t device, const struct lab_state **state,
                              const struct lab_gpu **gpu)
{
    const uintptr_t index = (uintptr_t)device - HANDLE_BASE - 1;
    const nvmlReturn_t result = lab_enter(function, state);

    if (result != NVML_SUCCESS)
        return result;
    if (device == NULL || index >= (*state)->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &(*state)->gpus[index];
    return lab_failure_on(*state, function, *gpu);
}

nvmlReturn_t lab_enter_vgpu(const char *function, nvmlVgpuInstance_t instance, const struct lab_state **state,
                            const struct lab_vgpu **vgpu)
{
    const nvmlReturn_t result = lab_enter(function, state);

    if (result != NVML_SUCCESS)
        return result;
    if (instance == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < (*state)->vgpu_count; i++) {
        *vgpu = &(*state)->vgpus[i];
        /* NVML knows a vGPU only while a VM holds it. */
        if ((*vgpu)->instance == (long long)instance && (*vgpu)->vm_uuid != NULL)
            return lab_failure_on(*state, function, &(*state)->gpus[(*vgpu)->gpu]);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t lab_enter_instance(const char *function, nvmlGpuInstance_t handle, const struct lab_state **state,
                                const struct lab_instance **instance)
{
    const nvmlReturn_t result = lab_enter(function, state);

    if (result != NVML_SUCCESS)
        return result;
    for (size_t i = 0; i < (*state)->instance_count; i++) {
        *instance = &(*state)->instances[i];
        if (lab_handle_of_instance(*instance) == handle)
            return lab_failure_on(*state, function, &(*state)->gpus[(*instance)->gpu]);
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t lab_enter_compute(const char *function, nvmlComputeInstance_t handle, const struct lab_state **state,
                               const struct lab_compute **compute)
{
    const nvmlReturn_t result = lab_enter(function, state);

    if (result != NVML_SUCCESS)
        return result;
    for (size_t i = 0; i < (*state)->compute_count; i++) {
        *compute = &(*state)->computes[i];
        if (lab_handle_of_compute(*compute) == handle)
            return lab_failure_on(*state, function, &(*state)->gpus[(*compute)->gpu]);
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t lab_read_again(const struct lab_state **state)
{
    *state = &current;
    return refresh();
}

nvmlReturn_t lab_leave(nvmlReturn_t result)
{
    pthread_mutex_unlock(&mutex);
    return result;
}

void lab_count_init(void)
{
    init_count++;
}

nvmlReturn_t lab_count_shutdown(void)
{
    nvmlReturn_t result = NVML_SUCCESS;

    pthread_mutex_lock(&mutex);
    if (init_count == 0)
        result = NVML_ERROR_UNINITIALIZED;
    else if (--init_count == 0)
        lab_state_free(&current);
    pthread_mutex_unlock(&mutex);
    return result;
}

nvmlDevice_t lab_handle_of(const struct lab_gpu *gpu)
{
    return (nvmlDevice_t)(HANDLE_BASE + 1 + (uintptr_t)gpu->index);
}

nvmlGpuInstance_t lab_handle_of_instance(const struct lab_instance *instance)
{
    return (nvmlGpuInstance_t)(INSTANCE_BASE + (uintptr_t)instance->serial);
}

nvmlComputeInstance_t lab_handle_of_compute(const struct lab_compute *compute)
{
    return (nvmlComputeInstance_t)(COMPUTE_BASE + (uintptr_t)compute->serial);
}

const struct lab_type *lab_find_type(const struct lab_state *state, long long id)
{
    for (size_t i = 0; i < state->type_count; i++) {
        if (state->types[i].id == id)
            return &state->types[i];
    }
    return NULL;
}

nvmlReturn_t lab_put_text(const char *text, char *buffer, unsigned int size)
{
    if (buffer == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (text == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t lab_put_number(long long number, unsigned int *out)
{
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (number < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned int)number;
    return NVML_SUCCESS;
}

nvmlReturn_t lab_put_wide(long long number, unsigned long long *out)
{
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (number < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned long long)number;
    return NVML_SUCCESS;
}

nvmlReturn_t lab_both(nvmlReturn_t first, nvmlReturn_t second)
{
    return first != NVML_SUCCESS ? first : second;
}

unsigned int lab_branch(const struct lab_state *state)
{
    return (unsigned int)strtoul(state->driver.version, NULL, 10);
}
