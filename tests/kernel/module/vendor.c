// SPDX-License-Identifier: GPL-2.0-only
/* The vendor-specific framework: nvidia/ on each VF as vgpumgr/lab/sysfs/vgpu_nodes.py has it; the VF is the VFIO device. */
#include <linux/device.h>
#include <linux/slab.h>

#include "nvlab.h"

static struct nvlab_function *function_of(struct device *dev)
{
	return dev_get_drvdata(dev);
}

static ssize_t creatable_vgpu_types_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_function *function = function_of(dev);
	const struct nvlab_card *card = function->gpu->card;
	ssize_t at = sysfs_emit(buf, "ID    : vGPU Name\n");
	unsigned int i;

	mutex_lock(&nvlab_lock);
	for (i = 0; i < card->nr_types; i++)
		if (nvlab_available(function->gpu, function->vf, &card->types[i]))
			at += sysfs_emit_at(buf, at, "%-5u : %s\n", card->types[i].id, card->types[i].name);
	mutex_unlock(&nvlab_lock);
	return at;
}
static DEVICE_ATTR_RO(creatable_vgpu_types);

static ssize_t current_vgpu_type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = function_of(dev)->vfio;
	ssize_t length;

	mutex_lock(&nvlab_lock);
	length = sysfs_emit(buf, "%u\n", vfio->vgpu ? vfio->vgpu->type->id : 0);
	mutex_unlock(&nvlab_lock);
	return length;
}

static const struct nvlab_type *find_type(const struct nvlab_card *card, unsigned int id)
{
	unsigned int i;

	for (i = 0; i < card->nr_types; i++)
		if (card->types[i].id == id)
			return &card->types[i];
	return NULL;
}

/* Under nvlab_lock, which is let go while a plugin is waited for; the VF's vGPU cannot be another one then. */
static int clear_type(struct nvlab_vfio *vfio)
{
	bool alone;

	if (!vfio->vgpu)
		return -EPERM;
	if (vfio->vgpu->held)
		return -EPERM;
	mutex_unlock(&nvlab_lock);
	alone = nvlab_await_plugins(vfio->vgpu);
	mutex_lock(&nvlab_lock);
	if (!alone || vfio->vgpu->plugins)
		return -EBUSY;
	if (vfio->vgpu->held)
		return -EPERM;
	if (nvlab_options.clear_errno)
		return -(int)nvlab_options.clear_errno;
	nvlab_end_vgpu(vfio->vgpu);
	vfio->vgpu = NULL;
	return 0;
}

static int set_type(struct nvlab_function *function, unsigned int id)
{
	const struct nvlab_type *type = find_type(function->gpu->card, id);
	struct nvlab_vfio *vfio = function->vfio;

	if (vfio->vgpu)
		return -EPERM;
	if (!type)
		return -EIO;
	if (nvlab_options.create_errno)
		return -(int)nvlab_options.create_errno;
	if (nvlab_refusal(function->gpu, function->vf, type) != NVLAB_ADMITTED)
		return -EIO;
	vfio->vgpu = nvlab_make_vgpu(function->gpu, function->vf, type);
	return vfio->vgpu ? 0 : -ENOMEM;
}

static ssize_t current_vgpu_type_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct nvlab_function *function = function_of(dev);
	long id;
	int ret = kstrtol(buf, 10, &id);

	if (ret)
		return ret;
	nvlab_slow();
	mutex_lock(&function->vfio->writing);
	nvlab_pass();
	mutex_lock(&nvlab_lock);
	ret = id ? set_type(function, (unsigned int)id) : clear_type(function->vfio);
	mutex_unlock(&nvlab_lock);
	mutex_unlock(&function->vfio->writing);
	if (ret && id)
		nvlab_log_refusal(dev_name(dev), ret);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(current_vgpu_type);

static ssize_t placement_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = function_of(dev)->vfio;
	ssize_t ret = -ENXIO;

	mutex_lock(&nvlab_lock);
	if (vfio->vgpu && vfio->vgpu->placement >= 0)
		ret = sysfs_emit(buf, "%d\n", vfio->vgpu->placement);
	mutex_unlock(&nvlab_lock);
	return ret;
}

static ssize_t placement_id_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct nvlab_function *function = function_of(dev);
	long place;
	int ret = kstrtol(buf, 10, &place);

	if (ret)
		return ret;
	nvlab_pass();
	mutex_lock(&nvlab_lock);
	ret = nvlab_set_placement(function->gpu, function->vfio->vgpu, (int)place);
	mutex_unlock(&nvlab_lock);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(placement_id);

static ssize_t gpu_instance_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = function_of(dev)->vfio;
	ssize_t ret = -ENXIO;

	mutex_lock(&nvlab_lock);
	if (vfio->vgpu && vfio->vgpu->gpu_instance >= 0)
		ret = sysfs_emit(buf, "%d\n", vfio->vgpu->gpu_instance);
	mutex_unlock(&nvlab_lock);
	return ret;
}
static DEVICE_ATTR_RO(gpu_instance_id);

static ssize_t tell_params(struct nvlab_vgpu *vgpu, char *buf)
{
	return sysfs_emit(buf, "%s\n", vgpu->params);
}

static ssize_t vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nvlab_vfio *vfio = function_of(dev)->vfio;
	ssize_t length;

	mutex_lock(&vfio->writing);
	length = vfio->vgpu ? nvlab_tell(vfio->vgpu, buf, tell_params) : sysfs_emit(buf, "\n");
	mutex_unlock(&vfio->writing);
	return length;
}

static ssize_t vgpu_params_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct nvlab_vfio *vfio = function_of(dev)->vfio;
	int ret;

	if (count > NVLAB_PARAMS_BYTES)
		return -E2BIG;
	mutex_lock(&vfio->writing);
	nvlab_pass();
	if (vfio->vgpu)
		mutex_lock(&vfio->vgpu->ops);
	mutex_lock(&nvlab_lock);
	ret = nvlab_set_params(vfio->vgpu, buf, count);
	mutex_unlock(&nvlab_lock);
	if (vfio->vgpu)
		mutex_unlock(&vfio->vgpu->ops);
	mutex_unlock(&vfio->writing);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(vgpu_params);

static struct attribute *attributes[] = {
	&dev_attr_creatable_vgpu_types.attr,
	&dev_attr_current_vgpu_type.attr,
	&dev_attr_placement_id.attr,
	&dev_attr_gpu_instance_id.attr,
	&dev_attr_vgpu_params.attr,
	NULL
};

static const struct attribute_group group = { .name = "nvidia", .attrs = attributes };

int nvlab_show_vendor_files(struct nvlab_function *function)
{
	struct device *dev = &function->pdev->dev;
	struct nvlab_vfio *vfio = nvlab_vfio_alloc(dev, function->gpu);
	int ret;

	if (IS_ERR(vfio))
		return PTR_ERR(vfio);
	function->vfio = vfio;
	ret = vfio_register_emulated_iommu_dev(&vfio->vdev);
	if (ret)
		goto put;
	ret = sysfs_create_group(&dev->kobj, &group);
	if (ret)
		goto unregister;
	return 0;

unregister:
	vfio_unregister_group_dev(&vfio->vdev);
put:
	vfio_put_device(&vfio->vdev);
	return ret;
}

/* The driver is not told of a type that is still set, as NVIDIA's open kernel part does not tell it: the vGPU is lost. */
void nvlab_hide_vendor_files(struct nvlab_function *function)
{
	struct nvlab_vfio *vfio = function->vfio;

	sysfs_remove_group(&function->pdev->dev.kobj, &group);
	vfio_unregister_group_dev(&vfio->vdev);
	mutex_lock(&nvlab_lock);
	if (vfio->vgpu)
		nvlab_lose_vgpu(vfio->vgpu);
	vfio->vgpu = NULL;
	mutex_unlock(&nvlab_lock);
	vfio_put_device(&vfio->vdev);
}
