/* SPDX-License-Identifier: Apache-2.0 */
/* extras.h - numbers that a trainer gave for samples of a rehearsal buffer (logits, say), by id. */
#ifndef MR_RUN_EXTRAS_H
#define MR_RUN_EXTRAS_H

#include <millrace/types.h>

typedef struct mr_extra {
    int64_t n;
    float values[];
} mr_extra;

typedef struct mr_extra_place {
    uint64_t id;
    mr_extra *extra; /* NULL: free */
} mr_extra_place;

typedef struct mr_extras {
    mr_extra_place *table; /* open addressing */
    size_t n, room;        /* a power of two, or 0 */
} mr_extras;

mr_status mr_extras_set(mr_extras *extras, uint64_t id, const float *values, int64_t n,
                        mr_error *err);
const mr_extra *mr_extras_find(const mr_extras *extras, uint64_t id); /* NULL: none */
void mr_extras_remove(mr_extras *extras, uint64_t id);
void mr_extras_free(mr_extras *extras);

mr_extra *mr_extra_copy(const mr_extra *extra, mr_error *err); /* freed with mr_free */

#endif
