// SPDX-License-Identifier: GPL-2.0-only
/* What QEMU opens: a PCI endpoint with a configuration space and no more. A guest sees a card that it cannot drive. */
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vfio.h>

#include "nvlab.h"

#define REGION_SHIFT 40 /* as vfio-pci: the region's index stands above its offset */
#define CONFIG_AT ((loff_t)VFIO_PCI_CONFIG_REGION_INDEX << REGION_SHIFT)

static struct nvlab_vfio *ours(struct vfio_device *vdev)
{
	return container_of(vdev, struct nvlab_vfio, vdev);
}

/* Like the real driver, which finds out whom it serves: the opener's command line says it. */
static int open_device(struct vfio_device *vdev)
{
	struct nvlab_vfio *vfio = ours(vdev);
	char *name = NULL, *uuid = NULL;
	int ret = 0;

	nvlab_read_opener(&name, &uuid);
	mutex_lock(&nvlab_lock);
	if (vfio->vgpu) {
		vfio->vgpu->held = true;
		swap(vfio->vgpu->vm_name, name);
		swap(vfio->vgpu->vm_uuid, uuid);
		memcpy(vfio->config, vfio->gpu->card->config, NVLAB_CONFIG_BYTES);
	} else {
		ret = -ENODEV; /* a VF without a type */
	}
	mutex_unlock(&nvlab_lock);
	kfree(name);
	kfree(uuid);
	return ret;
}

/* The real driver waits here for its plugin's answer, up to 25 s, with the vGPU's own lock; nothing ends that sleep. */
static void close_device(struct vfio_device *vdev)
{
	struct nvlab_vgpu *vgpu = ours(vdev)->vgpu; /* cannot go while it is held */

	mutex_lock(&vgpu->ops);
	mutex_lock(&nvlab_lock);
	kfree(vgpu->vm_name);
	kfree(vgpu->vm_uuid);
	vgpu->vm_name = NULL;
	vgpu->vm_uuid = NULL;
	mutex_unlock(&nvlab_lock);
	if (nvlab_options.close_ms)
		msleep(nvlab_options.close_ms);
	mutex_lock(&nvlab_lock);
	vgpu->held = false;
	mutex_unlock(&vgpu->ops); /* before the lock that keeps it from being freed */
	mutex_unlock(&nvlab_lock);
}

/* The part of a read or write that lies in the configuration space; 0 where none does. */
static size_t part_within(loff_t at, size_t count)
{
	loff_t offset = at - CONFIG_AT;

	if (offset < 0 || offset >= PCI_CFG_SPACE_EXP_SIZE)
		return 0;
	return min_t(size_t, count, PCI_CFG_SPACE_EXP_SIZE - offset);
}

static ssize_t read(struct vfio_device *vdev, char __user *buf, size_t count, loff_t *at)
{
	size_t part = part_within(*at, count);

	if (!part || READ_ONCE(ours(vdev)->dead))
		return -EINVAL;
	if (copy_to_user(buf, ours(vdev)->config + (*at - CONFIG_AT), part))
		return -EFAULT;
	*at += part;
	return part;
}

/* Only the command register keeps what is written. */
static ssize_t write(struct vfio_device *vdev, const char __user *buf, size_t count, loff_t *at)
{
	size_t part = part_within(*at, count), i;
	loff_t offset = *at - CONFIG_AT;

	if (!part || READ_ONCE(ours(vdev)->dead))
		return -EINVAL;
	for (i = 0; i < part; i++) {
		u8 byte;

		if (copy_from_user(&byte, buf + i, 1))
			return -EFAULT;
		if (offset + i == PCI_COMMAND || offset + i == PCI_COMMAND + 1)
			ours(vdev)->config[offset + i] = byte;
	}
	*at += part;
	return part;
}

static long get_info(void __user *arg)
{
	struct vfio_device_info info;
	const size_t size = offsetofend(struct vfio_device_info, num_irqs);

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long get_region_info(void __user *arg)
{
	struct vfio_region_info info;
	const size_t size = offsetofend(struct vfio_region_info, offset);

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_REGIONS)
		return -EINVAL;
	info.cap_offset = 0;
	info.offset = (u64)info.index << REGION_SHIFT;
	info.size = 0;
	info.flags = 0;
	if (info.index == VFIO_PCI_CONFIG_REGION_INDEX) {
		info.size = PCI_CFG_SPACE_EXP_SIZE;
		info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
	}
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long get_irq_info(void __user *arg)
{
	struct vfio_irq_info info;
	const size_t size = offsetofend(struct vfio_irq_info, count);

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	info.flags = 0;
	info.count = 0;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long ioctl(struct vfio_device *vdev, unsigned int command, unsigned long arg)
{
	if (READ_ONCE(ours(vdev)->dead))
		return -EINVAL;
	switch (command) {
	case VFIO_DEVICE_GET_INFO:
		return get_info((void __user *)arg);
	case VFIO_DEVICE_GET_REGION_INFO:
		return get_region_info((void __user *)arg);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return get_irq_info((void __user *)arg);
	case VFIO_DEVICE_SET_IRQS:
		return -EINVAL; /* there are none */
	case VFIO_DEVICE_RESET:
		return 0;
	default:
		return -ENOTTY;
	}
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
static void release(struct vfio_device *vdev)
{
	vfio_free_device(vdev); /* later kernels do it themselves */
}
#endif

static const struct vfio_device_ops vfio_ops = {
	.name = "nvidia-vgpu-vfio",
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	.release = release,
#else
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
#endif
	.open_device = open_device,
	.close_device = close_device,
	.read = read,
	.write = write,
	.ioctl = ioctl,
};

/* Not yet registered; vfio_put_device() ends it. An ERR_PTR() without memory. */
struct nvlab_vfio *nvlab_vfio_alloc(struct device *dev, struct nvlab_gpu *gpu)
{
	struct nvlab_vfio *vfio = vfio_alloc_device(nvlab_vfio, vdev, dev, &vfio_ops);

	if (!IS_ERR(vfio)) {
		vfio->gpu = gpu;
		mutex_init(&vfio->writing);
	}
	return vfio;
}
