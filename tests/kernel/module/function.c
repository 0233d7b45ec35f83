// SPDX-License-Identifier: GPL-2.0-only
/* The PCI driver `nvidia`: what binding to a PF or a VF brings, now or late, and what it takes to enable VFs. */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "nvlab.h"

static void show(struct nvlab_function *function)
{
	int ret;

	if (nvlab_framework(function->gpu) == NVLAB_VENDOR_VFIO)
		ret = nvlab_show_vendor_files(function);
	else
		ret = nvlab_show_mdev_types(function);
	if (ret)
		pci_err(function->pdev, "no vGPUs here: %d\n", ret);
	function->shown = !ret;
}

static void appear(struct work_struct *work)
{
	show(container_of(to_delayed_work(work), struct nvlab_function, appear));
}

static bool makes_vgpus(const struct nvlab_function *function)
{
	return (nvlab_framework(function->gpu) == NVLAB_MDEV_PF) == (function->vf < 0);
}

static void set_bound(struct nvlab_gpu *gpu, bool bound)
{
	mutex_lock(&nvlab_lock);
	gpu->bound = bound;
	mutex_unlock(&nvlab_lock);
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct nvlab_gpu *gpu = nvlab_gpu_of(pdev);
	struct nvlab_function *function;
	int ret;

	if (!gpu)
		return -ENODEV;
	function = kzalloc(sizeof(*function), GFP_KERNEL);
	if (!function)
		return -ENOMEM;
	function->pdev = pdev;
	function->gpu = gpu;
	function->vf = pdev->is_virtfn ? pci_iov_vf_id(pdev) : -1;
	INIT_DELAYED_WORK(&function->appear, appear);
	pci_set_drvdata(pdev, function);
	if (!pdev->is_virtfn) {
		ret = pci_enable_device(pdev);
		if (ret) {
			kfree(function);
			return ret;
		}
		nvlab_add_proc_gpu(gpu);
		set_bound(gpu, true);
	}
	if (!makes_vgpus(function))
		return 0;
	if (pdev->is_virtfn && nvlab_options.late_vfs_ms)
		schedule_delayed_work(&function->appear, msecs_to_jiffies(nvlab_options.late_vfs_ms));
	else
		show(function);
	return 0;
}

static void remove(struct pci_dev *pdev)
{
	struct nvlab_function *function = pci_get_drvdata(pdev);

	cancel_delayed_work_sync(&function->appear);
	if (function->shown && nvlab_framework(function->gpu) == NVLAB_VENDOR_VFIO)
		nvlab_hide_vendor_files(function);
	else if (function->shown)
		nvlab_hide_mdev_types(function);
	if (!pdev->is_virtfn) {
		pci_disable_sriov(pdev);
		set_bound(function->gpu, false);
		nvlab_remove_proc_gpu(function->gpu);
		pci_disable_device(pdev);
	}
	kfree(function);
}

/*
 * A write to sriov_numvfs. NVIDIA's driver has no such call: its sriov-manage gets unbindLock and binds the card to
 * pci-pf-stub. Here there is one while an unbindLock is given (nvlab_allow_vfs()), and so no pci-pf-stub.
 */
static int configure_vfs(struct pci_dev *pdev, int count)
{
	struct nvlab_gpu *gpu = nvlab_gpu_of(pdev);
	int ret;

	mutex_lock(&nvlab_lock);
	ret = gpu->unbind_locked ? 0 : -ENOENT;
	mutex_unlock(&nvlab_lock);
	if (ret)
		return ret;
	mutex_lock(&nvlab_lock);
	gpu->mixed = false; /* sriov-manage ends it, whichever way it goes, and GPU instances, too */
	nvlab_forget_instances(gpu);
	mutex_unlock(&nvlab_lock);
	if (count == 0) {
		pci_disable_sriov(pdev);
		return 0;
	}
	ret = pci_enable_sriov(pdev, count);
	return ret ? ret : count;
}

static const struct pci_device_id ids[] = {
	{ .vendor = PCI_VENDOR_ID_NVIDIA, .device = PCI_ANY_ID, .subvendor = PCI_ANY_ID, .subdevice = PCI_ANY_ID,
	  .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0 },
	{}
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = {
	.name = "nvidia",
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

void nvlab_allow_vfs(bool allowed)
{
	driver.sriov_configure = allowed ? configure_vfs : NULL;
}

int nvlab_register_pci(void)
{
	return pci_register_driver(&driver);
}

void nvlab_unregister_pci(void)
{
	pci_unregister_driver(&driver);
}
