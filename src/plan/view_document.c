/* SPDX-License-Identifier: Apache-2.0 */
/* view_document.c - the steps of a view from JSON, by a table of their parameters. */
#include "plan/view_document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"

#include <millrace/millrace.h>

enum { MAX_STEPS = 64, MAX_PARTS = 1024 };

/* ---- Parameters ---- */

#define LAST_ROW                                                                                   \
    { .name = NULL }
#define COUNT_ROW(word, least, default_text, words)                                                \
    {                                                                                              \
        .name = word, .kind = MR_PARAM_INT, .offset = offsetof(mr_view_step, count),               \
        .fallback = default_text, .min = least, .max = 0x1p48, .doc = words                        \
    }
#define TEXT_ROW(word, words)                                                                      \
    { .name = word, .kind = MR_PARAM_STRING, .offset = offsetof(mr_view_step, text), .doc = words }

static const mr_param take_rows[] = {COUNT_ROW("count", 1, NULL, "How many samples to keep."),
                                     LAST_ROW};
static const mr_param skip_rows[] = {COUNT_ROW("count", 0, NULL, "How many samples to leave out."),
                                     LAST_ROW};
static const mr_param every_rows[] = {
    COUNT_ROW("step", 1, NULL, "One sample in this many is kept."),
    {.name = "offset",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_view_step, offset),
     .fallback = "0",
     .min = 0,
     .max = 0x1p48,
     .doc = "The first that is kept; below step."},
    LAST_ROW};
static const mr_param split_rows[] = {
    {.name = "name",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(mr_view_step, part),
     .doc = "The part to keep."},
    {.name = "salt",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(mr_view_step, salt),
     .fallback = "\"\"",
     .doc = "Another salt makes another split of the same fractions."},
    LAST_ROW};
static const mr_param where_rows[] = {
    TEXT_ROW("condition", "What must hold for a sample to be kept."), LAST_ROW};
static const mr_param repeat_rows[] = {
    COUNT_ROW("times", 1, NULL, "How often each sample comes in an epoch."), LAST_ROW};
static const mr_param weights_rows[] = {
    TEXT_ROW("field", "The field with each sample's weight, a number of 0 or more."),
    COUNT_ROW("count", 0, "0", "Positions of an epoch; 0: as many as there are samples."),
    LAST_ROW};
static const mr_param balance_rows[] = {
    TEXT_ROW("field", "The field with each sample's class, a whole number."),
    COUNT_ROW("count", 0, "0",
              "Positions of an epoch; 0: so that the samples of the largest class come once."),
    LAST_ROW};

/* By mr_view_kind. The first row is the parameter that may stand by itself. */
static const struct {
    const char *name;
    const mr_param *rows;
} kinds[] = {
    [MR_VIEW_TAKE] = {"take", take_rows},          [MR_VIEW_SKIP] = {"skip", skip_rows},
    [MR_VIEW_EVERY] = {"every", every_rows},       [MR_VIEW_SPLIT] = {"split", split_rows},
    [MR_VIEW_WHERE] = {"where", where_rows},       [MR_VIEW_REPEAT] = {"repeat", repeat_rows},
    [MR_VIEW_WEIGHTS] = {"weights", weights_rows}, [MR_VIEW_BALANCE] = {"balance", balance_rows},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const char *mr_view_name(int32_t kind) {
    return kind < N_KINDS ? kinds[kind].name : NULL;
}

const mr_param *mr_view_params(int32_t kind) {
    return kind < N_KINDS ? kinds[kind].rows : NULL;
}

/* ---- Parts of a split ---- */

static int by_name(const void *a, const void *b) {
    const mr_view_part *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static mr_status read_part(mr_view_part *part, const char *name, json_t *fraction,
                           const char *where, mr_error *err) {
    double value = json_is_number(fraction) ? json_number_value(fraction) : NAN;
    if (!(value > 0 && value <= 1)) {
        char shown[64], path[192];
        mr_text_escape(shown, sizeof shown, name);
        snprintf(path, sizeof path, "%s.parts.%s", where, shown);
        mr_error_at_json(err, path);
        return mr_fail(err, MR_E_PARAM, "split: a part is a number above 0 and at most 1");
    }
    part->fraction = value;
    part->name = strdup(name);
    return part->name ? MR_OK : mr_fail_memory(err, strlen(name));
}

static mr_status wrong_parts(const char *where, mr_error *err) {
    char path[128];
    snprintf(path, sizeof path, "%s.parts", where);
    mr_error_at_json(err, path);
    mr_fail(err, MR_E_PARAM, "split needs parts: an object of 1 to %d names and fractions",
            MAX_PARTS);
    mr_hint(err, "write {\"split\": {\"name\": \"train\", \"parts\": {\"train\": 0.9, \"val\": "
                 "0.1}}}");
    return MR_E_PARAM;
}

/* In the order of their names, whatever order they are written in. */
static mr_status read_parts(mr_view_step *step, json_t *parts, const char *where, mr_error *err) {
    size_t n = json_is_object(parts) ? json_object_size(parts) : 0;
    const char *name;
    json_t *fraction;
    if (n < 1 || n > MAX_PARTS) {
        return wrong_parts(where, err);
    }
    step->parts = mr_zalloc(n, sizeof *step->parts);
    if (!step->parts) {
        return mr_fail_memory(err, n * sizeof *step->parts);
    }
    json_object_foreach(parts, name, fraction) {
        mr_view_part *part = &step->parts[step->n_parts];
        MR_TRY(read_part(part, name, fraction, where, err));
        step->n_parts++;
    }
    qsort(step->parts, n, sizeof *step->parts, by_name);
    return MR_OK;
}

/* ---- Steps ---- */

static const char *next_kind_name(void *user) {
    int32_t *kind = user;
    return mr_view_name((*kind)++);
}

static mr_status unknown_step(const char *name, const char *where, mr_error *err) {
    char shown[64];
    int32_t first = 0;
    const char *nearest = mr_nearest_name(name, next_kind_name, &first);
    mr_text_escape(shown, sizeof shown, name);
    mr_error_at_json(err, where);
    mr_fail(err, MR_E_PARAM, "unknown step \"%s\" of a view", shown);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"?", nearest);
    } else {
        mr_hint(err, "there are take, skip, every, split, where, repeat, weights and balance");
    }
    return MR_E_PARAM;
}

static mr_status find_kind(const char *name, const char *where, mr_view_kind *kind, mr_error *err) {
    for (int32_t i = 0; i < N_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (mr_view_kind)i;
            return MR_OK;
        }
    }
    return unknown_step(name, where, err);
}

/* {"take": 1000} says {"take": {"count": 1000}}. A new reference. */
static json_t *whole_params(mr_view_kind kind, json_t *value) {
    return json_is_object(value) ? json_incref(value)
                                 : json_pack("{s:O}", kinds[kind].rows[0].name, value);
}

static mr_status fill_step(mr_view_step *step, json_t *value, const char *where, mr_error *err) {
    static const char *const parts_key[] = {"parts", NULL};
    bool split = step->kind == MR_VIEW_SPLIT;
    char what[32];
    json_t *params = whole_params(step->kind, value);
    if (!params) {
        return mr_fail_memory(err, sizeof *step);
    }
    snprintf(what, sizeof what, "view step %s", kinds[step->kind].name);
    mr_status status = mr_params_fill(kinds[step->kind].rows, params, where, what,
                                      split ? parts_key : NULL, step, err);
    if (status == MR_OK && split) {
        status = read_parts(step, json_object_get(params, "parts"), where, err);
    }
    json_decref(params);
    return status;
}

static mr_status read_step(mr_view_step *step, json_t *item, int32_t number, mr_error *err) {
    char where[64];
    snprintf(where, sizeof where, "$.view[%d]", (int)number);
    void *first =
        json_is_object(item) && json_object_size(item) == 1 ? json_object_iter(item) : NULL;
    if (!first) {
        mr_error_at_json(err, where);
        mr_fail(err, MR_E_PARAM, "a step of a view must be an object with one key, its name");
        mr_hint(err, "write {\"take\": 1000}");
        return MR_E_PARAM;
    }
    MR_TRY(find_kind(json_object_iter_key(first), where, &step->kind, err));
    snprintf(where, sizeof where, "$.view[%d].%s", (int)number, kinds[step->kind].name);
    return fill_step(step, json_object_iter_value(first), where, err);
}

mr_status mr_view_read(mr_view_steps *out, json_t *list, mr_error *err) {
    mr_view_steps view = {0};
    size_t n = list ? json_array_size(list) : 0;
    if (list && (!json_is_array(list) || n > MAX_STEPS)) {
        mr_error_at_json(err, "$.view");
        return mr_fail(err, MR_E_PARAM, "a view must be a list of at most %d steps", MAX_STEPS);
    }
    view.steps = mr_zalloc(n + 1, sizeof *view.steps);
    if (!view.steps) {
        return mr_fail_memory(err, (n + 1) * sizeof *view.steps);
    }
    mr_status status = MR_OK;
    for (size_t i = 0; i < n && status == MR_OK; i++) {
        view.n = (int32_t)(i + 1); /* what fails half-way is freed too */
        status = read_step(&view.steps[i], json_array_get(list, i), (int32_t)i, err);
    }
    if (status < 0) {
        mr_view_free(&view);
        return status;
    }
    *out = view;
    return MR_OK;
}

void mr_view_free(mr_view_steps *view) {
    for (int32_t i = 0; i < view->n; i++) {
        mr_view_step *step = &view->steps[i];
        mr_params_free(kinds[step->kind].rows, step);
        for (int32_t k = 0; k < step->n_parts; k++) {
            free(step->parts[k].name);
        }
        mr_free(step->parts);
    }
    mr_free(view->steps);
    *view = (mr_view_steps){0};
}

/* ---- Back to JSON ---- */

static json_t *step_json(const mr_view_step *step, bool *lost) {
    json_t *params = mr_params_json(kinds[step->kind].rows, step), *item = json_object();
    if (step->kind == MR_VIEW_SPLIT) {
        json_t *parts = json_object();
        for (int32_t i = 0; i < step->n_parts; i++) {
            mr_json_set(parts, step->parts[i].name, json_real(step->parts[i].fraction), lost);
        }
        mr_json_set(params, "parts", parts, lost);
    }
    mr_json_set(item, kinds[step->kind].name, params, lost);
    return item;
}

json_t *mr_view_json(const mr_view_steps *view) {
    json_t *list = json_array();
    bool lost = false;
    for (int32_t i = 0; i < view->n; i++) {
        mr_json_append(list, step_json(&view->steps[i], &lost), &lost);
    }
    return mr_json_whole(list, lost);
}
