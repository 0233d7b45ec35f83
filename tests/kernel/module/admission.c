// SPDX-License-Identifier: GPL-2.0-only
/* What the driver admits, as vgpumgr/lab/driver/admission.py has it, and the list of the vGPUs that exist. */
#include <linux/delay.h>
#include <linux/slab.h>

#include "nvlab.h"

#define MAX_TIME_SLICED 32 /* per GPU without MIG */
#define FIRST_INSTANCE 3251634176ULL /* NVML's handles start high; any number that is not an index will do */

static u64 next_instance = FIRST_INSTANCE;

void nvlab_slow(void)
{
	if (nvlab_options.slow_ms)
		msleep(nvlab_options.slow_ms);
}

static bool other_size(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	struct nvlab_vgpu *vgpu;

	if (nvlab_options.mixed)
		return false;
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (vgpu->type->fb_mib != type->fb_mib)
			return true;
	return false;
}

/* How many more of this type the whole GPU takes now, VFs aside. Of mixed sizes: what the framebuffer has room for. */
unsigned int nvlab_instances_left(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	unsigned int most = min_t(unsigned int, type->max, MAX_TIME_SLICED), count = 0, used_mib = 0;
	struct nvlab_vgpu *vgpu;

	if (other_size(gpu, type))
		return 0;
	list_for_each_entry(vgpu, &gpu->vgpus, node) {
		count++;
		used_mib += vgpu->type->fb_mib;
	}
	if (!nvlab_options.mixed)
		return count < most ? most - count : 0;
	if (used_mib >= gpu->card->fb_mib || count >= MAX_TIME_SLICED)
		return 0;
	return min3(most, (gpu->card->fb_mib - used_mib) / type->fb_mib, MAX_TIME_SLICED - count);
}

enum nvlab_refusal nvlab_refusal(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type)
{
	struct nvlab_vgpu *vgpu;

	if (vf >= 0)
		list_for_each_entry(vgpu, &gpu->vgpus, node)
			if (vgpu->vf == vf)
				return NVLAB_VF_TAKEN;
	if (other_size(gpu, type))
		return NVLAB_OTHER_SIZE;
	return nvlab_instances_left(gpu, type) ? NVLAB_ADMITTED : NVLAB_FULL;
}

/* `available_instances`: how many on the PF, 0 or 1 on a VF. */
unsigned int nvlab_available(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type)
{
	if (vf < 0)
		return nvlab_instances_left(gpu, type);
	return nvlab_refusal(gpu, vf, type) == NVLAB_ADMITTED;
}

/* Whether some function of the GPU would take it: what NVML lists as creatable. */
bool nvlab_creatable(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	struct nvlab_vgpu *vgpu;
	unsigned int count = 0;

	if (gpu->card->framework == NVLAB_MDEV_PF)
		return nvlab_instances_left(gpu, type);
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		count++;
	return count < nvlab_enabled_vfs(gpu) && nvlab_instances_left(gpu, type);
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

static bool placement_taken(struct nvlab_gpu *gpu, int placement)
{
	struct nvlab_vgpu *vgpu;

	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (vgpu->placement == placement)
			return true;
	return false;
}

/* The lowest free multiple of the type's size in GiB. (With mixed sizes real cards have fewer places than that.) */
static int free_placement(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	int size = max_t(int, 1, type->fb_mib / 1024), placement = 0;

	if (!gpu->card->placements)
		return -1;
	while (placement_taken(gpu, placement))
		placement += size;
	return placement;
}

/* A vGPU that was admitted; NULL without memory. */
struct nvlab_vgpu *nvlab_make_vgpu(struct nvlab_gpu *gpu, int vf, const struct nvlab_type *type)
{
	struct nvlab_vgpu *vgpu = kzalloc(sizeof(*vgpu), GFP_KERNEL);

	if (!vgpu)
		return NULL;
	mutex_init(&vgpu->ops);
	vgpu->type = type;
	vgpu->vf = vf;
	while (number_taken(vgpu->number))
		vgpu->number++;
	vgpu->instance = next_instance++;
	vgpu->placement = free_placement(gpu, type);
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

/* What loading the driver again does, for tests. Under no lock. */
void nvlab_forget_lost(void)
{
	struct nvlab_vgpu *vgpu, *next;
	unsigned int i;

	mutex_lock(&nvlab_lock);
	for (i = 0; i < nvlab_nr_gpus; i++)
		list_for_each_entry_safe(vgpu, next, &nvlab_gpus[i].vgpus, node)
			if (vgpu->lost && !vgpu->plugins)
				nvlab_end_vgpu(vgpu);
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
