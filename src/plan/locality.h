/* SPDX-License-Identifier: Apache-2.0 */
/* locality.h - who keeps a run's items and who makes its slots, by the terms of the document. Pure.
 *
 * Items are the samples of all children, or their blocks where they lie in blocks: numbered one
 * child after the other. Nodes are the holders of placement.h; a node's items are dealt out to its
 * ranks, so that each item has one rank that reads, keeps and sends it. */
#ifndef MR_PLAN_LOCALITY_H
#define MR_PLAN_LOCALITY_H

#include "plan/placement.h"
#include "plan/route.h"
#include "plan/share.h"
#include "plan/share_document.h"

typedef struct mr_locality_config {
    mr_share_terms terms;
    mr_share share;
    const int64_t *items; /* of each child. Not kept */
    int32_t n_children;
    int64_t (*size)(void *context, int32_t child, int64_t item); /* bytes; -1: unknown. Called by
                                                                    mr_locality_open alone */
    void *context;
} mr_locality_config;

typedef struct mr_locality mr_locality;
mr_status mr_locality_open(mr_locality **out, const mr_locality_config *config, mr_error *err);
void mr_locality_free(mr_locality *locality); /* NULL allowed */

/* Any thread. */
int64_t mr_locality_item(const mr_locality *locality, int32_t child, int64_t number);
int64_t mr_locality_items(const mr_locality *locality);
void mr_locality_split(const mr_locality *locality, int64_t item, int32_t *child, int64_t *number);
int32_t mr_locality_owner(const mr_locality *locality, int64_t item); /* a rank */
bool mr_locality_is_kept(const mr_locality *locality, int64_t item);  /* by its owner */

/* Copies of an item are numbered; the owner's is 0. The rank that has one (-1: nobody), the number
 * of the one that a rank has (-1: none), and whether there is room for it. */
int32_t mr_locality_copies(const mr_locality *locality);
int32_t mr_locality_copy(const mr_locality *locality, int64_t item, int32_t copy);
int32_t mr_locality_copy_of(const mr_locality *locality, int64_t item, int32_t rank);
bool mr_locality_keeps(const mr_locality *locality, int64_t item, int32_t copy);
bool mr_locality_is_near(const mr_locality *locality, int64_t item, int64_t rank); /* on its node */

/* Local, one thread: balances a step; then the portion of any rank in it, and its picks, which the
 * caller has room for. portion.slots is the locality's until the next step. */
mr_status mr_locality_step(mr_locality *locality, mr_route_cursor *cursor, const mr_slice *step,
                           mr_error *err);
mr_portion mr_locality_portion(const mr_locality *locality, const mr_slice *step, int64_t rank,
                               mr_pick *picks);

#endif
