/* SPDX-License-Identifier: Apache-2.0 */
/* sorted.c - see sorted.h. */
#include "sources/sorted.h"

#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

static int by_name(const void *a, const void *b) {
    return strcmp(((const mr_sorted_name *)a)->name, ((const mr_sorted_name *)b)->name);
}

static int by_name_and_place(const void *a, const void *b) {
    const mr_sorted_name *x = a, *y = b;
    int order = by_name(a, b);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

mr_status mr_sorted_make(mr_sorted *out, const char *const *names, int64_t n, mr_error *err) {
    *out = (mr_sorted){mr_zalloc((size_t)n + 1, sizeof *out->v), n};
    if (!out->v) {
        return mr_fail_memory(err, (size_t)n * sizeof *out->v);
    }
    for (int64_t i = 0; i < n; i++) {
        out->v[i] = (mr_sorted_name){names[i], i};
    }
    qsort(out->v, (size_t)n, sizeof *out->v, by_name_and_place);
    return MR_OK;
}

int64_t mr_sorted_find(const mr_sorted *s, const char *name) {
    const mr_sorted_name key = {name, 0};
    const mr_sorted_name *at = bsearch(&key, s->v, (size_t)s->n, sizeof key, by_name);
    return at ? at->place : -1;
}

const mr_sorted_name *mr_sorted_twin(const mr_sorted *s) {
    for (int64_t i = 1; i < s->n; i++) {
        if (by_name(&s->v[i - 1], &s->v[i]) == 0) {
            return &s->v[i];
        }
    }
    return NULL;
}

void mr_sorted_free(mr_sorted *s) {
    mr_free(s->v);
    *s = (mr_sorted){NULL, 0};
}
