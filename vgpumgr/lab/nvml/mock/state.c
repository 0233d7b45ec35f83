/* Reads the state text into a lab_state: lines of `word key=value …`, values %-escaped. Unknown words and keys are skipped. */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "nvlab 1"
#define LAST_LINE "end"
#define READ_TRIES 5

enum kind { TEXT, NUMBER };

struct field {
    const char *key;
    enum kind kind;
    size_t offset;
};

#define TEXT_OF(type, member) {#member, TEXT, offsetof(struct type, member)}
#define NUMBER_OF(type, member) {#member, NUMBER, offsetof(struct type, member)}
#define END_OF_FIELDS {NULL, TEXT, 0}

static const struct field driver_fields[] = {
    TEXT_OF(lab_driver, version),
    TEXT_OF(lab_driver, nvml),
    NUMBER_OF(lab_driver, newest),
    NUMBER_OF(lab_driver, tick),
    END_OF_FIELDS,
};

static const struct field gpu_fields[] = {
    NUMBER_OF(lab_gpu, index),  TEXT_OF(lab_gpu, pci),         TEXT_OF(lab_gpu, uuid),
    TEXT_OF(lab_gpu, name),     NUMBER_OF(lab_gpu, device),    NUMBER_OF(lab_gpu, subsystem),
    NUMBER_OF(lab_gpu, fb_mib), NUMBER_OF(lab_gpu, used_mib),  NUMBER_OF(lab_gpu, util_sm),
    NUMBER_OF(lab_gpu, util_mem), NUMBER_OF(lab_gpu, sriov),   NUMBER_OF(lab_gpu, hetero),
    NUMBER_OF(lab_gpu, mig),    NUMBER_OF(lab_gpu, temperature), NUMBER_OF(lab_gpu, power),
    NUMBER_OF(lab_gpu, mig_pending), TEXT_OF(lab_gpu, links), NUMBER_OF(lab_gpu, fabric),
    END_OF_FIELDS,
};

static const struct field type_fields[] = {
    NUMBER_OF(lab_type, gpu),       NUMBER_OF(lab_type, id),
    TEXT_OF(lab_type, name),        {"class", TEXT, offsetof(struct lab_type, type_class)},
    TEXT_OF(lab_type, license),     NUMBER_OF(lab_type, fb_mib),
    NUMBER_OF(lab_type, max),       NUMBER_OF(lab_type, per_vm),
    NUMBER_OF(lab_type, creatable), NUMBER_OF(lab_type, device),
    NUMBER_OF(lab_type, subsystem), NUMBER_OF(lab_type, heads),
    NUMBER_OF(lab_type, width),     NUMBER_OF(lab_type, height),
    NUMBER_OF(lab_type, frl),       NUMBER_OF(lab_type, profile),
    NUMBER_OF(lab_type, per_instance), END_OF_FIELDS,
};

static const struct field profile_fields[] = {
    NUMBER_OF(lab_profile, gpu),        NUMBER_OF(lab_profile, number), NUMBER_OF(lab_profile, id),
    TEXT_OF(lab_profile, name),         NUMBER_OF(lab_profile, slices), NUMBER_OF(lab_profile, size),
    NUMBER_OF(lab_profile, memory_mib), NUMBER_OF(lab_profile, max),    NUMBER_OF(lab_profile, left),
    NUMBER_OF(lab_profile, sms),        TEXT_OF(lab_profile, starts),   END_OF_FIELDS,
};

static const struct field instance_fields[] = {
    NUMBER_OF(lab_instance, gpu),     NUMBER_OF(lab_instance, serial), NUMBER_OF(lab_instance, id),
    NUMBER_OF(lab_instance, profile), NUMBER_OF(lab_instance, start),  NUMBER_OF(lab_instance, size),
    NUMBER_OF(lab_instance, slices),  END_OF_FIELDS,
};

static const struct field compute_fields[] = {
    NUMBER_OF(lab_compute, gpu), NUMBER_OF(lab_compute, instance), NUMBER_OF(lab_compute, serial),
    NUMBER_OF(lab_compute, id),  NUMBER_OF(lab_compute, profile),  NUMBER_OF(lab_compute, start),
    NUMBER_OF(lab_compute, slices), END_OF_FIELDS,
};

static const struct field places_fields[] = {
    NUMBER_OF(lab_places, gpu),  NUMBER_OF(lab_places, fb_mib), NUMBER_OF(lab_places, max),
    NUMBER_OF(lab_places, size), TEXT_OF(lab_places, mixed),    TEXT_OF(lab_places, equal),
    TEXT_OF(lab_places, free),   END_OF_FIELDS,
};

static const struct field vgpu_fields[] = {
    NUMBER_OF(lab_vgpu, gpu),         NUMBER_OF(lab_vgpu, instance),   NUMBER_OF(lab_vgpu, type),
    TEXT_OF(lab_vgpu, uuid),          TEXT_OF(lab_vgpu, mdev),         TEXT_OF(lab_vgpu, vm_uuid),
    TEXT_OF(lab_vgpu, vm_name),       TEXT_OF(lab_vgpu, guest_driver), NUMBER_OF(lab_vgpu, licence),
    NUMBER_OF(lab_vgpu, fb_used),     NUMBER_OF(lab_vgpu, ecc),        NUMBER_OF(lab_vgpu, placement),
    NUMBER_OF(lab_vgpu, gpu_instance), NUMBER_OF(lab_vgpu, licence_expiry),
    END_OF_FIELDS,
};

static const struct field use_fields[] = {
    NUMBER_OF(lab_use, instance), NUMBER_OF(lab_use, from), NUMBER_OF(lab_use, to),  NUMBER_OF(lab_use, sm),
    NUMBER_OF(lab_use, mem),      NUMBER_OF(lab_use, enc),  NUMBER_OF(lab_use, dec), END_OF_FIELDS,
};

static const struct field caps_fields[] = {
    NUMBER_OF(lab_caps, gpu),           NUMBER_OF(lab_caps, arr),           NUMBER_OF(lab_caps, slice_min),
    NUMBER_OF(lab_caps, slice_max),     NUMBER_OF(lab_caps, frequency_min), NUMBER_OF(lab_caps, frequency_max),
    NUMBER_OF(lab_caps, factor_min),    NUMBER_OF(lab_caps, factor_max),    END_OF_FIELDS,
};

static const struct field scheduler_fields[] = {
    NUMBER_OF(lab_scheduler, gpu),    NUMBER_OF(lab_scheduler, engine), NUMBER_OF(lab_scheduler, policy),
    NUMBER_OF(lab_scheduler, arr),    NUMBER_OF(lab_scheduler, factor), NUMBER_OF(lab_scheduler, slice),
    END_OF_FIELDS,
};

static const struct field fail_fields[] = {
    TEXT_OF(lab_fail, function),
    TEXT_OF(lab_fail, pci),
    NUMBER_OF(lab_fail, code),
    END_OF_FIELDS,
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Decodes in place: the result is never longer. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '%' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0) {
            *to = (char)(hex_digit(from[1]) * 16 + hex_digit(from[2]));
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static void clear_fields(const struct field *fields, void *item)
{
    for (const struct field *field = fields; field->key != NULL; field++) {
        char *at = (char *)item + field->offset;

        if (field->kind == TEXT)
            *(const char **)(void *)at = NULL;
        else
            *(long long *)(void *)at = LAB_ABSENT;
    }
}

/* Fill one item from the rest of its line. */
static void parse_fields(const struct field *fields, void *item, char **rest)
{
    char *token;

    clear_fields(fields, item);
    while ((token = strtok_r(NULL, " ", rest)) != NULL) {
        char *value = strchr(token, '=');

        if (value == NULL)
            continue;
        *value++ = '\0';
        for (const struct field *field = fields; field->key != NULL; field++) {
            char *at = (char *)item + field->offset;

            if (strcmp(field->key, token) != 0)
                continue;
            if (field->kind == TEXT) {
                unescape(value);
                *(const char **)(void *)at = value;
            } else {
                *(long long *)(void *)at = strtoll(value, NULL, 0);
            }
        }
    }
}

/* Append an item to the array that the pointer at `array` owns; NULL if there is no memory. */
static void *grow(void *array, size_t *count, size_t size)
{
    void *items;
    void *bigger;

    memcpy(&items, array, sizeof(items)); /* pointers of any type: copied, not aliased */
    bigger = realloc(items, (*count + 1) * size);
    if (bigger == NULL)
        return NULL;
    memcpy(array, &bigger, sizeof(bigger));
    return (char *)bigger + size * (*count)++;
}

struct list_of {
    const char *word;
    const struct field *fields;
    size_t items;
    size_t count;
    size_t size;
};

#define LIST_OF(word, items, count)                                                                                   \
    {#word, word##_fields, offsetof(struct lab_state, items), offsetof(struct lab_state, count),                      \
     sizeof(*((struct lab_state *)NULL)->items)}

static const struct list_of lists[] = {
    LIST_OF(gpu, gpus, gpu_count),       LIST_OF(type, types, type_count),
    LIST_OF(vgpu, vgpus, vgpu_count),    LIST_OF(use, uses, use_count),
    LIST_OF(caps, caps, caps_count),     LIST_OF(scheduler, schedulers, scheduler_count),
    LIST_OF(fail, fails, fail_count),    LIST_OF(places, places, places_count),
    LIST_OF(profile, profiles, profile_count), LIST_OF(instance, instances, instance_count),
    LIST_OF(compute, computes, compute_count),
};

static bool parse_line(char *line, struct lab_state *state)
{
    char *rest = NULL;
    const char *word = strtok_r(line, " ", &rest);
    void *item;

    if (word == NULL)
        return true;
    if (strcmp(word, "driver") == 0) {
        parse_fields(driver_fields, &state->driver, &rest);
        return true;
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        const struct list_of *list = &lists[i];

        if (strcmp(word, list->word) != 0)
            continue;
        item = grow((char *)state + list->items, (size_t *)(void *)((char *)state + list->count), list->size);
        if (item == NULL)
            return false;
        parse_fields(list->fields, item, &rest);
    }
    return true;
}

/* What later code relies on: texts that exist, and references that are valid. */
static bool is_whole(const struct lab_state *state)
{
    if (state->driver.version == NULL || state->driver.nvml == NULL)
        return false;
    for (size_t i = 0; i < state->gpu_count; i++) {
        const struct lab_gpu *gpu = &state->gpus[i];

        if (gpu->index != (long long)i || gpu->pci == NULL || gpu->uuid == NULL || gpu->name == NULL)
            return false;
    }
    for (size_t i = 0; i < state->type_count; i++) {
        const struct lab_type *type = &state->types[i];

        if (type->gpu < 0 || type->gpu >= (long long)state->gpu_count || type->name == NULL)
            return false;
    }
    for (size_t i = 0; i < state->vgpu_count; i++) {
        const struct lab_vgpu *vgpu = &state->vgpus[i];

        if (vgpu->gpu < 0 || vgpu->gpu >= (long long)state->gpu_count || vgpu->uuid == NULL)
            return false;
    }
    for (size_t i = 0; i < state->profile_count; i++) {
        if (state->profiles[i].name == NULL || state->profiles[i].starts == NULL)
            return false;
    }
    for (size_t i = 0; i < state->instance_count; i++) {
        if (state->instances[i].gpu < 0 || state->instances[i].gpu >= (long long)state->gpu_count)
            return false;
    }
    for (size_t i = 0; i < state->compute_count; i++) {
        if (state->computes[i].gpu < 0 || state->computes[i].gpu >= (long long)state->gpu_count)
            return false;
    }
    return true;
}

static bool has_ended(const char *text, size_t length)
{
    static const char end[] = "\n" LAST_LINE "\n";
    const size_t size = sizeof(end) - 1;

    return length >= size && memcmp(text + length - size, end, size) == 0;
}

/* The whole file as a string in *text, to be freed. */
static nvmlReturn_t read_text(const char *path, char **text)
{
    size_t size = 128 * 1024; /* one FUSE read: enough for a real state */
    size_t used = 0;
    char *buffer = malloc(size);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || buffer == NULL) {
        const int why = errno;

        free(buffer);
        if (fd >= 0)
            close(fd);
        if (fd >= 0)
            return NVML_ERROR_MEMORY;
        return why == EACCES || why == EPERM ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_DRIVER_NOT_LOADED;
    }
    for (;;) {
        ssize_t got;

        if (used + 1 == size) {
            char *bigger = realloc(buffer, size * 2);

            if (bigger == NULL) {
                free(buffer);
                close(fd);
                return NVML_ERROR_MEMORY;
            }
            buffer = bigger;
            size *= 2;
        }
        got = read(fd, buffer + used, size - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(buffer);
            close(fd);
            return NVML_ERROR_DRIVER_NOT_LOADED;
        }
        used += (size_t)got;
        if (got == 0 || has_ended(buffer, used)) /* no second read if the first one returned everything */
            break;
    }
    close(fd);
    buffer[used] = '\0';
    *text = buffer;
    return NVML_SUCCESS;
}

static nvmlReturn_t parse_text(char *text, struct lab_state *state)
{
    char *rest = NULL;
    char *line = strtok_r(text, "\n", &rest);
    bool ended = false;

    if (line == NULL || strcmp(line, FIRST_LINE) != 0)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    while (!ended && (line = strtok_r(NULL, "\n", &rest)) != NULL) {
        ended = strcmp(line, LAST_LINE) == 0; /* whatever a second read returns after it is from a later moment */
        if (!parse_line(line, state))
            return NVML_ERROR_MEMORY;
    }
    return ended && is_whole(state) ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t lab_state_read(const char *path, struct lab_state *state)
{
    nvmlReturn_t result = NVML_ERROR_UNKNOWN;

    /* A read without the last line was torn by a change: read again. */
    for (int tries = 0; tries < READ_TRIES && result == NVML_ERROR_UNKNOWN; tries++) {
        memset(state, 0, sizeof(*state));
        result = read_text(path, &state->text);
        if (result == NVML_SUCCESS)
            result = parse_text(state->text, state);
        if (result != NVML_SUCCESS)
            lab_state_free(state);
    }
    return result;
}

void lab_state_free(struct lab_state *state)
{
    free(state->text);
    free(state->gpus);
    free(state->types);
    free(state->places);
    free(state->profiles);
    free(state->instances);
    free(state->computes);
    free(state->vgpus);
    free(state->uses);
    free(state->caps);
    free(state->schedulers);
    free(state->fails);
    memset(state, 0, sizeof(*state));
}
