/*
 * The mock's internals: one snapshot of the simulated driver's state, and the start and end of every exported function.
 *
 * The state is a text (written by vgpumgr/lab/nvml/state.py, which describes it) that is read again at each call, so that
 * NVML shows what sysfs and nvidia-smi show. Only the types, which never change while a driver is loaded, are answered from
 * the last reading. One mutex is held from lab_enter… to lab_leave, so a snapshot is valid during the call.
 */
#ifndef VGPUMGR_LAB_H
#define VGPUMGR_LAB_H

#include <stdbool.h>
#include <stddef.h>

/* Only NVML's own functions are exported; the library is compiled with -fvisibility=hidden. */
#pragma GCC visibility push(default)
#include "nvml.h"
#pragma GCC visibility pop

#define LAB_DEFAULT_PATH "/sys/kernel/debug/nvlab/nvml"
#define LAB_PATH_VARIABLE "VGPUMGR_LAB_NVML"
#define LAB_MIB (1024LL * 1024LL)
#define LAB_LINE 256 /* the longest request */
#define LAB_ABSENT (-1LL) /* a number that the state does not have: not supported */

struct lab_driver {
    const char *version;
    const char *nvml;
    long long newest; /* the last tick, in us since the epoch */
    long long tick;   /* us from one tick to the next */
};

struct lab_gpu {
    long long index;
    const char *pci; /* dddd:bb:ss.f, as sysfs writes it */
    const char *uuid;
    const char *name;
    long long device;
    long long subsystem;
    long long fb_mib;
    long long used_mib;
    long long util_sm; /* percent, of all its vGPUs together */
    long long util_mem;
    long long temperature; /* degrees Celsius */
    long long power;       /* mW */
    long long sriov;
    long long hetero;
    long long mig;
    long long mig_pending;
    long long fabric;  /* its state on an NVSwitch fabric, NVML_GPU_FABRIC_STATE_* */
    const char *links; /* "0000:81:00.0,0000:c1:00.0": what is at the other end of each; NULL without NVLink */
};

struct lab_type {
    long long gpu;
    long long id;
    const char *name;
    const char *type_class;
    const char *license;
    long long fb_mib;
    long long max;
    long long per_vm;
    long long creatable;
    long long device;
    long long subsystem;
    long long heads;
    long long width;
    long long height;
    long long frl;
    long long profile;      /* of a MIG-backed type: the id of its GPU instance profile */
    long long per_instance; /* how many of its vGPUs share an instance */
};

/* The places of all types of one size and maximum: "0,8,12"; NULL where the driver numbers none in that mode. */
struct lab_places {
    long long gpu;
    long long fb_mib;
    long long max;
    long long size;
    const char *mixed;
    const char *equal;
    const char *free; /* in the GPU's mode, now */
};

struct lab_profile {
    long long gpu;
    long long number; /* NVML_GPU_INSTANCE_PROFILE_* */
    long long id;
    const char *name;
    long long slices;
    long long size; /* memory slices */
    long long memory_mib;
    long long max;
    long long left; /* how many more the GPU takes now */
    long long sms;
    const char *starts; /* "0,2,4" */
};

/* `serial` is unlike any other's ever, which `id` is not: handles are made of it. */
struct lab_instance {
    long long gpu;
    long long serial;
    long long id;
    long long profile;
    long long start;
    long long size;
    long long slices;
};

struct lab_compute {
    long long gpu;
    long long instance; /* the serial of its GPU instance */
    long long serial;
    long long id;
    long long profile; /* NVML_COMPUTE_INSTANCE_PROFILE_* */
    long long start;
    long long slices;
};

struct lab_vgpu {
    long long gpu;
    long long instance;
    long long type;
    const char *uuid;
    const char *mdev;    /* NULL on vendor-vfio */
    const char *vm_uuid; /* NULL while no VM holds it: then it is not on the active list */
    const char *vm_name;
    long long placement; /* equal-size mode reports one from Ada on */
    long long gpu_instance; /* the id of its GPU instance */
    const char *guest_driver; /* NULL while no NVIDIA driver runs in the guest */
    long long licence;        /* NVML_GRID_LICENSE_STATE_* */
    long long licence_expiry; /* s since the epoch */
    long long fb_used; /* bytes */
    long long ecc;
};

/* A running vGPU's use in a stretch of time: us since the epoch, and thousandths of a percent of the whole GPU. */
struct lab_use {
    long long instance;
    long long from;
    long long to;
    long long sm;
    long long mem;
    long long enc;
    long long dec;
};

struct lab_caps {
    long long gpu;
    long long arr;
    long long slice_min;
    long long slice_max;
    long long frequency_min;
    long long frequency_max;
    long long factor_min;
    long long factor_max;
};

struct lab_scheduler {
    long long gpu;
    long long engine; /* NVML_VGPU_SCHEDULER_ENGINE_TYPE_* */
    long long policy; /* NVML_VGPU_SCHEDULER_POLICY_* */
    long long arr;    /* NVML_VGPU_SCHEDULER_ARR_* */
    long long factor;
    long long slice; /* ns */
};

struct lab_fail {
    const char *function; /* or "*" */
    const char *pci;      /* NULL: on every GPU */
    long long code;
};

struct lab_state {
    char *text; /* owns all strings */
    struct lab_driver driver;
    struct lab_gpu *gpus;
    size_t gpu_count;
    struct lab_type *types;
    size_t type_count;
    struct lab_places *places;
    size_t places_count;
    struct lab_profile *profiles;
    size_t profile_count;
    struct lab_instance *instances;
    size_t instance_count;
    struct lab_compute *computes;
    size_t compute_count;
    struct lab_vgpu *vgpus;
    size_t vgpu_count;
    struct lab_use *uses;
    size_t use_count;
    struct lab_caps *caps; /* a GPU in MIG mode has none, and no schedulers */
    size_t caps_count;
    struct lab_scheduler *schedulers;
    size_t scheduler_count;
    struct lab_fail *fails;
    size_t fail_count;
};

/* Read and parse the file. On any error nothing is left to free, and *state is empty. */
nvmlReturn_t lab_state_read(const char *path, struct lab_state *state);
void lab_state_free(struct lab_state *state);

/* The state file, which is read and written to. */
const char *lab_path(void);
/* Have the driver change something: write one line (vgpumgr/lab/nvml/request.py describes them) and wait for its answer. */
nvmlReturn_t lab_request(const char *line);

/*
 * Begin a call: takes the mutex and reads the state. lab_leave must follow, whatever the result.
 * _init needs no earlier nvmlInit; _type answers from the last reading; _device and _vgpu look their subject up too.
 */
nvmlReturn_t lab_enter_init(const char *function);
nvmlReturn_t lab_enter(const char *function, const struct lab_state **state);
nvmlReturn_t lab_enter_type(const char *function, nvmlVgpuTypeId_t id, const struct lab_type **type);
nvmlReturn_t lab_enter_device(const char *function, nvmlDevice_t device, const struct lab_state **state,
                              const struct lab_gpu **gpu);
nvmlReturn_t lab_enter_vgpu(const char *function, nvmlVgpuInstance_t instance, const struct lab_state **state,
                            const struct lab_vgpu **vgpu);
/* A GPU instance or compute instance, by its handle: invalid once it is gone. */
nvmlReturn_t lab_enter_instance(const char *function, nvmlGpuInstance_t handle, const struct lab_state **state,
                                const struct lab_instance **instance);
nvmlReturn_t lab_enter_compute(const char *function, nvmlComputeInstance_t handle, const struct lab_state **state,
                               const struct lab_compute **compute);
/* Read the state again within a call, after a change: what was found in it before is gone. */
nvmlReturn_t lab_read_again(const struct lab_state **state);
nvmlReturn_t lab_leave(nvmlReturn_t result);

/*
 * A whole function of NVML that answers one question about a GPU, a vGPU or a type: `subject` is the parameter that names
 * it, `answer` what is returned once it was found.
 */
#define GPU_CALL(name, parameters, subject, answer)                                                                   \
    nvmlReturn_t name parameters                                                                                      \
    {                                                                                                                 \
        const struct lab_state *state = NULL;                                                                         \
        const struct lab_gpu *gpu = NULL;                                                                             \
        const nvmlReturn_t result = lab_enter_device(__func__, subject, &state, &gpu);                                \
                                                                                                                      \
        return lab_leave(result == NVML_SUCCESS ? (answer) : result);                                                 \
    }
#define VGPU_CALL(name, parameters, subject, answer)                                                                  \
    nvmlReturn_t name parameters                                                                                      \
    {                                                                                                                 \
        const struct lab_state *state = NULL;                                                                         \
        const struct lab_vgpu *vgpu = NULL;                                                                           \
        const nvmlReturn_t result = lab_enter_vgpu(__func__, subject, &state, &vgpu);                                 \
                                                                                                                      \
        return lab_leave(result == NVML_SUCCESS ? (answer) : result);                                                 \
    }
#define TYPE_CALL(name, parameters, subject, answer)                                                                  \
    nvmlReturn_t name parameters                                                                                      \
    {                                                                                                                 \
        const struct lab_type *type = NULL;                                                                           \
        const nvmlReturn_t result = lab_enter_type(__func__, subject, &type);                                         \
                                                                                                                      \
        return lab_leave(result == NVML_SUCCESS ? (answer) : result);                                                 \
    }

#define INSTANCE_CALL(name, parameters, subject, answer)                                                              \
    nvmlReturn_t name parameters                                                                                      \
    {                                                                                                                 \
        const struct lab_state *state = NULL;                                                                         \
        const struct lab_instance *instance = NULL;                                                                   \
        const nvmlReturn_t result = lab_enter_instance(__func__, subject, &state, &instance);                         \
                                                                                                                      \
        return lab_leave(result == NVML_SUCCESS ? (answer) : result);                                                 \
    }

void lab_count_init(void);
nvmlReturn_t lab_count_shutdown(void);

/* The error that a `fail` line demands for this function on this GPU, or NVML_SUCCESS. */
nvmlReturn_t lab_failure_on(const struct lab_state *state, const char *function, const struct lab_gpu *gpu);

nvmlDevice_t lab_handle_of(const struct lab_gpu *gpu);
nvmlGpuInstance_t lab_handle_of_instance(const struct lab_instance *instance);
nvmlComputeInstance_t lab_handle_of_compute(const struct lab_compute *compute);
const struct lab_type *lab_find_type(const struct lab_state *state, long long id);

/* Copy text into a caller's buffer of `size` bytes. */
nvmlReturn_t lab_put_text(const char *text, char *buffer, unsigned int size);
/* Store a number in *out; absent numbers are NVML_ERROR_NOT_SUPPORTED. */
nvmlReturn_t lab_put_number(long long number, unsigned int *out);
nvmlReturn_t lab_put_wide(long long number, unsigned long long *out);
/* The first error of two answers. */
nvmlReturn_t lab_both(nvmlReturn_t first, nvmlReturn_t second);
/* R550 for 550.54.14: functions of later branches are NVML_ERROR_FUNCTION_NOT_FOUND on earlier ones. */
unsigned int lab_branch(const struct lab_state *state);

#endif
