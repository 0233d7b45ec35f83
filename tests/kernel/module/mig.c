// SPDX-License-Identifier: GPL-2.0-only
/*
 * MIG mode: GPU and compute instances, their ids, and which instance a vGPU is given. The rules are those of
 * vgpumgr/lab/driver/mig.py and instances.py, where their sources are named. All of it under nvlab_lock.
 */
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "nvlab.h"

#define MOST_VGPUS 48 /* MAX_VGPU_DEVICES_PER_PGPU */
#define MOST_LEAVES 8 /* of the tree of ids: the eighths of a board with seven slices */

static const unsigned int compute_slices[] = { 1, 2, 3, 4, 7 }; /* by NVML_COMPUTE_INSTANCE_PROFILE_* */

static unsigned int next_serial = 1; /* of both kinds of instance */

static unsigned int end_of(const struct nvlab_instance *instance)
{
	return instance->start + instance->profile->size;
}

static const struct nvlab_profile *find_profile(const struct nvlab_card *card, unsigned int id)
{
	unsigned int i;

	for (i = 0; i < card->nr_profiles; i++)
		if (card->profiles[i].id == id)
			return &card->profiles[i];
	return NULL;
}

static struct nvlab_instance *find_instance(struct nvlab_gpu *gpu, unsigned int serial)
{
	struct nvlab_instance *instance;

	list_for_each_entry(instance, &gpu->instances, node)
		if (instance->serial == serial)
			return instance;
	return NULL;
}

static bool is_free(struct nvlab_gpu *gpu, const struct nvlab_profile *profile, unsigned int start)
{
	struct nvlab_instance *other;
	unsigned int same = 0;

	list_for_each_entry(other, &gpu->instances, node) {
		same += other->profile == profile;
		if (start < end_of(other) && other->start < start + profile->size)
			return false;
	}
	return same < profile->max;
}

/* How many more of it the GPU takes now. */
unsigned int nvlab_profile_left(struct nvlab_gpu *gpu, const struct nvlab_profile *profile)
{
	struct nvlab_instance *instance;
	unsigned int i, starts = 0, same = 0;

	for (i = 0; i < profile->nr_starts; i++)
		starts += is_free(gpu, profile, profile->starts[i]);
	list_for_each_entry(instance, &gpu->instances, node)
		same += instance->profile == profile;
	return min(starts, profile->max - same);
}

/* Whether the upper half of that branch has the lower id, by the instances in it; -1 if there are none. */
static int is_turned(struct nvlab_gpu *gpu, unsigned int number, unsigned int middle, unsigned int per_leaf)
{
	unsigned int low = 2 * number + 1, high = 2 * number + 2;
	struct nvlab_instance *instance;

	list_for_each_entry(instance, &gpu->instances, node) {
		unsigned int child = instance->id;

		while (child > high)
			child = (child - 1) / 2;
		if (child == low || child == high)
			return (instance->start / per_leaf >= middle) != (child == high);
	}
	return -1;
}

/* 0 is the whole GPU, 1 and 2 its halves, and so on; which id stands for which half is turned round by `flip`. */
static unsigned int new_id(struct nvlab_gpu *gpu, const struct nvlab_profile *profile, unsigned int start, bool flip)
{
	unsigned int width = gpu->card->mig_width == MOST_LEAVES ? MOST_LEAVES : MOST_LEAVES / 2;
	unsigned int per_leaf = gpu->card->mig_width / width;
	unsigned int leaves = profile->size / per_leaf, low = 0, number = 0;

	while (width > leaves) {
		bool upper;
		int turned;

		width /= 2;
		upper = start / per_leaf >= low + width;
		turned = is_turned(gpu, number, low + width, per_leaf);
		number = 2 * number + 1 + (upper != (turned < 0 ? flip : turned));
		low += upper ? width : 0;
	}
	return number;
}

/* A new instance has another id than the last one at its place had. */
static unsigned int other_id(struct nvlab_gpu *gpu, const struct nvlab_profile *profile, unsigned int at)
{
	unsigned int *past = &gpu->past_ids[profile - gpu->card->profiles][at]; /* one more than the id; 0: there was none */
	unsigned int id = new_id(gpu, profile, profile->starts[at], false);

	if (id + 1 == *past)
		id = new_id(gpu, profile, profile->starts[at], true);
	*past = id + 1;
	return id;
}

/* nvmlDeviceSetMigMode: only without VFs and vGPUs. Where a reset is needed the mode is pending until it. */
int nvlab_set_mig(struct nvlab_gpu *gpu, bool on)
{
	if (!gpu->card->nr_profiles)
		return -EOPNOTSUPP;
	if (nvlab_enabled_vfs(gpu) || !list_empty(&gpu->vgpus))
		return -EBUSY;
	gpu->mig_pending = on;
	if (gpu->mig != on && !gpu->card->mig_needs_reset) {
		gpu->mig = on;
		gpu->mixed = false;
		nvlab_forget_instances(gpu);
	}
	return 0;
}

/* nvidia-smi --gpu-reset */
int nvlab_reset(struct nvlab_gpu *gpu)
{
	if (nvlab_enabled_vfs(gpu) || !list_empty(&gpu->vgpus))
		return -EBUSY;
	gpu->mig = gpu->mig_pending;
	gpu->mixed = false;
	nvlab_forget_instances(gpu);
	return 0;
}

/* `start` is negative where the driver is to choose: the last place that is free. */
int nvlab_create_instance(struct nvlab_gpu *gpu, unsigned int profile_id, int start)
{
	const struct nvlab_profile *profile = find_profile(gpu->card, profile_id);
	unsigned int serial = next_serial++;
	struct nvlab_instance *made;
	int at;

	if (!gpu->mig)
		return -EOPNOTSUPP;
	if (!profile)
		return -EINVAL;
	for (at = (int)profile->nr_starts - 1; at >= 0; at--)
		if (start < 0 ? is_free(gpu, profile, profile->starts[at]) : (int)profile->starts[at] == start)
			break;
	if (at < 0)
		return start < 0 ? -ENOSPC : -EINVAL;
	if (!is_free(gpu, profile, profile->starts[at]))
		return -ENOSPC;
	made = kzalloc(sizeof(*made), GFP_KERNEL);
	if (!made)
		return -ENOMEM;
	made->serial = serial;
	made->profile = profile;
	made->start = profile->starts[at];
	made->id = other_id(gpu, profile, at);
	list_add_tail(&made->node, &gpu->instances);
	return 0;
}

static unsigned int vgpus_in(struct nvlab_gpu *gpu, const struct nvlab_instance *instance)
{
	struct nvlab_vgpu *vgpu;
	unsigned int count = 0;

	list_for_each_entry(vgpu, &gpu->vgpus, node)
		count += vgpu->gpu_instance == (int)instance->id;
	return count;
}

int nvlab_destroy_instance(struct nvlab_gpu *gpu, unsigned int serial)
{
	struct nvlab_instance *instance = find_instance(gpu, serial);

	if (!gpu->mig)
		return -EOPNOTSUPP;
	if (!instance)
		return -EINVAL;
	if (instance->nr_compute || vgpus_in(gpu, instance))
		return -EBUSY;
	list_del(&instance->node);
	kfree(instance);
	return 0;
}

static bool overlaps_compute(const struct nvlab_instance *instance, unsigned int start, unsigned int slices)
{
	unsigned int i;

	for (i = 0; i < instance->nr_compute; i++) {
		const struct nvlab_compute *other = &instance->compute[i];

		if (start < other->start + other->slices && other->start < start + slices)
			return true;
	}
	return false;
}

static bool has_compute(const struct nvlab_instance *instance, unsigned int id)
{
	unsigned int i;

	for (i = 0; i < instance->nr_compute; i++)
		if (instance->compute[i].id == id)
			return true;
	return false;
}

int nvlab_create_compute(struct nvlab_gpu *gpu, unsigned int serial, unsigned int profile_id)
{
	struct nvlab_instance *instance = find_instance(gpu, serial);
	unsigned int own = next_serial++, slices, start = 0, id = 0;

	if (!gpu->mig)
		return -EOPNOTSUPP;
	if (!instance)
		return -EINVAL;
	if (profile_id >= ARRAY_SIZE(compute_slices) || compute_slices[profile_id] > instance->profile->slices)
		return -EOPNOTSUPP;
	slices = compute_slices[profile_id];
	while (start + slices <= instance->profile->slices && overlaps_compute(instance, start, slices))
		start++;
	if (start + slices > instance->profile->slices)
		return -ENOSPC;
	while (has_compute(instance, id))
		id++;
	instance->compute[instance->nr_compute++] = (struct nvlab_compute){ own, id, start, profile_id, slices };
	return 0;
}

static bool any_held_in(struct nvlab_gpu *gpu, const struct nvlab_instance *instance)
{
	struct nvlab_vgpu *vgpu;

	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (vgpu->gpu_instance == (int)instance->id && (vgpu->held || vgpu->plugins))
			return true;
	return false;
}

int nvlab_destroy_compute(struct nvlab_gpu *gpu, unsigned int serial)
{
	struct nvlab_instance *instance;
	unsigned int i;

	if (!gpu->mig)
		return -EOPNOTSUPP;
	list_for_each_entry(instance, &gpu->instances, node)
		for (i = 0; i < instance->nr_compute; i++) {
			if (instance->compute[i].serial != serial)
				continue;
			if (any_held_in(gpu, instance))
				return -EBUSY;
			instance->nr_compute--;
			memmove(&instance->compute[i], &instance->compute[i + 1],
				(instance->nr_compute - i) * sizeof(instance->compute[0]));
			return 0;
		}
	return -EINVAL;
}

/* What no reset, rebinding or change of the mode leaves. */
void nvlab_forget_instances(struct nvlab_gpu *gpu)
{
	struct nvlab_instance *instance, *next;

	list_for_each_entry_safe(instance, next, &gpu->instances, node) {
		list_del(&instance->node);
		kfree(instance);
	}
}

/* How many more vGPUs of that type the instance takes. */
static unsigned int room_in(struct nvlab_gpu *gpu, const struct nvlab_instance *instance, const struct nvlab_type *type)
{
	unsigned int count = vgpus_in(gpu, instance);
	struct nvlab_vgpu *vgpu;

	if (type->profile < 0 || instance->profile != &gpu->card->profiles[type->profile])
		return 0;
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (vgpu->gpu_instance == (int)instance->id && vgpu->type->fb_mib != type->fb_mib)
			return 0;
	return count < type->per_instance ? type->per_instance - count : 0;
}

unsigned int nvlab_mig_room(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	unsigned int room = 0, count = 0;
	struct nvlab_instance *instance;
	struct nvlab_vgpu *vgpu;

	list_for_each_entry(vgpu, &gpu->vgpus, node)
		count++;
	list_for_each_entry(instance, &gpu->instances, node)
		room += room_in(gpu, instance, type);
	return count < MOST_VGPUS ? min(room, MOST_VGPUS - count) : 0;
}

/* The id of the instance that a new vGPU of that type gets: the lowest of those with room; -1 for none. */
int nvlab_choose_instance(struct nvlab_gpu *gpu, const struct nvlab_type *type)
{
	struct nvlab_instance *instance;
	int lowest = -1;

	list_for_each_entry(instance, &gpu->instances, node)
		if (room_in(gpu, instance, type) && (lowest < 0 || (int)instance->id < lowest))
			lowest = (int)instance->id;
	return lowest;
}

/* NVML's lines: the profiles with what is left of each, and the instances of both kinds. */
void nvlab_put_mig(struct seq_file *file, unsigned int index, struct nvlab_gpu *gpu)
{
	const struct nvlab_card *card = gpu->card;
	struct nvlab_instance *one;
	unsigned int i;

	for (i = 0; i < card->nr_profiles; i++)
		seq_printf(file, "profile gpu=%u %s left=%u %s\n", index, card->profiles[i].nvml_before_left,
			   nvlab_profile_left(gpu, &card->profiles[i]), card->profiles[i].nvml_after_left);
	list_for_each_entry(one, &gpu->instances, node) {
		seq_printf(file, "instance gpu=%u serial=%u id=%u profile=%u start=%u size=%u slices=%u\n", index, one->serial,
			   one->id, one->profile->id, one->start, one->profile->size, one->profile->slices);
		for (i = 0; i < one->nr_compute; i++)
			seq_printf(file, "compute gpu=%u instance=%u serial=%u id=%u profile=%u start=%u slices=%u\n", index,
				   one->serial, one->compute[i].serial, one->compute[i].id, one->compute[i].profile,
				   one->compute[i].start, one->compute[i].slices);
	}
}
