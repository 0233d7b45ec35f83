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

static int refusal_errno(enum nvlab_refusal refusal)
{
	switch (refusal) {
	case NVLAB_ADMITTED:
		return 0;
	case NVLAB_OTHER_SIZE:
		return -(int)(nvlab_options.size_errno ?: EIO);
	default:
		return -(int)(nvlab_options.full_errno ?: EUSERS);
	}
}

static int admit(struct nvlab_vfio *vfio, struct mdev_device *mdev)
{
	struct nvlab_mdev_type *type = our_type(mdev->type);
	int ret;

	mutex_lock(&nvlab_lock);
	ret = -(int)nvlab_options.create_errno;
	if (!ret)
		ret = refusal_errno(nvlab_refusal(vfio->gpu, type->function->vf, type->spec));
	if (!ret) {
		vfio->vgpu = nvlab_make_vgpu(vfio->gpu, type->function->vf, type->spec);
		if (vfio->vgpu)
			strscpy(vfio->vgpu->mdev, dev_name(&mdev->dev), sizeof(vfio->vgpu->mdev));
		else
			ret = -ENOMEM;
	}
	mutex_unlock(&nvlab_lock);
	return ret;
}

static void retire(struct nvlab_vfio *vfio)
{
	mutex_lock(&nvlab_lock);
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
	ret = admit(vfio, mdev);
	if (ret)
		goto put;
	dev_set_drvdata(&mdev->dev, vfio);
	ret = vfio_register_emulated_iommu_dev(&vfio->vdev);
	if (ret)
		goto retire;
	return 0;

retire:
	retire(vfio);
put:
	vfio_put_device(&vfio->vdev);
	return ret;
}

/* While a process has the device open the first call does not return: that is the kernel's own doing. */
static void remove(struct mdev_device *mdev)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&vfio->vdev);
	nvlab_slow();
	retire(vfio);
	vfio_put_device(&vfio->vdev);
}

static ssize_t vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	ssize_t length;

	mutex_lock(&nvlab_lock);
	length = sysfs_emit(buf, "%s\n", vfio->vgpu->params);
	mutex_unlock(&nvlab_lock);
	return length;
}

static ssize_t vgpu_params_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	int ret;

	mutex_lock(&nvlab_lock);
	ret = nvlab_set_params(vfio->vgpu, buf, count);
	mutex_unlock(&nvlab_lock);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(vgpu_params);

static ssize_t vm_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	ssize_t length;

	mutex_lock(&nvlab_lock);
	length = sysfs_emit(buf, "%s\n", vfio->vgpu->vm_name ?: "");
	mutex_unlock(&nvlab_lock);
	return length;
}
static DEVICE_ATTR_RO(vm_name);

static ssize_t placement_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = dev_get_drvdata(dev);
	int placement = vfio->vgpu->placement;

	return placement < 0 ? sysfs_emit(buf, "Not Applicable\n") : sysfs_emit(buf, "%d\n", placement);
}
static DEVICE_ATTR_RO(placement_id);

static ssize_t gpu_instance_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "Not Applicable\n"); /* MIG is off */
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
