/* SPDX-License-Identifier: Apache-2.0 */
/* summary_json.c - a summary as one JSON object: what the page draws, and what programs read. */
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "trace/summary.h"

/* Nine digits are a nanosecond in a second; more would only make the page larger. */
static json_t *number(double value) {
    double scale = value != 0 ? pow(10, 9 - ceil(log10(fabs(value)))) : 1;
    double rounded = round(value * scale) / scale;
    return json_real(isfinite(rounded) ? rounded : 0);
}

static void set(json_t *object, const char *name, double value) {
    json_object_set_new(object, name, number(value));
}

static void set_count(json_t *object, const char *name, int64_t value) {
    json_object_set_new(object, name, json_integer(value));
}

static json_t *bins_json(const mr_times *t) {
    json_t *bins = json_array();
    for (int i = 0; i < MR_SIZE_BINS; i++) {
        if (t->bin_count[i] > 0) {
            json_array_append_new(
                bins, json_pack("[I, I, o]", (json_int_t)1 << i, (json_int_t)t->bin_count[i],
                                number(t->bin_seconds[i] / (double)t->bin_count[i])));
        }
    }
    return bins;
}

static json_t *times_json(const char *name, const mr_times *t) {
    json_t *object = json_pack("{s:s}", "name", name);
    set_count(object, "count", t->count);
    set_count(object, "timed", t->timed);
    set(object, "total", t->total);
    set(object, "mean", t->mean);
    set(object, "p50", t->p50);
    set(object, "p99", t->p99);
    set(object, "longest", t->longest);
    set(object, "bytes_in", t->bytes_in);
    set(object, "bytes_out", t->bytes_out);
    set(object, "fixed", t->fixed);
    set(object, "per_byte", t->per_byte);
    json_object_set_new(object, "by_size", bins_json(t));
    return object;
}

static json_t *kinds_json(const mr_summary *s) {
    json_t *object = json_object();
    for (int32_t i = 0; i < MR_SPAN_KINDS; i++) {
        bool about_op = i == MR_SPAN_OP || i == MR_SPAN_PART || i == MR_SPAN_STREAM;
        if (!about_op && s->kinds[i].count > 0) {
            json_object_set_new(object, mr_span_names[i],
                                times_json(mr_span_names[i], &s->kinds[i]));
        }
    }
    return object;
}

static json_t *ops_json(const mr_summary *s) {
    json_t *array = json_array();
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        json_t *op = times_json(s->trace->ops[i].name, &s->ops[i]);
        json_object_set_new(op, "host", json_boolean(s->trace->ops[i].host));
        set_count(op, "stream", s->trace->ops[i].stream);
        json_array_append_new(array, op);
    }
    return array;
}

static json_t *streams_json(const mr_summary *s) {
    json_t *array = json_array();
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        if (s->streams[i].count > 0) {
            json_t *stream = times_json(s->trace->ops[i].name, &s->streams[i]);
            set_count(stream, "first", i);
            set_count(stream, "n_ops", s->trace->ops[i].stream);
            json_array_append_new(array, stream);
        }
    }
    return array;
}

/* [number, begun, ready, asked, taken, work, wait, consume, overtaken] of at most so many batches,
 * evenly chosen: a page needs no more than it has dots. */
static json_t *batches_json(const mr_summary *s) {
    enum { MOST = 2000 };
    json_t *array = json_array();
    int64_t every = s->n_per_batch / MOST + 1;
    for (int64_t i = 0; i < s->n_per_batch; i += every) {
        const mr_batch_times *b = &s->per_batch[i];
        if (b->seen) {
            json_array_append_new(array,
                                  json_pack("[I, o, o, o, o, o, o, o, b]", (json_int_t)i,
                                            number(b->begun), number(b->ready), number(b->asked),
                                            number(b->taken), number(b->work), number(b->wait),
                                            number(b->consume), b->overtaken));
        }
    }
    return array;
}

static json_t *batch_totals_json(const mr_summary *s) {
    double work = 0, wait = 0, delay = 0, consume = 0, span = 0;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        const mr_batch_times *b = &s->per_batch[i];
        if (b->seen) {
            work += b->work;
            wait += b->wait;
            consume += b->consume;
            delay += fmax(b->taken - b->ready, 0);
            span += fmax(b->ready - b->begun, 0);
        }
    }
    double n = s->batches > 0 ? (double)s->batches : 1;
    json_t *object = json_object();
    set(object, "mean_work", work / n);
    set(object, "mean_wait", wait / n);
    set(object, "mean_delay", delay / n);
    set(object, "mean_consume", consume / n);
    set(object, "mean_making", span / n);
    set_count(object, "overtaken", s->overtaken);
    return object;
}

static json_t *slowest_json(const mr_summary *s) {
    json_t *array = json_array();
    for (int32_t i = 0; i < s->n_slowest; i++) {
        const mr_slow *slow = &s->slowest[i];
        json_array_append_new(
            array, json_pack("{s:o, s:o, s:I, s:I, s:s, s:s?}", "seconds", number(slow->seconds),
                             "start", number(slow->start), "sample", (json_int_t)slow->sample,
                             "batch", (json_int_t)slow->batch, "track",
                             s->trace->tracks[slow->track].name, "name", slow->name));
    }
    return array;
}

static json_t *buckets_json(const mr_summary *s) {
    json_t *array = json_array();
    double width = s->seconds / MR_BUCKETS;
    for (int i = 0; i < MR_BUCKETS; i++) {
        const mr_bucket *b = &s->buckets[i];
        const double row[] = {
            b->work,       b->seal,    b->wait_read, b->wait_work,
            b->wait_batch, b->consume, b->reads,     b->samples / fmax(width, 1e-9)};
        json_t *values = json_array();
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
            json_array_append_new(values, json_real(round(row[k] * 1e4) / 1e4));
        }
        json_array_append_new(array, values);
    }
    return array;
}

static json_t *heat_json(const mr_summary *s) {
    double reads = fmax(s->figures.reads_most, 1);
    json_t *array = json_array();
    for (int32_t t = 0; t < s->trace->n_tracks; t++) {
        bool reader = strcmp(s->trace->tracks[t].kind, "reader") == 0;
        json_t *row = json_array();
        for (int i = 0; i < 2 * MR_BUCKETS; i++) {
            double heat = s->heat[(size_t)t * 2 * MR_BUCKETS + (size_t)i] / (reader ? reads : 1);
            json_array_append_new(row, json_real(round(fmin(heat, 1) * 100) / 100));
        }
        json_array_append_new(array, row);
    }
    return array;
}

static json_t *model_json(const mr_figures *f) {
    json_t *array = json_array();
    for (int32_t n = 1; n <= 2 * f->cpus && n <= 64; n *= 2) {
        mr_model model = mr_model_make(f, n);
        json_array_append_new(array,
                              json_pack("{s:i, s:o}", "threads", n, "rate", number(model.rate)));
    }
    return array;
}

static json_t *verdict_json(const mr_summary *s) {
    const mr_verdict *v = &s->verdict;
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:o?}", "bound", mr_bound_name(v->bound),
                               "title", v->title, "evidence", v->evidence, "change", v->change,
                               "predictions", model_json(&s->figures));
    set(object, "rate", v->rate);
    set(object, "predicted", v->predicted);
    set(object, "stall", v->stall);
    set(object, "idle", v->idle);
    set(object, "thread_seconds", v->model.thread_seconds);
    set(object, "limit_threads", v->model.threads);
    set(object, "limit_host", v->model.host);
    set(object, "limit_storage", v->model.storage);
    set(object, "limit_consumer", v->model.consumer);
    return object;
}

static json_t *figures_json(const mr_figures *f) {
    json_t *object = json_object();
    set(object, "seconds", f->seconds);
    set(object, "samples", f->samples);
    set(object, "wait", f->wait);
    set(object, "consume", f->consume);
    set(object, "deliver", f->deliver);
    set(object, "work", f->work);
    set(object, "seal", f->seal);
    set(object, "wait_read", f->wait_read);
    set(object, "wait_work", f->wait_work);
    set(object, "wait_host", f->wait_host);
    set(object, "store_read", f->store_read);
    set(object, "store_write", f->store_write);
    set(object, "store_wait", f->store_wait);
    set(object, "cpu", f->cpu);
    set(object, "reads_in_flight", f->reads_in_flight);
    return object;
}

json_t *mr_summary_json(const mr_summary *s) {
    char path[1024];
    json_t *object = json_pack(
        "{s:s, s:s, s:O?, s:O?, s:O?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?}",
        "trace", mr_text_escape(path, sizeof path, s->trace->path), "missing", s->trace->missing,
        "header", s->trace->header, "usage", json_object_get(s->trace->end, "usage"), "counters",
        json_object_get(s->trace->end, "counters"), "verdict", verdict_json(s), "figures",
        figures_json(&s->figures), "ops", ops_json(s), "streams", streams_json(s), "kinds",
        kinds_json(s), "batch_totals", batch_totals_json(s), "batches", batches_json(s), "slowest",
        slowest_json(s), "buckets", buckets_json(s), "heat", heat_json(s));
    if (object) {
        json_object_set_new(object, "functions", mr_function_table_json(&s->functions));
        set(object, "seconds", s->seconds);
        set_count(object, "samples", s->samples);
        set_count(object, "n_batches", s->batches);
        set_count(object, "spans", s->trace->n_spans);
        set_count(object, "dropped", s->trace->dropped);
        set_count(object, "damaged", s->unsound);
    }
    return object;
}
