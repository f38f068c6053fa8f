/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal_parts.h - what a rehearsal buffer is made of; for rehearsal*.c alone.
 *
 * Kept samples have places 0 to n - 1; one that goes leaves its place to the one that comes.
 * Members of a group (a label, or everything) are listed by place: where the policy wants the least
 * of them, the list is a heap by (key, id). Groups are a heap by (members, label), the largest
 * first. */
#ifndef MR_PLAN_REHEARSAL_PARTS_H
#define MR_PLAN_REHEARSAL_PARTS_H

#include "plan/rehearsal.h"

typedef struct kept {
    uint64_t id, key;
    int64_t label;
    uint32_t group;
    uint32_t at;     /* in the group's members, where the policy needs it (tracks_members) */
    uint32_t weight; /* 16.16; of draws, for MR_REHEARSE_PRIORITY */
} kept;

/* Keys lie beside places: a heap that looked them up would wait for memory at each level. */
typedef struct member {
    uint64_t key;
    uint32_t place;
} member;

typedef struct group {
    int64_t label, seen;
    member *members;
    uint32_t n, room;
    uint32_t rank;    /* in the heap of groups */
    bool was_largest; /* while the buffer was full */
} group;

/* What is kept, as letters of a saved state, and hashes of its rows: see rehearsal_state.c. */
typedef struct mirror {
    char *letters; /* `before` of them for what comes before the rows, then those of the rows */
    size_t before;
    uint64_t *hashes, sum;
    uint32_t room;
} mirror;

struct mr_rehearsal {
    mr_rehearsal_options options;
    uint64_t seed; /* for everything drawn here: no other user of the same seed shares numbers */
    int64_t step;  /* the buffer is that of this step; -1: of none */
    int64_t seen, drawn;
    kept *kept;
    uint32_t n, room;
    uint64_t *index; /* open addressing by id: 32 bits of its hash, then place + 1; or 0 */
    uint32_t index_mask;
    group *groups;
    uint32_t n_groups, groups_room;
    uint32_t *group_index; /* likewise, by label: group + 1 */
    uint32_t group_mask;
    uint32_t *ranked; /* groups, as a heap */
    uint64_t *sums;   /* Fenwick tree of weights by place, for MR_REHEARSE_PRIORITY */
    uint32_t sums_room;
    mr_offer *pending;
    int64_t n_pending, pending_room;
    uint32_t form;           /* of rows of a saved state: see rehearsal_state.c */
    mirror *mirror;          /* NULL: none is kept */
    const int64_t *places;   /* that somebody chose for the next offers ... */
    int64_t n_places;        /* ... so many */
    mr_rehearsal_left *left; /* NULL: nobody wants to know */
    void *left_user;
};

/* Room for one more of each; before anything is changed. */
mr_status mr_rehearsal_reserve(mr_rehearsal *buffer, mr_error *err);

/* The group of a label, made where it is new and room was reserved. */
uint32_t mr_rehearsal_group(mr_rehearsal *buffer, int64_t label);
uint32_t mr_rehearsal_find_group(const mr_rehearsal *buffer, int64_t label); /* UINT32_MAX: none */
uint32_t mr_rehearsal_find(const mr_rehearsal *buffer, uint64_t id);         /* likewise: place */

/* A sample at the end (place n), or instead of another. There is room for it in the group. */
void mr_rehearsal_put(mr_rehearsal *buffer, uint32_t place, const kept *sample);
void mr_rehearsal_replace(mr_rehearsal *buffer, uint32_t place, const kept *sample);
void mr_rehearsal_revalue(mr_rehearsal *buffer, uint32_t place, uint64_t key, uint32_t weight);

/* Whether members are a heap by key, or numbered in an order that draws depend on; whether groups
 * are labels. */
bool mr_rehearsal_is_ordered(const mr_rehearsal *buffer);
bool mr_rehearsal_by_label(const mr_rehearsal *buffer);

/* ---- rehearsal_state.c ---- */
void mr_rehearsal_changed(mr_rehearsal *buffer, uint32_t place); /* what is there */
uint32_t mr_rehearsal_narrow(const mr_rehearsal *buffer);        /* the form that it begins with */
bool mr_rehearsal_grow_mirror(mr_rehearsal *buffer);
void mr_rehearsal_free_mirror(mr_rehearsal *buffer);

/* For restoring: a sample at the end and where it was among its group's members; then, once all are
 * back, the groups by size. */
void mr_rehearsal_put_back(mr_rehearsal *buffer, const kept *sample);
void mr_rehearsal_rank_all(mr_rehearsal *buffer);

/* Room for `wanted` members. */
bool mr_rehearsal_grow(group *g, uint32_t wanted);

uint64_t mr_rehearsal_total(const mr_rehearsal *buffer); /* of weights */
uint32_t mr_rehearsal_place_of(const mr_rehearsal *buffer, uint64_t sum);

#endif
