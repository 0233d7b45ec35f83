/* The vGPU types, and the vGPUs that a VM holds. */
#include "lab.h"

#include <string.h>
#include <time.h>

#define FIRST_PER_INSTANCE 575
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

TYPE_CALL(nvmlVgpuTypeGetDeviceID,
          (nvmlVgpuTypeId_t vgpuTypeId, unsigned long long *deviceID, unsigned long long *subsystemID), vgpuTypeId,
          lab_both(lab_put_wide(type->device, deviceID), lab_put_wide(type->subsystem, subsystemID)))

TYPE_CALL(nvmlVgpuTypeGetFramebufferSize, (nvmlVgpuTypeId_t vgpuTypeId, unsigned long long *fbSize), vgpuTypeId,
          lab_put_wide(type->fb_mib * LAB_MIB, fbSize))

TYPE_CALL(nvmlVgpuTypeGetNumDisplayHeads, (nvmlVgpuTypeId_t vgpuTypeId, unsigned int *numDisplayHeads), vgpuTypeId,
          lab_put_number(type->heads, numDisplayHeads))

TYPE_CALL(nvmlVgpuTypeGetResolution,
          (nvmlVgpuTypeId_t vgpuTypeId, unsigned int displayIndex, unsigned int *xdim, unsigned int *ydim), vgpuTypeId,
          (long long)displayIndex >= type->heads
              ? NVML_ERROR_INVALID_ARGUMENT
              : lab_both(lab_put_number(type->width, xdim), lab_put_number(type->height, ydim)))

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

TYPE_CALL(nvmlVgpuTypeGetGpuInstanceProfileId, (nvmlVgpuTypeId_t vgpuTypeId, unsigned int *gpuInstanceProfileId),
          vgpuTypeId,
          lab_put_number(type->profile < 0 ? INVALID_GPU_INSTANCE_PROFILE_ID : type->profile, gpuInstanceProfileId))

nvmlReturn_t nvmlVgpuTypeGetMaxInstancesPerGpuInstance(nvmlVgpuTypeMaxInstance_t *pMaxInstance)
{
    const struct lab_state *state = NULL;
    nvmlReturn_t result = lab_enter(__func__, &state);
    const struct lab_type *type;

    if (result == NVML_SUCCESS && lab_branch(state) < FIRST_PER_INSTANCE)
        result = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && pMaxInstance == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && pMaxInstance->version != nvmlVgpuTypeMaxInstance_v1)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result != NVML_SUCCESS)
        return lab_leave(result);
    type = lab_find_type(state, pMaxInstance->vgpuTypeId);
    if (type == NULL)
        return lab_leave(NVML_ERROR_INVALID_ARGUMENT);
    return lab_leave(lab_put_number(type->per_instance, &pMaxInstance->maxInstancePerGI));
}

static nvmlReturn_t put_vm_id(const struct lab_vgpu *vgpu, char *vmId, unsigned int size, nvmlVgpuVmIdType_t *vmIdType)
{
    const nvmlReturn_t result =
        vmIdType == NULL ? NVML_ERROR_INVALID_ARGUMENT : lab_put_text(vgpu->vm_uuid, vmId, size);

    if (result == NVML_SUCCESS)
        *vmIdType = NVML_VGPU_VM_ID_UUID;
    return result;
}

VGPU_CALL(nvmlVgpuInstanceGetVmID,
          (nvmlVgpuInstance_t vgpuInstance, char *vmId, unsigned int size, nvmlVgpuVmIdType_t *vmIdType), vgpuInstance,
          put_vm_id(vgpu, vmId, size, vmIdType))

VGPU_CALL(nvmlVgpuInstanceGetUUID, (nvmlVgpuInstance_t vgpuInstance, char *uuid, unsigned int size), vgpuInstance,
          lab_put_text(vgpu->uuid, uuid, size))

VGPU_CALL(nvmlVgpuInstanceGetMdevUUID, (nvmlVgpuInstance_t vgpuInstance, char *mdevUuid, unsigned int size),
          vgpuInstance, lab_put_text(vgpu->mdev, mdevUuid, size))

VGPU_CALL(nvmlVgpuInstanceGetVmDriverVersion, (nvmlVgpuInstance_t vgpuInstance, char *version, unsigned int length),
          vgpuInstance, lab_put_text(vgpu->guest_driver != NULL ? vgpu->guest_driver : "Not Available", version, length))

VGPU_CALL(nvmlVgpuInstanceGetType, (nvmlVgpuInstance_t vgpuInstance, nvmlVgpuTypeId_t *vgpuTypeId), vgpuInstance,
          lab_put_number(vgpu->type, vgpuTypeId))

VGPU_CALL(nvmlVgpuInstanceGetFbUsage, (nvmlVgpuInstance_t vgpuInstance, unsigned long long *fbUsage), vgpuInstance,
          lab_put_wide(vgpu->fb_used < 0 ? 0 : vgpu->fb_used, fbUsage))

static nvmlReturn_t put_placement(const struct lab_state *state, const struct lab_vgpu *vgpu,
                                  nvmlVgpuPlacementId_t *to)
{
    if (lab_branch(state) < 550)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (to->version != nvmlVgpuPlacementId_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    to->placementId = vgpu->placement < 0 ? NVML_INVALID_VGPU_PLACEMENT_ID : (unsigned int)vgpu->placement;
    return NVML_SUCCESS;
}

VGPU_CALL(nvmlVgpuInstanceGetPlacementId, (nvmlVgpuInstance_t vgpuInstance, nvmlVgpuPlacementId_t *pPlacement),
          vgpuInstance, put_placement(state, vgpu, pPlacement))

VGPU_CALL(nvmlVgpuInstanceGetGpuInstanceId, (nvmlVgpuInstance_t vgpuInstance, unsigned int *gpuInstanceId),
          vgpuInstance,
          lab_put_number(vgpu->gpu_instance < 0 ? INVALID_GPU_INSTANCE_ID : vgpu->gpu_instance, gpuInstanceId))

VGPU_CALL(nvmlVgpuInstanceGetGpuPciId, (nvmlVgpuInstance_t vgpuInstance, char *vgpuPciId, unsigned int *length),
          vgpuInstance, put_sized_text(NO_GUEST_PCI, vgpuPciId, length))

static nvmlReturn_t put_frame_rate_limit(const struct lab_type *type, unsigned int *frameRateLimit)
{
    return lab_put_number(type != NULL ? type->frl : LAB_ABSENT, frameRateLimit);
}

VGPU_CALL(nvmlVgpuInstanceGetFrameRateLimit, (nvmlVgpuInstance_t vgpuInstance, unsigned int *frameRateLimit),
          vgpuInstance, put_frame_rate_limit(lab_find_type(state, vgpu->type), frameRateLimit))

static void put_expiry(time_t expiry, nvmlVgpuLicenseExpiry_t *to)
{
    struct tm utc;

    if (gmtime_r(&expiry, &utc) == NULL)
        return;
    to->year = (unsigned int)utc.tm_year + 1900;
    to->month = (unsigned short)(utc.tm_mon + 1);
    to->day = (unsigned short)utc.tm_mday;
    to->hour = (unsigned short)utc.tm_hour;
    to->min = (unsigned short)utc.tm_min;
    to->sec = (unsigned short)utc.tm_sec;
    to->status = NVML_GRID_LICENSE_EXPIRY_VALID;
}

static nvmlReturn_t put_license(const struct lab_vgpu *vgpu, nvmlVgpuLicenseInfo_t *to)
{
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (vgpu->guest_driver == NULL)
        return NVML_ERROR_DRIVER_NOT_LOADED; /* "if NVIDIA driver is not running on the vGPU instance" */
    memset(to, 0, sizeof(*to));
    to->currentState =
        vgpu->licence < 0 ? NVML_GRID_LICENSE_STATE_UNLICENSED_UNRESTRICTED : (unsigned int)vgpu->licence;
    to->isLicensed = to->currentState == NVML_GRID_LICENSE_STATE_LICENSED;
    to->licenseExpiry.status = NVML_GRID_LICENSE_EXPIRY_NOT_AVAILABLE;
    if (vgpu->licence_expiry >= 0)
        put_expiry((time_t)vgpu->licence_expiry, &to->licenseExpiry);
    return NVML_SUCCESS;
}

VGPU_CALL(nvmlVgpuInstanceGetLicenseInfo_v2, (nvmlVgpuInstance_t vgpuInstance, nvmlVgpuLicenseInfo_t *licenseInfo),
          vgpuInstance, put_license(vgpu, licenseInfo))

VGPU_CALL(nvmlVgpuInstanceGetEccMode, (nvmlVgpuInstance_t vgpuInstance, nvmlEnableState_t *eccMode), vgpuInstance,
          lab_put_number(vgpu->ecc, (unsigned int *)eccMode))
