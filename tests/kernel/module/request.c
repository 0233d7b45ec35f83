// SPDX-License-Identifier: GPL-2.0-only
/* What NVML's library and nvidia-smi ask to be changed: a line each, as vgpumgr/lab/nvml/request.py describes them. */
#include <linux/string.h>

#include "nvlab.h"

/* What a line says. `start` is -1, `on` 2 and every other number 0 where the line has none. */
struct order {
	const char *pci;
	unsigned int engine, policy, on, profile, instance, serial;
	int start;
};

/* Under nvlab_lock. The driver refuses while a VM or its plugin is there, and some do for idle vGPUs, too. */
static int set_policy(struct nvlab_gpu *gpu, unsigned int engine, unsigned int policy)
{
	struct nvlab_vgpu *vgpu;
	unsigned int i;

	if (gpu->mig)
		return -EOPNOTSUPP;
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (vgpu->held || vgpu->plugins || (nvlab_options.scheduler_counts_idle && !vgpu->lost))
			return -EOPNOTSUPP;
	if (policy < NVLAB_BEST_EFFORT || policy > NVLAB_FIXED_SHARE)
		return -EOPNOTSUPP;
	if (gpu->mixed && policy == NVLAB_FIXED_SHARE)
		return -EOPNOTSUPP;
	if (engine >= NVLAB_ENGINES || (engine && !(gpu->card->engines & BIT(engine))))
		return -EOPNOTSUPP;
	for (i = 0; i < NVLAB_ENGINES; i++)
		if (!engine || i == engine)
			gpu->policy[i] = policy;
	return 0;
}

/* Slices and frequencies of a scheduler are not kept; without an engine all of them are meant. */
static int scheduler(struct nvlab_gpu *gpu, const struct order *order)
{
	return set_policy(gpu, order->engine, order->policy);
}

static int mixed(struct nvlab_gpu *gpu, const struct order *order)
{
	return order->on > 1 ? -EINVAL : nvlab_set_mixed(gpu, order->on);
}

static int mig(struct nvlab_gpu *gpu, const struct order *order)
{
	return order->on > 1 ? -EINVAL : nvlab_set_mig(gpu, order->on);
}

static int reset(struct nvlab_gpu *gpu, const struct order *order)
{
	return nvlab_reset(gpu);
}

static int create_instance(struct nvlab_gpu *gpu, const struct order *order)
{
	return nvlab_create_instance(gpu, order->profile, order->start);
}

static int create_compute(struct nvlab_gpu *gpu, const struct order *order)
{
	return nvlab_create_compute(gpu, order->instance, order->profile);
}

static int destroy_instance(struct nvlab_gpu *gpu, const struct order *order)
{
	return nvlab_destroy_instance(gpu, order->serial);
}

static int destroy_compute(struct nvlab_gpu *gpu, const struct order *order)
{
	return nvlab_destroy_compute(gpu, order->serial);
}

static const struct {
	const char *word;
	int (*obey)(struct nvlab_gpu *gpu, const struct order *order);
} orders[] = {
	{ "scheduler", scheduler },
	{ "mixed", mixed },
	{ "mig", mig },
	{ "reset", reset },
	{ "create-instance", create_instance },
	{ "create-compute", create_compute },
	{ "destroy-instance", destroy_instance },
	{ "destroy-compute", destroy_compute },
};

/* KEY=VALUE; keys that nothing here needs are let pass. */
static int take(struct order *order, char *word)
{
	const struct {
		const char *key;
		unsigned int *number;
	} numbers[] = {
		{ "engine", &order->engine },	{ "policy", &order->policy },	  { "on", &order->on },
		{ "profile", &order->profile }, { "instance", &order->instance }, { "serial", &order->serial },
	};
	const char *key = strsep(&word, "=");
	unsigned int i;

	if (!word)
		return 0;
	if (!strcmp(key, "pci")) {
		order->pci = word;
		return 0;
	}
	if (!strcmp(key, "start"))
		return kstrtoint(word, 10, &order->start) || order->start < 0 ? -EINVAL : 0;
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(key, numbers[i].key))
			return kstrtouint(word, 10, numbers[i].number) ? -EINVAL : 0;
	return 0;
}

/* The line is taken apart. Returns 0, or the driver's refusal as an errno. */
int nvlab_obey(char *line)
{
	struct order order = { .pci = "", .on = 2, .start = -1 };
	char *word = strsep(&line, " ");
	unsigned int i, which;
	int ret = -ENODEV;

	for (which = 0; which < ARRAY_SIZE(orders); which++)
		if (!strcmp(word, orders[which].word))
			break;
	if (which == ARRAY_SIZE(orders))
		return -EINVAL;
	while ((word = strsep(&line, " ")))
		if (take(&order, word))
			return -EINVAL;
	mutex_lock(&nvlab_lock);
	for (i = 0; i < nvlab_nr_gpus; i++)
		if (nvlab_gpus[i].bound && !strcmp(nvlab_gpus[i].card->pci, order.pci))
			ret = orders[which].obey(&nvlab_gpus[i], &order);
	mutex_unlock(&nvlab_lock);
	return ret;
}
