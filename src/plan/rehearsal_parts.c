/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal_parts.c - see rehearsal_parts.h: lists, heaps and indexes, without policy. */
#include "plan/rehearsal_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

enum { FIRST_ROOM = 64 };

bool mr_rehearsal_grow(group *g, uint32_t wanted) {
    if (wanted <= g->room) {
        return true;
    }
    uint32_t more = g->room ? g->room : 4;
    while (more < wanted) {
        more *= 2;
    }
    member *grown = realloc(g->members, (size_t)more * sizeof *grown);
    if (grown) {
        g->members = grown;
        g->room = more;
    }
    return grown != NULL;
}

/* ---- Indexes ---- */
static uint32_t hash_of(uint64_t number) {
    return (uint32_t)mr_hash64(&number, sizeof number, 0);
}

static bool is_at(const mr_rehearsal *b, uint64_t entry, uint32_t hash, uint64_t id) {
    return entry >> 32 == hash && b->kept[(uint32_t)entry - 1].id == id;
}

/* Where the id is in the index, or would be. */
static uint32_t find_spot(const mr_rehearsal *b, uint64_t id) {
    uint32_t hash = hash_of(id), spot = hash & b->index_mask;
    while (b->index[spot] && !is_at(b, b->index[spot], hash, id)) {
        spot = (spot + 1) & b->index_mask;
    }
    return spot;
}

static void index_place(mr_rehearsal *b, uint32_t place) {
    uint64_t id = b->kept[place].id;
    b->index[find_spot(b, id)] = (uint64_t)hash_of(id) << 32 | (place + 1);
}

uint32_t mr_rehearsal_find(const mr_rehearsal *b, uint64_t id) {
    return b->index ? (uint32_t)b->index[find_spot(b, id)] - 1 : UINT32_MAX;
}

/* What comes behind moves up, so that searches never need marks of what was. */
static void unindex(mr_rehearsal *b, uint32_t place) {
    uint32_t hole = find_spot(b, b->kept[place].id), spot = hole;
    for (;;) {
        spot = (spot + 1) & b->index_mask;
        if (!b->index[spot]) {
            break;
        }
        uint32_t home = (uint32_t)(b->index[spot] >> 32);
        if (((spot - home) & b->index_mask) >= ((spot - hole) & b->index_mask)) {
            b->index[hole] = b->index[spot];
            hole = spot;
        }
    }
    b->index[hole] = 0;
}

static uint32_t find_label(const mr_rehearsal *b, int64_t label) {
    uint32_t spot = hash_of((uint64_t)label) & b->group_mask;
    while (b->group_index[spot] && b->groups[b->group_index[spot] - 1].label != label) {
        spot = (spot + 1) & b->group_mask;
    }
    return spot;
}

uint32_t mr_rehearsal_find_group(const mr_rehearsal *b, int64_t label) {
    return b->group_index ? b->group_index[find_label(b, label)] - 1 : UINT32_MAX;
}

/* ---- Room ---- */
static bool grow_kept(mr_rehearsal *b) {
    uint64_t more = b->room ? 2 * (uint64_t)b->room : FIRST_ROOM;
    uint32_t room = (uint32_t)(more > (uint64_t)b->options.size ? (uint64_t)b->options.size : more);
    uint32_t slots = FIRST_ROOM;
    while (slots < 2 * (uint64_t)room) {
        slots *= 2;
    }
    kept *grown = realloc(b->kept, (size_t)room * sizeof *grown);
    b->kept = grown ? grown : b->kept;
    uint64_t *index = mr_zalloc(slots, sizeof *index);
    if (!grown || !index) {
        free(index);
        return false;
    }
    free(b->index);
    b->index = index;
    b->index_mask = slots - 1;
    b->room = room;
    for (uint32_t i = 0; i < b->n; i++) {
        index_place(b, i);
    }
    return !b->mirror || mr_rehearsal_grow_mirror(b);
}

static bool grow_groups(mr_rehearsal *b) {
    uint32_t room = b->groups_room ? 2 * b->groups_room : FIRST_ROOM;
    group *grown = realloc(b->groups, (size_t)room * sizeof *grown);
    b->groups = grown ? grown : b->groups;
    uint32_t *ranked = realloc(b->ranked, (size_t)room * sizeof *ranked);
    b->ranked = ranked ? ranked : b->ranked;
    uint32_t *index = mr_zalloc((size_t)room * 2, sizeof *index);
    if (!grown || !ranked || !index) {
        free(index);
        return false;
    }
    free(b->group_index);
    b->group_index = index;
    b->group_mask = room * 2 - 1;
    b->groups_room = room;
    for (uint32_t i = 0; i < b->n_groups; i++) {
        b->group_index[find_label(b, b->groups[i].label)] = i + 1;
    }
    return true;
}

static void add_weight(mr_rehearsal *b, uint32_t place, uint64_t more) {
    for (uint64_t i = (uint64_t)place + 1; b->sums && i <= b->sums_room; i += i & -i) {
        b->sums[i] += more; /* what is taken away comes as its complement */
    }
}

static bool grow_sums(mr_rehearsal *b) {
    if (b->options.policy != MR_REHEARSE_PRIORITY || b->sums_room == b->room) {
        return true;
    }
    uint64_t *sums = mr_zalloc((size_t)b->room + 1, sizeof *sums);
    if (!sums) {
        return false;
    }
    free(b->sums);
    b->sums = sums;
    b->sums_room = b->room;
    for (uint32_t i = 0; i < b->n; i++) {
        add_weight(b, i, b->kept[i].weight);
    }
    return true;
}

mr_status mr_rehearsal_reserve(mr_rehearsal *b, mr_error *err) {
    bool kept_fits = b->n < b->room || (int64_t)b->room == b->options.size || grow_kept(b);
    bool groups_fit = b->n_groups < b->groups_room || grow_groups(b);
    return kept_fits && groups_fit && grow_sums(b) ? MR_OK
                                                   : mr_fail_memory(err, b->n * sizeof(kept));
}

/* ---- Groups by size ---- */
static bool is_larger(const mr_rehearsal *b, uint32_t x, uint32_t y) {
    const group *gx = &b->groups[x], *gy = &b->groups[y];
    return gx->n != gy->n ? gx->n > gy->n : gx->label > gy->label;
}

static void rank_at(mr_rehearsal *b, uint32_t rank, uint32_t g) {
    b->ranked[rank] = g;
    b->groups[g].rank = rank;
}

static void rank_again(mr_rehearsal *b, uint32_t g) {
    uint32_t rank = b->groups[g].rank;
    while (rank > 0 && is_larger(b, g, b->ranked[(rank - 1) / 2])) {
        rank_at(b, rank, b->ranked[(rank - 1) / 2]);
        rank = (rank - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * rank + 1;
        if (child >= b->n_groups) {
            break;
        }
        child += child + 1 < b->n_groups && is_larger(b, b->ranked[child + 1], b->ranked[child]);
        if (!is_larger(b, b->ranked[child], g)) {
            break;
        }
        rank_at(b, rank, b->ranked[child]);
        rank = child;
    }
    rank_at(b, rank, g);
}

uint32_t mr_rehearsal_group(mr_rehearsal *b, int64_t label) {
    uint32_t spot = find_label(b, label);
    if (!b->group_index[spot]) {
        uint32_t g = b->n_groups++;
        b->groups[g] = (group){.label = label};
        b->group_index[spot] = g + 1;
        rank_at(b, g, g);
        rank_again(b, g);
    }
    return b->group_index[spot] - 1;
}

/* ---- Members ---- */
bool mr_rehearsal_is_ordered(const mr_rehearsal *b) {
    mr_rehearsal_policy policy = b->options.policy;
    return policy == MR_REHEARSE_RESERVOIR || policy == MR_REHEARSE_RECENT ||
           policy == MR_REHEARSE_PRIORITY || policy == MR_REHEARSE_CLASS_BALANCED;
}

/* Who only ever loses its least member need not know where the others are. */
static bool tracks_members(const mr_rehearsal *b) {
    return !mr_rehearsal_is_ordered(b) || b->options.policy == MR_REHEARSE_PRIORITY;
}

static bool is_less(const mr_rehearsal *b, member x, member y) {
    return x.key != y.key ? x.key < y.key : b->kept[x.place].id < b->kept[y.place].id;
}

static void member_at(mr_rehearsal *b, group *g, uint32_t at, member m) {
    g->members[at] = m;
    if (tracks_members(b)) {
        b->kept[m.place].at = at;
    }
}

/* Puts a member where it belongs, from `at` on, which is free. */
static void order_from(mr_rehearsal *b, group *g, uint32_t at, member m) {
    while (at > 0 && is_less(b, m, g->members[(at - 1) / 2])) {
        member_at(b, g, at, g->members[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= g->n) {
            break;
        }
        child += child + 1 < g->n && is_less(b, g->members[child + 1], g->members[child]);
        if (!is_less(b, g->members[child], m)) {
            break;
        }
        member_at(b, g, at, g->members[child]);
        at = child;
    }
    member_at(b, g, at, m);
}

static void settle_member(mr_rehearsal *b, group *g, uint32_t at, member m) {
    if (mr_rehearsal_is_ordered(b)) {
        order_from(b, g, at, m);
    } else {
        member_at(b, g, at, m);
        mr_rehearsal_changed(b, m.place);
    }
}

/* ---- Weights ---- */
uint64_t mr_rehearsal_total(const mr_rehearsal *b) {
    uint64_t total = 0;
    for (uint64_t i = b->n; b->sums && i > 0; i -= i & -i) {
        total += b->sums[i];
    }
    return total;
}

/* The place in which the running sum of weights first exceeds `sum`, which is below the total. */
uint32_t mr_rehearsal_place_of(const mr_rehearsal *b, uint64_t sum) {
    uint64_t place = 0, bit = 1;
    while (2 * bit <= b->sums_room) {
        bit *= 2;
    }
    for (; bit > 0; bit /= 2) {
        if (place + bit <= b->sums_room && b->sums[place + bit] <= sum) {
            place += bit;
            sum -= b->sums[place];
        }
    }
    return (uint32_t)place;
}

/* ---- Putting in and taking out ---- */
void mr_rehearsal_put(mr_rehearsal *b, uint32_t place, const kept *sample) {
    group *g = &b->groups[sample->group];
    b->kept[place] = *sample;
    index_place(b, place);
    b->n += place == b->n;
    g->n++;
    settle_member(b, g, g->n - 1, (member){sample->key, place});
    rank_again(b, sample->group);
    add_weight(b, place, sample->weight);
    mr_rehearsal_changed(b, place);
}

/* The place stays empty until somebody is put there, which is the next thing to happen. */
static void take_out(mr_rehearsal *b, uint32_t place) {
    kept *sample = &b->kept[place];
    group *g = &b->groups[sample->group];
    uint32_t at = tracks_members(b) ? sample->at : 0;
    member last = g->members[--g->n];
    unindex(b, place);
    add_weight(b, place, -(uint64_t)sample->weight);
    if (last.place != place) {
        settle_member(b, g, at, last);
    }
    rank_again(b, sample->group);
}

/* Of the same group: one way through the heap instead of two. */
static void swap_member(mr_rehearsal *b, uint32_t place, const kept *sample) {
    kept *old = &b->kept[place];
    uint32_t at = tracks_members(b) ? old->at : 0;
    unindex(b, place);
    add_weight(b, place, (uint64_t)sample->weight - old->weight);
    *old = *sample;
    index_place(b, place);
    settle_member(b, &b->groups[sample->group], at, (member){sample->key, place});
    mr_rehearsal_changed(b, place);
}

void mr_rehearsal_replace(mr_rehearsal *b, uint32_t place, const kept *sample) {
    if (b->kept[place].group == sample->group) {
        swap_member(b, place, sample);
    } else {
        take_out(b, place);
        mr_rehearsal_put(b, place, sample);
    }
}

void mr_rehearsal_revalue(mr_rehearsal *b, uint32_t place, uint64_t key, uint32_t weight) {
    kept *sample = &b->kept[place];
    add_weight(b, place, (uint64_t)weight - sample->weight);
    sample->key = key;
    sample->weight = weight;
    order_from(b, &b->groups[sample->group], sample->at, (member){key, place});
    mr_rehearsal_changed(b, place);
}

void mr_rehearsal_put_back(mr_rehearsal *b, const kept *sample) {
    group *g = &b->groups[sample->group];
    uint32_t place = b->n++;
    b->kept[place] = *sample;
    index_place(b, place);
    g->members[sample->at] = (member){sample->key, place};
    g->n++;
    add_weight(b, place, sample->weight);
}

/* The heap of groups has a strict order, so its top does not depend on how it was made. */
void mr_rehearsal_rank_all(mr_rehearsal *b) {
    uint32_t all = b->n_groups;
    for (b->n_groups = 1; b->n_groups <= all; b->n_groups++) {
        rank_again(b, b->ranked[b->n_groups - 1]);
    }
    b->n_groups = all;
}
