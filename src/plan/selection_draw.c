/* SPDX-License-Identifier: Apache-2.0 */
/* selection_draw.c - samples by weight, and classes equally often.
 *
 * Both are pure functions of seed, epoch and index; the cursor only keeps orders that are needed
 * again. Changing anything here changes every such run: tests/unit/test_selection.c pins values. */
#include "plan/selection_stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/order.h"

#include <millrace/millrace.h>

/* ---- Weights: Walker's alias table, made by Vose's method ---- */

static mr_status sum_weights(const double *weights, int64_t n, double *sum, mr_error *err) {
    *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i])) {
            return mr_fail(err, MR_E_PARAM, "the weight of sample %lld of the view is %g",
                           (long long)i, weights[i]);
        }
        *sum += weights[i];
    }
    if (!(*sum > 0) || !isfinite(*sum)) {
        return mr_fail(err, MR_E_PARAM, "the weights add up to %g", *sum);
    }
    return MR_OK;
}

/* Cells with less than their share are filled up from those with more. `cells` holds both: those
 * with less from the front, those with more from the back. */
static void fill_cells(mr_alias *alias, uint32_t *cells, int64_t n) {
    int64_t n_less = 0, more = n;
    for (int64_t i = 0; i < n; i++) {
        if (alias[i].keep < 1) {
            cells[n_less++] = (uint32_t)i;
        } else {
            cells[--more] = (uint32_t)i;
        }
    }
    while (n_less > 0 && more < n) {
        uint32_t less = cells[--n_less], giver = cells[more];
        alias[less].other = giver;
        alias[giver].keep -= 1 - alias[less].keep;
        if (alias[giver].keep < 1) {
            more++;
            cells[n_less++] = giver;
        }
    }
    /* What is left differs from its share by rounding alone, unless its weight is 0. */
    while (n_less > 0) {
        alias[cells[--n_less]].keep = 1;
    }
}

static int64_t heaviest(const double *weights, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = weights[i] > weights[best] ? i : best;
    }
    return best;
}

/* The sums are added up in the source's order, everywhere the same. */
static mr_status sum_up(mr_selection_stage *stage, const double *weights, mr_error *err) {
    int64_t n = stage->before;
    stage->below = mr_zalloc((size_t)n + 1, sizeof *stage->below);
    if (!stage->below) {
        return mr_fail_memory(err, (size_t)n * sizeof *stage->below);
    }
    for (int64_t i = 0; i < n; i++) {
        stage->below[i + 1] = stage->below[i] + weights[i];
        stage->last = stage->below[i + 1] > stage->below[i] ? i : stage->last;
    }
    return MR_OK;
}

mr_status mr_stage_weigh(mr_selection_stage *stage, const double *weights, int64_t count,
                         bool in_blocks, mr_error *err) {
    int64_t n = stage->before;
    double sum = 0;
    MR_TRY(sum_weights(weights, n, &sum, err));
    if (in_blocks) {
        stage->length = count > 0 ? count : n;
        return sum_up(stage, weights, err);
    }
    uint32_t *cells = mr_zalloc((size_t)n, sizeof *cells);
    stage->alias = mr_zalloc((size_t)n, sizeof *stage->alias);
    if (!cells || !stage->alias) {
        mr_free(cells);
        return mr_fail_memory(err, (size_t)n * (sizeof *cells + sizeof *stage->alias));
    }
    for (int64_t i = 0; i < n; i++) {
        stage->alias[i].keep = weights[i] / sum * (double)n;
    }
    fill_cells(stage->alias, cells, n);
    uint32_t best = (uint32_t)heaviest(weights, n);
    for (int64_t i = 0; i < n; i++) {
        if (weights[i] == 0 && stage->alias[i].keep > 0) { /* left over: rounding may not draw it */
            stage->alias[i] = (mr_alias){.keep = 0, .other = best};
        }
    }
    mr_free(cells);
    stage->length = count > 0 ? count : n;
    return MR_OK;
}

static int64_t draw_by_weight(const mr_selection_stage *stage, uint64_t seed, uint32_t epoch,
                              int64_t index) {
    mr_key key = {
        .seed = seed, .epoch = epoch, .op = mr_op_word("weights", 0), .sample = (uint64_t)index};
    int64_t cell = mr_draw_below(&key, 0, stage->before);
    const mr_alias *alias = &stage->alias[cell];
    return mr_draw_unit(&key, 1) < alias->keep ? cell : alias->other;
}

/* ---- Balance ---- */

static int compare_labels(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts labels, of which there is one at least, and keeps one of each; returns how many. */
static int64_t keep_one_of_each(int64_t *labels, int64_t n) {
    int64_t kept = 1;
    qsort(labels, (size_t)n, sizeof *labels, compare_labels);
    for (int64_t i = 1; i < n; i++) {
        if (labels[i] != labels[kept - 1]) {
            labels[kept++] = labels[i];
        }
    }
    return kept;
}

static int64_t class_of(const int64_t *known, int64_t n, int64_t label) {
    const int64_t *found = bsearch(&label, known, (size_t)n, sizeof label, compare_labels);
    return found - known;
}

/* Members by class, each class's in the order of the sequence before. first[c + 1] counts the
 * members of c as they are put. */
static void put_members(mr_class_table *balance, const int64_t *known, const int64_t *labels,
                        int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t c = class_of(known, balance->n_classes, labels[i]);
        balance->first[c + 1]++;
    }
    for (int64_t c = 0; c < balance->n_classes; c++) {
        balance->first[c + 1] += balance->first[c];
        balance->order[c] = balance->first[c];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t c = class_of(known, balance->n_classes, labels[i]);
        balance->member[balance->order[c]++] = (uint32_t)i;
    }
}

static int64_t members_of_class(const mr_class_table *balance, int64_t c) {
    return balance->first[c + 1] - balance->first[c];
}

static int64_t largest_class(const mr_class_table *balance) {
    int64_t largest = 0;
    for (int64_t c = 0; c < balance->n_classes; c++) {
        int64_t members = members_of_class(balance, c);
        largest = members > largest ? members : largest;
    }
    return largest;
}

/* Each pass through a class's members has an order of its own, and each order a number. */
static void number_orders(mr_class_table *balance, int64_t rounds) {
    int64_t number = 0;
    for (int64_t c = 0; c < balance->n_classes; c++) {
        int64_t members = members_of_class(balance, c);
        balance->order[c] = number;
        number += (rounds + members - 1) / members;
    }
}

static mr_status alloc_balance(mr_class_table *balance, int64_t n, mr_error *err) {
    size_t classes = (size_t)balance->n_classes;
    balance->first = mr_zalloc(classes + 1, sizeof *balance->first);
    balance->order = mr_zalloc(classes, sizeof *balance->order);
    balance->member = mr_zalloc((size_t)n, sizeof *balance->member);
    if (!balance->first || !balance->order || !balance->member) {
        return mr_fail_memory(err, classes * 16 + (size_t)n * sizeof *balance->member);
    }
    return MR_OK;
}

static mr_status lay_classes(mr_selection_stage *stage, const int64_t *known, const int64_t *labels,
                             int64_t count, mr_error *err) {
    mr_class_table *balance = &stage->balance;
    MR_TRY(alloc_balance(balance, stage->before, err));
    put_members(balance, known, labels, stage->before);
    stage->length = count;
    if (count == 0 &&
        (__builtin_mul_overflow(balance->n_classes, largest_class(balance), &stage->length) ||
         stage->length > MR_MAX_SAMPLES / 2)) {
        return mr_fail(err, MR_E_LIMIT, "%lld classes, the largest of %lld samples, are too many",
                       (long long)balance->n_classes, (long long)largest_class(balance));
    }
    number_orders(balance, (stage->length + balance->n_classes - 1) / balance->n_classes);
    return MR_OK;
}

mr_status mr_stage_balance(mr_selection_stage *stage, const int64_t *labels, int64_t count,
                           mr_error *err) {
    size_t n = (size_t)stage->before;
    if (count > MR_MAX_SAMPLES / 2) {
        return mr_fail(err, MR_E_LIMIT, "balance has at most %lld positions",
                       (long long)MR_MAX_SAMPLES / 2);
    }
    int64_t *known = mr_zalloc(n, sizeof *known);
    if (!known) {
        return mr_fail_memory(err, n * sizeof *known);
    }
    memcpy(known, labels, n * sizeof *known);
    stage->balance.n_classes = keep_one_of_each(known, stage->before);
    mr_status status = lay_classes(stage, known, labels, count, err);
    mr_free(known);
    return status;
}

/* ---- Cursors ---- */

/* The order that was needed last, of a class's pass or of classes in a round; number -1: none. */
typedef struct kept_order {
    int64_t number;
    mr_order order;
} kept_order;

struct mr_selection_cursor {
    const mr_selection *selection;
    const mr_selection_stage *stage; /* that is drawn */
    uint64_t seed;
    bool shuffle;
    uint32_t epoch;
    kept_order round;
    kept_order *classes;
};

static void forget_orders(mr_selection_cursor *cursor) {
    mr_order_free(&cursor->round.order);
    cursor->round.number = -1;
    for (int64_t c = 0; cursor->classes && c < cursor->stage->balance.n_classes; c++) {
        mr_order_free(&cursor->classes[c].order);
        cursor->classes[c].number = -1;
    }
}

static mr_status keep_order(const mr_selection_cursor *cursor, kept_order *kept, int64_t n,
                            const char *what, int64_t number, mr_error *err) {
    if (kept->number == number) {
        return MR_OK;
    }
    mr_order_free(&kept->order);
    kept->number = -1;
    MR_TRY(mr_order_init_keyed(&kept->order, n, cursor->seed, cursor->epoch, mr_op_word(what, 0),
                               (uint64_t)number, err));
    kept->number = number;
    return MR_OK;
}

/* The class in place `place` of a round. */
static mr_status class_in_round(mr_selection_cursor *cursor, int64_t round, int64_t place,
                                int64_t *out, mr_error *err) {
    *out = place;
    if (cursor->shuffle) {
        MR_TRY(keep_order(cursor, &cursor->round, cursor->stage->balance.n_classes, "balance",
                          round, err));
        *out = mr_order_at(&cursor->round.order, place);
    }
    return MR_OK;
}

/* The member that a class gives in a round. */
static mr_status member_in_round(mr_selection_cursor *cursor, int64_t c, int64_t round,
                                 int64_t *out, mr_error *err) {
    const mr_class_table *balance = &cursor->stage->balance;
    int64_t members = members_of_class(balance, c), k = round % members;
    if (cursor->shuffle) {
        int64_t number = balance->order[c] + round / members;
        MR_TRY(keep_order(cursor, &cursor->classes[c], members, "class", number, err));
        k = mr_order_at(&cursor->classes[c].order, k);
    }
    *out = balance->member[balance->first[c] + k];
    return MR_OK;
}

static mr_status draw_balanced(mr_selection_cursor *cursor, int64_t index, int64_t *out,
                               mr_error *err) {
    int64_t classes = cursor->stage->balance.n_classes, c = 0;
    MR_TRY(class_in_round(cursor, index / classes, index % classes, &c, err));
    return member_in_round(cursor, c, index / classes, out, err);
}

mr_status mr_selection_draw(mr_selection_cursor *cursor, uint32_t epoch, int64_t first,
                            int64_t count, int64_t *samples, mr_error *err) {
    const mr_selection *selection = cursor->selection;
    if (epoch != cursor->epoch) {
        forget_orders(cursor);
        cursor->epoch = epoch;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t index =
            mr_selection_descend(selection, first + i, selection->n_stages, selection->drawn + 1);
        if (cursor->stage->kind == MR_STAGE_WEIGHTS) {
            index = draw_by_weight(cursor->stage, cursor->seed, epoch, index);
        } else {
            MR_TRY(draw_balanced(cursor, index, &index, err));
        }
        samples[i] = mr_selection_descend(selection, index, selection->drawn, 0);
    }
    return MR_OK;
}

mr_status mr_selection_cursor_open(mr_selection_cursor **out, const mr_selection *selection,
                                   uint64_t seed, bool shuffle, mr_error *err) {
    const mr_selection_stage *stage = &selection->stages[selection->drawn];
    size_t classes = (size_t)stage->balance.n_classes;
    mr_selection_cursor *cursor = mr_zalloc(1, sizeof *cursor);
    kept_order *orders = mr_zalloc(classes + 1, sizeof *orders);
    if (!cursor || !orders) {
        mr_free(cursor);
        mr_free(orders);
        return mr_fail_memory(err, sizeof *cursor + classes * sizeof *orders);
    }
    *cursor = (mr_selection_cursor){.selection = selection,
                                    .stage = stage,
                                    .seed = seed,
                                    .shuffle = shuffle,
                                    .classes = orders};
    forget_orders(cursor);
    *out = cursor;
    return MR_OK;
}

void mr_selection_cursor_free(mr_selection_cursor *cursor) {
    if (cursor) {
        forget_orders(cursor);
        mr_free(cursor->classes);
        mr_free(cursor);
    }
}
