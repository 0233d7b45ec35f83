// SPDX-License-Identifier: GPL-2.0-only
/* PCI root buses with one card each, whose configuration space is memory. The kernel's PCI core does all the rest. */
#include <linux/pci.h>
#include <asm/pci.h>

#include "nvlab.h"

#define SRIOV_AT PCI_CFG_SPACE_SIZE /* the first extended capability */
#define PAGE_SIZES 0x553 /* 4 KiB to 4 MiB, as the specification demands */

static struct nvlab_gpu *gpu_on(const struct pci_bus *bus)
{
	return container_of(bus->sysdata, struct nvlab_gpu, sysdata);
}

/* How many VFs the PCI core has turned on. */
unsigned int nvlab_enabled_vfs(const struct nvlab_gpu *gpu)
{
	const u8 *sriov = gpu->config + SRIOV_AT;

	return sriov[PCI_SRIOV_CTRL] & PCI_SRIOV_CTRL_VFE ? sriov[PCI_SRIOV_NUM_VF] : 0;
}

/* The VF's number, or -1 where that function is none that is there. */
static int vf_at(const struct nvlab_gpu *gpu, unsigned int devfn)
{
	int vf = (int)devfn - gpu->card->devfn - (int)gpu->card->first_vf;

	return vf >= 0 && vf < (int)nvlab_enabled_vfs(gpu) ? vf : -1;
}

/* A VF has the vendor and device id FFFF, and no capability beyond the standard ones (SR-IOV 1.1, 3.4.1). */
static u8 read_byte(const struct nvlab_gpu *gpu, unsigned int devfn, int where)
{
	if (devfn == gpu->card->devfn)
		return gpu->config[where];
	if (vf_at(gpu, devfn) < 0 || where < PCI_COMMAND)
		return 0xff;
	return where < NVLAB_CONFIG_BYTES ? gpu->card->config[where] : 0;
}

/* The bits that stay when they are written; there is no BAR, so the PCI core finds none. */
static u8 writable(const struct nvlab_gpu *gpu, unsigned int devfn, int where)
{
	if (devfn != gpu->card->devfn)
		return 0;
	switch (where) {
	case PCI_COMMAND:
	case PCI_COMMAND + 1:
	case PCI_INTERRUPT_LINE:
		return 0xff;
	}
	if (!gpu->card->vfs)
		return 0;
	switch (where) {
	case SRIOV_AT + PCI_SRIOV_CTRL:
		return PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE;
	case SRIOV_AT + PCI_SRIOV_NUM_VF:
	case SRIOV_AT + PCI_SRIOV_SYS_PGSIZE:
	case SRIOV_AT + PCI_SRIOV_SYS_PGSIZE + 1:
		return 0xff;
	}
	return 0;
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	const struct nvlab_gpu *gpu = gpu_on(bus);
	int i;

	*value = 0;
	for (i = 0; i < size; i++)
		*value |= (u32)read_byte(gpu, devfn, where + i) << (8 * i);
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct nvlab_gpu *gpu = gpu_on(bus);
	int i;

	for (i = 0; i < size; i++) {
		u8 mask = writable(gpu, devfn, where + i);

		if (mask)
			gpu->config[where + i] = (gpu->config[where + i] & ~mask) | ((value >> (8 * i)) & mask);
	}
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops bus_ops = { .read = config_read, .write = config_write };

struct nvlab_gpu *nvlab_gpu_of(const struct pci_dev *pdev)
{
	return pdev->bus->ops == &bus_ops ? gpu_on(pdev->bus) : NULL;
}

static void put_word(u8 *at, u16 value)
{
	at[0] = value & 0xff;
	at[1] = value >> 8;
}

static void fill_config(struct nvlab_gpu *gpu)
{
	const struct nvlab_card *card = gpu->card;
	u8 *sriov = gpu->config + SRIOV_AT;

	memset(gpu->config, 0, sizeof(gpu->config));
	memcpy(gpu->config, card->config, NVLAB_CONFIG_BYTES);
	if (!card->vfs)
		return;
	put_word(sriov, PCI_EXT_CAP_ID_SRIOV);
	put_word(sriov + 2, 1); /* version 1, the last capability */
	put_word(sriov + PCI_SRIOV_INITIAL_VF, card->vfs);
	put_word(sriov + PCI_SRIOV_TOTAL_VF, card->vfs);
	put_word(sriov + PCI_SRIOV_VF_OFFSET, card->first_vf);
	put_word(sriov + PCI_SRIOV_VF_STRIDE, 1);
	put_word(sriov + PCI_SRIOV_VF_DID, card->device);
	put_word(sriov + PCI_SRIOV_SUP_PGSIZE, PAGE_SIZES);
	put_word(sriov + PCI_SRIOV_SYS_PGSIZE, 1);
}

static int add_bus(struct nvlab_gpu *gpu)
{
	LIST_HEAD(resources);

	fill_config(gpu);
	gpu->sysdata.node = gpu->card->node;
	gpu->buses = (struct resource){
		.name = "nvlab", .start = gpu->card->bus, .end = gpu->card->bus, .flags = IORESOURCE_BUS,
	};
	pci_add_resource(&resources, &gpu->buses);
	gpu->bus = pci_scan_root_bus(NULL, gpu->card->bus, &bus_ops, &gpu->sysdata, &resources);
	if (!gpu->bus) {
		pci_free_resource_list(&resources);
		return -ENODEV;
	}
	pci_bus_add_devices(gpu->bus);
	return 0;
}

int nvlab_add_buses(void)
{
	unsigned int i;
	int ret = 0;

	pci_lock_rescan_remove();
	for (i = 0; i < nvlab_nr_gpus && !ret; i++)
		ret = add_bus(&nvlab_gpus[i]);
	pci_unlock_rescan_remove();
	if (ret)
		nvlab_remove_buses();
	return ret;
}

/* VFs go first, outside the rescan lock: it takes a second or more, and no other PCI bus is to wait with it. */
static void disable_vfs(struct nvlab_gpu *gpu)
{
	struct pci_dev *pf = pci_get_slot(gpu->bus, gpu->card->devfn);

	if (!pf)
		return;
	device_lock(&pf->dev);
	if (pci_num_vf(pf))
		pci_disable_sriov(pf);
	device_unlock(&pf->dev);
	pci_dev_put(pf);
}

void nvlab_remove_buses(void)
{
	unsigned int i;

	for (i = 0; i < nvlab_nr_gpus; i++) {
		struct nvlab_gpu *gpu = &nvlab_gpus[i];

		if (!gpu->bus)
			continue;
		disable_vfs(gpu);
		pci_lock_rescan_remove();
		pci_stop_root_bus(gpu->bus);
		pci_remove_root_bus(gpu->bus);
		pci_unlock_rescan_remove();
		gpu->bus = NULL;
	}
}
