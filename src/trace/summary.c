/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - see summary.h. Walks over the spans: what there is and how much of it; times,
 * batches and slices; and, once it is known where the steady part lies, the figures for the
 * verdict. Nothing is sorted but what quantiles need. */
#include "trace/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

static const double ns = 1e-9;

/* ---- Lines: one for each kind, each op, and each run of fused ops by the first ---- */
typedef struct line {
    mr_times *times;
    uint64_t *durations; /* of the measured ones; of rows made together once, their mean */
    int64_t n;           /* of durations */
    double sum_bytes, sum_squares, sum_products, seconds;
} line;

typedef struct builder {
    mr_summary *s;
    line *lines;
    int32_t n_lines;
    uint64_t *durations;
    mr_op_figure *ops;
    double from, to;  /* the steady part */
    double *ended;    /* of each track, when its last span did */
    uint64_t *waited; /* of each track, where its last wait for another's sample ended */
} builder;

static int32_t line_of(const mr_trace *trace, const mr_time_span *span) {
    switch ((mr_span_kind)span->kind) {
    case MR_SPAN_OP:
    case MR_SPAN_PART:
        return MR_SPAN_KINDS + span->op;
    case MR_SPAN_FUSED:
        return MR_SPAN_KINDS + trace->n_ops + span->op;
    default:
        return span->kind;
    }
}

typedef void visitor(builder *b, const mr_time_span *span, int32_t track);

static void walk(builder *b, visitor *visit) {
    const mr_trace *trace = b->s->trace;
    for (int64_t p = 0; p < trace->n_pieces; p++) {
        const mr_trace_piece *piece = &trace->pieces[p];
        for (int64_t i = 0; i < piece->n; i++) {
            if (mr_trace_is_sound(trace, &piece->spans[i])) {
                visit(b, &piece->spans[i], piece->track);
            }
        }
    }
}

/* Batches are numbered from 0, and each leaves spans: a number beyond that is damage. */
static bool has_batch(const builder *b, const mr_time_span *span) {
    return span->batch != MR_SPAN_NO_BATCH && (int64_t)span->batch < b->s->trace->n_spans;
}

static bool is_worker(const builder *b, int32_t track) {
    return strcmp(b->s->trace->tracks[track].kind, "worker") == 0;
}

static double overlap(const mr_time_span *span, double from, double to) {
    double start = (double)span->start * ns, end = (double)(span->start + span->duration) * ns;
    double length = fmin(end, to) - fmax(start, from);
    return length > 0 ? length : 0;
}

/* ---- The first walk: how much there is ---- */
static void count_span(builder *b, const mr_time_span *span, int32_t track) {
    mr_summary *s = b->s;
    double end = (double)(span->start + span->duration) * ns;
    s->seconds = fmax(s->seconds, end);
    b->ended[track] = fmax(b->ended[track], end);
    b->lines[line_of(s->trace, span)].n++;
    if (has_batch(b, span) && span->batch >= s->n_per_batch) {
        s->n_per_batch = (int64_t)span->batch + 1;
    }
}

static void count_unsound(builder *b) {
    int64_t sound = 0;
    for (int32_t i = 0; i < b->n_lines; i++) {
        sound += b->lines[i].n;
    }
    b->s->unsound = b->s->trace->n_spans - sound;
}

static mr_status make_room(builder *b, mr_error *err) {
    mr_summary *s = b->s;
    size_t spans = (size_t)s->trace->n_spans, batches = (size_t)s->n_per_batch;
    b->durations = mr_zalloc(spans, sizeof *b->durations);
    s->per_batch = mr_zalloc(batches, sizeof *s->per_batch);
    s->heat = mr_zalloc((size_t)s->trace->n_tracks * 2 * MR_TIME_BINS, sizeof *s->heat);
    if (!b->durations || !s->per_batch || !s->heat) {
        return mr_fail_memory(err, spans * sizeof *b->durations);
    }
    uint64_t *next = b->durations;
    for (int32_t i = 0; i < b->n_lines; i++) {
        b->lines[i].durations = next;
        next += b->lines[i].n;
        b->lines[i].n = 0;
    }
    for (size_t i = 0; i < batches; i++) {
        s->per_batch[i].begun = s->per_batch[i].asked = INFINITY;
    }
    return MR_OK;
}

/* ---- The second walk: times, batches, slices ---- */
static int log2_of(uint32_t bytes) {
    return 31 - __builtin_clz(bytes | 1);
}

static void measure(line *l, const mr_time_span *span) {
    mr_times *t = l->times;
    double seconds = (double)span->duration * ns, bytes = span->bytes_in;
    int64_t rows = mr_span_rows(span);
    l->durations[l->n++] = span->duration / (uint64_t)rows;
    l->seconds += seconds;
    l->sum_bytes += bytes * (double)rows;
    l->sum_squares += bytes * bytes * (double)rows;
    l->sum_products += bytes * seconds;
    t->timed += rows;
    t->bytes_in += bytes * (double)rows;
    t->bytes_out += span->bytes_out * (double)rows;
    t->longest = fmax(t->longest, seconds / (double)rows);
    t->bin_count[log2_of(span->bytes_in)] += rows;
    t->bin_seconds[log2_of(span->bytes_in)] += seconds;
}

static void measure_batch(builder *b, const mr_time_span *span) {
    mr_batch_times *batch = &b->s->per_batch[span->batch];
    double start = (double)span->start * ns, length = (double)span->duration * ns;
    switch ((mr_span_kind)span->kind) {
    case MR_SPAN_SAMPLE:
        batch->begun = fmin(batch->begun, start);
        batch->work += length;
        batch->worst = fmax(batch->worst, length / (double)mr_span_rows(span));
        batch->samples += mr_span_rows(span);
        break;
    case MR_SPAN_SEAL:
        batch->ready = start + length;
        break;
    case MR_SPAN_WAIT_BATCH:
        batch->asked = fmin(batch->asked, start);
        batch->wait += length;
        break;
    case MR_SPAN_DELIVER:
        batch->taken = start; /* what follows is opening another */
        batch->seen = true;
        break;
    case MR_SPAN_CONSUME:
        batch->consume += length;
        break;
    default:
        break;
    }
}

static double *share_of(mr_time_bin *bin, mr_span_kind kind) {
    switch (kind) {
    case MR_SPAN_SAMPLE:
    case MR_SPAN_UNPACK:
        return &bin->work;
    case MR_SPAN_SEAL:
        return &bin->seal;
    case MR_SPAN_WAIT_READ:
    case MR_SPAN_WAIT_PEER:
        return &bin->wait_read;
    case MR_SPAN_WAIT_WORK:
        return &bin->wait_work;
    case MR_SPAN_WAIT_BATCH:
        return &bin->wait_batch;
    case MR_SPAN_CONSUME:
        return &bin->consume;
    case MR_SPAN_READ:
        return &bin->reads;
    default:
        return NULL;
    }
}

static int time_bin_at(const mr_summary *s, double moment) {
    int at = s->seconds > 0 ? (int)(moment / s->seconds * MR_TIME_BINS) : 0;
    return at < 0 ? 0 : at >= MR_TIME_BINS ? MR_TIME_BINS - 1 : at;
}

/* What a track's shade in the timeline shows; NULL: nothing of this span. */
static double *heat_of(mr_summary *s, const mr_time_span *span, int32_t track) {
    double *heat = s->heat + (size_t)track * 2 * MR_TIME_BINS;
    mr_span_kind kind = (mr_span_kind)span->kind;
    if (kind == MR_SPAN_WAIT_READ || kind == MR_SPAN_WAIT_PEER || kind == MR_SPAN_WAIT_BATCH) {
        return heat + MR_TIME_BINS;
    }
    bool work = kind == MR_SPAN_SAMPLE || kind == MR_SPAN_SEAL || kind == MR_SPAN_CONSUME ||
                kind == MR_SPAN_READ || kind == MR_SPAN_UNPACK;
    return work ? heat : NULL;
}

static void spread(mr_summary *s, const mr_time_span *span, int32_t track) {
    double width = s->seconds / MR_TIME_BINS, start = (double)span->start * ns;
    double end = start + (double)span->duration * ns;
    bool counted = share_of(&s->time_bins[0], (mr_span_kind)span->kind) != NULL;
    double *heat = heat_of(s, span, track);
    int last = time_bin_at(s, end);
    for (int i = time_bin_at(s, start); counted && width > 0 && i <= last; i++) {
        double here = overlap(span, i * width, (i + 1) * width) / width;
        *share_of(&s->time_bins[i], (mr_span_kind)span->kind) += here;
        if (heat) {
            heat[i] += here;
        }
    }
    if (span->kind == MR_SPAN_SAMPLE) {
        s->time_bins[last].samples += (double)mr_span_rows(span);
    }
}

/* The slowest samples, slowest first: few, so they are kept in order. */
static void note_slow(mr_summary *s, const mr_time_span *span, int32_t track) {
    double seconds = (double)span->duration * ns;
    bool full = s->n_slowest == MR_SUMMARY_SLOWEST;
    if (full && seconds <= s->slowest[s->n_slowest - 1].seconds) {
        return;
    }
    int32_t at = full ? s->n_slowest - 1 : s->n_slowest++;
    for (; at > 0 && s->slowest[at - 1].seconds < seconds; at--) {
        s->slowest[at] = s->slowest[at - 1];
    }
    s->slowest[at] =
        (mr_slow){seconds, (double)span->start * ns, span->item, span->batch, track, NULL};
}

static void measure_span(builder *b, const mr_time_span *span, int32_t track) {
    measure(&b->lines[line_of(b->s->trace, span)], span);
    if (has_batch(b, span)) {
        measure_batch(b, span);
    }
    spread(b->s, span, track);
    if (span->kind == MR_SPAN_SAMPLE && mr_span_rows(span) == 1) { /* else it is no one's */
        note_slow(b->s, span, track);
    }
}

/* ---- Afterwards ---- */
/* The k-th smallest of n, by partitioning: reorders. */
static uint64_t select_kth(uint64_t *v, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        uint64_t pivot = v[low + (high - low) / 2];
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do {
                i++;
            } while (v[i] < pivot);
            do {
                j--;
            } while (v[j] > pivot);
            if (i >= j) {
                break;
            }
            uint64_t other = v[i];
            v[i] = v[j];
            v[j] = other;
        }
        if (k <= j) {
            high = j;
        } else {
            low = j + 1;
        }
    }
    return v[k];
}

static double quantile(line *l, double share) {
    int64_t n = l->n, k = (int64_t)(share * (double)n);
    return n > 0 ? (double)select_kth(l->durations, n, k < n ? k : n - 1) * ns : 0;
}

/* The straight line through (bytes, seconds) that is nearest in squares. */
static void fit(line *l) {
    double n = (double)l->times->timed;
    double spread_of_bytes = n * l->sum_squares - l->sum_bytes * l->sum_bytes;
    if (n >= 2 && spread_of_bytes > 1e-9 * n * l->sum_squares) {
        l->times->per_byte = (n * l->sum_products - l->sum_bytes * l->seconds) / spread_of_bytes;
        l->times->fixed = (l->seconds - l->times->per_byte * l->sum_bytes) / n;
    }
}

static void finish_lines(builder *b) {
    for (int32_t i = 0; i < b->n_lines; i++) {
        line *l = &b->lines[i];
        mr_times *t = l->times;
        t->count = t->timed;
        t->total = l->seconds;
        t->mean = t->timed ? l->seconds / (double)t->timed : 0;
        t->p50 = quantile(l, 0.5);
        t->p99 = quantile(l, 0.99);
        fit(l);
    }
}

/* Fused ops were measured now and then; their shares of it then stand for all of it, and the
 * mean is that of all. */
static void share_out_fused(mr_summary *s, int32_t first) {
    const mr_times *fused = &s->fused[first];
    double parts = 0;
    int32_t n = s->trace->ops[first].fused;
    for (int32_t k = first; k < first + n && k < s->trace->n_ops; k++) {
        parts += s->ops[k].total;
    }
    for (int32_t k = first; k < first + n && k < s->trace->n_ops; k++) {
        s->ops[k].count = fused->count;
        s->ops[k].total = parts > 0 ? fused->total * s->ops[k].total / parts : 0;
        s->ops[k].mean = mr_divide(s->ops[k].total, (double)fused->count);
    }
}

static void finish_batches(mr_summary *s) {
    double earliest_later = INFINITY;
    for (int64_t i = s->n_per_batch - 1; i >= 0; i--) {
        mr_batch_times *batch = &s->per_batch[i];
        s->batches += batch->seen;
        batch->overtaken = batch->ready > 0 && earliest_later < batch->ready;
        s->overtaken += batch->overtaken;
        earliest_later = batch->ready > 0 ? fmin(earliest_later, batch->ready) : earliest_later;
        batch->begun = isfinite(batch->begun) ? batch->begun : batch->ready;
        batch->asked = isfinite(batch->asked) ? batch->asked : batch->taken;
    }
}

static void finish_time_bins(mr_summary *s) {
    double workers = s->n_workers > 0 ? s->n_workers : 1;
    for (int i = 0; i < MR_TIME_BINS; i++) {
        mr_time_bin *bin = &s->time_bins[i];
        bin->work /= workers;
        bin->seal /= workers;
        bin->wait_read /= workers;
        bin->wait_work /= workers;
    }
}

static void name_slowest(mr_summary *s) {
    const json_t *names = json_object_get(s->trace->end, "slowest");
    json_t *entry;
    size_t k;
    for (int32_t i = 0; i < s->n_slowest; i++) {
        json_array_foreach(names, k, entry) {
            if (json_integer_value(json_object_get(entry, "sample")) == s->slowest[i].sample) {
                s->slowest[i].name = json_string_value(json_object_get(entry, "name"));
            }
        }
    }
}

/* ---- The third walk: the steady part's figures ---- */
/* A store that had nothing gave no bytes. One that was waited for says nothing about what finding a
 * sample takes: the wait lies inside the look. */
static void add_look(mr_figures *f, const mr_time_span *span, uint64_t waited) {
    bool hit = span->bytes_out > 0 && waited <= span->start;
    f->store_hits += hit;
    f->hit_seconds += hit ? (double)span->duration * ns : 0;
    f->hit_bytes += hit ? span->bytes_out : 0;
}

static void add_figure(builder *b, const mr_time_span *span, int32_t track) {
    mr_figures *f = &b->s->figures;
    double here = overlap(span, b->from, b->to);
    double *const sums[MR_SPAN_KINDS] = {
        [MR_SPAN_SAMPLE] = &f->work,
        [MR_SPAN_SEAL] = &f->seal,
        [MR_SPAN_WAIT_READ] = &f->wait_read,
        [MR_SPAN_WAIT_PEER] = &f->wait_peer,
        [MR_SPAN_WAIT_WORK] = &f->wait_work,
        [MR_SPAN_WAIT_BATCH] = &f->wait,
        [MR_SPAN_DELIVER] = &f->deliver,
        [MR_SPAN_CONSUME] = &f->consume,
        [MR_SPAN_WAIT_HOST] = &f->wait_host,
        [MR_SPAN_STORE_READ] = &f->store_read,
        [MR_SPAN_STORE_WRITE] = &f->store_write,
        [MR_SPAN_STORE_WAIT] = &f->store_wait,
        [MR_SPAN_READ] = &f->reads_in_flight,
        [MR_SPAN_FILL] = &f->fill,
        [MR_SPAN_REQUEST_WAIT] = &f->request_wait,
        [MR_SPAN_FIRST_BYTE] = &f->first_byte,
        [MR_SPAN_TRANSFER] = &f->transfer,
        [MR_SPAN_UNPACK] = &f->unpack,
    };
    if (sums[span->kind]) {
        *sums[span->kind] += here;
    }
    f->wait_read += span->kind == MR_SPAN_WAIT_PEER ? here : 0;
    double end = (double)(span->start + span->duration) * ns;
    bool ended = end > b->from && end <= b->to;
    bool made = span->kind == MR_SPAN_SAMPLE && ended && is_worker(b, track);
    f->made += made ? (double)mr_span_rows(span) : 0;
    f->requests += span->kind == MR_SPAN_TRANSFER && ended;
    f->reads += span->kind == MR_SPAN_READ && ended;
    if (span->kind == MR_SPAN_STORE_READ && ended) {
        add_look(f, span, b->waited[track]);
    }
    if (span->kind == MR_SPAN_STORE_WAIT) {
        b->waited[track] = span->start + span->duration;
    }
}

/* A worker that has made its last sample waits for nothing, and leaves no span. A trace that was
 * cut off does not tell it from one that is busy. */
static void add_idle_ends(builder *b) {
    const mr_trace *trace = b->s->trace;
    for (int32_t i = 0; i < trace->n_tracks && json_is_object(trace->end); i++) {
        double idle = b->to - fmax(b->ended[i], b->from);
        b->s->figures.wait_work += is_worker(b, i) ? fmax(idle, 0) : 0;
    }
}

/* Whether the slowest sample is slow whenever it is made, or was once. */
static void look_at_slowest(builder *b, const mr_time_span *span, int32_t track) {
    mr_figures *f = &b->s->figures;
    bool same = span->kind == MR_SPAN_SAMPLE && b->s->n_slowest > 0 && is_worker(b, track) &&
                span->item == b->s->slowest[0].sample;
    f->longest_seen += same;
    f->longest_slow += same && (double)span->duration * ns > 20 * f->sample_p50;
}

static void find_steady_part(builder *b) {
    mr_summary *s = b->s;
    mr_figures *f = &s->figures;
    int64_t first = 0, last = s->n_per_batch - 1;
    while (first < s->n_per_batch && !s->per_batch[first].seen) {
        first++;
    }
    while (last > first && !s->per_batch[last].seen) {
        last--;
    }
    if (last > first) {
        b->from = s->per_batch[first].taken;
        b->to = s->per_batch[last].taken;
        f->batches = (double)(last - first);
        f->seconds = b->to - b->from;
    }
}

/* A bad sample leaves a span as well as the one that took its place, so a batch has at most its
 * size; a small dataset's have fewer. */
static int64_t samples_of(const mr_summary *s, const mr_batch_times *batch) {
    int64_t most = mr_trace_setup(s->trace, "batch");
    return batch->samples < most ? batch->samples : most;
}

/* Samples of the batches taken after the first. The end of the run knows how many there were in
 * all; otherwise they are counted. */
static double samples_delivered(const mr_summary *s) {
    int64_t all = json_integer_value(json_object_get(s->trace->end, "samples")), n = 0;
    int64_t first = -1;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        n += s->per_batch[i].seen && first >= 0 ? samples_of(s, &s->per_batch[i]) : 0;
        first = first < 0 && s->per_batch[i].seen ? i : first;
    }
    bool known = all > 0 && first >= 0;
    return (double)(known ? all - samples_of(s, &s->per_batch[first]) : n);
}

static double straggler_wait(const mr_summary *s, double from) {
    double wait = 0;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        const mr_batch_times *batch = &s->per_batch[i];
        bool counted = batch->seen && batch->taken > from;
        wait += counted && batch->worst > 20 * s->figures.sample_p50 ? batch->wait : 0;
    }
    return wait;
}

static double usage_sum(const mr_trace *trace, const char *kind, const char *name) {
    const json_t *usage = json_object_get(trace->end, "usage");
    double sum = json_array_size(usage) > 0 ? 0 : -1;
    json_t *entry;
    size_t i;
    json_array_foreach(usage, i, entry) {
        bool meant = i < (size_t)trace->n_tracks && strcmp(trace->tracks[i].kind, kind) == 0;
        sum += meant ? (double)json_integer_value(json_object_get(entry, name)) : 0;
    }
    return sum;
}

static void set_machine(const mr_summary *s, mr_figures *f) {
    const mr_trace *trace = s->trace;
    f->threads = (int32_t)mr_trace_setup(trace, "threads");
    f->cpus = (int32_t)mr_trace_setup(trace, "cpus");
    f->batch = (int32_t)mr_trace_setup(trace, "batch");
    f->dataset_samples = (double)mr_trace_setup(trace, "dataset_samples");
    f->batches_ahead = (int32_t)mr_trace_setup(trace, "batches_ahead");
    f->batch_bytes = (double)mr_trace_setup(trace, "batch_bytes");
    f->reads_most = (double)mr_trace_setup(trace, "reads_in_flight");
    f->check_rate = (double)mr_trace_setup(trace, "checked_bytes_per_second");
}

/* What an op's result takes, whole; fused ops tell it at the end of the run. */
static double whole_bytes(const mr_summary *s, int32_t op) {
    const json_t *whole = json_object_get(s->trace->end, "whole_bytes");
    double bytes = json_number_value(json_array_get(whole, (size_t)op));
    const mr_times *t = &s->ops[op];
    return bytes > 0 ? bytes : t->timed ? t->bytes_out / (double)t->timed : 0;
}

/* Where it is fused with the next op, rows go from one to the other. */
static double passed_on(const mr_summary *s, int32_t op) {
    const mr_times *t = &s->ops[op];
    for (int32_t head = op; head >= 0; head--) {
        if (head + s->trace->ops[head].fused > op + 1 && s->trace->ops[head].fused > 1) {
            return t->timed ? t->bytes_out / (double)t->timed : 0;
        }
    }
    return 0;
}

/* Ops and CPU time are known for the whole run; the steady part has its share of them. */
static void set_ops(builder *b, mr_figures *f) {
    const mr_summary *s = b->s;
    double all = s->kinds[MR_SPAN_SAMPLE].total, part = all > 0 ? f->work / all : 0;
    double cpu = usage_sum(s->trace, "worker", "cpu_ns") * ns;
    bool locked = s->kinds[MR_SPAN_WAIT_HOST].count > 0; /* not so in processes of their own */
    f->cpu = cpu > 0 ? cpu * part : -1;
    f->readers_cpu = fmax(usage_sum(s->trace, "reader", "cpu_ns"), 0) * ns * part;
    f->consumer_cpu = fmax(usage_sum(s->trace, "consumer", "cpu_ns"), 0) * ns *
                      mr_divide(f->batches, (double)s->batches);
    f->preempted = fmax(usage_sum(s->trace, "worker", "preempted"), 0) * part;
    f->paused = fmax(usage_sum(s->trace, "worker", "waits"), 0) * part;
    f->major_faults = fmax(usage_sum(s->trace, "worker", "major_faults"), 0) * part;
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        const mr_times *t = &s->ops[i];
        b->ops[i] = (mr_op_figure){.name = s->trace->ops[i].name,
                                   .seconds = t->total * part,
                                   .runs = (double)t->count * part,
                                   .bytes_out = whole_bytes(s, i),
                                   .passed_on = passed_on(s, i),
                                   .host = s->trace->ops[i].host && locked,
                                   .random = s->trace->ops[i].random,
                                   .opaque = s->trace->ops[i].opaque,
                                   .cache = strcmp(s->trace->ops[i].name, "cache") == 0,
                                   .partly = !json_is_object(s->trace->end) && passed_on(s, i) > 0,
                                   .fused = s->trace->ops[i].fused > 1};
        f->elsewhere += s->trace->ops[i].host && !locked ? t->total * part : 0;
    }
    f->ops = b->ops;
    f->n_ops = s->trace->n_ops;
}

static double integer_of(const json_t *object, const char *name) {
    return (double)json_integer_value(json_object_get(object, name));
}

/* ---- Loaders of others ---- */
static void add_start(builder *b, const mr_time_span *span, int32_t track) {
    mr_figures *f = &b->s->figures;
    double seconds = overlap(span, b->from, b->to);
    (void)track;
    if (span->kind == MR_SPAN_START && seconds > 0) {
        f->starts++;
        f->wait += seconds;
        f->start += seconds + (has_batch(b, span) ? b->s->per_batch[span->batch].wait : 0);
    }
}

/* A process that takes the place of another begins by waiting for work. */
static void add_absence(builder *b, const mr_time_span *span, int32_t track) {
    uint64_t *ended = &b->waited[track];
    if (is_worker(b, track) && span->kind == MR_SPAN_WAIT_WORK && span->start > *ended) {
        const mr_time_span gap = {.start = *ended, .duration = span->start - *ended};
        b->s->figures.absent += overlap(&gap, b->from, b->to);
    }
    *ended = span->start + span->duration > *ended ? span->start + span->duration : *ended;
}

/* From when a batch was both ready and wanted until it was there. */
static double handover(const mr_summary *s, double from) {
    double sum = 0;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        sum += s->per_batch[i].taken > from ? mr_batch_handover(&s->per_batch[i]) : 0;
    }
    return sum;
}

/* Known for the whole run; the steady part has its share of them. */
static void set_program(const builder *b, mr_figures *f) {
    const json_t *end = b->s->trace->end;
    const double work = b->s->kinds[MR_SPAN_SAMPLE].total;
    const double wait = b->s->kinds[MR_SPAN_WAIT_BATCH].total;
    f->disk_bytes = integer_of(end, "disk_bytes") * mr_divide(f->work, work);
    f->beside = integer_of(end, "beside_ns") * ns * mr_divide(f->wait, wait);
    f->pinning = integer_of(end, "pinning_ns") * ns * mr_divide(f->batches, (double)b->s->batches);
}

static void set_foreign(builder *b, mr_figures *f) {
    const mr_trace *trace = b->s->trace;
    f->foreign = json_is_string(json_object_get(trace->header, "foreign"));
    if (f->foreign) {
        const json_t *setup = json_object_get(trace->header, "setup");
        f->workers = (int32_t)mr_trace_setup(trace, "workers");
        f->persistent = json_is_true(json_object_get(setup, "persistent"));
        f->handover = f->workers > 0 ? handover(b->s, b->from) : 0;
        set_program(b, f);
        f->cpu = f->workers > 0 ? f->cpu : -1; /* the program's own thread does other things too */
        walk(b, add_start);
        memset(b->waited, 0, (size_t)trace->n_tracks * sizeof *b->waited);
        walk(b, add_absence);
        f->absent += f->workers > 0 ? 0 : f->consume;
    }
}

static void set_stream(mr_figures *f, const json_t *stream) {
    f->starved = 1e-9 * integer_of(stream, "starved_ns");
    f->entries = integer_of(stream, "entries");
    f->behind = stream ? integer_of(stream, "behind") : -1;
    f->replayed = integer_of(stream, "replayed");
}

/* Sums of the steady part become means of a request. */
static void set_requests(mr_figures *f, const mr_times *transfer, const json_t *servers) {
    f->requests_in_flight = mr_divide(f->first_byte + f->transfer, f->seconds);
    f->request_wait = mr_divide(f->request_wait, f->requests);
    f->first_byte = mr_divide(f->first_byte, f->requests);
    f->transfer = mr_divide(f->transfer, f->requests);
    f->request_bytes = transfer->timed ? transfer->bytes_in / (double)transfer->timed : 0;
    f->requests_most = integer_of(servers, "width");
    f->asked = integer_of(servers, "requests");
    f->retries = integer_of(servers, "retries");
    f->busy = integer_of(servers, "busy");
    f->narrowed = integer_of(servers, "narrowed");
}

static void set_figures(builder *b) {
    mr_summary *s = b->s;
    mr_figures *f = &s->figures;
    const mr_times *sample = &s->kinds[MR_SPAN_SAMPLE], *read = &s->kinds[MR_SPAN_READ];
    set_machine(s, f);
    find_steady_part(b);
    walk(b, add_figure);
    add_idle_ends(b);
    f->store_read = fmax(f->store_read - f->store_wait, 0); /* looking includes waiting */
    f->samples = samples_delivered(s);
    f->reads_in_flight = f->seconds > 0 ? f->reads_in_flight / f->seconds : 0;
    f->hit_seconds = f->store_hits > 0 ? f->hit_seconds / f->store_hits : 0;
    f->hit_bytes = f->store_hits > 0 ? f->hit_bytes / f->store_hits : 0;
    f->read_seconds = read->mean;
    f->read_bytes = read->timed ? read->bytes_in / (double)read->timed : 0;
    f->sample_p50 = sample->p50;
    f->sample_longest = s->n_slowest > 0 ? s->slowest[0].seconds : 0; /* known by itself */
    f->longest_name = s->n_slowest > 0 ? s->slowest[0].name : NULL;
    f->straggler_wait = straggler_wait(s, b->from);
    f->lost = mr_divide((double)s->trace->dropped, (double)(s->trace->dropped + s->trace->n_spans));
    f->refused = (double)json_integer_value(json_object_get(s->trace->end, "refused"));
    set_stream(f, json_object_get(s->trace->end, "stream"));
    set_requests(f, &s->kinds[MR_SPAN_TRANSFER], json_object_get(s->trace->end, "servers"));
    walk(b, look_at_slowest);
    set_ops(b, f);
    set_foreign(b, f);
}

/* A bad sample and the one that took its place both leave spans; the end knows what was delivered.
 */
static void set_outcome(mr_summary *s) {
    const json_t *end = s->trace->end;
    s->samples = json_is_object(end) ? json_integer_value(json_object_get(end, "samples"))
                                     : s->kinds[MR_SPAN_SAMPLE].count;
    s->skipped = json_integer_value(json_object_get(end, "skipped"));
}

/* ---- Public ---- */
static mr_status make_lines(builder *b, mr_error *err) {
    mr_summary *s = b->s;
    size_t n_ops = (size_t)s->trace->n_ops;
    b->n_lines = MR_SPAN_KINDS + 2 * s->trace->n_ops;
    b->lines = mr_zalloc((size_t)b->n_lines, sizeof *b->lines);
    b->ops = mr_zalloc(n_ops, sizeof *b->ops);
    s->ops = mr_zalloc(n_ops, sizeof *s->ops);
    s->fused = mr_zalloc(n_ops, sizeof *s->fused);
    b->ended = mr_zalloc((size_t)s->trace->n_tracks, sizeof *b->ended);
    b->waited = mr_zalloc((size_t)s->trace->n_tracks, sizeof *b->waited);
    if (!b->lines || !b->ended || !b->waited || !b->ops || !s->ops || !s->fused) {
        return mr_fail_memory(err, (size_t)b->n_lines * sizeof *b->lines);
    }
    for (int32_t i = 0; i < MR_SPAN_KINDS; i++) {
        b->lines[i].times = &s->kinds[i];
    }
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        b->lines[MR_SPAN_KINDS + i].times = &s->ops[i];
        b->lines[MR_SPAN_KINDS + s->trace->n_ops + i].times = &s->fused[i];
    }
    return MR_OK;
}

static mr_status build(builder *b, mr_error *err) {
    mr_summary *s = b->s;
    MR_TRY(make_lines(b, err));
    MR_TRY(mr_function_table_make(&s->functions, s->trace, err));
    for (int32_t i = 0; i < s->trace->n_tracks; i++) {
        s->n_workers += is_worker(b, i);
    }
    walk(b, count_span);
    count_unsound(b);
    MR_TRY(make_room(b, err));
    walk(b, measure_span);
    finish_lines(b);
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        if (s->trace->ops[i].fused > 1 && s->fused[i].count > 0) {
            share_out_fused(s, i);
        }
    }
    finish_batches(s);
    finish_time_bins(s);
    name_slowest(s);
    set_outcome(s);
    set_figures(b);
    mr_verdict_make(&s->verdict, &s->figures);
    return MR_OK;
}

mr_status mr_summary_make(mr_summary *out, const mr_trace *trace, mr_error *err) {
    memset(out, 0, sizeof *out);
    out->trace = trace;
    builder b = {.s = out};
    mr_status status = build(&b, err);
    mr_free(b.lines);
    mr_free(b.durations);
    mr_free(b.ended);
    mr_free(b.waited);
    if (status < 0) {
        mr_free(b.ops);
        out->figures.ops = NULL;
        mr_summary_free(out);
    }
    return status;
}

void mr_summary_free(mr_summary *summary) {
    mr_free(summary->ops);
    mr_free(summary->fused);
    mr_free(summary->per_batch);
    mr_free(summary->heat);
    mr_function_table_free(&summary->functions);
    mr_free((void *)summary->figures.ops);
    memset(summary, 0, sizeof *summary);
}
