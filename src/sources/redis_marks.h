/* SPDX-License-Identifier: Apache-2.0 */
/* redis_marks.h - which id comes before which number, for some entries of a Redis stream: from
 * there on the others can be counted. There are never more than MR_REDIS_MARKS; when they are used
 * up, every other one goes and new ones are made half as often. */
#ifndef MR_SOURCES_REDIS_MARKS_H
#define MR_SOURCES_REDIS_MARKS_H

#include "sources/redis_reply.h"

enum { MR_REDIS_MARKS = 4096, MR_REDIS_MARK_BYTES = 24 };

typedef struct mr_redis_marks {
    mr_redis_cursor *list; /* ascending; NULL: none yet */
    int32_t n;
    int64_t stride;
} mr_redis_marks;

/* Remembers a place, where it is time for one. Places come in ascending order; others are left
 * out, and so is what there is no memory for. */
void mr_redis_marks_add(mr_redis_marks *marks, const mr_redis_cursor *place);

/* The nearest place at or before a number; false: there is none. */
bool mr_redis_marks_find(const mr_redis_marks *marks, int64_t number, mr_redis_cursor *out);

void mr_redis_marks_free(mr_redis_marks *marks);

#endif
