/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - a summary for a terminal, and as JSON text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/memory.h"
#include "trace/made_text.h"
#include "trace/summary.h"
#include "trace/sweep.h"
#include "trace/translated.h"

/* "12.3 us", always nine columns. */
static void put_time(FILE *out, double seconds) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int unit = 0;
    while (unit < 3 && seconds < 0.9995) {
        seconds *= 1000;
        unit++;
    }
    fprintf(out, "%*.*f %s", unit == 0 ? 7 : 6, seconds < 99.95 ? 1 : 0, seconds, units[unit]);
}

static void put_row(FILE *out, const char *name, const mr_times *t, double whole) {
    fprintf(out, "  %-20.20s %10lld", name, (long long)t->count);
    put_time(out, t->total);
    put_time(out, t->mean);
    put_time(out, t->p50);
    put_time(out, t->p99);
    fprintf(out, " %5.1f %%\n", whole > 0 ? 100 * t->total / whole : 0);
}

static void put_table(FILE *out, const mr_summary *s) {
    static const mr_span_kind threads[] = {
        MR_SPAN_UNPACK,     MR_SPAN_FILL,      MR_SPAN_STORE_READ, MR_SPAN_STORE_WRITE,
        MR_SPAN_STORE_WAIT, MR_SPAN_WAIT_HOST, MR_SPAN_SAMPLE,     MR_SPAN_SEAL,
        MR_SPAN_WAIT_READ,  MR_SPAN_WAIT_PEER, MR_SPAN_WAIT_WORK};
    double whole = s->n_workers * s->seconds;
    fprintf(out, "  %-20s %10s %8s %8s %8s %8s %7s\n", "workers", "count", "total", "mean", "p50",
            "p99", "time");
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        if (s->trace->ops[i].mapped) {
            fprintf(out, "  %-20.20s %10s\n", s->trace->ops[i].name, "in unpack");
        } else {
            put_row(out, s->trace->ops[i].name, &s->ops[i], whole);
        }
    }
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        const mr_times *t = &s->kinds[threads[i]];
        if (t->count > 0) {
            put_row(out, mr_span_names[threads[i]], t, whole);
        }
    }
    fprintf(out, "  reading and the consumer\n");
    static const mr_span_kind others[] = {MR_SPAN_READ,    MR_SPAN_WAIT_BATCH,   MR_SPAN_DELIVER,
                                          MR_SPAN_CONSUME, MR_SPAN_START,        MR_SPAN_RECEIVE,
                                          MR_SPAN_SEND,    MR_SPAN_REQUEST_WAIT, MR_SPAN_FIRST_BYTE,
                                          MR_SPAN_TRANSFER};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const mr_times *t = &s->kinds[others[i]];
        if (t->count > 0) {
            put_row(out, mr_span_names[others[i]], t, s->seconds);
        }
    }
}

static void put_batches(FILE *out, const mr_summary *s) {
    double work = 0, wait = 0, delay = 0;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        const mr_batch_times *b = &s->per_batch[i];
        work += b->seen ? b->work : 0;
        wait += b->seen ? b->wait : 0;
        delay += b->seen ? fmax(b->taken - b->ready, 0) : 0;
    }
    double n = s->batches > 0 ? (double)s->batches : 1;
    fprintf(out, "  a batch on average:");
    put_time(out, work / n);
    fprintf(out, " of threads,");
    put_time(out, wait / n);
    fprintf(out, " waited for,");
    put_time(out, delay / n);
    fprintf(out, " ready before it was taken; %lld overtaken by a later one\n",
            (long long)s->overtaken);
}

static double number_of(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

/* Of loaders whose workers are processes. */
static void put_handover(FILE *out, const mr_summary *s) {
    double sum = 0, n = s->batches > 0 ? (double)s->batches : 1;
    double pinning = 1e-9 * number_of(s->trace->end, "pinning_ns");
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        sum += mr_batch_handover(&s->per_batch[i]);
    }
    if (s->figures.workers > 0) {
        fprintf(out, "  of the wait:");
        put_time(out, sum / n);
        fprintf(out, " after it was ready, on its way through the queue between processes\n");
    }
    if (pinning > 0) {
        fprintf(out, "  to pinned memory:");
        put_time(out, pinning / n);
        fprintf(out, " a batch\n");
    }
}

static void put_slowest(FILE *out, const mr_summary *s) {
    enum { SHOWN = 5 };
    if (s->n_slowest > 0) { /* rows that were made together tell of no one */
        fprintf(out, "  slowest samples\n");
    }
    for (int32_t i = 0; i < s->n_slowest && i < SHOWN; i++) {
        const mr_slow *slow = &s->slowest[i];
        put_time(out, slow->seconds);
        fprintf(out, "  %s (sample %lld, batch %u)\n", slow->name ? slow->name : "?",
                (long long)slow->sample, slow->batch);
    }
}

static void put_count(FILE *out, int64_t n, const char *one, const char *many) {
    fprintf(out, "%lld %s, ", (long long)n, n == 1 ? one : many);
}

/* How the run stood to the stream that it followed, when it ended. */
static void put_stream(FILE *out, const mr_summary *s) {
    const json_t *stream = json_object_get(s->trace->end, "stream");
    double seconds = s->seconds > 0 ? s->seconds : 1;
    double entries = number_of(stream, "entries"), age = number_of(stream, "age_ns");
    double left_out = number_of(stream, "left_out"), behind = number_of(stream, "behind");
    if (!stream) {
        return;
    }
    fprintf(out, "  the stream: %.0f entries read, %.0f/s in, %.0f samples/s out", entries,
            entries / seconds, (double)s->samples / seconds);
    if (behind >= 0) {
        fprintf(out, ", behind by %.0f", behind);
    }
    if (left_out > 0) {
        fprintf(out, ", %.1f %% left out", 100 * left_out / fmax(entries, left_out));
    }
    if (number_of(stream, "spilled") > 0) {
        fprintf(out, ", %.0f spilled", number_of(stream, "spilled"));
    }
    if (number_of(stream, "received") > 0) {
        fprintf(out, ", %.0f had from other ranks", number_of(stream, "received"));
    }
    if (json_object_get(stream, "age_ns") && age >= 0) {
        fprintf(out, ", the newest %.3g s old", age * 1e-9);
    }
    fprintf(out, "\n");
}

/* "77.1 MB" */
static void put_bytes(FILE *out, double bytes) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (bytes >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    fprintf(out, "%.*f %s", unit > 0, bytes, units[unit]);
}

/* Where the bytes of blocks came from, in the order in which it was asked. */
static void put_origins(FILE *out, const mr_summary *s) {
    const json_t *origins = json_object_get(s->trace->end, "origins");
    size_t n = json_array_size(origins);
    for (size_t i = 0; i < n; i++) {
        const json_t *origin = json_array_get(origins, i);
        const char *name = json_string_value(json_object_get(origin, "name"));
        char safe[128];
        fprintf(out, "%s %s ", i == 0 ? "  bytes by origin:" : ",",
                mr_text_escape(safe, sizeof safe, name ? name : "?"));
        put_bytes(out, number_of(origin, "bytes"));
        fprintf(out, " (%.0f of %.0f blocks)", number_of(origin, "found"),
                number_of(origin, "asked"));
    }
    fputs(n > 0 ? "\n" : "", out);
}

static void put_translated(FILE *out, const mr_summary *s) {
    mr_translated as;
    if (mr_translated_make(s, &as)) {
        fprintf(out, "\nas a millrace pipeline: predicted %.0f samples/s, %.1f times%s\n", as.rate,
                as.times, as.python ? "; some of it stays Python" : "");
        fprintf(out, "  mr.torch.translate(loader) shows it%s\n",
                json_object_get(json_object_get(s->trace->header, "translation"), "pipeline")
                    ? ", millrace report --try measures it"
                    : "");
    }
}

static void put_report(FILE *out, const mr_summary *s) {
    bool steady = s->verdict.bound != MR_BOUND_UNKNOWN;
    fprintf(out, "%s: %.0f samples/s%s\n  %s\n", s->verdict.title, s->verdict.rate,
            steady ? " after the first batch" : "", s->verdict.evidence);
    if (s->verdict.change[0]) {
        fprintf(out, "  First: %s\n", s->verdict.change);
    }
    if (s->trace->missing[0]) {
        fprintf(out, "  Note: %s\n", s->trace->missing);
    }
    if (s->skipped > 0) {
        fprintf(out, "  Note: %lld bad %s skipped; others took the place\n", (long long)s->skipped,
                s->skipped == 1 ? "sample was" : "samples were");
    }
    fprintf(out, "\n  the whole run: ");
    put_count(out, s->samples, "sample", "samples");
    put_count(out, s->batches, "batch", "batches");
    fprintf(out, "%.3f s, ", s->seconds);
    put_count(out, s->n_workers, "worker", "workers");
    size_t classes = json_array_size(json_object_get(s->trace->header, "classes"));
    if (classes > 0) {
        put_count(out, (int64_t)classes, "class", "classes");
    }
    fprintf(out, "%lld spans\n\n", (long long)s->trace->n_spans);
    put_table(out, s);
    fprintf(out, "\n");
    put_batches(out, s);
    put_handover(out, s);
    put_stream(out, s);
    put_origins(out, s);
    put_slowest(out, s);
    mr_function_table_put(out, &s->functions);
    const json_t *counters = json_object_get(s->trace->end, "counters");
    const char *note = json_string_value(json_object_get(counters, "note"));
    if (note && note[0]) {
        fprintf(out, "  Note: %s\n", note);
    }
    put_translated(out, s);
}

static void put_explanation(FILE *out, const mr_summary *s) {
    char words[8192];
    mr_verdict_explain(&s->verdict, &s->figures, words, (int)sizeof words);
    fputs(words, out);
}

/* ---- Public ---- */
typedef struct wanted_text {
    const mr_summary *summary;
    mr_trace_text_kind kind;
} wanted_text;

static mr_status write_text(FILE *out, const void *context, mr_error *err) {
    const wanted_text *wanted = context;
    const mr_summary *s = wanted->summary;
    if (wanted->kind == MR_TRACE_JSON) {
        return mr_put_json(out, mr_summary_json(s), err);
    }
    if (wanted->kind == MR_TRACE_SWEEP) {
        return mr_put_json(out, mr_sweep_part(s), err);
    }
    if (wanted->kind == MR_TRACE_EXPLAIN) {
        put_explanation(out, s);
    } else {
        put_report(out, s);
    }
    return MR_OK;
}

mr_status mr_trace_text(const mr_trace *trace, mr_trace_text_kind kind, char **out, mr_error *err) {
    mr_summary *s = mr_zalloc(1, sizeof *s);
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    mr_status status = mr_summary_make(s, trace, err);
    if (status == MR_OK) {
        const wanted_text wanted = {s, kind};
        status = mr_make_text(out, write_text, &wanted, err);
    }
    mr_summary_free(s);
    mr_free(s);
    return status;
}
