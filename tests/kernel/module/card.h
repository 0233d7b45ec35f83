/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What never changes of a card: the shape of the tables that tests/kernel/cards.py fills. Nothing is included here,
 * so that a test can read the tables in a plain program, too.
 */
#ifndef NVLAB_CARD_H
#define NVLAB_CARD_H

#define NVLAB_CONFIG_BYTES 256
#define NVLAB_MOST_PROFILES 16
#define NVLAB_MOST_STARTS 8

enum nvlab_framework { NVLAB_MDEV_PF, NVLAB_MDEV_VF, NVLAB_VENDOR_VFIO };

/* A GPU instance profile; `slices` are those of its compute instances. NVML's line has what is left of it in its middle. */
struct nvlab_profile {
	unsigned int id;
	unsigned int slices;
	unsigned int size;
	unsigned int max;
	unsigned int nr_starts;
	unsigned int starts[NVLAB_MOST_STARTS];
	const char *nvml_before_left;
	const char *nvml_after_left;
};

/*
 * `profile` is the index of a MIG-backed type's, of which an instance takes `per_instance` vGPUs, and -1 for any other type;
 * `nvml` is what NVML's line of the type says from its id on.
 */
struct nvlab_type {
	unsigned int id;
	const char *id_text;
	const char *name;
	const char *description;
	unsigned int fb_mib;
	unsigned int max;
	int profile;
	unsigned int per_instance;
	const char *nvml;
};

/* `fb_mib` is nominal, what the largest type has; `placements`: places are numbered in equal-size mode, too;
 * `even_places`: they are even parts of the framebuffer in both modes; `device` the PCI device id of the PF and its VFs;
 * `engines` a bit for each that is scheduled; `mig_width` is in the units of starts and sizes, `mig_needs_reset` to change
 * the mode. */
struct nvlab_card {
	const char *pci;
	u8 bus;
	u8 devfn;
	int node;
	enum nvlab_framework framework;
	unsigned int vfs;
	unsigned int first_vf;
	u16 device;
	unsigned int fb_mib;
	bool placements;
	bool even_places;
	const char *information;
	const char *registry;
	const char *nvml_before_used;
	const char *nvml_after_used;
	const char *nvml_caps;
	unsigned int engines;
	const u8 *config;
	const struct nvlab_type *types;
	unsigned int nr_types;
	const struct nvlab_profile *profiles;
	unsigned int nr_profiles;
	unsigned int mig_width;
	bool mig_needs_reset;
};

#endif
