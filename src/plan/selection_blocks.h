/* SPDX-License-Identifier: Apache-2.0 */
/* selection_blocks.h - a view over samples that lie in blocks: how many rows a block has in an
 * epoch, and which sample each of them is. Pure.
 *
 * A course visits each block once an epoch and permutes the rows of a window (course.h). So all
 * rows of a block belong together, whatever the view says of their order:
 *
 * take, skip, every, split, where: a block has those of its samples that are left, in order.
 *
 * repeat: with shuffle a block has each of its samples as often as the view does; in order, the
 * blocks come as often as the sequence goes through them.
 *
 * weights: an epoch of L positions has L strata, equal parts of the sum of all weights, laid out in
 * the source's order; from each one sample is drawn. So a sample comes as often as its weight says,
 * on average, and its number differs less from that than it would by L independent draws.
 *
 * balance: each class has the same number of positions, to one; each of its members the same
 * number, to one. Those that have one more are spread evenly over the class, from another member on
 * in each epoch. A block's rows stand class by class.
 *
 * Steps behind weights and balance only say how many positions an epoch has.
 *
 * A unit is a block that has rows, at one of the places where it is visited in the source's order.
 */
#ifndef MR_PLAN_SELECTION_BLOCKS_H
#define MR_PLAN_SELECTION_BLOCKS_H

#include "plan/selection.h"

typedef struct mr_selection_blocks mr_selection_blocks;

/* Block b has samples [first[b], first[b + 1]). The selection, NULL for all samples once, is kept;
 * `first` is not. Read-only once open. */
mr_status mr_selection_blocks_open(mr_selection_blocks **out, const mr_selection *selection,
                                   int64_t n_blocks, const int64_t *first, bool shuffle,
                                   uint64_t seed, mr_error *err);
void mr_selection_blocks_free(mr_selection_blocks *blocks); /* NULL allowed */

int64_t mr_selection_blocks_units(const mr_selection_blocks *blocks);
int64_t mr_selection_blocks_rows(const mr_selection_blocks *blocks); /* of an epoch */
int64_t mr_selection_blocks_block(const mr_selection_blocks *blocks, int64_t unit);

/* What depends on the epoch: O(units) where weights are drawn, O(blocks times classes they have)
 * where classes are balanced, nothing otherwise. */
typedef struct mr_selection_epoch {
    const int64_t *below; /* units + 1: rows of the units before it; a unit may have none */
    int64_t *own;         /* below, where it is the epoch's; else NULL */
    uint32_t epoch;
    struct mr_class_turn *turns; /* balance: of each class */
    int64_t *entry_below;        /* balance: rows of the entries before it */
} mr_selection_epoch;

mr_status mr_selection_epoch_init(mr_selection_epoch *epoch, const mr_selection_blocks *blocks,
                                  uint32_t number, mr_error *err);
void mr_selection_epoch_free(mr_selection_epoch *epoch); /* a zeroed one is allowed */

/* The sample of a unit's row, counted from the unit's first. */
int64_t mr_selection_epoch_sample(const mr_selection_epoch *epoch,
                                  const mr_selection_blocks *blocks, int64_t unit, int64_t row);

#endif
