// SPDX-License-Identifier: GPL-2.0-only
/* /proc/driver/nvidia, as vgpumgr/lab/sysfs/proc_driver.py has it, and unbindLock, which sriov-manage needs. */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "nvlab.h"

static struct proc_dir_entry *top, *gpus;

static int show_text(struct seq_file *file, void *unused)
{
	seq_puts(file, file->private);
	return 0;
}

static int show_params(struct seq_file *file, void *unused)
{
	seq_puts(file, "ResmanDebugLevel: 4294967295\n");
	seq_printf(file, "RegistryDwords: \"%s\"\n", nvlab_options.registry_dwords);
	seq_printf(file, "RegistryDwordsPerDevice: \"%s\"\n", nvlab_options.registry_dwords_per_device);
	return 0;
}

static int unbind_lock_show(struct seq_file *file, void *unused)
{
	struct nvlab_gpu *gpu = file->private;

	mutex_lock(&nvlab_lock);
	seq_printf(file, "%d\n", gpu->unbind_locked);
	mutex_unlock(&nvlab_lock);
	return 0;
}

static int unbind_lock_open(struct inode *inode, struct file *file)
{
	return single_open(file, unbind_lock_show, pde_data(inode));
}

static bool any_unbind_locked(void)
{
	unsigned int i;

	for (i = 0; i < nvlab_nr_gpus; i++)
		if (nvlab_gpus[i].unbind_locked)
			return true;
	return false;
}

/* A write is always taken; only reading tells who got the lock (nv-procfs.c in open-gpu-kernel-modules). */
static ssize_t unbind_lock_write(struct file *file, const char __user *buf, size_t count, loff_t *at)
{
	struct nvlab_gpu *gpu = pde_data(file_inode(file));
	unsigned int wanted;
	int ret = kstrtouint_from_user(buf, count, 10, &wanted);

	if (ret)
		return ret;
	mutex_lock(&nvlab_lock);
	if (!wanted)
		gpu->unbind_locked = false;
	else if (!nvlab_options.unbind_busy && !nvlab_any_held(gpu))
		gpu->unbind_locked = true;
	nvlab_allow_vfs(any_unbind_locked());
	mutex_unlock(&nvlab_lock);
	return count;
}

static const struct proc_ops unbind_lock_ops = {
	.proc_open = unbind_lock_open,
	.proc_read = seq_read,
	.proc_write = unbind_lock_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static void add_text(const char *name, struct proc_dir_entry *folder, const char *text)
{
	proc_create_single_data(name, 0444, folder, show_text, (void *)text);
}

void nvlab_add_proc_gpu(struct nvlab_gpu *gpu)
{
	gpu->proc = proc_mkdir(gpu->card->pci, gpus);
	if (!gpu->proc)
		return;
	add_text("information", gpu->proc, gpu->card->information);
	add_text("registry", gpu->proc, gpu->card->registry);
	proc_create_data("unbindLock", 0644, gpu->proc, &unbind_lock_ops, gpu);
}

void nvlab_remove_proc_gpu(struct nvlab_gpu *gpu)
{
	proc_remove(gpu->proc);
	gpu->proc = NULL;
}

int nvlab_add_proc(void)
{
	top = proc_mkdir("driver/nvidia", NULL);
	if (!top)
		return -ENOMEM;
	add_text("version", top, nvlab_proc_version);
	proc_create_single("params", 0444, top, show_params);
	gpus = proc_mkdir("gpus", top);
	return 0;
}

void nvlab_remove_proc(void)
{
	proc_remove(top);
}
