/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_part.c - what a sweep wants of a traced run: what held it up, each op's figures for one
 * sample, and what the model says of other numbers of threads. */
#include "core/error.h"
#include "core/json.h"
#include "trace/sweep.h"

/* Work of a foreign loader that is no op of its own: the rest of the dataset's, and collate_fn. */
static const mr_span_kind besides[] = {MR_SPAN_FILL, MR_SPAN_SEAL};

static json_t *named(const char *name) {
    char safe[256];
    return json_pack("{s:s}", "name", mr_text_escape(safe, sizeof safe, name));
}

static void append_op(json_t *ops, const json_t *op, double samples, bool *lost) {
    double seconds = json_number_value(json_object_get(op, "total"));
    double cpu = json_number_value(json_object_get(op, "cpu"));
    json_t *row = named(json_string_value(json_object_get(op, "name")));
    mr_json_set(row, "seconds", json_real(seconds / samples), lost);
    if (cpu > 0) {
        mr_json_set(row, "cpu", json_real(cpu / samples), lost);
    }
    mr_json_set(row, "counters", json_deep_copy(json_object_get(op, "counters")), lost);
    mr_json_append(ops, row, lost);
}

static void append_kind(json_t *ops, const json_t *kinds, mr_span_kind kind, double samples,
                        bool *lost) {
    const json_t *times = json_object_get(kinds, mr_span_names[kind]);
    double seconds = json_number_value(json_object_get(times, "total"));
    if (seconds > 0) {
        json_t *row = named(mr_span_names[kind]);
        mr_json_set(row, "seconds", json_real(seconds / samples), lost);
        mr_json_append(ops, row, lost);
    }
}

json_t *mr_sweep_part(const mr_summary *s) {
    bool lost = false;
    char title[256];
    json_t *whole = mr_summary_json(s), *ops = json_array();
    const json_t *rows = json_object_get(whole, "ops");
    double samples = s->samples > 0 ? (double)s->samples : 1;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        append_op(ops, json_array_get(rows, i), samples, &lost);
    }
    for (size_t i = 0; i < sizeof besides / sizeof *besides; i++) {
        append_kind(ops, json_object_get(whole, "kinds"), besides[i], samples, &lost);
    }
    json_t *part = json_pack("{s:s, s:o}", "title",
                             mr_text_escape(title, sizeof title, s->verdict.title), "ops", ops);
    const json_t *predictions = json_object_get(json_object_get(whole, "verdict"), "predictions");
    mr_json_set(part, "predictions", json_deep_copy(predictions), &lost);
    lost = lost || !whole;
    json_decref(whole);
    return mr_json_whole(part, lost);
}
