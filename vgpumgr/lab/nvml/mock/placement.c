/* Mixed-size mode, which NVML calls heterogeneous, and the places of vGPUs. */
#include "lab.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_MODE 550
#define FIRST_HOMOGENEOUS 565 /* the list's second version, with the mode in it */

static nvmlReturn_t put_mode(const struct lab_state *state, const struct lab_gpu *gpu, nvmlVgpuHeterogeneousMode_t *to)
{
    if (lab_branch(state) < FIRST_MODE)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (to->version != nvmlVgpuHeterogeneousMode_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return lab_put_number(gpu->hetero, &to->mode);
}

GPU_CALL(nvmlDeviceGetVgpuHeterogeneousMode, (nvmlDevice_t device, nvmlVgpuHeterogeneousMode_t *pHeterogeneousMode),
         device, put_mode(state, gpu, pHeterogeneousMode))

static nvmlReturn_t set_mode(const struct lab_state *state, const struct lab_gpu *gpu,
                             const nvmlVgpuHeterogeneousMode_t *to)
{
    char line[LAB_LINE];

    if (lab_branch(state) < FIRST_MODE)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (to->version != nvmlVgpuHeterogeneousMode_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (to->mode > NVML_FEATURE_ENABLED)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(line, sizeof(line), "mixed pci=%s on=%u\n", gpu->pci, to->mode);
    return lab_request(line);
}

GPU_CALL(nvmlDeviceSetVgpuHeterogeneousMode,
         (nvmlDevice_t device, const nvmlVgpuHeterogeneousMode_t *pHeterogeneousMode), device,
         set_mode(state, gpu, pHeterogeneousMode))

/* The line of the type's places, which it shares with all types of its size; NULL: the driver has none. */
static const struct lab_places *places_of(const struct lab_state *state, const struct lab_gpu *gpu,
                                          nvmlVgpuTypeId_t id, nvmlReturn_t *why)
{
    *why = NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < state->type_count; i++) {
        const struct lab_type *type = &state->types[i];

        if (type->gpu != gpu->index || type->id != (long long)id)
            continue;
        *why = NVML_ERROR_NOT_SUPPORTED;
        if (type->profile >= 0) /* MIG-backed: its places are those of an instance, for which this call has no answer */
            return NULL;
        for (size_t j = 0; j < state->places_count; j++) {
            const struct lab_places *places = &state->places[j];

            if (places->gpu == gpu->index && places->fb_mib == type->fb_mib && places->max == type->max)
                return places;
        }
    }
    return NULL;
}

/* `ids` is "0,8,12", or NULL where the driver has none. The first version of the list has no count from its caller. */
static nvmlReturn_t put_ids(const struct lab_places *places, const char *ids, nvmlVgpuPlacementList_t *to)
{
    const unsigned int room = to->version == nvmlVgpuPlacementList_v1 ? UINT32_MAX : to->count;
    unsigned int count = 0;

    if (ids == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    for (const char *at = ids; *at != '\0'; count++) {
        char *end;
        const unsigned long place = strtoul(at, &end, 10);

        if (count < room && to->placementIds != NULL)
            to->placementIds[count] = (unsigned int)place;
        at = *end == ',' ? end + 1 : end;
    }
    to->count = count;
    to->placementSize = (unsigned int)places->size;
    return count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t check(const struct lab_state *state, const nvmlVgpuPlacementList_t *list)
{
    if (lab_branch(state) < FIRST_MODE)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (list == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (list->version == nvmlVgpuPlacementList_v2)
        return lab_branch(state) < FIRST_HOMOGENEOUS ? NVML_ERROR_ARGUMENT_VERSION_MISMATCH : NVML_SUCCESS;
    return list->version == nvmlVgpuPlacementList_v1 ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static nvmlReturn_t put_places(const struct lab_state *state, const struct lab_gpu *gpu, nvmlVgpuTypeId_t id,
                               bool only_creatable, nvmlVgpuPlacementList_t *to)
{
    nvmlReturn_t result = check(state, to);
    const struct lab_places *places;
    bool equal;

    if (result != NVML_SUCCESS)
        return result;
    places = places_of(state, gpu, id, &result);
    if (places == NULL)
        return result;
    if (only_creatable) /* those of the GPU's mode, whichever the caller names */
        return put_ids(places, places->free, to);
    equal = to->version == nvmlVgpuPlacementList_v2 && to->mode == NVML_VGPU_PGPU_HOMOGENEOUS_MODE;
    return put_ids(places, equal ? places->equal : places->mixed, to);
}

GPU_CALL(nvmlDeviceGetVgpuTypeSupportedPlacements,
         (nvmlDevice_t device, nvmlVgpuTypeId_t vgpuTypeId, nvmlVgpuPlacementList_t *pPlacementList), device,
         put_places(state, gpu, vgpuTypeId, false, pPlacementList))

GPU_CALL(nvmlDeviceGetVgpuTypeCreatablePlacements,
         (nvmlDevice_t device, nvmlVgpuTypeId_t vgpuTypeId, nvmlVgpuPlacementList_t *pPlacementList), device,
         put_places(state, gpu, vgpuTypeId, true, pPlacementList))
