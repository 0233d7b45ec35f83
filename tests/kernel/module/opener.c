// SPDX-License-Identifier: GPL-2.0-only
/* Whom the process serves that opens a vGPU: from QEMU's command line, -name guest=NAME,... and -uuid UUID. */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "nvlab.h"

#define MOST_BYTES 65536

/* The arguments with their final NULs, one more NUL behind them; NULL where there are none. */
static char *command_line(size_t *length)
{
	struct mm_struct *mm = current->mm;
	unsigned long start, end;
	char *text;

	if (!mm)
		return NULL;
	spin_lock(&mm->arg_lock);
	start = mm->arg_start;
	end = mm->arg_end;
	spin_unlock(&mm->arg_lock);
	*length = min_t(unsigned long, end - start, MOST_BYTES);
	text = kvzalloc(*length + 1, GFP_KERNEL);
	if (text && copy_from_user(text, (const void __user *)start, *length)) {
		kvfree(text);
		return NULL;
	}
	return text;
}

/* The value of -name: `guest=vm01,debug-threads=on`, or the bare name first. QEMU writes a comma in it twice. */
static char *name_in(const char *value)
{
	char *name, *to;

	if (!strncmp(value, "guest=", 6))
		value += 6;
	name = kstrdup(value, GFP_KERNEL);
	if (!name)
		return NULL;
	for (to = name; *value; value++) {
		if (value[0] == ',') {
			if (value[1] != ',')
				break;
			value++;
		}
		*to++ = *value;
	}
	*to = '\0';
	return name;
}

/* What is not there stays NULL; the caller frees both. */
void nvlab_read_opener(char **name, char **uuid)
{
	size_t length = 0;
	char *text = command_line(&length), *at, *next;

	for (at = text; at && at < text + length; at = next) {
		next = at + strlen(at) + 1;
		if (next >= text + length)
			break;
		if (!strcmp(at, "-name") && !*name)
			*name = name_in(next);
		else if (!strcmp(at, "-uuid") && !*uuid)
			*uuid = kstrdup(next, GFP_KERNEL);
	}
	kvfree(text);
}
