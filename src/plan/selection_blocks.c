/* SPDX-License-Identifier: Apache-2.0 */
/* selection_blocks.c - see selection_blocks.h. */
#include "plan/selection_blocks.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/course.h"
#include "plan/selection_stage.h"

#include <millrace/millrace.h>

/* Members of one class in one block: they follow one another in the class too. */
typedef struct class_entry {
    uint32_t number; /* of the class */
    uint32_t first;  /* in the class */
    uint32_t count;
} class_entry;

/* How often a class's members come in an epoch: all `times`, and `more` of them once more. */
typedef struct mr_class_turn {
    int64_t times, more, first; /* the member from which on the others are spread */
} mr_class_turn;

struct mr_selection_blocks {
    const mr_selection *selection;
    const mr_selection_stage *drawn; /* or NULL */
    uint64_t seed;
    int64_t n_units, rows;
    int64_t passes;   /* through the samples that take part */
    bool joins;       /* a unit has the rows of all passes */
    int64_t *block;   /* of each unit */
    int64_t *below;   /* n_units + 1; where rows are not drawn */
    int64_t *members; /* n_units + 1: samples that take part in the units before; where a unit has
                         more rows than samples */
    int64_t *parts;   /* rows of a unit in the passes before one: passes + 1 for each unit; where
                         passes differ */
    class_entry *entries;
    int64_t *first_entry; /* n_units + 1 */
};

/* ---- Weights ----
 * Row r has its stratum, [r, r + 1) of L, and a point in it. Points ascend with rows, so the rows
 * of a block lie between those whose points fall on its borders. */

static double point_of(const mr_selection_blocks *b, uint32_t epoch, int64_t row) {
    mr_key key = {
        .seed = b->seed, .epoch = epoch, .op = mr_op_word("weights", 0), .sample = (uint64_t)row};
    double sum = b->drawn->below[b->drawn->before];
    return ((double)row + mr_draw_unit(&key, 0)) * (sum / (double)b->rows);
}

/* Rows whose points are below a border. */
static int64_t rows_before(const mr_selection_blocks *b, uint32_t epoch, double border) {
    double sum = b->drawn->below[b->drawn->before];
    if (border >= sum) { /* also of points that were rounded up to it */
        return b->rows;
    }
    int64_t row = (int64_t)(border / sum * (double)b->rows);
    row = row < b->rows ? row : b->rows - 1;
    while (row > 0 && point_of(b, epoch, row - 1) >= border) {
        row--;
    }
    while (row < b->rows && point_of(b, epoch, row) < border) {
        row++;
    }
    return row;
}

/* The last index in [low, high) whose weights begin at or before a point: one with a weight, unless
 * the point was rounded up to the sum. */
static int64_t index_at(const mr_selection_stage *stage, int64_t low, int64_t high, double point) {
    const double *below = stage->below;
    if (point >= below[stage->before]) {
        return stage->last;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (below[middle] <= point) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void count_draws(mr_selection_epoch *epoch, const mr_selection_blocks *b) {
    for (int64_t u = 0; u < b->n_units; u++) {
        double border = b->drawn->below[b->members[u + 1]];
        epoch->own[u + 1] = rows_before(b, epoch->epoch, border);
    }
    epoch->own[b->n_units] = b->rows;
}

/* ---- Balance ---- */

static int64_t members_of(const mr_selection_blocks *b, int64_t class) {
    const int64_t *first = b->drawn->balance.first;
    return first[class + 1] - first[class];
}

/* Of `more` members spread evenly over m, how many are among the first y. */
static int64_t spread(int64_t y, int64_t more, int64_t m) {
    return (int64_t)((uint64_t)y * (uint64_t)more / (uint64_t)m);
}

/* Members before the i-th that come once more: the spread begins at turn->first and goes round. */
static int64_t more_before(const mr_class_turn *turn, int64_t m, int64_t i) {
    int64_t wrapped = m - turn->first;
    if (i <= turn->first) {
        return spread(wrapped + i, turn->more, m) - spread(wrapped, turn->more, m);
    }
    return turn->more - spread(wrapped, turn->more, m) + spread(i - turn->first, turn->more, m);
}

static mr_class_turn turn_of(const mr_selection_blocks *b, uint32_t epoch, int64_t class) {
    const int64_t classes = b->drawn->balance.n_classes, m = members_of(b, class);
    mr_key round = {.seed = b->seed, .epoch = epoch, .op = mr_op_word("balance", 0)};
    mr_key own = {
        .seed = b->seed, .epoch = epoch, .op = mr_op_word("class", 0), .sample = (uint64_t) class};
    int64_t place = (class + mr_draw_below(&round, 0, classes)) % classes;
    int64_t rows = b->rows / classes + (place < b->rows % classes ? 1 : 0);
    return (mr_class_turn){rows / m, rows % m, mr_draw_below(&own, 0, m)};
}

static int64_t rows_of_entry(const mr_selection_blocks *b, const mr_selection_epoch *epoch,
                             const class_entry *entry) {
    const mr_class_turn *turn = &epoch->turns[entry->number];
    int64_t m = members_of(b, entry->number), end = (int64_t)entry->first + entry->count;
    return turn->times * entry->count + more_before(turn, m, end) -
           more_before(turn, m, entry->first);
}

static void count_turns(mr_selection_epoch *epoch, const mr_selection_blocks *b) {
    for (int64_t c = 0; c < b->drawn->balance.n_classes; c++) {
        epoch->turns[c] = turn_of(b, epoch->epoch, c);
    }
    for (int64_t u = 0; u < b->n_units; u++) {
        for (int64_t e = b->first_entry[u]; e < b->first_entry[u + 1]; e++) {
            epoch->entry_below[e + 1] =
                epoch->entry_below[e] + rows_of_entry(b, epoch, &b->entries[e]);
        }
        epoch->own[u + 1] = epoch->entry_below[b->first_entry[u + 1]];
    }
}

/* The last in [low, high) that begins at or before a row. */
static int64_t find(const int64_t *below, int64_t low, int64_t high, int64_t row) {
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (below[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The member of an entry that comes once more after `skipped` others of it that do. */
static int64_t find_more(const mr_class_turn *turn, int64_t m, const class_entry *entry,
                         int64_t skipped) {
    int64_t low = entry->first, high = (int64_t)entry->first + entry->count;
    int64_t before = more_before(turn, m, low) + skipped;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (more_before(turn, m, middle) <= before) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t balanced_index(const mr_selection_epoch *epoch, const mr_selection_blocks *b,
                              int64_t unit, int64_t row) {
    row += epoch->own[unit];
    int64_t e = find(epoch->entry_below, b->first_entry[unit], b->first_entry[unit + 1], row);
    const class_entry *entry = &b->entries[e];
    const mr_class_turn *turn = &epoch->turns[entry->number];
    int64_t k = row - epoch->entry_below[e], sure = turn->times * entry->count;
    int64_t member = k < sure ? entry->first + k % entry->count
                              : find_more(turn, members_of(b, entry->number), entry, k - sure);
    return b->drawn->balance.member[b->drawn->balance.first[entry->number] + member];
}

/* ---- Rows ---- */

/* Where each pass goes through the same samples, they repeat; else the pass must be found. */
static int64_t joined_index(const mr_selection_blocks *b, int64_t unit, int64_t row) {
    if (!b->parts) {
        int64_t samples = b->members[unit + 1] - b->members[unit];
        return mr_selection_descend(b->selection, b->members[unit] + row % samples,
                                    b->selection->n_once, 0);
    }
    const int64_t *parts = b->parts + unit * (b->passes + 1);
    int64_t pass = find(parts, 0, b->passes, row);
    int64_t first = mr_selection_pass_rank(b->selection, pass, b->members[unit]);
    return mr_selection_at(b->selection, first + row - parts[pass]);
}

int64_t mr_selection_epoch_sample(const mr_selection_epoch *epoch, const mr_selection_blocks *b,
                                  int64_t unit, int64_t row) {
    if (!b->selection) {
        return b->below[unit] + row;
    }
    if (b->drawn) {
        int64_t index = b->drawn->kind == MR_STAGE_BALANCE
                            ? balanced_index(epoch, b, unit, row)
                            : index_at(b->drawn, b->members[unit], b->members[unit + 1],
                                       point_of(b, epoch->epoch, epoch->own[unit] + row));
        return mr_selection_descend(b->selection, index, b->selection->drawn, 0);
    }
    return b->joins ? joined_index(b, unit, row)
                    : mr_selection_at(b->selection, b->below[unit] + row);
}

/* ---- Epochs ---- */

static mr_status alloc_epoch(mr_selection_epoch *epoch, const mr_selection_blocks *b,
                             mr_error *err) {
    size_t units = (size_t)b->n_units + 1;
    bool by_class = b->drawn->kind == MR_STAGE_BALANCE;
    size_t classes = by_class ? (size_t)b->drawn->balance.n_classes : 0;
    size_t entries = by_class ? (size_t)b->first_entry[b->n_units] + 1 : 0;
    epoch->own = mr_zalloc(units, sizeof *epoch->own);
    epoch->turns = mr_zalloc(classes, sizeof *epoch->turns);
    epoch->entry_below = mr_zalloc(entries, sizeof *epoch->entry_below);
    if (!epoch->own || !epoch->turns || !epoch->entry_below) {
        mr_selection_epoch_free(epoch);
        return mr_fail_memory(err, (units + entries) * sizeof *epoch->own);
    }
    return MR_OK;
}

mr_status mr_selection_epoch_init(mr_selection_epoch *epoch, const mr_selection_blocks *b,
                                  uint32_t number, mr_error *err) {
    *epoch = (mr_selection_epoch){.below = b->below, .epoch = number};
    if (!b->drawn) {
        return MR_OK;
    }
    MR_TRY(alloc_epoch(epoch, b, err));
    if (b->drawn->kind == MR_STAGE_BALANCE) {
        count_turns(epoch, b);
    } else {
        count_draws(epoch, b);
    }
    epoch->below = epoch->own;
    return MR_OK;
}

void mr_selection_epoch_free(mr_selection_epoch *epoch) {
    mr_free(epoch->own);
    mr_free(epoch->turns);
    mr_free(epoch->entry_below);
    *epoch = (mr_selection_epoch){0};
}

/* ---- Opening ---- */

/* Samples below one that take part, once each. */
static int64_t rank_of(const mr_selection_blocks *b, int64_t sample) {
    return b->selection ? mr_selection_rank(b->selection, sample) : sample;
}

/* Units that have rows in one way or another: of all passes together, or of one pass. */
static void add_units(mr_selection_blocks *b, int64_t n_blocks, const int64_t *first) {
    for (int64_t i = 0; i < n_blocks; i++) {
        int64_t end = rank_of(b, first[i + 1]);
        if (end > b->members[b->n_units]) {
            b->block[b->n_units] = i;
            b->members[++b->n_units] = end;
        }
    }
}

/* Rows of unit u in a pass. */
static int64_t rows_in_pass(const mr_selection_blocks *b, int64_t u, int64_t pass) {
    return mr_selection_pass_rank(b->selection, pass, b->members[u + 1]) -
           mr_selection_pass_rank(b->selection, pass, b->members[u]);
}

/* The units of one pass, once for each pass, those without rows left out. The last of them end
 * where the sequence does. */
static mr_status lay_passes(mr_selection_blocks *b, mr_error *err) {
    size_t most = (size_t)(b->n_units * b->passes);
    int64_t *block = mr_zalloc(most, sizeof *block), n = 0;
    b->below = mr_zalloc(most + 1, sizeof *b->below);
    if (!block || !b->below) {
        mr_free(block);
        return mr_fail_memory(err, 2 * most * sizeof *block);
    }
    for (int64_t pass = 0; pass < b->passes; pass++) {
        for (int64_t u = 0; u < b->n_units; u++) {
            int64_t rows = rows_in_pass(b, u, pass);
            if (rows > 0) {
                block[n] = b->block[u];
                b->below[n + 1] = b->below[n] + rows;
                n++;
            }
        }
    }
    mr_free(b->block);
    b->block = block;
    b->n_units = n;
    return MR_OK;
}

/* Each unit has the rows of all passes. */
static mr_status join_passes(mr_selection_blocks *b, mr_error *err) {
    size_t n = (size_t)b->n_units, each = (size_t)b->passes + 1;
    bool alike = mr_selection_length(b->selection) == b->passes * b->members[b->n_units];
    b->below = mr_zalloc(n + 1, sizeof *b->below);
    b->parts = alike ? NULL : mr_zalloc(n * each, sizeof *b->parts);
    if (!b->below || (!alike && !b->parts)) {
        return mr_fail_memory(err, n * each * sizeof *b->below);
    }
    for (int64_t u = 0; u < b->n_units; u++) {
        int64_t *parts = alike ? NULL : b->parts + u * (b->passes + 1);
        for (int64_t pass = 0; parts && pass < b->passes; pass++) {
            parts[pass + 1] = parts[pass] + rows_in_pass(b, u, pass);
        }
        b->below[u + 1] = b->below[u] + (parts ? parts[b->passes]
                                               : b->passes * (b->members[u + 1] - b->members[u]));
    }
    return MR_OK;
}

/* ---- Entries of classes ---- */

/* The unit of each member of a class, which ascend: calls `note` for each run of them. */
static void for_runs(mr_selection_blocks *b, int64_t class,
                     void (*note)(mr_selection_blocks *b, int64_t unit, class_entry entry)) {
    const mr_class_table *table = &b->drawn->balance;
    const uint32_t *member = table->member + table->first[class];
    int64_t m = members_of(b, class), unit = 0, begun = 0;
    for (int64_t i = 0; i < m; i++) {
        if (i > 0 && member[i] < b->members[unit + 1]) {
            continue;
        }
        if (i > begun) {
            note(b, unit, (class_entry){(uint32_t) class, (uint32_t)begun, (uint32_t)(i - begun)});
        }
        unit = find(b->members, unit, b->n_units, member[i]);
        begun = i;
    }
    note(b, unit, (class_entry){(uint32_t) class, (uint32_t)begun, (uint32_t)(m - begun)});
}

static void count_entry(mr_selection_blocks *b, int64_t unit, class_entry entry) {
    (void)entry;
    b->first_entry[unit + 1]++;
}

/* first_entry[u] is where unit u's next goes; when all are put it is where the next unit begins. */
static void put_entry(mr_selection_blocks *b, int64_t unit, class_entry entry) {
    b->entries[b->first_entry[unit]++] = entry;
}

static mr_status lay_entries(mr_selection_blocks *b, mr_error *err) {
    int64_t classes = b->drawn->balance.n_classes;
    size_t units = (size_t)b->n_units;
    b->first_entry = mr_zalloc(units + 1, sizeof *b->first_entry);
    if (!b->first_entry) {
        return mr_fail_memory(err, units * sizeof *b->first_entry);
    }
    for (int64_t c = 0; c < classes; c++) {
        for_runs(b, c, count_entry);
    }
    for (size_t u = 0; u < units; u++) {
        b->first_entry[u + 1] += b->first_entry[u];
    }
    size_t n = (size_t)b->first_entry[units];
    b->entries = mr_zalloc(n, sizeof *b->entries);
    if (!b->entries) {
        return mr_fail_memory(err, n * sizeof *b->entries);
    }
    for (int64_t c = 0; c < classes; c++) {
        for_runs(b, c, put_entry);
    }
    memmove(b->first_entry + 1, b->first_entry, units * sizeof *b->first_entry);
    b->first_entry[0] = 0;
    return MR_OK;
}

/* ---- All ---- */

static mr_status check_passes(const mr_selection_blocks *b, mr_error *err) {
    int64_t visits;
    if (__builtin_mul_overflow(b->n_units, b->passes, &visits) || visits > MR_MAX_BLOCKS) {
        mr_fail(err, MR_E_LIMIT, "%lld blocks cannot be gone through %lld times in an epoch",
                (long long)b->n_units, (long long)b->passes);
        mr_hint(err, "repeat less often, and take more epochs");
        return MR_E_LIMIT;
    }
    return MR_OK;
}

static mr_status lay_rows(mr_selection_blocks *b, bool shuffle, mr_error *err) {
    if (b->drawn) {
        return b->drawn->kind == MR_STAGE_BALANCE ? lay_entries(b, err) : MR_OK;
    }
    if (!b->selection || mr_selection_is_subset(b->selection)) {
        b->below = b->members;
        return MR_OK;
    }
    MR_TRY(check_passes(b, err));
    b->joins = shuffle;
    return shuffle ? join_passes(b, err) : lay_passes(b, err);
}

static mr_status fill(mr_selection_blocks *b, int64_t n_blocks, const int64_t *first, bool shuffle,
                      mr_error *err) {
    size_t n = (size_t)n_blocks;
    const mr_selection *s = b->selection;
    b->drawn = s && s->drawn >= 0 ? &s->stages[s->drawn] : NULL;
    b->passes = s && !b->drawn ? mr_selection_passes(s) : 1;
    b->block = mr_zalloc(n, sizeof *b->block);
    b->members = mr_zalloc(n + 1, sizeof *b->members);
    if (!b->block || !b->members) {
        return mr_fail_memory(err, 2 * n * sizeof *b->block);
    }
    add_units(b, n_blocks, first);
    b->rows = s ? mr_selection_length(s) : first[n_blocks];
    return lay_rows(b, shuffle, err);
}

mr_status mr_selection_blocks_open(mr_selection_blocks **out, const mr_selection *selection,
                                   int64_t n_blocks, const int64_t *first, bool shuffle,
                                   uint64_t seed, mr_error *err) {
    mr_selection_blocks *b = mr_zalloc(1, sizeof *b);
    if (!b) {
        return mr_fail_memory(err, sizeof *b);
    }
    b->selection = selection;
    b->seed = seed;
    mr_status status = fill(b, n_blocks, first, shuffle, err);
    if (status < 0) {
        mr_selection_blocks_free(b);
        return status;
    }
    *out = b;
    return MR_OK;
}

void mr_selection_blocks_free(mr_selection_blocks *b) {
    if (b) {
        mr_free(b->block);
        mr_free(b->below != b->members ? b->below : NULL);
        mr_free(b->members);
        mr_free(b->parts);
        mr_free(b->entries);
        mr_free(b->first_entry);
        mr_free(b);
    }
}

int64_t mr_selection_blocks_units(const mr_selection_blocks *blocks) {
    return blocks->n_units;
}

int64_t mr_selection_blocks_rows(const mr_selection_blocks *blocks) {
    return blocks->rows;
}

int64_t mr_selection_blocks_block(const mr_selection_blocks *blocks, int64_t unit) {
    return blocks->block[unit];
}
