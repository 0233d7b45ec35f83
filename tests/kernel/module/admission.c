// SPDX-License-Identifier: GPL-2.0-only
/* What the driver admits where (the rules are places.c's), and the list of the vGPUs that exist. */
#include <linux/delay.h>
#include <linux/slab.h>

#include "nvlab.h"

#define FIRST_INSTANCE 3251634176ULL /* NVML's handles start high; any number that is not an index will do */

static u64 next_instance = FIRST_INSTANCE;

void nvlab_slow(void)
{
	if (nvlab_options.slow_ms)
		msleep(nvlab_options.slow_ms);
}

/* What the rules in places.c look at. Up to NVLAB_MOST_PLACES vGPUs count, and no GPU takes as many. */
void nvlab_look(struct nvlab_gpu *gpu, struct nvlab_scene *scene)
{
	struct nvlab_vgpu *vgpu;

	scene->card = gpu->card;
	scene->mixed = gpu->mixed;
	scene->count = 0;
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (scene->count < NVLAB_MOST_PLACES)
			scene->taken[scene->count++] = (struct nvlab_taken){ vgpu->type, vgpu->placement };
}

static unsigned int instances_left(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	struct nvlab_scene scene;

	if (gpu->mig != (type->profile >= 0))
		return 0;
	if (gpu->mig)
		return nvlab_mig_room(gpu, type);
	nvlab_look(gpu, &scene);
	return nvlab_left(&scene, type);
}

enum nvlab_refusal nvlab_refusal(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type)
{
	struct nvlab_scene scene;
	struct nvlab_vgpu *vgpu;

	if (vf >= 0)
		list_for_each_entry(vgpu, &gpu->vgpus, node)
			if (vgpu->vf == vf)
				return NVLAB_VF_TAKEN;
	if (gpu->mig != (type->profile >= 0))
		return NVLAB_OTHER_MODE;
	if (gpu->mig)
		return nvlab_mig_room(gpu, type) ? NVLAB_ADMITTED : NVLAB_NO_INSTANCE;
	nvlab_look(gpu, &scene);
	if (nvlab_other_size(&scene, type))
		return NVLAB_OTHER_SIZE;
	return nvlab_left(&scene, type) ? NVLAB_ADMITTED : NVLAB_FULL;
}

/* `available_instances`: how many on the PF, 0 or 1 on a VF. */
unsigned int nvlab_available(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type)
{
	if (vf < 0)
		return instances_left(gpu, type);
	return nvlab_refusal(gpu, vf, type) == NVLAB_ADMITTED;
}

/* Whether some function of the GPU would take it: what NVML lists as creatable. */
bool nvlab_creatable(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	struct nvlab_vgpu *vgpu;
	unsigned int count = 0;

	if (nvlab_framework(gpu) == NVLAB_MDEV_PF)
		return instances_left(gpu, type);
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		count++;
	return count < nvlab_enabled_vfs(gpu) && instances_left(gpu, type);
}

bool nvlab_any_held(struct nvlab_gpu *gpu)
{
	struct nvlab_vgpu *vgpu;

	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (vgpu->held)
			return true;
	return false;
}

static bool number_taken(unsigned int number)
{
	struct nvlab_vgpu *vgpu;
	unsigned int i;

	for (i = 0; i < nvlab_nr_gpus; i++)
		list_for_each_entry(vgpu, &nvlab_gpus[i].vgpus, node)
			if (vgpu->number == number)
				return true;
	return false;
}

/* What the driver says in the kernel's log of a vGPU that it does not make. Its level keeps it from the console. */
void nvlab_log_refusal(const char *name, int ret)
{
	pr_info("NVRM: Failed to add vgpu create request: 0x56\n");
	pr_info("[nvidia-vgpu-vfio] %s: vGPU creation failed, %d\n", name, ret);
}

/* A vGPU that was admitted; NULL without memory. */
struct nvlab_vgpu *nvlab_make_vgpu(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type)
{
	struct nvlab_vgpu *vgpu = kzalloc(sizeof(*vgpu), GFP_KERNEL);
	struct nvlab_scene scene;

	if (!vgpu)
		return NULL;
	nvlab_look(gpu, &scene);
	mutex_init(&vgpu->ops);
	vgpu->type = type;
	vgpu->vf = vf;
	while (number_taken(vgpu->number))
		vgpu->number++;
	vgpu->instance = next_instance++;
	vgpu->gpu_instance = gpu->mig ? nvlab_choose_instance(gpu, type) : -1;
	vgpu->placement = gpu->mig ? -1 : nvlab_first_place(&scene, type);
	uuid_gen(&vgpu->own_uuid); /* NVML's own, new with each creation */
	list_add_tail(&vgpu->node, &gpu->vgpus);
	return vgpu;
}

void nvlab_end_vgpu(struct nvlab_vgpu *vgpu)
{
	list_del(&vgpu->node);
	kfree(vgpu->vm_name);
	kfree(vgpu->vm_uuid);
	kfree(vgpu);
}

/* It was removed while somebody had it: nobody sees it any more, and it counts until the driver is loaded again. */
void nvlab_lose_vgpu(struct nvlab_vgpu *vgpu)
{
	vgpu->lost = true;
	vgpu->mdev[0] = '\0';
	kfree(vgpu->vm_name);
	kfree(vgpu->vm_uuid);
	vgpu->vm_name = NULL;
	vgpu->vm_uuid = NULL;
}

/* What NVML's call for mixed-size mode does: only with VFs, and on an empty GPU; idle vGPUs count, and lost ones. */
int nvlab_set_mixed(struct nvlab_gpu *gpu, bool mixed)
{
	if (!nvlab_enabled_vfs(gpu) || gpu->mig)
		return -EOPNOTSUPP;
	if (!list_empty(&gpu->vgpus))
		return -EBUSY;
	gpu->mixed = mixed;
	return 0;
}

/*
 * A write to placement_id. In mixed-size mode an id of the type's is taken that overlaps nothing, the vGPU's own place
 * included. In equal-size mode from Ada on nobody shows what a write does.
 */
int nvlab_set_placement(struct nvlab_gpu *gpu, struct nvlab_vgpu *vgpu, int place)
{
	struct nvlab_scene scene;

	if (!vgpu)
		return -ENXIO;
	if (vgpu->held)
		return -EPERM;
	if (gpu->mig)
		return -EIO;
	if (!gpu->mixed)
		return gpu->card->placements ? -EINVAL : -EIO;
	if (place == vgpu->placement)
		return 0;
	nvlab_look(gpu, &scene);
	if (place < 0 || !nvlab_may_move(&scene, vgpu->type, place))
		return -EIO;
	vgpu->placement = place;
	return 0;
}

/* What loading the driver again does, for tests. Under no lock. */
void nvlab_forget_lost(void)
{
	struct nvlab_vgpu *vgpu, *next;
	unsigned int i;

	mutex_lock(&nvlab_lock);
	for (i = 0; i < nvlab_nr_gpus; i++) {
		list_for_each_entry_safe(vgpu, next, &nvlab_gpus[i].vgpus, node)
			if (vgpu->lost && !vgpu->plugins)
				nvlab_end_vgpu(vgpu);
		if (list_empty(&nvlab_gpus[i].vgpus))
			nvlab_gpus[i].mixed = false;
	}
	mutex_unlock(&nvlab_lock);
}

/* Waits for whoever sleeps with the list's lock. */
void nvlab_pass(void)
{
	mutex_lock(&nvlab_list);
	mutex_unlock(&nvlab_list);
}

/* A read of what takes the vGPU's own lock: while it is being closed it sleeps, and whoever passes waits for it. */
ssize_t nvlab_tell(struct nvlab_vgpu *vgpu, char *buf, ssize_t (*tell)(struct nvlab_vgpu *vgpu, char *buf))
{
	ssize_t length;

	mutex_lock(&nvlab_list);
	mutex_lock(&vgpu->ops);
	mutex_lock(&nvlab_lock);
	length = tell(vgpu, buf);
	mutex_unlock(&nvlab_lock);
	mutex_unlock(&vgpu->ops);
	mutex_unlock(&nvlab_list);
	return length;
}

/* A write to vgpu_params: taken only while no VM holds the vGPU, and without its last byte. */
int nvlab_set_params(struct nvlab_vgpu *vgpu, const char *text, size_t count)
{
	if (!vgpu)
		return -ENXIO;
	if (vgpu->held)
		return -EPERM;
	strscpy(vgpu->params, text, count);
	return 0;
}
