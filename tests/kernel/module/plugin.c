// SPDX-License-Identifier: GPL-2.0-only
/* Each vGPU's character device, which its plugin, a process of nvidia-vgpu-mgr, makes a node for and has open. */
#include <linux/cdev.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/module.h>

#include "nvlab.h"

#define NAP_MS 20
#define PLUGIN_WAIT_MS 5000

static dev_t first;
static struct cdev device;

static struct nvlab_vgpu *find(unsigned int number)
{
	struct nvlab_vgpu *vgpu;
	unsigned int i;

	for (i = 0; i < nvlab_nr_gpus; i++)
		list_for_each_entry(vgpu, &nvlab_gpus[i].vgpus, node)
			if (vgpu->number == number && !vgpu->lost)
				return vgpu;
	return NULL;
}

static int open(struct inode *inode, struct file *file)
{
	struct nvlab_vgpu *vgpu;

	mutex_lock(&nvlab_lock);
	vgpu = find(iminor(inode));
	if (vgpu)
		vgpu->plugins++;
	mutex_unlock(&nvlab_lock);
	file->private_data = vgpu;
	return vgpu ? 0 : -ENODEV;
}

static int release(struct inode *inode, struct file *file)
{
	struct nvlab_vgpu *vgpu = file->private_data;

	mutex_lock(&nvlab_lock);
	vgpu->plugins--;
	mutex_unlock(&nvlab_lock);
	return 0;
}

/* Whether no plugin has it any more, now or after some seconds. A vGPU that some plugin has is never freed. */
bool nvlab_await_plugins(struct nvlab_vgpu *vgpu)
{
	unsigned long end = jiffies + msecs_to_jiffies(PLUGIN_WAIT_MS);

	while (READ_ONCE(vgpu->plugins)) {
		if (time_after(jiffies, end))
			return false;
		msleep(NAP_MS);
	}
	return true;
}

static const struct file_operations plugin_ops = {
	.owner = THIS_MODULE,
	.open = open,
	.release = release,
};

int nvlab_add_plugins(void)
{
	int ret = alloc_chrdev_region(&first, 0, NVLAB_MOST_VGPUS, "nvidia-vgpu-vfio");

	if (ret)
		return ret;
	cdev_init(&device, &plugin_ops);
	device.owner = THIS_MODULE;
	ret = cdev_add(&device, first, NVLAB_MOST_VGPUS);
	if (ret)
		unregister_chrdev_region(first, NVLAB_MOST_VGPUS);
	return ret;
}

void nvlab_remove_plugins(void)
{
	cdev_del(&device);
	unregister_chrdev_region(first, NVLAB_MOST_VGPUS);
}
