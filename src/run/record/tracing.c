/* SPDX-License-Identifier: Apache-2.0 */
/* tracing.c - what a loader records about itself: figures for whoever asks meanwhile, and the first
 * and the last word of a trace. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/secrets.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "run/loader.h"
#include "run/record/trace_words.h"

enum { RING = 1 << 15 }; /* spans of a worker that wait to be written: 1.3 MB */

/* Samples that go several to a ticket cost about as much as a few readings of the clock. */
enum { TIMED_OF_SMALL = 16 };

/* What this machine reads and checks in a second, as a store does with a sample that is in memory:
 * the prediction of what a cache would bring needs it. Some milliseconds, before threads start. */
static double check_rate(void) {
    const size_t size = (size_t)16 << 20;
    void *bytes = mr_zalloc(1, size);
    if (!bytes) {
        return 0;
    }
    memset(bytes, 1, size); /* in memory, and not yet in the CPU's first caches */
    int64_t start = mr_monotonic_ns();
    volatile uint64_t sum = mr_hash64_copy(NULL, bytes, size);
    double ns = (double)(mr_monotonic_ns() - start);
    (void)sum;
    mr_free(bytes);
    return ns > 0 ? (double)size / ns * 1e9 : 0;
}

mr_status mr_tracing_open(mr_loader *loader, const mr_options *options, mr_error *err) {
    uint32_t reads = loader->adapter.is_on ? loader->adapter.most.reads : options->reads_in_flight;
    /* The consumer, who speaks with servers; who speaks with ranks and reads for them, or who asks
     * a fabric and offers to it. */
    enum { OTHERS = 4 };
    int32_t most = OTHERS + (int32_t)options->threads + (int32_t)reads;
    uint32_t every = loader->morsel > 1 ? TIMED_OF_SMALL : 1;
    if (!mr_tracks_init(&loader->tracks, most, loader->pipeline->n_ops, every,
                        options->trace ? RING : 0)) {
        return mr_fail_memory(err, (size_t)most * sizeof(mr_track *));
    }
    loader->check_rate = options->trace ? check_rate() : 0;
    loader->track = mr_tracks_add(&loader->tracks, MR_TRACK_CONSUMER);
    return loader->track ? MR_OK : mr_fail_memory(err, sizeof *loader->track);
}

/* ---- The first word ---- */
/* Ops that run fused from this one on: caches that work part them. */
static int32_t fused_at(const mr_loader *loader, int32_t op) {
    const mr_op_node *node = &loader->pipeline->ops[op];
    bool caches =
        loader->pipeline->is_stream || mr_child_of_op(&loader->children, op)->caches.parts;
    return caches ? node->fused_length : node->whole_length;
}

/* The source runs it while it unpacks blocks: see run/read/mapping.h. */
static bool is_mapped(const mr_loader *loader, int32_t op) {
    const mr_child *child = mr_child_of_op(&loader->children, op);
    const mr_mapping *mapping = child->dataset.mapping;
    return mapping && op >= mapping->pipeline->first_op &&
           op - mapping->pipeline->first_op < mapping->pipeline->n_ops &&
           mapping->done[op - mapping->pipeline->first_op];
}

static json_t *ops_json(const mr_loader *loader, bool *lost) {
    const mr_pipeline *pipeline = loader->pipeline;
    json_t *array = json_array();
    for (int32_t i = 0; i < pipeline->n_ops; i++) {
        const mr_op_node *node = &pipeline->ops[i];
        bool random = (node->class->flags & MR_OP_RANDOM) != 0;
        mr_json_append(array,
                       json_pack("{s:s, s:b, s:b, s:b, s:i, s:b}", "name", node->class->name,
                                 "host", node->class->run_sample != NULL, "random", random,
                                 "opaque", (node->flags & MR_OP_OPAQUE) != 0, "fused",
                                 (int)fused_at(loader, i), "mapped", is_mapped(loader, i)),
                       lost);
    }
    return array;
}

static json_t *setup_json(const mr_loader *loader) {
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_stats(loader, &stats);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "threads",
                     (json_int_t)stats.threads, "cpus", (json_int_t)mr_cpu_count(), "world",
                     (json_int_t)loader->schedule.world, "rank", (json_int_t)loader->schedule.rank,
                     "batch", (json_int_t)(loader->schedule.batch / loader->schedule.world),
                     "batches_ahead", (json_int_t)stats.batches_ahead, "reads_in_flight",
                     (json_int_t)stats.reads_in_flight, "morsel", (json_int_t)stats.morsel,
                     "batch_bytes", (json_int_t)stats.batch_bytes, "dataset_samples",
                     (json_int_t)loader->schedule.n, "checked_bytes_per_second",
                     (json_int_t)loader->check_rate, "io", stats.io, "cpu", stats.cpu);
}

static json_t *classes_json(const mr_loader *loader, bool *lost) {
    return loader->no_names ? json_array() : mr_loader_classes_of(loader, "", lost);
}

/* NULL: out of memory. Freed with mr_free, as jansson's texts are. */
static char *header_text(const mr_loader *loader) {
    const mr_ticks *clock = &loader->tracks.clock;
    bool lost = false;
    char *document = mr_secrets_covered(loader->pipeline->json);
    json_t *header = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "millrace",
        mr_version(), "source", loader->pipeline->source ? loader->pipeline->source->name : "mix",
        "fingerprint", loader->pipeline->fingerprint, "dataset", loader->children.fingerprint,
        "seed", (json_int_t)loader->seed, "first_epoch", (json_int_t)loader->schedule.first_epoch,
        "started_monotonic_ns", (json_int_t)clock->start_ns, "started_unix_ns",
        (json_int_t)clock->start_epoch, "pipeline", loader->no_names ? "" : document, "setup",
        setup_json(loader), "ops", ops_json(loader, &lost), "tracks",
        mr_trace_tracks(&loader->tracks, &lost), "classes", classes_json(loader, &lost));
    mr_free(document);
    header = mr_json_whole(header, lost);
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return text;
}

mr_status mr_tracing_begin(mr_loader *loader, const mr_options *options, mr_error *err) {
    if (!options->trace) {
        return MR_OK;
    }
    char *header = header_text(loader);
    mr_status status =
        header ? mr_drain_open(&loader->drain, options->trace, &loader->tracks, header, err)
               : mr_fail_memory(err, 4096);
    mr_free(header);
    return status;
}

/* ---- The last word ---- */
static json_t *slowest_json(const mr_loader *loader) {
    const mr_slow_sample *slowest;
    int32_t n = mr_drain_slowest(loader->drain, &slowest);
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++) {
        char name[512], safe[1024];
        if (loader->no_names) {
            snprintf(name, sizeof name, "sample %lld", (long long)slowest[i].sample);
        } else {
            mr_children_name(&loader->children, slowest[i].sample, name, sizeof name);
        }
        json_array_append_new(array, json_pack("{s:I, s:I, s:I, s:s}", "ns",
                                               (json_int_t)slowest[i].duration, "sample",
                                               (json_int_t)slowest[i].sample, "batch",
                                               (json_int_t)slowest[i].batch, "name",
                                               mr_text_escape(safe, sizeof safe, name)));
    }
    return array;
}

/* What each op's result takes in bytes, whole: what a cache after it would keep of a sample. 0: it
 * did not run fused. */
static json_t *whole_json(const mr_loader *loader) {
    json_t *array = json_array();
    for (int32_t op = 0; op < loader->pipeline->n_ops; op++) {
        const mr_child *child = mr_child_of_op(&loader->children, op);
        int64_t number = child - loader->children.list;
        mr_sizes sum = {0};
        for (uint32_t i = 0; i < loader->n_workers; i++) {
            const mr_chain *chain = &loader->workers[i].chains[number];
            sum.n += chain->sizes[op - child->pipeline->first_op].n;
            sum.bytes += chain->sizes[op - child->pipeline->first_op].bytes;
        }
        json_array_append_new(array, json_real(sum.n > 0 ? sum.bytes / (double)sum.n : 0));
    }
    return array;
}

/* ---- The last word as a whole ---- */
/* By the stores, so far: the process's, as in mr_cache_stats. */
static int64_t refused_samples(const mr_loader *loader) {
    int64_t refused = 0;
    for (int32_t i = 0; i < mr_loader_n_caches(loader); i++) {
        mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
        mr_loader_cache(loader, i, &stats);
        refused += stats.refused;
    }
    return refused;
}

/* NULL: out of memory; counts of ops are then those of each by itself. */
static int32_t *fused_lengths(const mr_loader *loader) {
    int32_t n = loader->pipeline->n_ops;
    int32_t *lengths = mr_zalloc((size_t)n + 1, sizeof *lengths);
    for (int32_t i = 0; lengths && i < n; i++) {
        lengths[i] = fused_at(loader, i);
    }
    return lengths;
}

/* How old the newest entry was, where its time is one of the clock; -1: it is not. */
static int64_t age_of(int64_t newest) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return newest > 0 && age >= newest ? age - newest : -1;
}

/* NULL where it follows none. */
static json_t *stream_json(const mr_loader *loader) {
    mr_stream_stats s = {.size = (uint32_t)sizeof s};
    if (mr_loader_stream(loader, &s) != MR_OK) {
        return NULL;
    }
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {{"entries", s.entries},       {"bytes", s.bytes},
                   {"missing", s.missing},       {"behind", s.behind},
                   {"replayed", s.replayed},     {"left_out", s.left_out},
                   {"filled", s.filled},         {"kept", s.kept},
                   {"starved_ns", s.starved_ns}, {"spilled", s.spilled},
                   {"received", s.received},     {"sent", s.sent},
                   {"newest_ns", s.newest},      {"age_ns", age_of(s.newest)}};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        json_object_set_new(object, figures[i].name, json_integer((json_int_t)figures[i].value));
    }
    return object;
}

/* NULL where nothing lies on servers. */
static json_t *servers_json(const mr_loader *loader) {
    mr_far_figures f;
    if (!loader->far) {
        return NULL;
    }
    mr_far_origin_figures(loader->far, &f);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "requests", (json_int_t)f.requests, "retries",
                     (json_int_t)f.retries, "hedges", (json_int_t)f.hedges, "bytes",
                     (json_int_t)f.bytes, "busy", (json_int_t)f.busy, "narrowed",
                     (json_int_t)f.narrowed, "width", (json_int_t)f.width);
}

/* Where the bytes of blocks came from. NULL where the source reads nothing. */
static json_t *origins_json(const mr_loader *loader) {
    mr_origin_stats origin = {.size = (uint32_t)sizeof origin};
    json_t *array = mr_loader_n_origins(loader) > 0 ? json_array() : NULL;
    for (int32_t i = 0; mr_loader_origin(loader, i, &origin) == MR_OK; i++) {
        json_array_append_new(array,
                              json_pack("{s:s, s:I, s:I, s:I}", "name", origin.name, "asked",
                                        (json_int_t)origin.asked, "found", (json_int_t)origin.found,
                                        "bytes", (json_int_t)origin.bytes));
    }
    return array;
}

/* What only some loaders have. */
static void set_part(json_t *end, const char *name, json_t *part) {
    if (part) {
        json_object_set_new(end, name, part);
    }
}

static char *end_text(const mr_loader *loader) {
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_stats(loader, &stats);
    json_t *end =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o?, s:o?}", "samples",
                  (json_int_t)stats.samples, "batches", (json_int_t)stats.batches, "skipped",
                  (json_int_t)stats.skipped, "bytes_read", (json_int_t)stats.bytes_read, "wait_ns",
                  (json_int_t)stats.wait_ns, "refused", (json_int_t)refused_samples(loader),
                  "whole_bytes", whole_json(loader), "slowest", slowest_json(loader));
    set_part(end, "stream", stream_json(loader));
    set_part(end, "servers", servers_json(loader));
    set_part(end, "origins", origins_json(loader));
    int32_t *fused = fused_lengths(loader);
    mr_trace_end(end, &loader->tracks, loader->drain, fused);
    mr_free(fused);
    char *text = end ? json_dumps(end, JSON_COMPACT) : NULL;
    json_decref(end);
    return text;
}

static void warn_of_failure(const mr_loader *loader) {
    mr_trace_status trace;
    char text[256];
    mr_drain_status(loader->drain, &trace);
    if (trace.failed && loader->log.write) {
        snprintf(text, sizeof text,
                 "the trace ends early: %s; it has the first %lld spans, the run was not disturbed",
                 strerrordesc_np(trace.failed), (long long)trace.spans);
        loader->log.write(loader->log.user, text);
    }
}

void mr_tracing_close(mr_loader *loader) {
    if (!loader->drain) {
        return;
    }
    mr_drain_finish(loader->drain);
    char *end = end_text(loader);
    warn_of_failure(loader);
    mr_drain_close(loader->drain, end);
    loader->drain = NULL;
    mr_free(end);
}

/* ---- Public: figures meanwhile ---- */
int32_t mr_loader_n_lines(const mr_loader *loader) {
    return MR_SPAN_KINDS + loader->pipeline->n_ops;
}

/* What was measured stands for what was not. */
static mr_line line_of(const mr_tally_sum *sum, mr_tick_rate rate) {
    double each = sum->timed ? 1 / (double)sum->timed : 0, tick = rate.ns_per_tick * 1e-9;
    double all = each * (double)sum->count;
    return (mr_line){.size = (uint32_t)sizeof(mr_line),
                     .count = (int64_t)sum->count,
                     .timed = (int64_t)sum->timed,
                     .seconds = (double)sum->ticks * tick * all,
                     .mean = (double)sum->ticks * tick * each,
                     .p50 = mr_tally_quantile(sum, 0.5) * tick,
                     .p99 = mr_tally_quantile(sum, 0.99) * tick,
                     .bytes_in = (double)sum->bytes_in * all,
                     .bytes_out = (double)sum->bytes_out * all};
}

static double mean_ticks(uint64_t ticks, uint64_t times) {
    return times > 0 ? (double)ticks / (double)times : 0;
}

/* The first of the ops that an op is fused with; its own number where it runs alone. */
static int32_t fused_with(const mr_loader *loader, int32_t op) {
    for (int32_t first = 0; first < op; first++) {
        if (first + fused_at(loader, first) > op) {
            return first;
        }
    }
    return op;
}

/* Fused ops are timed now and then, row by row, which takes longer: those times tell each
 * op's share, that of all of them what there is to share. */
static double share_of_fused(const mr_loader *loader, int32_t op) {
    int32_t first = fused_with(loader, op), n = fused_at(loader, first);
    mr_tally_sum sum;
    double parts = 0, whole = 0;
    for (int32_t k = first; k < first + n; k++) {
        mr_tracks_sum(&loader->tracks, mr_line_of_op(k), &sum);
        parts += mean_ticks(sum.ticks, sum.timed);
        whole = k == first ? mean_ticks(sum.fused_ticks, sum.fused) : whole;
    }
    return parts > 0 && whole > 0 ? whole / parts : 1;
}

static void scale_line(mr_line *line, double by) {
    line->seconds *= by;
    line->mean *= by;
    line->p50 *= by;
    line->p99 *= by;
}

mr_status mr_loader_line(const mr_loader *loader, int32_t i, mr_line *out) {
    mr_tally_sum sum;
    if (i < 0 || i >= mr_loader_n_lines(loader)) {
        return MR_E_PARAM;
    }
    mr_tracks_sum(&loader->tracks, i, &sum);
    mr_line line = line_of(&sum, mr_ticks_rate(&loader->tracks.clock));
    bool op = i >= MR_SPAN_KINDS;
    if (op) {
        scale_line(&line, share_of_fused(loader, i - MR_SPAN_KINDS));
    }
    line.name = op ? loader->pipeline->ops[i - MR_SPAN_KINDS].class->name : mr_span_names[i];
    line.kind = op ? MR_LINE_OP : mr_span_is_wait((mr_span_kind)i) ? MR_LINE_WAIT : MR_LINE_WORK;
    uint32_t size = out->size;
    memcpy(out, &line, size < sizeof line ? size : sizeof line);
    out->size = size;
    return MR_OK;
}

void mr_loader_trace_status(const mr_loader *loader, mr_trace_status *out) {
    mr_trace_status status = {.spans = 0};
    if (loader->drain) {
        mr_drain_status(loader->drain, &status);
    }
    mr_give_sized(out, &status, sizeof status);
}
