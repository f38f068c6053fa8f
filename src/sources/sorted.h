/* SPDX-License-Identifier: Apache-2.0 */
/* sorted.h - a list of names in order: to find where one stands in the list, and whether one stands
 * there twice. */
#ifndef MR_SOURCES_SORTED_H
#define MR_SOURCES_SORTED_H

#include <millrace/types.h>

typedef struct mr_sorted_name {
    const char *name; /* the list's own */
    int64_t place;    /* in the list */
} mr_sorted_name;

/* Equal names are in the order of their places. */
typedef struct mr_sorted {
    mr_sorted_name *v;
    int64_t n;
} mr_sorted;

mr_status mr_sorted_make(mr_sorted *out, const char *const *names, int64_t n, mr_error *err);

/* The place of a name; -1: it is not there. */
int64_t mr_sorted_find(const mr_sorted *s, const char *name);

/* A name that is there before, or NULL. */
const mr_sorted_name *mr_sorted_twin(const mr_sorted *s);

void mr_sorted_free(mr_sorted *s); /* a zeroed one is allowed */

#endif
