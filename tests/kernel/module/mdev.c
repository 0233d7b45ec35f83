// SPDX-License-Identifier: GPL-2.0-only
/* Mediated devices: the types of a function, making a device, removing it. The kernel's mdev core does the rest. */
#include <linux/module.h>
#include <linux/slab.h>

#include "nvlab.h"

static struct nvlab_mdev_type *our_type(struct mdev_type *type)
{
	return container_of(type, struct nvlab_mdev_type, type);
}

static unsigned int get_available(struct mdev_type *type)
{
	struct nvlab_mdev_type *ours = our_type(type);
	unsigned int available;

	mutex_lock(&nvlab_lock);
	available = nvlab_available(ours->function->gpu, ours->function->vf, ours->spec);
	mutex_unlock(&nvlab_lock);
	return available;
}

static ssize_t show_description(struct mdev_type *type, char *buf)
{
	return sysfs_emit(buf, "%s\n", our_type(type)->spec->description);
}

/* Whatever the driver refuses is EIO. The core's own EUSERS is for drivers without get_available. */
static int admit(struct nvlab_vfio *vfio, struct mdev_device *mdev)
{
	struct nvlab_mdev_type *type = our_type(mdev->type);
	int ret;

	mutex_lock(&nvlab_lock);
	ret = -(int)nvlab_options.create_errno;
	if (!ret && nvlab_refusal(vfio->gpu, type->function->vf, type->spec) != NVLAB_ADMITTED)
		ret = -EIO;
	if (!ret) {
		vfio->vgpu = nvlab_make_vgpu(vfio->gpu, type->function->vf, type->spec);
		if (vfio->vgpu)
			strscpy(vfio->vgpu->mdev, dev_name(&mdev->dev), sizeof(vfio->vgpu->mdev));
		else
			ret = -ENOMEM;
	}
	mutex_unlock(&nvlab_lock);
	if (ret)
		nvlab_log_refusal(dev_name(&mdev->dev), ret);
	return ret;
}

static void retire(struct nvlab_vfio *vfio, bool lost)
{
	mutex_lock(&nvlab_lock);
	if (lost || vfio->vgpu->plugins)
		nvlab_lose_vgpu(vfio->vgpu);
	else
		nvlab_end_vgpu(vfio->vgpu);
	vfio->vgpu = NULL;
	mutex_unlock(&nvlab_lock);
}

static int probe(struct mdev_device *mdev)
{
	struct nvlab_vfio *vfio = nvlab_vfio_alloc(&mdev->dev, our_type(mdev->type)->function->gpu);
	int ret;

	if (IS_ERR(vfio))
		return PTR_ERR(vfio);
	nvlab_slow();
	nvlab_pass();
	ret = admit(vfio, mdev);
	if (ret)
		goto put;
	dev_set_drvdata(&mdev->dev, vfio);
	ret = vfio_register_emulated_iommu_dev(&vfio->vdev);
	if (ret)
		goto retire;
	return 0;

retire:
	retire(vfio, false);
put:
	vfio_put_device(&vfio->vdev);
	return ret;
}

/*
 * As NVIDIA's open kernel part does it: a vGPU that a VM has is dead for that VM from here on, and is lost; so is one whose
 * plugin does not end in some seconds. While a process has the device open vfio_unregister_group_dev() does not return:
 * that is the kernel's own doing.
 */
static void remove(struct mdev_device *mdev)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(&mdev->dev);
	bool lost;

	nvlab_pass();
	mutex_lock(&nvlab_lock);
	lost = vfio->vgpu->held;
	vfio->dead = lost;
	mutex_unlock(&nvlab_lock);
	if (!lost)
		lost = !nvlab_await_plugins(vfio->vgpu);
	vfio_unregister_group_dev(&vfio->vdev);
	nvlab_slow();
	retire(vfio, lost);
	vfio_put_device(&vfio->vdev);
}

static ssize_t tell_params(struct nvlab_vgpu *vgpu, char *buf)
{
	return sysfs_emit(buf, "%s\n", vgpu->params);
}

static ssize_t tell_vm_name(struct nvlab_vgpu *vgpu, char *buf)
{
	return sysfs_emit(buf, "%s\n", vgpu->vm_name ?: "");
}

static ssize_t vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);

	return nvlab_tell(vfio->vgpu, buf, tell_params);
}

static ssize_t vgpu_params_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	int ret;

	if (count > NVLAB_PARAMS_BYTES)
		return -E2BIG;
	nvlab_pass();
	mutex_lock(&vfio->vgpu->ops);
	mutex_lock(&nvlab_lock);
	ret = nvlab_set_params(vfio->vgpu, buf, count);
	mutex_unlock(&nvlab_lock);
	mutex_unlock(&vfio->vgpu->ops);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(vgpu_params);

static ssize_t vm_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);

	return nvlab_tell(vfio->vgpu, buf, tell_vm_name);
}
static DEVICE_ATTR_RO(vm_name);

static ssize_t placement_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	int placement = vfio->vgpu->placement;

	return placement < 0 ? sysfs_emit(buf, "Not Applicable\n") : sysfs_emit(buf, "%d\n", placement);
}

static ssize_t placement_id_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	long place;
	int ret = kstrtol(buf, 10, &place);

	if (ret)
		return ret;
	nvlab_pass();
	mutex_lock(&nvlab_lock);
	ret = nvlab_set_placement(vfio->gpu, vfio->vgpu, (int)place);
	mutex_unlock(&nvlab_lock);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(placement_id);

static ssize_t gpu_instance_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	int instance = vfio->vgpu->gpu_instance;

	return instance < 0 ? sysfs_emit(buf, "Not Applicable\n") : sysfs_emit(buf, "%d\n", instance);
}
static DEVICE_ATTR_RO(gpu_instance_id);

static struct attribute *attributes[] = {
	&dev_attr_vgpu_params.attr,
	&dev_attr_vm_name.attr,
	&dev_attr_placement_id.attr,
	&dev_attr_gpu_instance_id.attr,
	NULL
};

static const struct attribute_group group = { .name = "nvidia", .attrs = attributes };
static const struct attribute_group *groups[] = { &group, NULL };

static struct mdev_driver driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.probe = probe,
	.remove = remove,
	.get_available = get_available,
	.show_description = show_description,
	.driver = {
		.name = "nvidia-vgpu-vfio",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = groups,
	},
};

int nvlab_show_mdev_types(struct nvlab_function *function)
{
	const struct nvlab_card *card = function->gpu->card;
	unsigned int i;
	int ret;

	function->types = kcalloc(card->nr_types, sizeof(*function->types), GFP_KERNEL);
	function->type_list = kcalloc(card->nr_types, sizeof(*function->type_list), GFP_KERNEL);
	ret = -ENOMEM;
	if (!function->types || !function->type_list)
		goto free;
	for (i = 0; i < card->nr_types; i++) {
		struct nvlab_mdev_type *type = &function->types[i];

		type->spec = &card->types[i];
		type->function = function;
		type->type.sysfs_name = type->spec->id_text; /* the core puts the driver's name before it: nvidia-ID */
		type->type.pretty_name = type->spec->name;
		function->type_list[i] = &type->type;
	}
	ret = mdev_register_parent(&function->parent, &function->pdev->dev, &driver, function->type_list,
				   card->nr_types);
	if (!ret)
		return 0;
free:
	kfree(function->type_list);
	kfree(function->types);
	return ret;
}

void nvlab_hide_mdev_types(struct nvlab_function *function)
{
	mdev_unregister_parent(&function->parent);
	kfree(function->type_list);
	kfree(function->types);
}

int nvlab_register_mdev(void)
{
	return mdev_register_driver(&driver);
}

void nvlab_unregister_mdev(void)
{
	mdev_unregister_driver(&driver);
}
