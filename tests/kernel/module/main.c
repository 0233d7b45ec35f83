// SPDX-License-Identifier: GPL-2.0-only
/* Loading, unloading and parameters. What the closed driver alone decides is a parameter, not code. */
#include <linux/module.h>
#include <linux/slab.h>

#include "nvlab.h"

#define MAX_KNOWN_ERRNO 133

DEFINE_MUTEX(nvlab_lock); /* over all that changes of a GPU and its vGPUs */
DEFINE_MUTEX(nvlab_list);

struct nvlab_options nvlab_options = {
	.registry_dwords = "",
	.registry_dwords_per_device = "",
};

static int errno_set(const char *text, const struct kernel_param *param)
{
	return param_set_uint_minmax(text, param, 0, MAX_KNOWN_ERRNO);
}

/* What `echo` writes, without its newline. */
static int line_set(const char *text, const struct kernel_param *param)
{
	int ret = param_set_copystring(text, param);

	if (!ret)
		strim(param->str->string);
	return ret;
}

static int forget_set(const char *text, const struct kernel_param *param)
{
	nvlab_forget_lost();
	return 0;
}

static int forget_get(char *buf, const struct kernel_param *param)
{
	return sysfs_emit(buf, "0\n");
}

static const struct kernel_param_ops forget_ops = { .set = forget_set, .get = forget_get };
static const struct kernel_param_ops errno_ops = { .set = errno_set, .get = param_get_uint };
static const struct kernel_param_ops line_ops = { .set = line_set, .get = param_get_string };
static struct kparam_string nvml_fail = { sizeof(nvlab_options.nvml_fail), nvlab_options.nvml_fail };

#define ERRNO_PARAM(name, text) \
	module_param_cb(name, &errno_ops, &nvlab_options.name, 0644); \
	MODULE_PARM_DESC(name, text)

#define OTHER_PARAM(name, kind, text) \
	module_param_named(name, nvlab_options.name, kind, 0644); \
	MODULE_PARM_DESC(name, text)

ERRNO_PARAM(create_errno, "what every create fails with; 0: nothing");
ERRNO_PARAM(clear_errno, "what taking a type from a VF fails with; 0: nothing");
OTHER_PARAM(slow_ms, uint, "how long each create and clear sleeps, not to be interrupted");
OTHER_PARAM(close_ms, uint, "how long the last close of a vGPU sleeps, not to be interrupted");
OTHER_PARAM(late_vfs_ms, uint, "how long a VF that came has neither types nor a nvidia directory");
OTHER_PARAM(unbind_busy, bool, "unbindLock is not given");
OTHER_PARAM(scheduler_counts_idle, bool, "a scheduler is refused while a GPU has vGPUs, idle ones too");
module_param_cb(forget_lost, &forget_ops, NULL, 0644);
MODULE_PARM_DESC(forget_lost, "any write: what the driver has lost is whole again, as after loading it anew");
module_param_cb(nvml_fail, &line_ops, &nvml_fail, 0644);
MODULE_PARM_DESC(nvml_fail, "NVML calls that fail: FUNCTION:CODE[:PCI], several with blanks or commas between them");
module_param_named(other_framework, nvlab_options.other_framework, bool, 0444);
MODULE_PARM_DESC(other_framework, "boards with SR-IOV offer vGPUs in the other way: as under another kernel");
module_param_named(NVreg_RegistryDwords, nvlab_options.registry_dwords, charp, 0444);
module_param_named(NVreg_RegistryDwordsPerDevice, nvlab_options.registry_dwords_per_device, charp, 0444);

static int __init nvlab_init(void)
{
	int ret = nvlab_make_gpus();

	if (ret)
		return ret;
	ret = nvlab_add_proc();
	if (ret)
		goto free;
	ret = nvlab_add_plugins();
	if (ret)
		goto remove_proc;
	ret = nvlab_register_mdev();
	if (ret)
		goto remove_plugins;
	ret = nvlab_register_pci();
	if (ret)
		goto unregister_mdev;
	ret = nvlab_add_buses();
	if (ret)
		goto unregister_pci;
	nvlab_add_nvml();
	return 0;

unregister_pci:
	nvlab_unregister_pci();
unregister_mdev:
	nvlab_unregister_mdev();
remove_plugins:
	nvlab_remove_plugins();
remove_proc:
	nvlab_remove_proc();
free:
	kfree(nvlab_gpus);
	return ret;
}

static void __exit nvlab_exit(void)
{
	unsigned int i;

	nvlab_remove_nvml();
	nvlab_remove_buses();
	nvlab_unregister_pci();
	nvlab_unregister_mdev();
	nvlab_forget_lost();
	nvlab_remove_plugins();
	nvlab_remove_proc();
	for (i = 0; i < nvlab_nr_gpus; i++)
		nvlab_forget_instances(&nvlab_gpus[i]);
	kfree(nvlab_gpus);
}

module_init(nvlab_init);
module_exit(nvlab_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("vgpumgr's imitation of NVIDIA's vGPU host driver, for tests");
