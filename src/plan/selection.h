/* SPDX-License-Identifier: Apache-2.0 */
/* selection.h - what of a source takes part in an epoch, and how often: its view. Pure.
 *
 * A view is a list of steps, each of which makes a sequence of samples from the one before; the
 * first starts from all samples in the source's order.
 *
 *   take N       the first N (all, where there are fewer)
 *   skip N       all but the first N
 *   every N      one in N, from a place below N on
 *   split        the samples of one part; a hash of the sample's name says which part it is in, so
 *                a new sample moves no old one
 *   where        the samples for which a condition holds
 *   repeat N     the whole sequence N times
 *   weights      draws with replacement, in proportion to each sample's weight
 *   balance      classes equally often
 *
 * split and where come before repeat, weights and balance; of weights and balance there is one at
 * most. What the last three mean where samples lie in blocks is told in selection_blocks.h. */
#ifndef MR_PLAN_SELECTION_H
#define MR_PLAN_SELECTION_H

#include <millrace/types.h>

typedef enum mr_view_kind {
    MR_VIEW_TAKE,
    MR_VIEW_SKIP,
    MR_VIEW_EVERY,
    MR_VIEW_SPLIT,
    MR_VIEW_WHERE,
    MR_VIEW_REPEAT,
    MR_VIEW_WEIGHTS,
    MR_VIEW_BALANCE
} mr_view_kind;

/* A part of a split. */
typedef struct mr_view_part {
    char *name;
    double fraction; /* above 0; those of all parts add up to 1 at most */
} mr_view_part;

typedef struct mr_view_step {
    mr_view_kind kind;
    int64_t count;  /* take, skip, every, repeat: N. weights, balance: positions of an epoch; 0:
                       weights as many as there are samples, balance so that the samples of the
                       largest class come once */
    int64_t offset; /* every: the place */
    char *text;     /* where: the condition. weights, balance: the field */
    char *part;     /* split: the part's name */
    char *salt;     /* split: another salt, another split */
    mr_view_part *parts; /* split: in the order of their names */
    int32_t n_parts;
} mr_view_step;

/* What a selection asks about samples [first, first + count) while it opens; a function that no
 * step needs may be NULL. `step` is the number of the step that asks. */
typedef struct mr_sample_facts {
    /* The name of one sample: the bytes that split hashes, valid until the next call. */
    mr_status (*name)(void *user, int64_t sample, const char **name, size_t *size, mr_error *err);
    /* Sets bit i % 64 of word i / 64 where the condition holds for sample first + i; the words are
     * 0 before. `first` is a multiple of 64. */
    mr_status (*where)(void *user, int32_t step, const char *condition, int64_t first,
                       int64_t count, uint64_t *bits, mr_error *err);
    mr_status (*weights)(void *user, int32_t step, const char *field, int64_t first, int64_t count,
                         double *out, mr_error *err);
    mr_status (*classes)(void *user, int32_t step, const char *field, int64_t first, int64_t count,
                         int64_t *out, mr_error *err);
    void *user;
    bool in_blocks; /* samples lie in blocks: weights are drawn as selection_blocks.h says */
} mr_sample_facts;

/* Read-only once open: any number of threads may share it. Errors name the step as
 * "$.view[number]". The steps are not kept. */
typedef struct mr_selection mr_selection;
mr_status mr_selection_open(mr_selection **out, int64_t samples, const mr_view_step *steps,
                            int32_t n_steps, const mr_sample_facts *facts, mr_error *err);
void mr_selection_free(mr_selection *selection); /* NULL allowed */

int64_t mr_selection_samples(const mr_selection *selection); /* of the source */
int64_t mr_selection_length(const mr_selection *selection);  /* at least 1 */

/* Each sample at most once and in the source's order. */
bool mr_selection_is_subset(const mr_selection *selection);

/* Which sample stands at an index depends on seed and epoch: there are weights or balance. Their
 * order is a shuffled one already. */
bool mr_selection_is_drawn(const mr_selection *selection);

/* How many samples that take part, counted once, are below `sample` (<= samples). */
int64_t mr_selection_rank(const mr_selection *selection, int64_t sample);

/* The sample at an index in [0, length). Not of one that is drawn. */
int64_t mr_selection_at(const mr_selection *selection, int64_t index);

/* Samples of a selection that is drawn. The caller owns it and uses it from one thread at a time;
 * it keeps the order of each class in the epoch asked for last. */
typedef struct mr_selection_cursor mr_selection_cursor;
mr_status mr_selection_cursor_open(mr_selection_cursor **out, const mr_selection *selection,
                                   uint64_t seed, bool shuffle, mr_error *err);
void mr_selection_cursor_free(mr_selection_cursor *cursor); /* NULL allowed */

/* The samples at indexes first, first + 1, ... in [0, length).
 *
 * weights: a draw for each index.
 * balance: round r, of as many indexes as there are classes, has each class once, in an order of
 * its own, with the class's r-th sample; its samples come in an order of their own too, in another
 * when they come again. Without shuffle classes stand by number and samples in the source's order.
 */
mr_status mr_selection_draw(mr_selection_cursor *cursor, uint32_t epoch, int64_t first,
                            int64_t count, int64_t *samples, mr_error *err);

#endif
