/* SPDX-License-Identifier: Apache-2.0 */
/* summary_json.c - a summary as one JSON object: what the page draws, and what programs read. */
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "span/counters.h"
#include "trace/summary.h"
#include "trace/translated.h"

/* Nine digits are a nanosecond in a second; more would only make the page larger. */
static json_t *number(double value) {
    double scale = value != 0 ? pow(10, 9 - ceil(log10(fabs(value)))) : 1;
    double rounded = round(value * scale) / scale;
    return json_real(isfinite(rounded) ? rounded : 0);
}

/* jansson has no words for what is not finite; damage may bring it about. */
static json_t *share(double value, double digits) {
    double rounded = round(value * digits) / digits;
    return json_real(isfinite(rounded) ? rounded : 0);
}

/* Words may have been cut inside a character. */
static json_t *words(const char *text) {
    char safe[1024];
    return json_string(mr_text_escape(safe, sizeof safe, text));
}

static void set(json_t *object, const char *name, double value, bool *lost) {
    mr_json_set(object, name, number(value), lost);
}

static void set_count(json_t *object, const char *name, int64_t value, bool *lost) {
    mr_json_set(object, name, json_integer(value), lost);
}

static json_t *bins_json(const mr_times *t, bool *lost) {
    json_t *bins = json_array();
    for (int i = 0; i < MR_SIZE_BINS; i++) {
        if (t->bin_count[i] > 0) {
            mr_json_append(bins,
                           json_pack("[I, I, o]", (json_int_t)1 << i, (json_int_t)t->bin_count[i],
                                     number(t->bin_seconds[i] / (double)t->bin_count[i])),
                           lost);
        }
    }
    return bins;
}

static json_t *times_json(const char *name, const mr_times *t, bool *lost) {
    json_t *object = json_pack("{s:s}", "name", name);
    set_count(object, "count", t->count, lost);
    set_count(object, "timed", t->timed, lost);
    set(object, "total", t->total, lost);
    set(object, "mean", t->mean, lost);
    set(object, "p50", t->p50, lost);
    set(object, "p99", t->p99, lost);
    set(object, "longest", t->longest, lost);
    set(object, "bytes_in", t->bytes_in, lost);
    set(object, "bytes_out", t->bytes_out, lost);
    set(object, "fixed", t->fixed, lost);
    set(object, "per_byte", t->per_byte, lost);
    mr_json_set(object, "by_size", bins_json(t, lost), lost);
    return object;
}

static json_t *kinds_json(const mr_summary *s, bool *lost) {
    json_t *object = json_object();
    for (int32_t i = 0; i < MR_SPAN_KINDS; i++) {
        bool about_op = i == MR_SPAN_OP || i == MR_SPAN_PART || i == MR_SPAN_FUSED;
        if (!about_op && s->kinds[i].count > 0) {
            mr_json_set(object, mr_span_names[i], times_json(mr_span_names[i], &s->kinds[i], lost),
                        lost);
        }
    }
    return object;
}

/* What was counted for an op, or for the fused ones that it is among; NULL: nothing was. */
static const json_t *counted(const mr_summary *s, int32_t op) {
    const json_t *entries = json_object_get(json_object_get(s->trace->end, "counters"), "ops");
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        json_int_t first = json_integer_value(json_object_get(entry, "op"));
        json_int_t n = json_integer_value(json_object_get(entry, "n_ops"));
        if (op >= first && op - first < (n > 1 ? n : 1)) {
            return entry;
        }
    }
    return NULL;
}

/* Fused ops share what was counted by the time that each took. */
static double share_of_fused(const mr_summary *s, const json_t *entry, int32_t op) {
    int64_t first = json_integer_value(json_object_get(entry, "op"));
    int64_t n = json_integer_value(json_object_get(entry, "n_ops"));
    double all = 0;
    for (int64_t i = first; n > 1 && i < first + n && i < s->trace->n_ops; i++) {
        all += s->ops[i].total;
    }
    return all > 0 ? s->ops[op].total / all : 1;
}

/* Of one call, as "counters"; the CPU time of all calls, in seconds, as "cpu". */
static void set_counters(json_t *object, const mr_summary *s, int32_t op, bool *lost) {
    const json_t *entry = counted(s, op);
    double calls = json_number_value(json_object_get(entry, "calls"));
    json_t *counts = json_object_get(entry, "counts"), *means = json_object();
    double share = entry ? share_of_fused(s, entry, op) : 0;
    for (void *at = json_object_iter(counts); at && calls > 0;
         at = json_object_iter_next(counts, at)) {
        double each = share * json_number_value(json_object_iter_value(at)) / calls;
        set(means, json_object_iter_key(at), each, lost);
        if (strcmp(json_object_iter_key(at), mr_counter_names[MR_COUNT_CPU_NS]) == 0) {
            set(object, "cpu", 1e-9 * each * (double)s->ops[op].count, lost);
        }
    }
    mr_json_set(object, "counters", means, lost);
}

static json_t *ops_json(const mr_summary *s, bool *lost) {
    json_t *array = json_array();
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        json_t *op = times_json(s->trace->ops[i].name, &s->ops[i], lost);
        mr_json_set(op, "host", json_boolean(s->trace->ops[i].host), lost);
        set_count(op, "fused", s->trace->ops[i].fused, lost);
        mr_json_set(op, "mapped", json_boolean(s->trace->ops[i].mapped), lost);
        set_counters(op, s, i, lost);
        mr_json_append(array, op, lost);
    }
    return array;
}

static json_t *fused_json(const mr_summary *s, bool *lost) {
    json_t *array = json_array();
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        if (s->fused[i].count > 0) {
            json_t *fused = times_json(s->trace->ops[i].name, &s->fused[i], lost);
            set_count(fused, "first", i, lost);
            set_count(fused, "n_ops", s->trace->ops[i].fused, lost);
            mr_json_append(array, fused, lost);
        }
    }
    return array;
}

/* [number, begun, ready, asked, taken, work, wait, consume, overtaken] of at most so many batches,
 * evenly chosen: a page needs no more than it has dots. */
static json_t *batches_json(const mr_summary *s, bool *lost) {
    enum { MOST = 2000 };
    json_t *array = json_array();
    int64_t every = s->n_per_batch / MOST + 1;
    for (int64_t i = 0; i < s->n_per_batch; i += every) {
        const mr_batch_times *b = &s->per_batch[i];
        if (b->seen) {
            mr_json_append(array,
                           json_pack("[I, o, o, o, o, o, o, o, b]", (json_int_t)i, number(b->begun),
                                     number(b->ready), number(b->asked), number(b->taken),
                                     number(b->work), number(b->wait), number(b->consume),
                                     b->overtaken),
                           lost);
        }
    }
    return array;
}

static json_t *batch_totals_json(const mr_summary *s, bool *lost) {
    double work = 0, wait = 0, delay = 0, consume = 0, span = 0, handover = 0;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        const mr_batch_times *b = &s->per_batch[i];
        if (b->seen) {
            work += b->work;
            wait += b->wait;
            consume += b->consume;
            delay += fmax(b->taken - b->ready, 0);
            span += fmax(b->ready - b->begun, 0);
            handover += mr_batch_handover(b);
        }
    }
    double n = s->batches > 0 ? (double)s->batches : 1;
    json_t *object = json_object();
    set(object, "mean_work", work / n, lost);
    set(object, "mean_wait", wait / n, lost);
    set(object, "mean_delay", delay / n, lost);
    set(object, "mean_consume", consume / n, lost);
    set(object, "mean_making", span / n, lost);
    if (s->figures.workers > 0) {
        set(object, "mean_handover", handover / n, lost);
    }
    set_count(object, "overtaken", s->overtaken, lost);
    return object;
}

static json_t *slowest_json(const mr_summary *s, bool *lost) {
    json_t *array = json_array();
    for (int32_t i = 0; i < s->n_slowest; i++) {
        const mr_slow *slow = &s->slowest[i];
        mr_json_append(array,
                       json_pack("{s:o, s:o, s:I, s:I, s:o, s:s?}", "seconds",
                                 number(slow->seconds), "start", number(slow->start), "sample",
                                 (json_int_t)slow->sample, "batch", (json_int_t)slow->batch,
                                 "track", words(s->trace->tracks[slow->track].name), "name",
                                 slow->name),
                       lost);
    }
    return array;
}

static json_t *buckets_json(const mr_summary *s, bool *lost) {
    json_t *array = json_array();
    double width = s->seconds / MR_TIME_BINS;
    for (int i = 0; i < MR_TIME_BINS; i++) {
        const mr_time_bin *b = &s->time_bins[i];
        const double row[] = {
            b->work,       b->seal,    b->wait_read, b->wait_work,
            b->wait_batch, b->consume, b->reads,     b->samples / fmax(width, 1e-9)};
        json_t *values = json_array();
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
            mr_json_append(values, share(row[k], 1e4), lost);
        }
        mr_json_append(array, values, lost);
    }
    return array;
}

static json_t *heat_json(const mr_summary *s, bool *lost) {
    double reads = fmax(s->figures.reads_most, 1);
    json_t *array = json_array();
    for (int32_t t = 0; t < s->trace->n_tracks; t++) {
        bool reader = strcmp(s->trace->tracks[t].kind, "reader") == 0;
        json_t *row = json_array();
        for (int i = 0; i < 2 * MR_TIME_BINS; i++) {
            double heat = s->heat[(size_t)t * 2 * MR_TIME_BINS + (size_t)i] / (reader ? reads : 1);
            mr_json_append(row, share(fmin(heat, 1), 100), lost);
        }
        mr_json_append(array, row, lost);
    }
    return array;
}

static json_t *model_json(const mr_figures *f, bool *lost) {
    json_t *array = json_array();
    for (int32_t n = 1; n <= 2 * f->cpus && n <= 64; n *= 2) {
        mr_json_append(
            array, json_pack("{s:i, s:o}", "threads", n, "rate", number(mr_model_threads(f, n))),
            lost);
    }
    return array;
}

/* With a cache after the first ops, once it is full; one where the pipeline has its own. */
static json_t *caches_json(const mr_figures *f, bool *lost) {
    json_t *array = json_array();
    mr_cached cached;
    int32_t before = 0;
    for (int32_t n = 1; n <= f->n_ops && mr_model_cached(f, n, &cached); n++) {
        if (n > 1 && cached.ops == before) {
            break;
        }
        before = cached.ops;
        mr_json_append(array,
                       json_pack("{s:i, s:s, s:o, s:o, s:o, s:o}", "ops", (int)cached.ops, "after",
                                 cached.ops > 0 ? f->ops[cached.ops - 1].name : "the source",
                                 "bytes", number(cached.bytes), "saved", number(cached.saved),
                                 "added", number(cached.added), "rate", number(cached.rate)),
                       lost);
    }
    return array;
}

static json_t *verdict_json(const mr_summary *s, bool *lost) {
    const mr_verdict *v = &s->verdict;
    json_t *object = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "bound", mr_bound_name(v->bound),
                               "title", words(v->title), "evidence", words(v->evidence), "change",
                               words(v->change), "predictions", model_json(&s->figures, lost),
                               "caches", caches_json(&s->figures, lost));
    set(object, "rate", v->rate, lost);
    set(object, "predicted", v->predicted, lost);
    set(object, "stall", v->stall, lost);
    set(object, "idle", v->idle, lost);
    set(object, "thread_seconds", v->model.thread_seconds, lost);
    set(object, "limit_threads", v->model.threads, lost);
    bool at_least = false;
    set(object, "uncached", mr_model_uncached(&s->figures, &at_least), lost);
    mr_json_set(object, "uncached_at_least", json_boolean(at_least), lost);
    set(object, "limit_cpus", v->model.cpus, lost);
    set(object, "limit_host", v->model.host, lost);
    set(object, "limit_storage", v->model.storage, lost);
    set(object, "limit_consumer", v->model.consumer, lost);
    return object;
}

static void set_requests(json_t *object, const mr_figures *f, bool *lost) {
    set(object, "requests", f->requests, lost);
    set(object, "requests_in_flight", f->requests_in_flight, lost);
    set(object, "requests_most", f->requests_most, lost);
    set(object, "request_wait", f->request_wait, lost);
    set(object, "first_byte", f->first_byte, lost);
    set(object, "transfer", f->transfer, lost);
    set(object, "request_bytes", f->request_bytes, lost);
    set(object, "retries", f->retries, lost);
    set(object, "busy", f->busy, lost);
    set(object, "twice_the_requests", mr_model_requests(f, 2 * f->requests_in_flight), lost);
}

/* Of loaders of others. */
static void set_foreign(json_t *object, const mr_figures *f, bool *lost) {
    set(object, "workers", f->workers, lost);
    set(object, "starts", f->starts, lost);
    set(object, "start", f->start, lost);
    set(object, "absent", f->absent, lost);
    set(object, "handover", f->handover, lost);
    set(object, "pinning", f->pinning, lost);
    set(object, "beside", f->beside, lost);
    set(object, "disk_bytes", f->disk_bytes, lost);
}

static json_t *figures_json(const mr_figures *f, bool *lost) {
    json_t *object = json_object();
    set(object, "seconds", f->seconds, lost);
    set(object, "samples", f->samples, lost);
    set(object, "wait", f->wait, lost);
    set(object, "consume", f->consume, lost);
    set(object, "deliver", f->deliver, lost);
    set(object, "work", f->work, lost);
    set(object, "seal", f->seal, lost);
    set(object, "unpack", f->unpack, lost);
    set(object, "wait_read", f->wait_read, lost);
    set(object, "wait_peer", f->wait_peer, lost);
    set(object, "wait_work", f->wait_work, lost);
    set(object, "wait_host", f->wait_host, lost);
    set(object, "store_read", f->store_read, lost);
    set(object, "store_write", f->store_write, lost);
    set(object, "store_wait", f->store_wait, lost);
    set(object, "cpu", f->cpu, lost);
    set(object, "reads_in_flight", f->reads_in_flight, lost);
    if (f->requests > 0) {
        set_requests(object, f, lost);
    }
    if (f->foreign) {
        set_foreign(object, f, lost);
    }
    return object;
}

static void set_translation(json_t *object, const mr_summary *s, bool *lost) {
    mr_translated as;
    if (mr_translated_make(s, &as)) {
        json_t *translation = json_pack("{s:b}", "python", as.python);
        set(translation, "rate", as.rate, lost);
        set(translation, "times", as.times, lost);
        mr_json_set(object, "translation", translation, lost);
    }
}

/* As the run's last word has it, if it does. */
static void copy_of_end(json_t *object, const mr_summary *s, const char *name, bool *lost) {
    json_t *part = json_object_get(s->trace->end, name);
    if (part) {
        mr_json_set(object, name, json_deep_copy(part), lost);
    }
}

json_t *mr_summary_json(const mr_summary *s) {
    char path[1024];
    bool lost = false;
    json_t *object = json_pack(
        "{s:s, s:s, s:O?, s:O?, s:O?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "trace",
        mr_text_escape(path, sizeof path, s->trace->path), "missing", s->trace->missing, "header",
        s->trace->header, "usage", json_object_get(s->trace->end, "usage"), "counters",
        json_object_get(s->trace->end, "counters"), "verdict", verdict_json(s, &lost), "figures",
        figures_json(&s->figures, &lost), "ops", ops_json(s, &lost), "fused", fused_json(s, &lost),
        "kinds", kinds_json(s, &lost), "batch_totals", batch_totals_json(s, &lost), "batches",
        batches_json(s, &lost), "slowest", slowest_json(s, &lost), "buckets",
        buckets_json(s, &lost), "heat", heat_json(s, &lost));
    if (object) {
        mr_json_set(object, "functions", mr_function_table_json(&s->functions, &lost), &lost);
        set_translation(object, s, &lost);
        set(object, "seconds", s->seconds, &lost);
        set_count(object, "samples", s->samples, &lost);
        set_count(object, "n_batches", s->batches, &lost);
        set_count(object, "spans", s->trace->n_spans, &lost);
        set_count(object, "dropped", s->trace->dropped, &lost);
        set_count(object, "skipped", s->skipped, &lost);
        set_count(object, "damaged", s->unsound, &lost);
        copy_of_end(object, s, "stream", &lost);
        copy_of_end(object, s, "origins", &lost);
    }
    return mr_json_whole(object, lost);
}
