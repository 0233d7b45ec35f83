/* The physical GPUs: finding them, what they are, and their lists of types and vGPUs. */
#include "lab.h"

#include <stdio.h>
#include <string.h>

struct address {
    unsigned int domain;
    unsigned int bus;
    unsigned int slot;
    unsigned int function;
};

/* The three formats that nvmlDeviceGetHandleByPciBusId takes; all numbers are hexadecimal. */
static bool parse_address(const char *text, struct address *address)
{
    int used = 0;

    memset(address, 0, sizeof(*address));
    if (sscanf(text, "%x:%x:%x.%x%n", &address->domain, &address->bus, &address->slot, &address->function, &used) == 4)
        return text[used] == '\0';
    address->function = 0;
    if (sscanf(text, "%x:%x:%x%n", &address->domain, &address->bus, &address->slot, &used) == 3)
        return text[used] == '\0';
    address->domain = 0;
    if (sscanf(text, "%x:%x.%x%n", &address->bus, &address->slot, &address->function, &used) == 3)
        return text[used] == '\0';
    return false;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);

    if (result == NVML_SUCCESS)
        result = lab_put_number((long long)state->gpu_count, deviceCount);
    return lab_leave(result);
}

/* A GPU that has fallen off the bus gives no handle. */
static nvmlReturn_t give_handle(const struct lab_state *state, const char *function, const struct lab_gpu *gpu,
                                nvmlDevice_t *device)
{
    const nvmlReturn_t result = lab_failure_on(state, function, gpu);

    if (result == NVML_SUCCESS)
        *device = lab_handle_of(gpu);
    return result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);

    if (result == NVML_SUCCESS && (device == NULL || index >= state->gpu_count))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = give_handle(state, __func__, &state->gpus[index], device);
    return lab_leave(result);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);
    struct address wanted;
    struct address found;

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    if (pciBusId == NULL || device == NULL || !parse_address(pciBusId, &wanted))
        return lab_leave(NVML_ERROR_INVALID_ARGUMENT);
    for (size_t i = 0; i < state->gpu_count; i++) {
        if (parse_address(state->gpus[i].pci, &found) && memcmp(&wanted, &found, sizeof(found)) == 0)
            return lab_leave(give_handle(state, __func__, &state->gpus[i], device));
    }
    return lab_leave(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    if (uuid == NULL || device == NULL || (strncmp(uuid, "GPU-", 4) != 0 && strncmp(uuid, "MIG-", 4) != 0))
        return lab_leave(NVML_ERROR_INVALID_ARGUMENT);
    for (size_t i = 0; i < state->gpu_count; i++) {
        if (strcmp(uuid, state->gpus[i].uuid) == 0)
            return lab_leave(give_handle(state, __func__, &state->gpus[i], device));
    }
    return lab_leave(NVML_ERROR_NOT_FOUND);
}

GPU_CALL(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned int length), device,
         lab_put_text(gpu->name, name, length))

GPU_CALL(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned int length), device,
         lab_put_text(gpu->uuid, uuid, length))

GPU_CALL(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index), device, lab_put_number(gpu->index, index))

/* All fields of *pci but the ids. */
static nvmlReturn_t put_address(const char *text, nvmlPciInfo_t *pci)
{
    struct address at;

    if (pci == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!parse_address(text, &at))
        return NVML_ERROR_UNKNOWN;
    memset(pci, 0, sizeof(*pci));
    pci->domain = at.domain;
    pci->bus = at.bus;
    pci->device = at.slot;
    /* NVML's own formats, which include function 0; the legacy format has room for four digits of domain. */
    snprintf(pci->busId, sizeof(pci->busId), NVML_DEVICE_PCI_BUS_ID_FMT, at.domain, at.bus & 0xff, at.slot & 0xff);
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, at.domain & 0xffff,
             at.bus & 0xff, at.slot & 0xff);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = lab_enter_device(__func__, device, &state, &gpu);

    if (result == NVML_SUCCESS)
        result = put_address(gpu->pci, pci);
    if (result == NVML_SUCCESS) {
        pci->pciDeviceId = (unsigned int)gpu->device;
        pci->pciSubSystemId = (unsigned int)gpu->subsystem;
    }
    return lab_leave(result);
}

GPU_CALL(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t *mode), device,
         lab_put_number(NVML_FEATURE_ENABLED, (unsigned int *)mode)) /* as on every captured vGPU host */

/* The address at the other end of a link. A link that the board does not have is not supported, one that NVML does not know invalid. */
static nvmlReturn_t end_of_link(const struct lab_gpu *gpu, unsigned int link, char *address, size_t room)
{
    const char *rest = gpu->links;
    size_t length;

    if (link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (; rest != NULL && link > 0; link--) {
        rest = strchr(rest, ',');
        if (rest != NULL)
            rest++;
    }
    if (rest == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    length = strcspn(rest, ",");
    if (length >= room)
        return NVML_ERROR_UNKNOWN;
    memcpy(address, rest, length);
    address[length] = '\0';
    return NVML_SUCCESS;
}

static nvmlReturn_t put_link_state(const struct lab_gpu *gpu, unsigned int link, nvmlEnableState_t *active)
{
    char address[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
    const nvmlReturn_t result = end_of_link(gpu, link, address, sizeof(address));

    return result == NVML_SUCCESS ? lab_put_number(NVML_FEATURE_ENABLED, (unsigned int *)active) : result;
}

static nvmlReturn_t put_link_end(const struct lab_gpu *gpu, unsigned int link, nvmlPciInfo_t *pci)
{
    char address[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
    const nvmlReturn_t result = end_of_link(gpu, link, address, sizeof(address));

    return result == NVML_SUCCESS ? put_address(address, pci) : result;
}

GPU_CALL(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned int link, nvmlEnableState_t *isActive), device,
         put_link_state(gpu, link, isActive))

GPU_CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci), device,
         put_link_end(gpu, link, pci))

static nvmlReturn_t put_fabric(const struct lab_gpu *gpu, nvmlGpuFabricInfoV_t *info)
{
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != nvmlGpuFabricInfo_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    info->state = gpu->fabric < 0 ? NVML_GPU_FABRIC_STATE_NOT_SUPPORTED : (nvmlGpuFabricState_t)gpu->fabric;
    info->status = NVML_SUCCESS;
    info->cliqueId = 0;
    return NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, nvmlGpuFabricInfoV_t *gpuFabricInfo), device,
         put_fabric(gpu, gpuFabricInfo))

static nvmlReturn_t put_memory(const struct lab_gpu *gpu, nvmlMemory_t *memory)
{
    if (memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = (unsigned long long)(gpu->fb_mib * LAB_MIB);
    memory->used = (unsigned long long)(gpu->used_mib * LAB_MIB);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory), device, put_memory(gpu, memory))

static nvmlReturn_t put_memory_v2(const struct lab_gpu *gpu, nvmlMemory_v2_t *memory)
{
    if (memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = (unsigned long long)(gpu->fb_mib * LAB_MIB);
    memory->reserved = 0;
    memory->used = (unsigned long long)(gpu->used_mib * LAB_MIB);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

GPU_CALL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory), device,
         put_memory_v2(gpu, memory))

GPU_CALL(nvmlDeviceGetVirtualizationMode, (nvmlDevice_t device, nvmlGpuVirtualizationMode_t *pVirtualMode), device,
         lab_put_number(NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU, (unsigned int *)pVirtualMode))

GPU_CALL(nvmlDeviceGetHostVgpuMode, (nvmlDevice_t device, nvmlHostVgpuMode_t *pHostVgpuMode), device,
         lab_put_number(gpu->sriov > 0 ? NVML_HOST_VGPU_MODE_SRIOV : NVML_HOST_VGPU_MODE_NON_SRIOV,
                        (unsigned int *)pHostVgpuMode))

/* NVML's two-call protocol: a list too short is refused, with the length that it must have. */
struct list {
    unsigned int room;
    unsigned int needed;
    unsigned int *items;
};

static nvmlReturn_t begin_list(struct list *list, const unsigned int *count, unsigned int *items)
{
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    list->room = items != NULL ? *count : 0;
    list->needed = 0;
    list->items = items;
    return *count > 0 && items == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

static void add_to_list(struct list *list, long long item)
{
    if (list->needed < list->room)
        list->items[list->needed] = (unsigned int)item;
    list->needed++;
}

static nvmlReturn_t end_list(const struct list *list, unsigned int *count)
{
    *count = list->needed;
    return list->needed > list->room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t list_types(const struct lab_state *state, const struct lab_gpu *gpu, bool only_creatable,
                               unsigned int *count, nvmlVgpuTypeId_t *ids)
{
    struct list list;
    const nvmlReturn_t result = begin_list(&list, count, ids);

    if (result != NVML_SUCCESS)
        return result;
    for (size_t i = 0; i < state->type_count; i++) {
        if (state->types[i].gpu == gpu->index && (!only_creatable || state->types[i].creatable > 0))
            add_to_list(&list, state->types[i].id);
    }
    return end_list(&list, count);
}

GPU_CALL(nvmlDeviceGetSupportedVgpus, (nvmlDevice_t device, unsigned int *vgpuCount, nvmlVgpuTypeId_t *vgpuTypeIds),
         device, list_types(state, gpu, false, vgpuCount, vgpuTypeIds))

GPU_CALL(nvmlDeviceGetCreatableVgpus, (nvmlDevice_t device, unsigned int *vgpuCount, nvmlVgpuTypeId_t *vgpuTypeIds),
         device, list_types(state, gpu, true, vgpuCount, vgpuTypeIds))

nvmlReturn_t nvmlDeviceGetActiveVgpus(nvmlDevice_t device, unsigned int *vgpuCount, nvmlVgpuInstance_t *vgpuInstances)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = lab_enter_device(__func__, device, &state, &gpu);
    struct list list;

    if (result == NVML_SUCCESS)
        result = begin_list(&list, vgpuCount, vgpuInstances);
    if (result != NVML_SUCCESS)
        return lab_leave(result);
    for (size_t i = 0; i < state->vgpu_count; i++) {
        /* A vGPU that exists but that no VM holds is not active. */
        if (state->vgpus[i].gpu == gpu->index && state->vgpus[i].vm_uuid != NULL)
            add_to_list(&list, state->vgpus[i].instance);
    }
    return lab_leave(end_list(&list, vgpuCount));
}
