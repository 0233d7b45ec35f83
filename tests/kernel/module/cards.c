// SPDX-License-Identifier: GPL-2.0-only
/* The cards of this machine, from the header that tests/kernel/cards.py makes. */
#include <linux/module.h>
#include <linux/slab.h>

#include "nvlab.h"
#include "cards.h"

MODULE_VERSION(NVLAB_DRIVER_VERSION);

const char nvlab_driver_line[] = NVLAB_DRIVER_LINE;
const char nvlab_proc_version[] = NVLAB_PROC_VERSION;
struct nvlab_gpu *nvlab_gpus;
unsigned int nvlab_nr_gpus = ARRAY_SIZE(cards);

int nvlab_make_gpus(void)
{
	unsigned int i, engine;

	nvlab_gpus = kcalloc(ARRAY_SIZE(cards), sizeof(*nvlab_gpus), GFP_KERNEL);
	if (!nvlab_gpus)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(cards); i++) {
		nvlab_gpus[i].card = &cards[i];
		INIT_LIST_HEAD(&nvlab_gpus[i].vgpus);
		INIT_LIST_HEAD(&nvlab_gpus[i].instances);
		for (engine = 0; engine < NVLAB_ENGINES; engine++)
			nvlab_gpus[i].policy[engine] = NVLAB_BEST_EFFORT;
	}
	return 0;
}
