/* SPDX-License-Identifier: Apache-2.0 */
/* selection_stage.h - a selection as stages that map the indexes of their own sequence to those of
 * the one before; for the selection's own files. */
#ifndef MR_PLAN_SELECTION_STAGE_H
#define MR_PLAN_SELECTION_STAGE_H

#include "plan/bitmap.h"
#include "plan/selection.h"

/* A draw in proportion to weights: one of n cells evenly, then the cell itself or its other. */
typedef struct mr_alias {
    double keep; /* chance of the cell itself */
    uint32_t other;
} mr_alias;

typedef struct mr_class_table {
    int64_t n_classes;
    int64_t *first;   /* n_classes + 1: where a class's members begin */
    int64_t *order;   /* number of the order of a class's first pass; numbers of passes follow */
    uint32_t *member; /* indexes of the sequence before, by class */
} mr_class_table;

typedef enum mr_stage_kind {
    MR_STAGE_STRIDE,  /* index i is first + i * step */
    MR_STAGE_MEMBERS, /* the i-th member */
    MR_STAGE_REPEAT,  /* i modulo the length before */
    MR_STAGE_WEIGHTS,
    MR_STAGE_BALANCE
} mr_stage_kind;

typedef struct mr_selection_stage {
    mr_stage_kind kind;
    int64_t length, before; /* of its sequence, and of the one before */
    int64_t first, step;
    mr_bitmap members;
    mr_alias *alias;
    double *below; /* weights, where samples lie in blocks, in place of the alias: the sum of those
                      before each index, and of all */
    int64_t last;  /* likewise: the last index that has a weight */
    mr_class_table balance;
} mr_selection_stage;

struct mr_selection {
    int64_t samples, length;
    mr_selection_stage *stages;
    int32_t n_stages;
    int32_t n_once; /* the first of them, up to which each sample comes once and in order */
    int32_t drawn;  /* the stage with weights or balance, or -1 */
    bool subset;
};

/* Indexes of the sequence of stage `end` - 1 (`end` 0: samples) from those of stage `from` - 1;
 * none of the stages between is drawn. */
int64_t mr_selection_descend(const mr_selection *selection, int64_t index, int32_t from,
                             int32_t end);

/* How often a selection that is not drawn goes through its samples, and how many of its indexes
 * come before one of them (a rank) in a pass; all passes before count. */
int64_t mr_selection_passes(const mr_selection *selection);
int64_t mr_selection_pass_rank(const mr_selection *selection, int64_t pass, int64_t rank);

/* Tables of a drawn stage over the `n` = stage->before indexes before it: for weights, and for
 * class labels. Their length is `count`, or as mr_view_step says where that is 0. */
mr_status mr_stage_weigh(mr_selection_stage *stage, const double *weights, int64_t count,
                         bool in_blocks, mr_error *err);
mr_status mr_stage_balance(mr_selection_stage *stage, const int64_t *labels, int64_t count,
                           mr_error *err);

#endif
