// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver's rules of placement and admission in both modes, from its source: kernel_vgpu_mgr.c, 595.45.04. Written apart
 * from vgpumgr/core/driver and vgpumgr/lab/driver; tests/kernel/test_kernel_places.py holds the three against each other.
 */
#ifndef __KERNEL__
#include <stdbool.h>
typedef unsigned char u8;
typedef unsigned short u16;
#endif

#include "places.h"

#define MIB_OF_SLOT 1024
#define MOST_PARTS 16 /* at most 32 vGPUs, two in each */

static const u8 denied_ampere[] = { 8, 32 };
static const u8 denied_gsp[] = { 2, 3, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 38, 39, 44, 45 };

static unsigned int in_slots(unsigned int mib)
{
	return (mib + MIB_OF_SLOT - 1) / MIB_OF_SLOT;
}

unsigned int nvlab_slots(const struct nvlab_card *card, const struct nvlab_type *type)
{
	unsigned int size = in_slots(type->fb_mib);

	if (card->even_places && in_slots(card->fb_mib) == 96 && size == 2)
		return 3;
	return size;
}

/* Mixed-size mode wants SR-IOV; equal-size mode has numbers from Ada on. */
bool nvlab_numbers_places(const struct nvlab_card *card, bool mixed)
{
	return mixed ? card->vfs > 0 : card->placements;
}

static bool denied(const struct nvlab_card *card, const struct nvlab_type *type, unsigned int place)
{
	const u8 *list = card->placements ? denied_gsp : denied_ampere;
	unsigned int length = card->placements ? sizeof(denied_gsp) : sizeof(denied_ampere), i;

	if (type->fb_mib != MIB_OF_SLOT || type->max * MIB_OF_SLOT >= card->fb_mib)
		return false;
	for (i = 0; i < length; i++)
		if (list[i] == place)
			return true;
	return false;
}

/* One of so many parts of the region, `bit` by `bit` of its number: each is a half of the one around it, rounded down. */
static void part(unsigned int number, unsigned int parts, unsigned int region, unsigned int *low, unsigned int *high)
{
	unsigned int bit, middle;

	*low = 0;
	*high = region;
	for (bit = parts / 2; bit; bit /= 2) {
		middle = (*low + *high) / 2;
		if (number & bit)
			*low = middle;
		else
			*high = middle;
	}
}

unsigned int nvlab_places(const struct nvlab_card *card, const struct nvlab_type *type, bool mixed,
			  unsigned int places[NVLAB_MOST_PLACES])
{
	unsigned int region = in_slots(card->fb_mib), size = nvlab_slots(card, type), count = 0, i, low, high, parts = 1;
	bool pairs;

	if (!nvlab_numbers_places(card, mixed))
		return 0;
	if (card->even_places || !mixed) {
		for (i = 0; i < type->max && i < NVLAB_MOST_PLACES; i++) {
			if (!card->even_places && (i + 1) * size > region)
				break;
			places[count++] = card->even_places ? region * i / type->max : i * size;
		}
		return count;
	}
	while (parts * 2 <= type->max)
		parts *= 2;
	pairs = parts == type->max && parts > 1;
	if (pairs)
		parts /= 2;
	if (parts > MOST_PARTS)
		return 0;
	for (i = 0; i < parts; i++) {
		part(i, parts, region, &low, &high);
		if ((pairs || !(i & 1)) && !denied(card, type, low))
			places[count++] = low;
		if ((pairs || i & 1) && !denied(card, type, high - size))
			places[count++] = high - size;
	}
	return count;
}

bool nvlab_is_free(const struct nvlab_scene *scene, const struct nvlab_type *type, unsigned int place)
{
	unsigned int end = place + nvlab_slots(scene->card, type), i;

	for (i = 0; i < scene->count; i++) {
		const struct nvlab_taken *taken = &scene->taken[i];

		if (taken->placement >= 0 && (unsigned int)taken->placement < end &&
		    place < taken->placement + nvlab_slots(scene->card, taken->type))
			return false;
	}
	return true;
}

/* What the driver gives without being asked for one; -1: it numbers none, or none is free. */
int nvlab_first_place(const struct nvlab_scene *scene, const struct nvlab_type *type)
{
	unsigned int places[NVLAB_MOST_PLACES];
	unsigned int count = nvlab_places(scene->card, type, scene->mixed, places), i;

	for (i = 0; i < count; i++)
		if (nvlab_is_free(scene, type, places[i]))
			return places[i];
	return -1;
}

/* Whether a vGPU of the type may be moved there; its own place counts, for the driver takes the new one first. */
bool nvlab_may_move(const struct nvlab_scene *scene, const struct nvlab_type *type, unsigned int place)
{
	unsigned int places[NVLAB_MOST_PLACES];
	unsigned int count = nvlab_places(scene->card, type, scene->mixed, places), i;

	for (i = 0; i < count; i++)
		if (places[i] == place)
			return nvlab_is_free(scene, type, place);
	return false;
}

bool nvlab_other_size(const struct nvlab_scene *scene, const struct nvlab_type *type)
{
	unsigned int i;

	for (i = 0; !scene->mixed && i < scene->count; i++)
		if (scene->taken[i].type->fb_mib != type->fb_mib)
			return true;
	return false;
}

/* How many more of this type the GPU takes now, VFs aside. Of mixed sizes no maximum counts, but free places. */
unsigned int nvlab_left(const struct nvlab_scene *scene, const struct nvlab_type *type)
{
	unsigned int most = NVLAB_MAX_TIME_SLICED, places[NVLAB_MOST_PLACES], count, i, left = 0;

	if (nvlab_other_size(scene, type))
		return 0;
	if (!scene->mixed && type->max < most)
		most = type->max;
	if (scene->count >= most)
		return 0;
	if (!scene->mixed)
		return most - scene->count;
	count = nvlab_places(scene->card, type, true, places);
	for (i = 0; i < count; i++)
		left += nvlab_is_free(scene, type, places[i]);
	return left < most - scene->count ? left : most - scene->count;
}
