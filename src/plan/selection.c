/* SPDX-License-Identifier: Apache-2.0 */
/* selection.c - the steps of a view become stages. What splits and conditions say is asked once
 * and kept as bits, so any index is found by itself. */
#include "plan/selection_stage.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/philox.h"

#include <millrace/millrace.h>

enum {
    CHUNK = 1 << 16, /* samples asked about at once; a multiple of 64 */
    NUMBER = 8       /* bytes of a weight or a class */
};

/* While it opens. */
typedef struct opening {
    mr_selection *selection;
    const mr_view_step *step;
    int32_t number;
    const mr_sample_facts *facts;
    mr_error *err;
} opening;

/* ---- Indexes ---- */

int64_t mr_selection_descend(const mr_selection *selection, int64_t index, int32_t from,
                             int32_t end) {
    for (int32_t i = from - 1; i >= end; i--) {
        const mr_selection_stage *stage = &selection->stages[i];
        switch (stage->kind) {
        case MR_STAGE_STRIDE:
            index = stage->first + index * stage->step;
            break;
        case MR_STAGE_MEMBERS:
            index = mr_bitmap_select(&stage->members, index);
            break;
        case MR_STAGE_REPEAT:
            index %= stage->before;
            break;
        case MR_STAGE_WEIGHTS:
        case MR_STAGE_BALANCE:
            break;
        }
    }
    return index;
}

int64_t mr_selection_at(const mr_selection *selection, int64_t index) {
    return mr_selection_descend(selection, index, selection->n_stages, 0);
}

/* How many of a stride's indexes come before one of the sequence before it. */
static int64_t rank_in_stride(const mr_selection_stage *stage, int64_t before) {
    if (before <= stage->first) {
        return 0;
    }
    int64_t rank = (before - stage->first + stage->step - 1) / stage->step;
    return rank < stage->length ? rank : stage->length;
}

int64_t mr_selection_rank(const mr_selection *selection, int64_t sample) {
    int64_t rank = sample;
    for (int32_t i = 0; i < selection->n_once; i++) {
        const mr_selection_stage *stage = &selection->stages[i];
        rank = stage->kind == MR_STAGE_STRIDE ? rank_in_stride(stage, rank)
                                              : mr_bitmap_rank(&stage->members, rank);
    }
    return rank;
}

/* ---- Passes ----
 * A pass has a digit for each repetition, that of the first being the lowest: what comes last in
 * the view goes round least often. */

int64_t mr_selection_passes(const mr_selection *selection) {
    int64_t passes = 1;
    for (int32_t i = selection->n_once; i < selection->n_stages; i++) {
        const mr_selection_stage *stage = &selection->stages[i];
        if (stage->kind == MR_STAGE_REPEAT &&
            __builtin_mul_overflow(passes, stage->length / stage->before, &passes)) {
            return INT64_MAX;
        }
    }
    return passes;
}

int64_t mr_selection_pass_rank(const mr_selection *selection, int64_t pass, int64_t rank) {
    for (int32_t i = selection->n_once; i < selection->n_stages; i++) {
        const mr_selection_stage *stage = &selection->stages[i];
        if (stage->kind == MR_STAGE_REPEAT) {
            int64_t times = stage->length / stage->before;
            rank += pass % times * stage->before;
            pass /= times;
        } else {
            rank = rank_in_stride(stage, rank);
        }
    }
    return rank;
}

/* ---- Stages ---- */

static mr_selection_stage *add_stage(opening *o, mr_stage_kind kind) {
    mr_selection *s = o->selection;
    mr_selection_stage *stage = &s->stages[s->n_stages++];
    *stage = (mr_selection_stage){
        .kind = kind, .length = s->length, .before = s->length, .first = 0, .step = 1};
    return stage;
}

/* A stride upon a stride is one. */
static mr_selection_stage *add_stride(opening *o) {
    mr_selection *s = o->selection;
    bool last = s->n_stages > 0 && s->stages[s->n_stages - 1].kind == MR_STAGE_STRIDE;
    return last ? &s->stages[s->n_stages - 1] : add_stage(o, MR_STAGE_STRIDE);
}

static mr_status take(opening *o) {
    mr_selection_stage *stage = add_stride(o);
    stage->length = o->step->count < stage->length ? o->step->count : stage->length;
    return MR_OK;
}

static mr_status skip(opening *o) {
    mr_selection_stage *stage = add_stride(o);
    int64_t skipped = o->step->count < stage->length ? o->step->count : stage->length;
    stage->first += skipped * stage->step;
    stage->length -= skipped;
    return MR_OK;
}

static mr_status every(opening *o) {
    mr_selection_stage *stage = add_stride(o);
    int64_t n = o->step->count, offset = o->step->offset;
    if (offset >= stage->length) {
        stage->length = 0;
        return MR_OK;
    }
    stage->first += offset * stage->step;
    stage->length = (stage->length - offset + n - 1) / n;
    stage->step = stage->length > 1 ? stage->step * n : 1; /* with two or more it is in range */
    return MR_OK;
}

static mr_status repeat(opening *o) {
    mr_selection_stage *stage = add_stage(o, MR_STAGE_REPEAT);
    if (__builtin_mul_overflow(stage->before, o->step->count, &stage->length) ||
        stage->length > MR_MAX_SAMPLES) {
        return mr_fail(o->err, MR_E_LIMIT, "an epoch would have more than %lld positions",
                       (long long)MR_MAX_SAMPLES);
    }
    return MR_OK;
}

/* ---- Splits ----
 * A sample's hash, as a fraction of 2^53, lies in one of the intervals that the parts' fractions
 * cut. Where they add up to 1, but for rounding, the last interval ends at 1. */

typedef struct interval {
    uint64_t first, end;
} interval;

static interval interval_of_part(const mr_view_step *step, int32_t part) {
    double before = 0, all = 0;
    for (int32_t i = 0; i < step->n_parts; i++) {
        before += i < part ? step->parts[i].fraction : 0;
        all += step->parts[i].fraction;
    }
    bool last = part + 1 == step->n_parts && all > 1 - 1e-9;
    double end = last ? 1 : before + step->parts[part].fraction;
    return (interval){(uint64_t)(before * 0x1p53), (uint64_t)(end * 0x1p53)};
}

static mr_status find_part(const mr_view_step *step, int32_t *part, mr_error *err) {
    double all = 0;
    *part = -1;
    for (int32_t i = 0; i < step->n_parts; i++) {
        double fraction = step->parts[i].fraction;
        all += fraction;
        if (!(fraction > 0 && fraction <= 1)) {
            return mr_fail(err, MR_E_PARAM, "the fraction of part \"%s\" is %g, not above 0",
                           step->parts[i].name, fraction);
        }
        *part = strcmp(step->parts[i].name, step->part) == 0 ? i : *part;
    }
    if (*part < 0) {
        return mr_fail(err, MR_E_PARAM, "the split has no part \"%s\"", step->part);
    }
    if (all > 1 + 1e-9) {
        return mr_fail(err, MR_E_PARAM, "the parts of the split add up to %g, more than 1", all);
    }
    return MR_OK;
}

static mr_status split_members(opening *o, mr_bitmap *members) {
    const char *salt = o->step->salt ? o->step->salt : "", *name = NULL;
    uint64_t seed = mr_hash64(salt, strlen(salt), 0);
    int32_t part = -1;
    MR_TRY(find_part(o->step, &part, o->err));
    interval within = interval_of_part(o->step, part);
    for (int64_t i = 0; i < members->size; i++) {
        size_t size = 0;
        int64_t sample = mr_selection_at(o->selection, i);
        MR_TRY(o->facts->name(o->facts->user, sample, &name, &size, o->err));
        uint64_t hash = mr_hash64(name, size, seed) >> 11;
        if (hash >= within.first && hash < within.end) {
            mr_bitmap_add(members, i);
        }
    }
    return MR_OK;
}

/* ---- Conditions ---- */

static mr_status ask_condition(opening *o, mr_bitmap *all) {
    const mr_sample_facts *facts = o->facts;
    for (int64_t first = 0; first < all->size; first += CHUNK) {
        int64_t left = all->size - first, count = left < CHUNK ? left : CHUNK;
        MR_TRY(facts->where(facts->user, o->number, o->step->text, first, count,
                            all->words + first / 64, o->err));
    }
    return MR_OK;
}

static mr_status where_members(opening *o, mr_bitmap *members) {
    mr_bitmap all = {0};
    MR_TRY(mr_bitmap_init(&all, o->selection->samples, o->err));
    mr_status status = ask_condition(o, &all);
    for (int64_t i = 0; status == MR_OK && i < members->size; i++) {
        if (mr_bitmap_has(&all, mr_selection_at(o->selection, i))) {
            mr_bitmap_add(members, i);
        }
    }
    mr_bitmap_free(&all);
    return status;
}

/* What a stage's function finds goes into the stage once it is whole: until then indexes are those
 * of the stages before. */
static mr_status filter(opening *o, mr_status (*fill)(opening *o, mr_bitmap *members)) {
    mr_bitmap members = {0};
    MR_TRY(mr_bitmap_init(&members, o->selection->length, o->err));
    mr_status status = fill(o, &members);
    status = status < 0 ? status : mr_bitmap_count(&members, o->err);
    if (status < 0) {
        mr_bitmap_free(&members);
        return status;
    }
    mr_selection_stage *stage = add_stage(o, MR_STAGE_MEMBERS);
    stage->members = members;
    stage->length = members.members;
    return MR_OK;
}

static mr_status split(opening *o) {
    return filter(o, split_members);
}

static mr_status where(opening *o) {
    return filter(o, where_members);
}

/* ---- Weights and classes ---- */

/* A number for each index so far: numbers of all samples, a chunk at a time, picked from. */
typedef mr_status (*asking)(opening *o, int64_t first, int64_t count, void *out);

static mr_status ask_weights(opening *o, int64_t first, int64_t count, void *out) {
    return o->facts->weights(o->facts->user, o->number, o->step->text, first, count, out, o->err);
}

static mr_status ask_classes(opening *o, int64_t first, int64_t count, void *out) {
    return o->facts->classes(o->facts->user, o->number, o->step->text, first, count, out, o->err);
}

static mr_status ask_all(opening *o, asking ask, char *numbers) {
    int64_t samples = o->selection->samples;
    for (int64_t first = 0; first < samples; first += CHUNK) {
        int64_t left = samples - first;
        MR_TRY(ask(o, first, left < CHUNK ? left : CHUNK, numbers + first * NUMBER));
    }
    /* In place where each sample comes once and in order: no index is beyond its sample. */
    for (int64_t i = 0; i < o->selection->length; i++) {
        const char *from = numbers + mr_selection_at(o->selection, i) * NUMBER;
        memmove(numbers + i * NUMBER, from, NUMBER);
    }
    return MR_OK;
}

static mr_status draw_stage(opening *o, mr_stage_kind kind, asking ask) {
    size_t samples = (size_t)o->selection->samples;
    if (o->selection->samples > UINT32_MAX) {
        return mr_fail(o->err, MR_E_LIMIT, "at most %lld samples can have weights or classes",
                       (long long)UINT32_MAX);
    }
    void *numbers = mr_zalloc(samples, NUMBER);
    if (!numbers) {
        return mr_fail_memory(o->err, samples * NUMBER);
    }
    mr_status status = ask_all(o, ask, numbers);
    if (status == MR_OK) {
        o->selection->drawn = o->selection->n_stages;
        mr_selection_stage *stage = add_stage(o, kind);
        status = kind == MR_STAGE_WEIGHTS
                     ? mr_stage_weigh(stage, numbers, o->step->count, o->facts->in_blocks, o->err)
                     : mr_stage_balance(stage, numbers, o->step->count, o->err);
    }
    mr_free(numbers);
    return status;
}

static mr_status weights(opening *o) {
    return draw_stage(o, MR_STAGE_WEIGHTS, ask_weights);
}

static mr_status balance(opening *o) {
    return draw_stage(o, MR_STAGE_BALANCE, ask_classes);
}

/* ---- Steps ---- */

static const struct {
    const char *name;
    mr_status (*add)(opening *o);
    int64_t least; /* of count */
    bool subset;   /* keeps each sample once and in order */
    bool asks;     /* wants such a sequence: sample by sample it asks for facts */
} kinds[] = {
    [MR_VIEW_TAKE] = {"take", take, 1, true, false},
    [MR_VIEW_SKIP] = {"skip", skip, 0, true, false},
    [MR_VIEW_EVERY] = {"every", every, 1, true, false},
    [MR_VIEW_SPLIT] = {"split", split, 0, true, true},
    [MR_VIEW_WHERE] = {"where", where, 0, true, true},
    [MR_VIEW_REPEAT] = {"repeat", repeat, 1, false, false},
    [MR_VIEW_WEIGHTS] = {"weights", weights, 0, false, true},
    [MR_VIEW_BALANCE] = {"balance", balance, 0, false, true},
};

static bool has_facts(const opening *o) {
    switch (o->step->kind) {
    case MR_VIEW_SPLIT:
        return o->facts && o->facts->name;
    case MR_VIEW_WHERE:
        return o->facts && o->facts->where;
    case MR_VIEW_WEIGHTS:
        return o->facts && o->facts->weights;
    case MR_VIEW_BALANCE:
        return o->facts && o->facts->classes;
    default:
        return true;
    }
}

static mr_status check_step(const opening *o) {
    const char *name = kinds[o->step->kind].name;
    int64_t least = kinds[o->step->kind].least, count = o->step->count;
    if (count < least || count > MR_MAX_SAMPLES) {
        return mr_fail(o->err, MR_E_PARAM, "%s is %lld, but must be from %lld to %lld", name,
                       (long long)count, (long long)least, (long long)MR_MAX_SAMPLES);
    }
    if (o->step->kind == MR_VIEW_EVERY && (o->step->offset < 0 || o->step->offset >= count)) {
        return mr_fail(o->err, MR_E_PARAM, "the offset of every %lld is %lld, but must be below it",
                       (long long)count, (long long)o->step->offset);
    }
    if (kinds[o->step->kind].asks && !o->selection->subset) {
        mr_status status =
            mr_fail(o->err, MR_E_PARAM, "%s cannot follow repeat, weights or balance", name);
        mr_hint(o->err, "put it before them");
        return status;
    }
    if (!has_facts(o)) {
        return mr_fail(o->err, MR_E_UNSUPPORTED, "the source does not know what %s needs", name);
    }
    return MR_OK;
}

static mr_status add_step(opening *o) {
    mr_selection *s = o->selection;
    MR_TRY(check_step(o));
    MR_TRY(kinds[o->step->kind].add(o));
    s->length = s->stages[s->n_stages - 1].length;
    s->subset = s->subset && kinds[o->step->kind].subset;
    s->n_once = s->subset ? s->n_stages : s->n_once;
    if (s->length == 0) {
        return mr_fail(o->err, MR_E_PARAM, "no sample is left after %s", kinds[o->step->kind].name);
    }
    return MR_OK;
}

static mr_status add_steps(opening *o, const mr_view_step *steps, int32_t n_steps) {
    for (int32_t i = 0; i < n_steps; i++) {
        o->step = &steps[i];
        o->number = i;
        mr_status status = add_step(o);
        if (status < 0) {
            char place[32];
            snprintf(place, sizeof place, "$.view[%d]", (int)i);
            mr_error_at_json(o->err, place);
            return status;
        }
    }
    return MR_OK;
}

mr_status mr_selection_open(mr_selection **out, int64_t samples, const mr_view_step *steps,
                            int32_t n_steps, const mr_sample_facts *facts, mr_error *err) {
    if (samples < 1 || samples > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_LIMIT, "cannot select from %lld samples", (long long)samples);
    }
    mr_selection *selection = mr_zalloc(1, sizeof *selection);
    mr_selection_stage *stages = mr_zalloc((size_t)n_steps + 1, sizeof *stages);
    if (!selection || !stages) {
        mr_free(selection);
        mr_free(stages);
        return mr_fail_memory(err, sizeof *selection + ((size_t)n_steps + 1) * sizeof *stages);
    }
    *selection = (mr_selection){
        .samples = samples, .length = samples, .stages = stages, .drawn = -1, .subset = true};
    opening o = {.selection = selection, .facts = facts, .err = err};
    mr_status status = add_steps(&o, steps, n_steps);
    if (status < 0) {
        mr_selection_free(selection);
        return status;
    }
    *out = selection;
    return MR_OK;
}

void mr_selection_free(mr_selection *selection) {
    if (!selection) {
        return;
    }
    for (int32_t i = 0; i < selection->n_stages; i++) {
        mr_selection_stage *stage = &selection->stages[i];
        mr_bitmap_free(&stage->members);
        mr_free(stage->alias);
        mr_free(stage->below);
        mr_free(stage->balance.first);
        mr_free(stage->balance.order);
        mr_free(stage->balance.member);
    }
    mr_free(selection->stages);
    mr_free(selection);
}

int64_t mr_selection_samples(const mr_selection *selection) {
    return selection->samples;
}

int64_t mr_selection_length(const mr_selection *selection) {
    return selection->length;
}

bool mr_selection_is_subset(const mr_selection *selection) {
    return selection->subset;
}

bool mr_selection_is_drawn(const mr_selection *selection) {
    return selection->drawn >= 0;
}
