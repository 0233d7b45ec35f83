/* The vGPU types, and the vGPUs that a VM holds. */
#include "lab.h"

#include <string.h>

#define NO_GUEST_PCI "00000000:00:00.0" /* what NVML says while no NVIDIA driver runs in the guest */

/* NVML's texts; the needed size is returned if the given one is too small. */
static nvmlReturn_t put_sized_text(const char *text, char *buffer, unsigned int *size)
{
    nvmlReturn_t result;

    if (size == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = lab_put_text(text, buffer, *size);
    if (result == NVML_ERROR_INSUFFICIENT_SIZE)
        *size = (unsigned int)strlen(text) + 1;
    return result;
}

TYPE_CALL(nvmlVgpuTypeGetName, (nvmlVgpuTypeId_t vgpuTypeId, char *vgpuTypeName, unsigned int *size), vgpuTypeId,
          put_sized_text(type->name, vgpuTypeName, size))

TYPE_CALL(nvmlVgpuTypeGetClass, (nvmlVgpuTypeId_t vgpuTypeId, char *vgpuTypeClass, unsigned int *size), vgpuTypeId,
          put_sized_text(type->type_class, vgpuTypeClass, size))

nvmlReturn_t nvmlVgpuTypeGetDeviceID(nvmlVgpuTypeId_t vgpuTypeId, unsigned long long *deviceID,
                                     unsigned long long *subsystemID)
{
    const struct lab_type *type = NULL;
    nvmlReturn_t result = lab_enter_type(__func__, vgpuTypeId, &type);

    if (result == NVML_SUCCESS && (deviceID == NULL || subsystemID == NULL))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        *deviceID = (unsigned long long)type->device;
        *subsystemID = (unsigned long long)type->subsystem;
    }
    return lab_leave(result);
}

nvmlReturn_t nvmlVgpuTypeGetFramebufferSize(nvmlVgpuTypeId_t vgpuTypeId, unsigned long long *fbSize)
{
    const struct lab_type *type = NULL;
    nvmlReturn_t result = lab_enter_type(__func__, vgpuTypeId, &type);

    if (result == NVML_SUCCESS && fbSize == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *fbSize = (unsigned long long)type->fb_mib * LAB_MIB;
    return lab_leave(result);
}

TYPE_CALL(nvmlVgpuTypeGetNumDisplayHeads, (nvmlVgpuTypeId_t vgpuTypeId, unsigned int *numDisplayHeads), vgpuTypeId,
          lab_put_number(type->heads, numDisplayHeads))

nvmlReturn_t nvmlVgpuTypeGetResolution(nvmlVgpuTypeId_t vgpuTypeId, unsigned int displayIndex, unsigned int *xdim,
                                       unsigned int *ydim)
{
    const struct lab_type *type = NULL;
    nvmlReturn_t result = lab_enter_type(__func__, vgpuTypeId, &type);

    if (result == NVML_SUCCESS && (xdim == NULL || ydim == NULL || (long long)displayIndex >= type->heads))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = lab_put_number(type->width, xdim);
    if (result == NVML_SUCCESS)
        result = lab_put_number(type->height, ydim);
    return lab_leave(result);
}

TYPE_CALL(nvmlVgpuTypeGetLicense, (nvmlVgpuTypeId_t vgpuTypeId, char *vgpuTypeLicenseString, unsigned int size),
          vgpuTypeId, lab_put_text(type->license, vgpuTypeLicenseString, size))

TYPE_CALL(nvmlVgpuTypeGetFrameRateLimit, (nvmlVgpuTypeId_t vgpuTypeId, unsigned int *frameRateLimit), vgpuTypeId,
          lab_put_number(type->frl, frameRateLimit))

nvmlReturn_t nvmlVgpuTypeGetMaxInstances(nvmlDevice_t device, nvmlVgpuTypeId_t vgpuTypeId,
                                         unsigned int *vgpuInstanceCount)
{
    const struct lab_state *state = NULL;
    const struct lab_gpu *gpu = NULL;
    nvmlReturn_t result = lab_enter_device(__func__, device, &state, &gpu);

    if (result != NVML_SUCCESS)
        return lab_leave(result);
    for (size_t i = 0; i < state->type_count; i++) {
        if (state->types[i].gpu == gpu->index && state->types[i].id == (long long)vgpuTypeId)
            return lab_leave(lab_put_number(state->types[i].max, vgpuInstanceCount));
    }
    return lab_leave(NVML_ERROR_INVALID_ARGUMENT);
}

TYPE_CALL(nvmlVgpuTypeGetMaxInstancesPerVm, (nvmlVgpuTypeId_t vgpuTypeId, unsigned int *vgpuInstanceCountPerVm),
          vgpuTypeId, lab_put_number(type->per_vm, vgpuInstanceCountPerVm))

nvmlReturn_t nvmlVgpuTypeGetGpuInstanceProfileId(nvmlVgpuTypeId_t vgpuTypeId, unsigned int *gpuInstanceProfileId)
{
    const struct lab_type *type = NULL;
    nvmlReturn_t result = lab_enter_type(__func__, vgpuTypeId, &type);

    if (result == NVML_SUCCESS && gpuInstanceProfileId == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *gpuInstanceProfileId = INVALID_GPU_INSTANCE_PROFILE_ID; /* all the lab's types are time-sliced */
    return lab_leave(result);
}

nvmlReturn_t nvmlVgpuInstanceGetVmID(nvmlVgpuInstance_t vgpuInstance, char *vmId, unsigned int size,
                                     nvmlVgpuVmIdType_t *vmIdType)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS && vmIdType == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = lab_put_text(vgpu->vm_uuid, vmId, size);
    if (result == NVML_SUCCESS)
        *vmIdType = NVML_VGPU_VM_ID_UUID;
    return lab_leave(result);
}

VGPU_CALL(nvmlVgpuInstanceGetUUID, (nvmlVgpuInstance_t vgpuInstance, char *uuid, unsigned int size), vgpuInstance,
          lab_put_text(vgpu->uuid, uuid, size))

VGPU_CALL(nvmlVgpuInstanceGetMdevUUID, (nvmlVgpuInstance_t vgpuInstance, char *mdevUuid, unsigned int size),
          vgpuInstance, lab_put_text(vgpu->mdev, mdevUuid, size))

VGPU_CALL(nvmlVgpuInstanceGetVmDriverVersion, (nvmlVgpuInstance_t vgpuInstance, char *version, unsigned int length),
          vgpuInstance, lab_put_text(vgpu->guest_driver != NULL ? vgpu->guest_driver : "Not Available", version, length))

VGPU_CALL(nvmlVgpuInstanceGetType, (nvmlVgpuInstance_t vgpuInstance, nvmlVgpuTypeId_t *vgpuTypeId), vgpuInstance,
          lab_put_number(vgpu->type, vgpuTypeId))

nvmlReturn_t nvmlVgpuInstanceGetFbUsage(nvmlVgpuInstance_t vgpuInstance, unsigned long long *fbUsage)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS && fbUsage == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *fbUsage = vgpu->fb_used < 0 ? 0 : (unsigned long long)vgpu->fb_used;
    return lab_leave(result);
}

nvmlReturn_t nvmlVgpuInstanceGetPlacementId(nvmlVgpuInstance_t vgpuInstance, nvmlVgpuPlacementId_t *pPlacement)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS && lab_branch(state) < 550)
        result = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && pPlacement == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && pPlacement->version != nvmlVgpuPlacementId_v1)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        pPlacement->placementId =
            vgpu->placement < 0 ? NVML_INVALID_VGPU_PLACEMENT_ID : (unsigned int)vgpu->placement;
    return lab_leave(result);
}

nvmlReturn_t nvmlVgpuInstanceGetGpuInstanceId(nvmlVgpuInstance_t vgpuInstance, unsigned int *gpuInstanceId)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS && gpuInstanceId == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *gpuInstanceId = INVALID_GPU_INSTANCE_ID; /* MIG is off */
    return lab_leave(result);
}

VGPU_CALL(nvmlVgpuInstanceGetGpuPciId, (nvmlVgpuInstance_t vgpuInstance, char *vgpuPciId, unsigned int *length),
          vgpuInstance, put_sized_text(NO_GUEST_PCI, vgpuPciId, length))

nvmlReturn_t nvmlVgpuInstanceGetFrameRateLimit(nvmlVgpuInstance_t vgpuInstance, unsigned int *frameRateLimit)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS) {
        const struct lab_type *type = lab_find_type(state, vgpu->type);

        result = lab_put_number(type != NULL ? type->frl : LAB_ABSENT, frameRateLimit);
    }
    return lab_leave(result);
}

nvmlReturn_t nvmlVgpuInstanceGetLicenseInfo_v2(nvmlVgpuInstance_t vgpuInstance, nvmlVgpuLicenseInfo_t *licenseInfo)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS && licenseInfo == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && vgpu->guest_driver == NULL)
        result = NVML_ERROR_DRIVER_NOT_LOADED; /* "if NVIDIA driver is not running on the vGPU instance" */
    if (result == NVML_SUCCESS) {
        memset(licenseInfo, 0, sizeof(*licenseInfo));
        licenseInfo->currentState =
            vgpu->licence < 0 ? NVML_GRID_LICENSE_STATE_UNLICENSED_UNRESTRICTED : (unsigned int)vgpu->licence;
        licenseInfo->isLicensed = licenseInfo->currentState == NVML_GRID_LICENSE_STATE_LICENSED;
        licenseInfo->licenseExpiry.status = NVML_GRID_LICENSE_EXPIRY_NOT_AVAILABLE;
    }
    return lab_leave(result);
}

nvmlReturn_t nvmlVgpuInstanceGetEccMode(nvmlVgpuInstance_t vgpuInstance, nvmlEnableState_t *eccMode)
{
    const struct lab_state *state = NULL;
    const struct lab_vgpu *vgpu = NULL;
    nvmlReturn_t result = lab_enter_vgpu(__func__, vgpuInstance, &state, &vgpu);

    if (result == NVML_SUCCESS && eccMode == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && vgpu->ecc < 0)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *eccMode = vgpu->ecc > 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return lab_leave(result);
}
