/* SPDX-License-Identifier: Apache-2.0 */
/* redis_marks.c - see redis_marks.h. MR_REQUIRES(hiredis) */
#include "sources/redis_marks.h"

#include <millrace/millrace.h>

#include "core/memory.h"

static void thin_out(mr_redis_marks *marks) {
    for (size_t i = 0; 2 * i < (size_t)marks->n; i++) {
        marks->list[i] = marks->list[2 * i];
    }
    marks->n = (marks->n + 1) / 2;
    marks->stride *= 2;
}

void mr_redis_marks_add(mr_redis_marks *marks, const mr_redis_cursor *place) {
    enum { FIRST_STRIDE = 16 };
    if (!marks->list) {
        marks->list = mr_zalloc(MR_REDIS_MARKS, sizeof *marks->list);
        marks->stride = FIRST_STRIDE;
    }
    if (!marks->list ||
        (marks->n > 0 && place->next < marks->list[marks->n - 1].next + marks->stride)) {
        return;
    }
    if (marks->n == MR_REDIS_MARKS) {
        thin_out(marks);
    }
    marks->list[marks->n++] = *place;
}

bool mr_redis_marks_find(const mr_redis_marks *marks, int64_t number, mr_redis_cursor *out) {
    int32_t low = 0, high = marks->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (marks->list[middle].next <= number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0) {
        *out = marks->list[low - 1];
    }
    return low > 0;
}

void mr_redis_marks_free(mr_redis_marks *marks) {
    mr_free(marks->list);
    *marks = (mr_redis_marks){.list = NULL};
}
