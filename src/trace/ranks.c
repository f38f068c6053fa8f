/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h. */
#include "trace/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "trace/made_text.h"

/* ---- Whether they belong together ---- */
static const char *header_text(const mr_trace *trace, const char *key) {
    const char *text = json_string_value(json_object_get(trace->header, key));
    return text ? text : "";
}

static int64_t header_number(const mr_trace *trace, const char *key) {
    return json_integer_value(json_object_get(trace->header, key));
}

/* What tells that two are not of one run; NULL: they are. */
static const char *difference(const mr_trace *a, const mr_trace *b) {
    if (mr_trace_setup(a, "world") != mr_trace_setup(b, "world")) {
        return "their numbers of ranks differ";
    }
    if (mr_trace_setup(a, "world") < 2) {
        return "each was the only rank of its run";
    }
    if (strcmp(header_text(a, "fingerprint"), header_text(b, "fingerprint")) != 0) {
        return "their pipelines differ";
    }
    if (strcmp(header_text(a, "dataset"), header_text(b, "dataset")) != 0) {
        return "their datasets differ";
    }
    if (header_number(a, "seed") != header_number(b, "seed")) {
        return "their seeds differ";
    }
    return mr_trace_setup(a, "rank") == mr_trace_setup(b, "rank") ? "both are of one rank" : NULL;
}

bool mr_trace_are_ranks(const mr_trace *a, const mr_trace *b) {
    return difference(a, b) == NULL;
}

static mr_status check(mr_trace *const *traces, int32_t n, mr_error *err) {
    if (n < 1) {
        return mr_fail(err, MR_E_PARAM, "there is no trace to report on");
    }
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < i; k++) {
            const char *why = difference(traces[k], traces[i]);
            if (why) {
                mr_fail(err, MR_E_PARAM, "%s and %s are not of two ranks of one run: %s",
                        traces[k]->path, traces[i]->path, why);
                mr_hint(err, "two traces of any kind are compared, more must be a run's ranks");
                return MR_E_PARAM;
            }
        }
    }
    return MR_OK;
}

/* ---- Who holds the others up ---- */
static double wait_at(const mr_ranks *r, int32_t i, int64_t step) {
    const mr_summary *s = &r->list[i].summary;
    return step < s->n_per_batch && s->per_batch[step].seen ? s->per_batch[step].wait : -1;
}

/* The rank whose consumer waited longest; -1: none waited, or two as long. */
static int32_t longest_at(const mr_ranks *r, int64_t step) {
    int32_t longest = -1;
    double most = 0;
    for (int32_t i = 0; i < r->n; i++) {
        double wait = wait_at(r, i, step);
        longest = wait > most ? i : wait == most ? -1 : longest;
        most = fmax(wait, most);
    }
    return longest;
}

static void count_longest(mr_ranks *r) {
    int64_t steps = 0;
    for (int64_t step = 1; step < r->list[0].summary.n_per_batch; step++) {
        int32_t longest = longest_at(r, step);
        if (longest >= 0) {
            r->list[longest].longest++;
            steps++;
        }
    }
    for (int32_t i = 0; i < r->n; i++) {
        r->list[i].longest = mr_divide(r->list[i].longest, (double)steps);
    }
}

static double rate_of(const mr_rank_summary *rank) {
    return rank->summary.verdict.rate;
}

static double stall_of(const mr_rank_summary *rank) {
    return rank->summary.verdict.stall;
}

/* Ranks that train together go at one pace, whoever is slow: then it is the one whose consumer
 * waits most for the loader. Ranks that do not wait for each other differ in their rates. */
static void find_slowest(mr_ranks *r) {
    enum { EVEN_PERCENT = 5 };
    int32_t slow = 0, waits = 0;
    double fastest = 0, least_stall = 1;
    for (int32_t i = 0; i < r->n; i++) {
        r->rate += rate_of(&r->list[i]);
        fastest = fmax(fastest, rate_of(&r->list[i]));
        least_stall = fmin(least_stall, stall_of(&r->list[i]));
        slow = rate_of(&r->list[i]) < rate_of(&r->list[slow]) ? i : slow;
        waits = stall_of(&r->list[i]) > stall_of(&r->list[waits]) ? i : waits;
    }
    bool uneven = rate_of(&r->list[slow]) < (1 - EVEN_PERCENT / 100.0) * fastest;
    r->slowest = uneven ? slow : waits;
    r->stands_out = uneven || stall_of(&r->list[waits]) > least_stall + EVEN_PERCENT / 100.0;
}

static int by_rank(const void *a, const void *b) {
    const mr_rank_summary *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

mr_status mr_ranks_make(mr_ranks *out, mr_trace *const *traces, int32_t n, mr_error *err) {
    memset(out, 0, sizeof *out);
    MR_TRY(check(traces, n, err));
    out->list = mr_zalloc((size_t)n, sizeof *out->list);
    if (!out->list) {
        return mr_fail_memory(err, (size_t)n * sizeof *out->list);
    }
    for (int32_t i = 0; i < n; i++) {
        out->list[i].rank = (int32_t)mr_trace_setup(traces[i], "rank");
        mr_status status = mr_summary_make(&out->list[i].summary, traces[i], err);
        if (status < 0) {
            mr_ranks_free(out);
            return status;
        }
        out->n++;
    }
    out->world = (int32_t)mr_trace_setup(traces[0], "world");
    qsort(out->list, (size_t)n, sizeof *out->list, by_rank);
    count_longest(out);
    find_slowest(out);
    return MR_OK;
}

void mr_ranks_free(mr_ranks *ranks) {
    for (int32_t i = 0; i < ranks->n; i++) {
        mr_summary_free(&ranks->list[i].summary);
    }
    mr_free(ranks->list);
    memset(ranks, 0, sizeof *ranks);
}

/* ---- An op over all ranks ---- */
typedef struct op_over_ranks {
    int64_t count;
    double total;
    int32_t lowest, highest; /* places in the list, by the mean of a call; -1: no rank ran it */
} op_over_ranks;

static double mean_of(const mr_ranks *r, int32_t i, int32_t op) {
    const mr_times *t = &r->list[i].summary.ops[op];
    return mr_divide(t->total, (double)t->count);
}

static op_over_ranks op_of(const mr_ranks *r, int32_t op) {
    op_over_ranks all = {.lowest = -1, .highest = -1};
    for (int32_t i = 0; i < r->n; i++) {
        const mr_times *t = &r->list[i].summary.ops[op];
        all.count += t->count;
        all.total += t->total;
        if (t->count > 0) {
            bool low = all.lowest < 0 || mean_of(r, i, op) < mean_of(r, all.lowest, op);
            bool high = all.highest < 0 || mean_of(r, i, op) > mean_of(r, all.highest, op);
            all.lowest = low ? i : all.lowest;
            all.highest = high ? i : all.highest;
        }
    }
    return all;
}

/* Ranks of one pipeline have the same ops; traces of others' loaders may not. */
static int32_t common_ops(const mr_ranks *r) {
    int32_t n = r->list[0].summary.trace->n_ops;
    for (int32_t i = 1; i < r->n; i++) {
        int32_t own = r->list[i].summary.trace->n_ops;
        n = own < n ? own : n;
    }
    return n;
}

/* ---- For programs ---- */
static double busy_of(const mr_figures *f) {
    return mr_divide(mr_busy_time(f), mr_thread_time(f));
}

static json_t *rank_json(const mr_rank_summary *rank) {
    const mr_summary *s = &rank->summary;
    const mr_figures *f = &s->figures;
    double whole = mr_thread_time(f);
    return json_pack(
        "{s:i, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:s}", "rank", (int)rank->rank, "trace",
        s->trace->path, "samples", (json_int_t)s->samples, "rate", s->verdict.rate, "stall",
        s->verdict.stall, "longest_wait", rank->longest, "busy", busy_of(f), "wait_read",
        mr_divide(f->wait_read - f->wait_peer, whole), "wait_peer", mr_divide(f->wait_peer, whole),
        "title", s->verdict.title, "bound", mr_bound_name(s->verdict.bound));
}

static json_t *op_json(const mr_ranks *r, int32_t op) {
    op_over_ranks all = op_of(r, op);
    json_t *object = json_pack("{s:s, s:I, s:f}", "name", r->list[0].summary.trace->ops[op].name,
                               "count", (json_int_t)all.count, "total", all.total);
    if (object && all.count > 0) {
        json_object_set_new(object, "lowest",
                            json_pack("{s:i, s:f}", "rank", (int)r->list[all.lowest].rank, "mean",
                                      mean_of(r, all.lowest, op)));
        json_object_set_new(object, "highest",
                            json_pack("{s:i, s:f}", "rank", (int)r->list[all.highest].rank, "mean",
                                      mean_of(r, all.highest, op)));
    }
    return object;
}

json_t *mr_ranks_json(const mr_ranks *r) {
    bool lost = false;
    json_t *ranks = json_array(), *ops = json_array();
    for (int32_t i = 0; i < r->n; i++) {
        mr_json_append(ranks, rank_json(&r->list[i]), &lost);
    }
    for (int32_t op = 0; op < common_ops(r); op++) {
        mr_json_append(ops, op_json(r, op), &lost);
    }
    return mr_json_whole(json_pack("{s:i, s:f, s:i, s:b, s:o, s:o}", "world", (int)r->world, "rate",
                                   r->rate, "slowest", (int)r->list[r->slowest].rank, "stands_out",
                                   r->stands_out, "ranks", ranks, "ops", ops),
                         lost);
}

/* ---- For a terminal ---- */
static void put_missing(FILE *out, const mr_ranks *r) {
    if (r->n < r->world) {
        fprintf(out, "  Note: %d of %d ranks; the others' traces were not given\n", r->n, r->world);
    }
    for (int32_t i = 0; i < r->n; i++) {
        if (r->list[i].summary.trace->missing[0]) {
            fprintf(out, "  Note: rank %d: %s\n", r->list[i].rank,
                    r->list[i].summary.trace->missing);
        }
    }
}

static void put_rank(FILE *out, const mr_rank_summary *rank) {
    const mr_figures *f = &rank->summary.figures;
    double whole = mr_thread_time(f);
    fprintf(out, "  %4d %10.0f %7.1f %% %7.1f %% %7.1f %% %7.1f %% %7.1f %%  %s\n", rank->rank,
            rate_of(rank), 100 * stall_of(rank), 100 * rank->longest, 100 * busy_of(f),
            100 * mr_divide(f->wait_read - f->wait_peer, whole),
            100 * mr_divide(f->wait_peer, whole), rank->summary.verdict.title);
}

static void put_op(FILE *out, const mr_ranks *r, int32_t op) {
    op_over_ranks all = op_of(r, op);
    const char *name = r->list[0].summary.trace->ops[op].name;
    if (all.count == 0) {
        return;
    }
    fprintf(out, "  %-20.20s %10lld %10.3f s %9.1f us (%d) %9.1f us (%d)\n", name,
            (long long)all.count, all.total, 1e6 * mean_of(r, all.lowest, op),
            r->list[all.lowest].rank, 1e6 * mean_of(r, all.highest, op), r->list[all.highest].rank);
}

static void put_ranks(FILE *out, const mr_ranks *r) {
    const mr_verdict *v = &r->list[r->slowest].summary.verdict;
    fprintf(out, "%d ranks: %.0f samples/s together after the first batch\n", r->n, r->rate);
    fprintf(out,
            r->stands_out ? "  Rank %d holds the others up: %s. %s\n"
                          : "  No rank stands out; of rank %d: %s. %s\n",
            r->list[r->slowest].rank, v->title, v->evidence);
    if (v->change[0]) {
        fprintf(out, "  First: %s\n", v->change);
    }
    put_missing(out, r);
    fprintf(out, "\n  %4s %10s %9s %9s %9s %9s %9s\n", "rank", "samples/s", "waits", "longest",
            "busy", "reads", "peers");
    for (int32_t i = 0; i < r->n; i++) {
        put_rank(out, &r->list[i]);
    }
    fprintf(out, "  waits: of the consumer's time; longest: of the steps; busy, waiting for reads "
                 "and for peers: of the workers'\n\n");
    fprintf(out, "  %-20s %10s %12s %16s %16s\n", "ops of all ranks", "count", "total",
            "lowest mean", "highest mean");
    for (int32_t op = 0; op < common_ops(r); op++) {
        put_op(out, r, op);
    }
}

/* ---- Public ---- */
static mr_status write_text(FILE *out, const void *context, mr_error *err) {
    (void)err;
    put_ranks(out, context);
    return MR_OK;
}

static mr_status write_json(FILE *out, const void *context, mr_error *err) {
    return mr_put_json(out, mr_ranks_json(context), err);
}

mr_status mr_trace_ranks(mr_trace *const *traces, int32_t n, mr_trace_text_kind kind, char **out,
                         mr_error *err) {
    mr_ranks ranks;
    MR_TRY(mr_ranks_make(&ranks, traces, n, err));
    mr_status status =
        mr_make_text(out, kind == MR_TRACE_JSON ? write_json : write_text, &ranks, err);
    mr_ranks_free(&ranks);
    return status;
}
