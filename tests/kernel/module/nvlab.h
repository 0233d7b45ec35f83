/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An imitation of NVIDIA's vGPU host driver for vgpumgr's tests: PCI cards that do not exist, on the kernel's own PCI,
 * SR-IOV, mdev and VFIO code. See README.md.
 *
 * A card (nvlab_card) is what never changes; a GPU (nvlab_gpu) is a card in this machine; a function is its PF or a VF,
 * while the driver is bound to it; a vGPU is made on a function. Everything that changes is under nvlab_lock, which is
 * never held while the kernel's cores are called. nvlab_list is the lock that the real driver sleeps with: whoever makes,
 * removes or reads a vGPU has it for a moment, and a read of one that is being closed for as long as that takes.
 */
#ifndef NVLAB_H
#define NVLAB_H

#include <linux/cdev.h>
#include <linux/list.h>
#include <linux/mdev.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/uuid.h>
#include <linux/vfio.h>
#include <linux/workqueue.h>

#include "places.h"

#define NVLAB_PARAMS_BYTES 1024
#define NVLAB_MOST_VGPUS 64
#define NVLAB_FAILS_BYTES 1024
#define NVLAB_MOST_COMPUTE 7
/* NVML's numbers of policies; of its engines there are up to three, from 1 on. */
#define NVLAB_BEST_EFFORT 1
#define NVLAB_FIXED_SHARE 3
#define NVLAB_ENGINES 4

/*
 * `vf` is -1 on the PF; `placement` is -1 where the card reports none, `gpu_instance` without MIG; `mdev` is empty on vendor-vfio. `number` is its
 * character device's. `held`: a VM has it open; `plugins` have its character device open. `lost`: it was removed while
 * somebody had it, and is counted for good. `ops` is held while it is being closed.
 */
struct nvlab_vgpu {
	struct list_head node;
	const struct nvlab_type *type;
	int vf;
	u64 instance;
	int placement;
	int gpu_instance;
	uuid_t own_uuid;
	char mdev[UUID_STRING_LEN + 1];
	char params[NVLAB_PARAMS_BYTES];
	unsigned int number;
	unsigned int plugins;
	bool held;
	bool lost;
	struct mutex ops;
	char *vm_name;
	char *vm_uuid;
};

struct nvlab_compute {
	unsigned int serial, id, start, profile, slices;
};

/* A GPU instance: what NVML's library calls it by is its serial, which is not used again. */
struct nvlab_instance {
	struct list_head node;
	const struct nvlab_profile *profile;
	unsigned int serial, id, start;
	unsigned int nr_compute;
	struct nvlab_compute compute[NVLAB_MOST_COMPUTE];
};

/* `config` is the PF's configuration space; `bound` while the driver has the PF; `mixed`: mixed-size mode; `mig`: MIG mode. */
struct nvlab_gpu {
	const struct nvlab_card *card;
	u8 config[PCI_CFG_SPACE_EXP_SIZE];
	struct pci_sysdata sysdata;
	struct resource buses;
	struct pci_bus *bus;
	struct proc_dir_entry *proc;
	bool bound;
	bool unbind_locked;
	bool mixed;
	bool mig;
	bool mig_pending;
	struct list_head instances;
	unsigned int past_ids[NVLAB_MOST_PROFILES][NVLAB_MOST_STARTS];
	unsigned int policy[NVLAB_ENGINES];
	struct list_head vgpus;
};

struct nvlab_mdev_type {
	struct mdev_type type;
	const struct nvlab_type *spec;
	struct nvlab_function *function;
};

/* `vf` is -1 on the PF. Of the rest a function has what its framework wants, from the moment it is `shown`. */
struct nvlab_function {
	struct pci_dev *pdev;
	struct nvlab_gpu *gpu;
	int vf;
	struct delayed_work appear;
	bool shown;
	struct mdev_parent parent;
	struct nvlab_mdev_type *types;
	struct mdev_type **type_list;
	struct nvlab_vfio *vfio;
};

/* What QEMU opens. An mdev's has its vGPU as long as it exists, a VF's only while a type is set. `dead`: it is being removed. */
struct nvlab_vfio {
	struct vfio_device vdev;
	struct nvlab_gpu *gpu;
	struct nvlab_vgpu *vgpu;
	bool dead;
	struct mutex writing; /* a VF's files, one at a time */
	u8 config[PCI_CFG_SPACE_EXP_SIZE];
};

/* The module's parameters; README.md says what each does. */
struct nvlab_options {
	unsigned int create_errno;
	unsigned int clear_errno;
	unsigned int slow_ms;
	unsigned int close_ms;
	unsigned int late_vfs_ms;
	bool unbind_busy;
	bool scheduler_counts_idle;
	bool other_framework;
	char nvml_fail[NVLAB_FAILS_BYTES];
	char *registry_dwords;
	char *registry_dwords_per_device;
};

enum nvlab_refusal {
	NVLAB_ADMITTED,
	NVLAB_VF_TAKEN,
	NVLAB_OTHER_SIZE,
	NVLAB_FULL,
	NVLAB_OTHER_MODE,
	NVLAB_NO_INSTANCE
};

extern struct nvlab_options nvlab_options;
extern struct mutex nvlab_lock;
extern struct mutex nvlab_list;
extern const char nvlab_driver_line[];
extern const char nvlab_proc_version[];
extern struct nvlab_gpu *nvlab_gpus;
extern unsigned int nvlab_nr_gpus;

/* How the card offers vGPUs under this kernel: `other_framework` exchanges the two of boards with SR-IOV. */
static inline enum nvlab_framework nvlab_framework(const struct nvlab_gpu *gpu)
{
	enum nvlab_framework usual = gpu->card->framework;

	if (!nvlab_options.other_framework || usual == NVLAB_MDEV_PF)
		return usual;
	return usual == NVLAB_VENDOR_VFIO ? NVLAB_MDEV_VF : NVLAB_VENDOR_VFIO;
}

/* cards.c */
int nvlab_make_gpus(void);

/* bus.c */
int nvlab_add_buses(void);
void nvlab_remove_buses(void);
unsigned int nvlab_enabled_vfs(const struct nvlab_gpu *gpu);
struct nvlab_gpu *nvlab_gpu_of(const struct pci_dev *pdev);

/* function.c */
int nvlab_register_pci(void);
void nvlab_allow_vfs(bool allowed);
void nvlab_unregister_pci(void);

/* admission.c: the first ten under nvlab_lock */
void nvlab_look(struct nvlab_gpu *gpu, struct nvlab_scene *scene);
int nvlab_set_mixed(struct nvlab_gpu *gpu, bool mixed);
int nvlab_set_placement(struct nvlab_gpu *gpu, struct nvlab_vgpu *vgpu, int place);
enum nvlab_refusal nvlab_refusal(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type);
void nvlab_log_refusal(const char *name, int ret);
unsigned int nvlab_available(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type);
bool nvlab_creatable(struct nvlab_gpu *gpu, const struct nvlab_type *type);
bool nvlab_any_held(struct nvlab_gpu *gpu);
struct nvlab_vgpu *nvlab_make_vgpu(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type);
void nvlab_end_vgpu(struct nvlab_vgpu *vgpu);
void nvlab_lose_vgpu(struct nvlab_vgpu *vgpu);
int nvlab_set_params(struct nvlab_vgpu *vgpu, const char *text, size_t count);
void nvlab_forget_lost(void);
void nvlab_pass(void);
ssize_t nvlab_tell(struct nvlab_vgpu *vgpu, char *buf, ssize_t (*tell)(struct nvlab_vgpu *vgpu, char *buf));
void nvlab_slow(void);

/* mig.c: under nvlab_lock */
int nvlab_set_mig(struct nvlab_gpu *gpu, bool on);
int nvlab_reset(struct nvlab_gpu *gpu);
int nvlab_create_instance(struct nvlab_gpu *gpu, unsigned int profile_id, int start);
int nvlab_destroy_instance(struct nvlab_gpu *gpu, unsigned int serial);
int nvlab_create_compute(struct nvlab_gpu *gpu, unsigned int serial, unsigned int profile_id);
int nvlab_destroy_compute(struct nvlab_gpu *gpu, unsigned int serial);
void nvlab_forget_instances(struct nvlab_gpu *gpu);
unsigned int nvlab_profile_left(struct nvlab_gpu *gpu, const struct nvlab_profile *profile);
unsigned int nvlab_mig_room(struct nvlab_gpu *gpu, const struct nvlab_type *type);
int nvlab_choose_instance(struct nvlab_gpu *gpu, const struct nvlab_type *type);
void nvlab_put_mig(struct seq_file *file, unsigned int index, struct nvlab_gpu *gpu);

/* mdev.c */
int nvlab_register_mdev(void);
void nvlab_unregister_mdev(void);
int nvlab_show_mdev_types(struct nvlab_function *function);
void nvlab_hide_mdev_types(struct nvlab_function *function);

/* vendor.c */
int nvlab_show_vendor_files(struct nvlab_function *function);
void nvlab_hide_vendor_files(struct nvlab_function *function);

/* vfio.c */
struct nvlab_vfio *nvlab_vfio_alloc(struct device *dev, struct nvlab_gpu *gpu);

/* plugin.c */
int nvlab_add_plugins(void);
void nvlab_remove_plugins(void);
bool nvlab_await_plugins(struct nvlab_vgpu *vgpu);

/* opener.c */
void nvlab_read_opener(char **name, char **uuid);

/* proc.c */
int nvlab_add_proc(void);
void nvlab_remove_proc(void);
void nvlab_add_proc_gpu(struct nvlab_gpu *gpu);
void nvlab_remove_proc_gpu(struct nvlab_gpu *gpu);

/* request.c */
int nvlab_obey(char *line);

/* nvml.c */
void nvlab_add_nvml(void);
void nvlab_remove_nvml(void);

#endif
