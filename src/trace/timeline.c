/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c - which spans the page draws one by one. A page cannot hold ten million; every span of
 * two stretches of time says more than the longest of all, which would show no gaps. */
#include <math.h>

#include "core/json.h"
#include "trace/page.h"

enum { MOST = 12000 };
static const double ns = 1e-9;

typedef struct interval {
    double from, to;
} interval;

/* Parts are not intervals, and the source's share is too short to see. */
static bool is_drawn(const mr_time_span *span) {
    return span->kind != MR_SPAN_PART && span->kind != MR_SPAN_FILL;
}

static double moment_of_longest_wait(const mr_summary *s) {
    double longest = 0, moment = s->seconds / 2;
    for (int64_t i = 1; i < s->n_per_batch; i++) {
        if (s->per_batch[i].seen && s->per_batch[i].wait > longest) {
            longest = s->per_batch[i].wait;
            moment = s->per_batch[i].taken;
        }
    }
    return moment;
}

static bool is_in(const mr_time_span *span, const interval *intervals, int n) {
    double start = (double)span->start * ns, end = start + (double)span->duration * ns;
    for (int i = 0; i < n; i++) {
        if (end >= intervals[i].from && start <= intervals[i].to) {
            return true;
        }
    }
    return false;
}

static json_t *span_json(const mr_time_span *span, int32_t track) {
    return json_pack("[i, i, i, I, I, I, I, I]", (int)track, (int)span->kind, (int)span->op,
                     (json_int_t)span->start, (json_int_t)span->duration,
                     (json_int_t)mr_span_item(span),
                     span->batch == MR_SPAN_NO_BATCH ? (json_int_t)-1 : (json_int_t)span->batch,
                     (json_int_t)mr_span_rows(span));
}

/* Counts the spans that are drawn; where `array` is given, appends them. */
static int64_t spans_in(const mr_summary *s, const interval *intervals, int n, json_t *array,
                        bool *lost) {
    int64_t count = 0;
    for (int64_t p = 0; p < s->trace->n_pieces; p++) {
        const mr_trace_piece *piece = &s->trace->pieces[p];
        for (int64_t i = 0; i < piece->n; i++) {
            const mr_time_span *span = &piece->spans[i];
            if (mr_trace_is_sound(s->trace, span) && is_drawn(span) && is_in(span, intervals, n)) {
                count++;
                if (array) {
                    mr_json_append(array, span_json(span, piece->track), lost);
                }
            }
        }
    }
    return count;
}

/* One for the whole run, or two that are short enough. */
static int choose_intervals(const mr_summary *s, interval out[2]) {
    out[0] = (interval){0, INFINITY};
    int64_t all = spans_in(s, out, 1, NULL, NULL);
    if (all <= MOST) {
        return 1;
    }
    double length = s->seconds * (MOST / 2.0) / (double)all, moment = moment_of_longest_wait(s);
    do {
        double middle = fmax(moment, length * 1.5);
        out[0] = (interval){0, length};
        out[1] = (interval){middle - length / 2, middle + length / 2};
        length /= 2;
    } while (spans_in(s, out, 2, NULL, NULL) > MOST && length > 1e-7);
    return 2;
}

json_t *mr_timeline_json(const mr_summary *s) {
    interval intervals[2];
    int n = choose_intervals(s, intervals);
    json_t *shown = json_array(), *kinds = json_array(), *about = json_array();
    json_t *spans = json_array();
    bool lost = false;
    if (spans) {
        spans_in(s, intervals, n, spans, &lost);
    }
    for (int i = 0; i < n; i++) {
        mr_json_append(shown,
                       json_pack("[f, f]", intervals[i].from, fmin(intervals[i].to, s->seconds)),
                       &lost);
    }
    for (int i = 0; i < MR_SPAN_KINDS; i++) {
        bool batch = mr_span_is_about_batch((mr_span_kind)i);
        mr_json_append(kinds, json_string(mr_span_names[i]), &lost);
        mr_json_append(about, json_string(batch ? "b" : "s"), &lost);
    }
    json_t *timeline = json_pack("{s:b, s:o, s:o, s:o, s:o}", "complete", n == 1, "intervals",
                                 shown, "kinds", kinds, "about", about, "spans", spans);
    return mr_json_whole(timeline, lost);
}
