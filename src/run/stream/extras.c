/* SPDX-License-Identifier: Apache-2.0 */
/* extras.c - see extras.h. */
#include "run/stream/extras.h"

#include <millrace/millrace.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

static size_t home_of(const mr_extras *e, uint64_t id) {
    return (size_t)mr_hash64(&id, sizeof id, 0) & (e->room - 1);
}

/* The place of an id, or the free one where it would be. */
static mr_extra_place *place_of(const mr_extras *e, uint64_t id) {
    size_t at = home_of(e, id);
    while (e->table[at].extra && e->table[at].id != id) {
        at = (at + 1) & (e->room - 1);
    }
    return &e->table[at];
}

static mr_status make_room(mr_extras *e, mr_error *err) {
    if (2 * (e->n + 1) <= e->room) {
        return MR_OK;
    }
    mr_extras larger = {.n = e->n, .room = e->room ? 2 * e->room : 64};
    larger.table = mr_zalloc(larger.room, sizeof *larger.table);
    if (!larger.table) {
        return mr_fail_memory(err, larger.room * sizeof *larger.table);
    }
    for (size_t i = 0; i < e->room; i++) {
        if (e->table[i].extra) {
            *place_of(&larger, e->table[i].id) = e->table[i];
        }
    }
    mr_free(e->table);
    *e = larger;
    return MR_OK;
}

static mr_extra *make_extra(const float *values, int64_t n, mr_error *err) {
    size_t size = sizeof(mr_extra) + (size_t)n * sizeof(float);
    mr_extra *extra = mr_zalloc(1, size);
    if (!extra) {
        mr_fail_memory(err, size);
        return NULL;
    }
    extra->n = n;
    if (n > 0) {
        memcpy(extra->values, values, (size_t)n * sizeof(float));
    }
    return extra;
}

mr_extra *mr_extra_copy(const mr_extra *extra, mr_error *err) {
    return make_extra(extra->values, extra->n, err);
}

mr_status mr_extras_set(mr_extras *e, uint64_t id, const float *values, int64_t n, mr_error *err) {
    MR_TRY(make_room(e, err));
    mr_extra *extra = make_extra(values, n, err);
    if (!extra) {
        return MR_E_MEMORY;
    }
    mr_extra_place *place = place_of(e, id);
    e->n += place->extra == NULL;
    mr_free(place->extra);
    *place = (mr_extra_place){id, extra};
    return MR_OK;
}

const mr_extra *mr_extras_find(const mr_extras *e, uint64_t id) {
    return e->room ? place_of(e, id)->extra : NULL;
}

/* Those behind a place that came free move up, so that nothing is looked for in vain. */
static void close_gap(mr_extras *e, size_t gap) {
    for (size_t at = (gap + 1) & (e->room - 1); e->table[at].extra; at = (at + 1) & (e->room - 1)) {
        size_t home = home_of(e, e->table[at].id);
        if (((at - home) & (e->room - 1)) >= ((at - gap) & (e->room - 1))) {
            e->table[gap] = e->table[at];
            e->table[at].extra = NULL;
            gap = at;
        }
    }
}

void mr_extras_remove(mr_extras *e, uint64_t id) {
    mr_extra_place *place = e->room ? place_of(e, id) : NULL;
    if (place && place->extra) {
        mr_free(place->extra);
        place->extra = NULL;
        e->n--;
        close_gap(e, (size_t)(place - e->table));
    }
}

void mr_extras_free(mr_extras *e) {
    for (size_t i = 0; i < e->room; i++) {
        mr_free(e->table[i].extra);
    }
    mr_free(e->table);
    *e = (mr_extras){.table = NULL};
}
