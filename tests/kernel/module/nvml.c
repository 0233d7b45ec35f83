// SPDX-License-Identifier: GPL-2.0-only
/* The driver's state for the mock libnvidia-ml and nvidia-smi: the text that vgpumgr/lab/nvml/state.py describes. */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "nvlab.h"

#define TICK_US 500000ULL
#define LINE_BYTES 512
/* What a GPU tells with up to eight vGPUs of a type and nothing asked for (vgpumgr/lab/driver/scheduler.py). */
#define ARR_ON 2
#define FACTOR 33
#define SLICE_NS 2083333
#define WITH_MIG "temperature=" /* where the rest of a GPU's line begins in MIG mode, in which NVML has no utilization */

static struct dentry *folder;

/* One blank-free ASCII token. */
static void put_escaped(struct seq_file *file, const char *text)
{
	const unsigned char *at;

	for (at = (const unsigned char *)text; *at; at++)
		if (*at > ' ' && *at < 0x7f && *at != '%')
			seq_putc(file, *at);
		else
			seq_printf(file, "%%%02X", *at);
}

static void put_driver(struct seq_file *file)
{
	u64 now_us = div_u64(ktime_get_real_ns(), NSEC_PER_USEC);

	seq_printf(file, "%s newest=%llu tick=%llu\n", nvlab_driver_line, div_u64(now_us, TICK_US) * TICK_US, TICK_US);
}

static void put_vgpu(struct seq_file *file, unsigned int index, const struct nvlab_vgpu *vgpu)
{
	seq_printf(file, "vgpu gpu=%u instance=%llu type=%u uuid=%pUb", index, vgpu->instance, vgpu->type->id,
		   &vgpu->own_uuid);
	if (vgpu->mdev[0])
		seq_printf(file, " mdev=%s", vgpu->mdev);
	if (vgpu->placement >= 0)
		seq_printf(file, " placement=%d", vgpu->placement);
	if (vgpu->gpu_instance >= 0)
		seq_printf(file, " gpu_instance=%d", vgpu->gpu_instance);
	seq_puts(file, " fb_used=0");
	if (vgpu->vm_uuid) {
		seq_puts(file, " vm_uuid=");
		put_escaped(file, vgpu->vm_uuid);
	}
	if (vgpu->vm_name) {
		seq_puts(file, " vm_name=");
		put_escaped(file, vgpu->vm_name);
	}
	seq_putc(file, '\n');
}

/* While no VM runs nothing is scheduled, and the driver tells the policy alone; nor is there more to best effort. */
static void put_scheduler(struct seq_file *file, unsigned int index, struct nvlab_gpu *gpu)
{
	unsigned int engine;

	seq_printf(file, "caps gpu=%u %s\n", index, gpu->card->nvml_caps);
	for (engine = 0; engine < NVLAB_ENGINES; engine++) {
		bool active = nvlab_any_held(gpu) && gpu->policy[engine] != NVLAB_BEST_EFFORT;

		if (gpu->card->engines & BIT(engine))
			seq_printf(file, "scheduler gpu=%u engine=%u policy=%u arr=%u factor=%u slice=%u\n", index, engine,
				   gpu->policy[engine], active ? ARR_ON : 0, active ? FACTOR : 0, active ? SLICE_NS : 0);
	}
}

static void put_ids(struct seq_file *file, const char *key, const unsigned int *ids, unsigned int count)
{
	unsigned int i;

	seq_printf(file, " %s=", key);
	for (i = 0; i < count; i++)
		seq_printf(file, i ? ",%u" : "%u", ids[i]);
}

/* The places of all types of one size and maximum, once; free are those of the GPU's own mode. */
static void put_places(struct seq_file *file, unsigned int index, struct nvlab_gpu *gpu)
{
	const struct nvlab_card *card = gpu->card;
	unsigned int ids[NVLAB_MOST_PLACES], count, i, j, free;
	struct nvlab_scene scene;

	nvlab_look(gpu, &scene);
	for (i = 0; i < card->nr_types; i++) {
		const struct nvlab_type *type = &card->types[i];

		if (type->profile >= 0)
			continue;
		for (j = 0; j < i; j++)
			if (card->types[j].fb_mib == type->fb_mib && card->types[j].max == type->max)
				break;
		if (j < i)
			continue;
		seq_printf(file, "places gpu=%u fb_mib=%u max=%u size=%u", index, type->fb_mib, type->max,
			   nvlab_slots(card, type));
		put_ids(file, "mixed", ids, nvlab_places(card, type, true, ids));
		if (card->placements)
			put_ids(file, "equal", ids, nvlab_places(card, type, false, ids));
		if (nvlab_numbers_places(card, gpu->mixed)) {
			count = nvlab_left(&scene, type) ? nvlab_places(card, type, gpu->mixed, ids) : 0;
			for (j = 0, free = 0; j < count; j++)
				if (nvlab_is_free(&scene, type, ids[j]))
					ids[free++] = ids[j];
			put_ids(file, "free", ids, free);
		}
		seq_putc(file, '\n');
	}
}

static void put_gpu(struct seq_file *file, unsigned int index, struct nvlab_gpu *gpu)
{
	const struct nvlab_card *card = gpu->card;
	struct nvlab_vgpu *vgpu;
	unsigned int used_mib = 0, i;

	list_for_each_entry(vgpu, &gpu->vgpus, node)
		used_mib += vgpu->held && !vgpu->lost ? vgpu->type->fb_mib : 0;
	seq_printf(file, "gpu index=%u %s used_mib=%u %s", index, card->nvml_before_used, min(used_mib, card->fb_mib),
		   gpu->mig ? strstr(card->nvml_after_used, WITH_MIG) : card->nvml_after_used);
	if (card->nr_profiles)
		seq_printf(file, " mig=%d mig_pending=%d", gpu->mig, gpu->mig_pending);
	if (card->vfs && !gpu->mig)
		seq_printf(file, " hetero=%d", gpu->mixed);
	seq_putc(file, '\n');
	for (i = 0; i < card->nr_types; i++)
		seq_printf(file, "type gpu=%u creatable=%d %s\n", index, nvlab_creatable(gpu, &card->types[i]),
			   card->types[i].nvml);
	nvlab_put_mig(file, index, gpu);
	if (!gpu->mig)
		put_scheduler(file, index, gpu);
	if (card->vfs && !gpu->mig)
		put_places(file, index, gpu);
	list_for_each_entry(vgpu, &gpu->vgpus, node)
		if (!vgpu->lost)
			put_vgpu(file, index, vgpu);
}

/* nvml_fail: FUNCTION:CODE[:PCI], several with blanks or commas between them. */
static void put_fails(struct seq_file *file)
{
	char text[NVLAB_FAILS_BYTES], *rest = text, *pci;

	kernel_param_lock(THIS_MODULE);
	strscpy(text, nvlab_options.nvml_fail, sizeof(text));
	kernel_param_unlock(THIS_MODULE);
	while ((pci = strsep(&rest, ", \t\n"))) {
		const char *function = strsep(&pci, ":");
		const char *code = strsep(&pci, ":");

		if (!code)
			continue;
		seq_printf(file, "fail function=%s code=%s", function, code);
		if (pci)
			seq_printf(file, " pci=%s", pci);
		seq_putc(file, '\n');
	}
}

/* The kernel makes the whole text at the first read, so that a reader has one moment however it reads. */
static int show(struct seq_file *file, void *unused)
{
	unsigned int i, index = 0;

	seq_puts(file, "nvlab 1\n");
	put_driver(file);
	mutex_lock(&nvlab_lock);
	for (i = 0; i < nvlab_nr_gpus; i++)
		if (nvlab_gpus[i].bound)
			put_gpu(file, index++, &nvlab_gpus[i]);
	mutex_unlock(&nvlab_lock);
	put_fails(file);
	seq_puts(file, "end\n");
	return 0;
}

static int open(struct inode *inode, struct file *file)
{
	return single_open(file, show, NULL);
}

static ssize_t write(struct file *file, const char __user *buf, size_t count, loff_t *at)
{
	char *text;
	int ret;

	if (count > LINE_BYTES)
		return -EINVAL;
	text = memdup_user_nul(buf, count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	ret = nvlab_obey(strim(text));
	kfree(text);
	return ret ? ret : count;
}

static const struct file_operations nvml_ops = {
	.owner = THIS_MODULE,
	.open = open,
	.read = seq_read,
	.write = write,
	.llseek = seq_lseek,
	.release = single_release,
};

void nvlab_add_nvml(void)
{
	folder = debugfs_create_dir("nvlab", NULL);
	debugfs_create_file("nvml", 0644, folder, NULL, &nvml_ops);
}

void nvlab_remove_nvml(void)
{
	debugfs_remove(folder);
}
