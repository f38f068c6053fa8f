/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - which sample stands at which position of an epoch. Pure.
 *
 * Up to 2^16 samples an exact Fisher-Yates shuffle (a table); above it a Feistel permutation of
 * any size, in O(1) memory. Both keyed by (seed, epoch) alone. */
#ifndef MR_PLAN_ORDER_H
#define MR_PLAN_ORDER_H

#include <millrace/types.h>

#define MR_ORDER_TABLE_MAX ((int64_t)1 << 16)
#define MR_FEISTEL_ROUNDS 12 /* even */

typedef struct mr_order {
    int64_t n;
    bool shuffle;
    uint32_t *table;      /* Fisher-Yates, or NULL */
    uint32_t left, right; /* Feistel domain: left x right >= n */
    uint64_t round_keys[MR_FEISTEL_ROUNDS];
} mr_order;

/* Order of n samples in an epoch. n >= 1 and at most MR_MAX_SAMPLES. */
mr_status mr_order_init(mr_order *order, int64_t n, bool shuffle, uint64_t seed, uint32_t epoch,
                        mr_error *err);

/* One of many shuffled orders in the same epoch: `op` is an op word (core/philox.h) that says what
 * is ordered, `number` which of them it is, below 2^47. Op word "order" and number 0 give the order
 * above. */
mr_status mr_order_init_keyed(mr_order *order, int64_t n, uint64_t seed, uint32_t epoch,
                              uint32_t op, uint64_t number, mr_error *err);
void mr_order_free(mr_order *order); /* a zeroed order is allowed */

/* Sample at a position in [0, n). */
int64_t mr_order_at(const mr_order *order, int64_t position);

/* The samples at `count` positions from `first` on, in [0, n) too; behind the last comes the first
 * again. */
void mr_order_list(const mr_order *order, int64_t first, int64_t count, int64_t *out);

/* The sample that stands in for a bad one at a position: attempt 0, 1, 2 ... By the law. Uniform
 * over all samples, so it may be the bad one itself or another bad one: then ask again with the
 * next attempt. Attempts from 2^16 on repeat the earlier ones. */
int64_t mr_order_substitute(int64_t n, uint64_t seed, uint32_t epoch, int64_t position,
                            uint32_t attempt);

#endif
