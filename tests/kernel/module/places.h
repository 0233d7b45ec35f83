/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where vGPUs may lie and what is admitted, as plain functions over a card and what is on it. Only card.h is included,
 * so that a test can build this in a plain program, too.
 */
#ifndef NVLAB_PLACES_H
#define NVLAB_PLACES_H

#ifdef __KERNEL__
#include <linux/types.h>
#endif

#include "card.h"

#define NVLAB_MOST_PLACES 64
#define NVLAB_MAX_TIME_SLICED 32 /* per GPU without MIG */

/* A vGPU that counts; `placement` is -1 where it has none. */
struct nvlab_taken {
	const struct nvlab_type *type;
	int placement;
};

/* One GPU at one moment. */
struct nvlab_scene {
	const struct nvlab_card *card;
	bool mixed;
	unsigned int count;
	struct nvlab_taken taken[NVLAB_MOST_PLACES];
};

unsigned int nvlab_slots(const struct nvlab_card *card, const struct nvlab_type *type);
bool nvlab_numbers_places(const struct nvlab_card *card, bool mixed);
unsigned int nvlab_places(const struct nvlab_card *card, const struct nvlab_type *type, bool mixed,
			  unsigned int places[NVLAB_MOST_PLACES]);
bool nvlab_is_free(const struct nvlab_scene *scene, const struct nvlab_type *type, unsigned int place);
int nvlab_first_place(const struct nvlab_scene *scene, const struct nvlab_type *type);
bool nvlab_may_move(const struct nvlab_scene *scene, const struct nvlab_type *type, unsigned int place);
bool nvlab_other_size(const struct nvlab_scene *scene, const struct nvlab_type *type);
unsigned int nvlab_left(const struct nvlab_scene *scene, const struct nvlab_type *type);

#endif
