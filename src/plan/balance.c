/* SPDX-License-Identifier: Apache-2.0 */
/* balance.c - see balance.h. O(slots + holders log holders), no memory taken in a step. */
#include "plan/balance.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

/* What a holder has too much or too little of. */
typedef struct gap {
    int64_t slots;
    int32_t holder;
} gap;

/* The largest first, ties by the lower holder. */
typedef struct gap_heap {
    gap *v;
    int32_t n;
} gap_heap;

struct mr_balance {
    int32_t holders;
    int64_t slots;
    int32_t *maker; /* of each slot */
    int32_t *list;  /* slots in order of their makers, ascending for each */
    int64_t *first; /* of each maker in the list; one more at the end */
    int64_t *given; /* to each holder: the slots it has, from first to last */
    int32_t *spare; /* surplus slots in order of their holders */
    gap *deficits;
    gap_heap surplus, deficit;
    mr_move *moves;
    int32_t n_moves;
    int64_t moved;
};

/* ---- Heaps ---- */

static bool comes_before(const gap *a, const gap *b) {
    return a->slots != b->slots ? a->slots > b->slots : a->holder < b->holder;
}

static void push(gap_heap *heap, gap entry) {
    int32_t at = heap->n++;
    while (at > 0 && comes_before(&entry, &heap->v[(at - 1) / 2])) {
        heap->v[at] = heap->v[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->v[at] = entry;
}

static gap pop(gap_heap *heap) {
    gap top = heap->v[0], last = heap->v[--heap->n];
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < heap->n; at = child) {
        if (child + 1 < heap->n && comes_before(&heap->v[child + 1], &heap->v[child])) {
            child++;
        }
        if (!comes_before(&heap->v[child], &last)) {
            break;
        }
        heap->v[at] = heap->v[child];
    }
    heap->v[at] = last;
    return top;
}

/* ---- 1. What holders make of their own ---- */

/* Makers of what stays; -1 for the rest. given[] counts the slots that holders have. */
static void keep_own(mr_balance *b, const int32_t *holder, const int64_t *quota) {
    for (int32_t h = 0; h < b->holders; h++) {
        b->given[h] = 0;
    }
    for (int64_t k = 0; k < b->slots; k++) {
        int32_t h = holder[k];
        b->maker[k] = h >= 0 && b->given[h]++ < quota[h] ? h : -1;
    }
}

/* Surpluses go to their heap, deficits to their list. Returns how many deficits there are. */
static int32_t find_gaps(mr_balance *b, const int64_t *quota) {
    int32_t n = 0;
    b->surplus.n = b->deficit.n = 0;
    for (int32_t h = 0; h < b->holders; h++) {
        int64_t over = b->given[h] - quota[h];
        if (over > 0) {
            push(&b->surplus, (gap){over, h});
        } else if (over < 0) {
            b->deficits[n++] = (gap){-over, h};
        }
    }
    return n;
}

/* ---- 2. What nobody has ---- */

static int smallest_first(const void *left, const void *right) {
    const gap *a = left, *b = right;
    if (a->slots != b->slots) {
        return a->slots < b->slots ? -1 : 1;
    }
    return a->holder < b->holder ? -1 : a->holder > b->holder;
}

/* Deficits that are left go to their heap. */
static void fill_with_unheld(mr_balance *b, const int32_t *holder, int32_t n) {
    int32_t at = 0;
    qsort(b->deficits, (size_t)n, sizeof *b->deficits, smallest_first);
    for (int64_t k = 0; k < b->slots; k++) {
        if (holder[k] < 0) {
            b->maker[k] = b->deficits[at].holder;
            at += --b->deficits[at].slots == 0;
        }
    }
    for (; at < n; at++) {
        push(&b->deficit, b->deficits[at]);
    }
}

/* ---- 3. Surplus to deficits ---- */

/* spare[] has each holder's surplus slots, ascending; given[] becomes where its next one stands. */
static void list_spare(mr_balance *b, const int32_t *holder, const int64_t *quota) {
    int64_t at = 0;
    for (int32_t h = 0; h < b->holders; h++) {
        int64_t over = b->given[h] - quota[h];
        b->given[h] = at;
        at += over > 0 ? over : 0;
    }
    for (int64_t k = 0; k < b->slots; k++) {
        if (b->maker[k] < 0) {
            b->spare[b->given[holder[k]]++] = (int32_t)k;
        }
    }
    for (int32_t h = b->holders - 1; h > 0; h--) {
        b->given[h] = b->given[h - 1];
    }
    b->given[0] = 0;
}

static void move(mr_balance *b, int32_t from, int32_t to, int64_t slots) {
    for (int64_t k = 0; k < slots; k++) {
        b->maker[b->spare[b->given[from]++]] = to;
    }
    b->moves[b->n_moves++] = (mr_move){from, to, slots};
    b->moved += slots;
}

static void push_rest(gap_heap *heap, gap entry, int64_t taken) {
    if (entry.slots > taken) {
        entry.slots -= taken;
        push(heap, entry);
    }
}

static void settle(mr_balance *b) {
    b->n_moves = 0;
    b->moved = 0;
    while (b->surplus.n > 0) {
        gap from = pop(&b->surplus), to = pop(&b->deficit);
        int64_t slots = from.slots < to.slots ? from.slots : to.slots;
        move(b, from.holder, to.holder, slots);
        push_rest(&b->surplus, from, slots);
        push_rest(&b->deficit, to, slots);
    }
}

/* ---- Steps ---- */

static void list_by_maker(mr_balance *b) {
    for (int32_t h = 0; h <= b->holders; h++) {
        b->first[h] = 0;
    }
    for (int64_t k = 0; k < b->slots; k++) {
        b->first[b->maker[k] + 1]++;
    }
    for (int32_t h = 0; h < b->holders; h++) {
        b->first[h + 1] += b->first[h];
        b->given[h] = b->first[h];
    }
    for (int64_t k = 0; k < b->slots; k++) {
        b->list[b->given[b->maker[k]]++] = (int32_t)k;
    }
}

void mr_balance_step(mr_balance *balance, const int32_t *holder, int64_t slots,
                     const int64_t *quota) {
    balance->slots = slots;
    keep_own(balance, holder, quota);
    int32_t deficits = find_gaps(balance, quota);
    fill_with_unheld(balance, holder, deficits);
    list_spare(balance, holder, quota);
    settle(balance);
    list_by_maker(balance);
}

static bool allocate(mr_balance *b, size_t slots, size_t holders) {
    b->maker = mr_zalloc(slots, sizeof *b->maker);
    b->list = mr_zalloc(slots, sizeof *b->list);
    b->spare = mr_zalloc(slots, sizeof *b->spare);
    b->first = mr_zalloc(holders + 1, sizeof *b->first);
    b->given = mr_zalloc(holders, sizeof *b->given);
    b->deficits = mr_zalloc(holders, sizeof *b->deficits);
    b->surplus.v = mr_zalloc(holders, sizeof(gap));
    b->deficit.v = mr_zalloc(holders, sizeof(gap));
    b->moves = mr_zalloc(holders, sizeof *b->moves);
    return b->maker && b->list && b->spare && b->first && b->given && b->deficits && b->surplus.v &&
           b->deficit.v && b->moves;
}

mr_status mr_balance_open(mr_balance **out, int64_t max_slots, int32_t holders, mr_error *err) {
    if (max_slots < 1 || max_slots > INT32_MAX || holders < 1) {
        return mr_fail(err, MR_E_PARAM, "cannot balance %lld slots over %d holders",
                       (long long)max_slots, (int)holders);
    }
    mr_balance *b = mr_zalloc(1, sizeof *b);
    if (!b || !allocate(b, (size_t)max_slots, (size_t)holders)) {
        mr_balance_free(b);
        return mr_fail_memory(err, (size_t)max_slots * 3 * sizeof(int32_t));
    }
    b->holders = holders;
    *out = b;
    return MR_OK;
}

void mr_balance_free(mr_balance *balance) {
    if (balance) {
        mr_free(balance->maker);
        mr_free(balance->list);
        mr_free(balance->spare);
        mr_free(balance->first);
        mr_free(balance->given);
        mr_free(balance->deficits);
        mr_free(balance->surplus.v);
        mr_free(balance->deficit.v);
        mr_free(balance->moves);
        mr_free(balance);
    }
}

const int32_t *mr_balance_makers(const mr_balance *balance) {
    return balance->maker;
}

const int32_t *mr_balance_slots(const mr_balance *balance, int32_t holder, int64_t *count) {
    *count = balance->first[holder + 1] - balance->first[holder];
    return balance->list + balance->first[holder];
}

const mr_move *mr_balance_moves(const mr_balance *balance, int32_t *n) {
    *n = balance->n_moves;
    return balance->moves;
}

int64_t mr_balance_moved(const mr_balance *balance) {
    return balance->moved;
}
