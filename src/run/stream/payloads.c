/* SPDX-License-Identifier: Apache-2.0 */
/* payloads.c - see payloads.h. */
#include "run/stream/payloads.h"

#include "core/hash.h"
#include "core/memory.h"

static size_t home_of(const mr_payloads *p, uint64_t id) {
    return (size_t)mr_hash64(&id, sizeof id, 0) & (p->room - 1);
}

/* The place of an id, or the free one where it would be. */
static mr_payload *place_of(const mr_payloads *p, uint64_t id) {
    size_t at = home_of(p, id);
    while (p->table[at].held && p->table[at].id != id) {
        at = (at + 1) & (p->room - 1);
    }
    return &p->table[at];
}

static bool make_room(mr_payloads *p) {
    if (2 * (p->n + 1) <= p->room) {
        return true;
    }
    mr_payloads larger = *p;
    larger.room = p->room ? 2 * p->room : 64;
    larger.table = mr_zalloc(larger.room, sizeof *larger.table);
    if (!larger.table) {
        return false;
    }
    for (size_t i = 0; i < p->room; i++) {
        if (p->table[i].held) {
            *place_of(&larger, p->table[i].id) = p->table[i];
        }
    }
    mr_free(p->table);
    *p = larger;
    return true;
}

void mr_payloads_add(mr_payloads *p, uint64_t id, mr_held *held) {
    if (p->bytes + (int64_t)held->bytes > p->most_bytes || !make_room(p)) {
        return;
    }
    mr_payload *place = place_of(p, id);
    if (!place->held) {
        *place = (mr_payload){id, mr_held_keep(held)};
        p->bytes += (int64_t)held->bytes;
        p->n++;
    }
}

mr_held *mr_payloads_find(const mr_payloads *p, uint64_t id) {
    return p->room ? place_of(p, id)->held : NULL;
}

/* Those behind a place that came free move up, so that nothing is looked for in vain. */
static void close_gap(mr_payloads *p, size_t gap) {
    for (size_t at = (gap + 1) & (p->room - 1); p->table[at].held; at = (at + 1) & (p->room - 1)) {
        size_t home = home_of(p, p->table[at].id);
        if (((at - home) & (p->room - 1)) >= ((at - gap) & (p->room - 1))) {
            p->table[gap] = p->table[at];
            p->table[at].held = NULL;
            gap = at;
        }
    }
}

void mr_payloads_remove(mr_payloads *p, uint64_t id) {
    mr_payload *place = p->room ? place_of(p, id) : NULL;
    if (place && place->held) {
        p->bytes -= (int64_t)place->held->bytes;
        p->n--;
        mr_held_release(place->held);
        place->held = NULL;
        close_gap(p, (size_t)(place - p->table));
    }
}

void mr_payloads_free(mr_payloads *p) {
    for (size_t i = 0; i < p->room; i++) {
        mr_held_release(p->table[i].held);
    }
    mr_free(p->table);
    *p = (mr_payloads){.table = NULL};
}
