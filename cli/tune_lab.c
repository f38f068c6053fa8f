/* SPDX-License-Identifier: Apache-2.0 */
/* tune_lab.c - see tune_lab.h. */
#include "tune_lab.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "text.h"
#include "tune_cold.h"

enum { LEAST_BATCHES = 4, MANY_EPOCHS = 1 << 20 };
#define STORE_BYTES 4000000000.0 /* for trying */
#define MEMORY_BYTES 1000000000.0
#define LEAST_STORE 64000000.0
#define ROOM 1.5 /* a store needs more than its values */

/* ---- The folder ---- */
static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_folder(const char *path) {
    if (path[0]) {
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
}

static mr_status make_folder(char out[PATH_MAX], const char *below, mr_error *err) {
    snprintf(out, PATH_MAX, "%.4000s/.millrace-tune-XXXXXX", below);
    if (!mkdtemp(out)) {
        out[0] = '\0';
        mr_fail(err, MR_E_IO, "cannot make a folder in %.200s: %s", below, strerrordesc_np(errno));
        mr_hint(err, "--scratch names a folder on the disk that a store or pack would be on");
        return MR_E_IO;
    }
    return MR_OK;
}

/* ---- Documents ---- */
static bool is_cache(json_t *op) {
    const char *name =
        json_is_string(op) ? json_string_value(op) : json_object_iter_key(json_object_iter(op));
    return name && strcmp(name, "cache") == 0;
}

static json_t *without_caches(const mr_pipeline *pipeline) {
    json_t *document = json_loads(mr_pipeline_json(pipeline), 0, NULL);
    json_t *ops = json_object_get(document, "ops");
    for (size_t i = json_array_size(ops); i-- > 0;) {
        if (is_cache(json_array_get(ops, i))) {
            json_array_remove(ops, i);
        }
    }
    json_object_del(document, "cache");
    return document;
}

static mr_status parse(const mr_lab *lab, json_t *document, mr_pipeline **out, mr_error *err) {
    char *text = document ? json_dumps(document, JSON_REAL_PRECISION(MR_DIGITS_EXACT)) : NULL;
    if (!text) {
        return mr_fail(err, MR_E_MEMORY, "out of memory");
    }
    mr_status status = mr_pipeline_parse(out, text, strlen(text), lab->ops, err);
    free(text);
    return status;
}

mr_status mr_lab_without_caches(const mr_lab *lab, const mr_pipeline *pipeline, mr_pipeline **out,
                                mr_error *err) {
    json_t *document = without_caches(pipeline);
    mr_status status = parse(lab, document, out, err);
    json_decref(document);
    return status;
}

static bool is_stored(mr_keep_kind keep) {
    return keep >= MR_KEEP_DISK && keep <= MR_KEEP_MEMORY;
}

static json_t *cache_op(mr_keep_kind keep, double bytes, const char *path) {
    static const char *const packings[] = {[MR_KEEP_DISK] = "none",
                                           [MR_KEEP_LZ4] = "lz4",
                                           [MR_KEEP_ZSTD] = "zstd",
                                           [MR_KEEP_MEMORY] = "none"};
    json_t *params = json_pack(
        "{s:I, s:s, s:s}", "size", (json_int_t)(bytes > LEAST_STORE ? bytes : LEAST_STORE), "tier",
        keep == MR_KEEP_MEMORY ? "memory" : "disk", "compression", packings[keep]);
    if (path) {
        json_object_set_new(params, "path", json_string(path));
    }
    return json_pack("{s:o}", "cache", params);
}

json_t *mr_lab_document(const mr_lab *lab, const mr_strategy *s) {
    if (s->keep >= MR_KEEP_TAR) {
        return NULL;
    }
    json_t *document = json_deep_copy(lab->document);
    if (lab->view) {
        json_object_set(document, "view", lab->view);
    }
    if (is_stored(s->keep)) {
        double bytes = ROOM * (s->disk_bytes + s->memory_bytes);
        json_array_insert_new(json_object_get(document, "ops"), (size_t)s->cut,
                              cache_op(s->keep, bytes, NULL));
    }
    return document;
}

/* A part is the same samples in every epoch only without shuffle; the whole dataset is always. */
static mr_status parse_trial(const mr_lab *lab, const mr_strategy *s, const char *path,
                             mr_pipeline **out, mr_error *err) {
    json_t *document = json_deep_copy(lab->document);
    if (lab->world > 1) {
        json_object_set_new(document, "shuffle", json_false());
    }
    if (is_stored(s->keep)) {
        double bytes = s->keep == MR_KEEP_MEMORY ? MEMORY_BYTES : STORE_BYTES;
        json_array_insert_new(json_object_get(document, "ops"), (size_t)s->cut,
                              cache_op(s->keep, bytes, path));
    }
    mr_status status = parse(lab, document, out, err);
    json_decref(document);
    return status;
}

/* ---- Running ---- */
typedef struct course {
    uint32_t threads, reads;
    int64_t world;
    int64_t epochs;
    int64_t epoch; /* samples of one, which a run over blocks takes whole; 0: it need not */
    const char *trace;
    bool digest;
} course;

static mr_status open_course(const mr_lab *lab, const mr_pipeline *pipeline, const course *c,
                             mr_loader **out, mr_error *err) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = c->threads;
    options.reads_in_flight = c->reads;
    options.world = (uint32_t)c->world;
    options.batch = lab->batch * c->world;
    options.epochs = c->epochs;
    options.trace = c->trace;
    options.digest = c->digest;
    options.storage_bytes_per_second = lab->storage.bytes_per_second;
    options.storage_open_ns = lab->storage.open_ns;
    return mr_loader_open(out, pipeline, &options, err);
}

static mr_status take(const mr_lab *lab, mr_loader *loader, int64_t *samples, mr_error *err) {
    mr_batch *batch = NULL;
    mr_status status;
    do {
        if (atomic_load(&lab->stop->signal)) {
            return mr_fail(err, MR_E_CANCELLED, "stopped");
        }
        status = mr_loader_next_within(loader, 100000000, &batch, err);
    } while (status == MR_LATER);
    if (status == MR_OK) {
        *samples += mr_batch_size(batch);
        mr_batch_unref(batch);
    }
    return status;
}

typedef struct run_figures {
    double rate, first_batch_seconds;
} run_figures;

static bool reads_blocks(const mr_loader *loader) {
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_stats(loader, &stats);
    return stats.blocks_bound > 0;
}

/* When the clock starts and stops. Batches that were made ahead while nobody took any would count
 * for too much: it starts after a quarter of the time. Where there are blocks, some are read ahead
 * of the rows that are counted: it starts with the second epoch and stops with the end of one,
 * when as many are ahead. */
typedef struct watch {
    double seconds, first, start, now;
    int64_t epoch; /* samples of one; 0: epochs do not matter */
    int64_t before, samples, batches;
} watch;

static bool is_started(const watch *w) {
    return w->start > 0;
}

static void count_batch(watch *w) {
    w->now = mr_clock();
    w->first = w->first > 0 ? w->first : w->now;
    w->batches += is_started(w);
    bool warm = w->epoch > 0 ? w->before >= w->epoch : w->now - w->first >= 0.25 * w->seconds;
    w->start = is_started(w) || !warm ? w->start : w->now;
}

static bool is_over(const watch *w, int64_t taken) {
    bool whole = w->epoch == 0 || w->samples / w->epoch > (w->samples - taken) / w->epoch;
    return is_started(w) && w->batches >= 2 && w->now - w->start >= 0.75 * w->seconds && whole;
}

static mr_status run_for(const mr_lab *lab, const mr_pipeline *pipeline, const course *c,
                         double seconds, run_figures *out, mr_error *err) {
    mr_loader *loader = NULL;
    watch w = {.seconds = seconds};
    double opened = mr_clock();
    mr_status status = open_course(lab, pipeline, c, &loader, err);
    w.epoch = status == MR_OK && reads_blocks(loader) ? c->epoch : 0;
    for (bool over = false; status == MR_OK && !over;) {
        int64_t taken = 0;
        status = take(lab, loader, &taken, err);
        *(is_started(&w) ? &w.samples : &w.before) += taken;
        count_batch(&w);
        over = is_over(&w, taken);
    }
    mr_loader_close(loader);
    if (status == MR_OK) {
        *out = (run_figures){(double)w.samples / (w.now - w.start), w.first - opened};
    }
    return status == MR_END ? mr_fail(err, MR_E_INTERNAL, "the run ended early") : status;
}

/* ---- The lab ---- */
static mr_status stream_refused(mr_error *err) {
    mr_fail(err, MR_E_PARAM, "a stream that is followed has no samples to try again and again");
    mr_hint(err, "leave out \"follow\" and \"rehearse\" to tune over the entries that are there");
    return MR_E_PARAM;
}

mr_status mr_lab_open(mr_lab *lab, const mr_pipeline *pipeline, const char *scratch,
                      mr_error *err) {
    mr_loader *loader = NULL;
    mr_error ignored = MR_ERROR_INIT;
    if (mr_pipeline_is_stream(pipeline)) {
        return stream_refused(err);
    }
    lab->document = without_caches(pipeline);
    lab->view = json_incref(json_object_get(lab->document, "view"));
    json_object_del(lab->document, "view");
    mr_status status = parse(lab, lab->document, &lab->plain, err);
    if (status == MR_OK) {
        status = make_folder(lab->folder, scratch, err);
    }
    if (status == MR_OK) {
        make_folder(lab->memory, "/dev/shm", &ignored); /* without it nothing is kept in memory */
        status = mr_loader_open(&loader, lab->plain, NULL, err);
    }
    if (status == MR_OK) {
        lab->samples = mr_loader_n_samples(loader);
        lab->batch = json_integer_value(json_object_get(lab->document, "batch"));
        lab->batch = lab->batch > 0 ? lab->batch : 1;
        lab->world = 1;
        lab->subset = lab->samples;
    }
    mr_loader_close(loader);
    return status;
}

void mr_lab_close(mr_lab *lab) {
    mr_pipeline_free(lab->plain);
    json_decref(lab->document);
    json_decref(lab->view);
    remove_folder(lab->folder);
    remove_folder(lab->memory);
}

mr_status mr_lab_choose_subset(mr_lab *lab, mr_error *err) {
    run_figures figures;
    const course c = {.threads = lab->threads, .world = 1, .epochs = MANY_EPOCHS};
    mr_status status = run_for(lab, lab->plain, &c, lab->seconds, &figures, err);
    if (status != MR_OK) {
        return status;
    }
    double enough = figures.rate * lab->seconds;
    double least = (double)(LEAST_BATCHES * lab->batch);
    double share = (double)lab->samples / (enough > least ? enough : least);
    lab->world = share >= 2 ? (int64_t)share : 1;
    lab->world = lab->world < 1 << 20 ? lab->world : 1 << 20;
    lab->subset = lab->samples / lab->world;
    return MR_OK;
}

/* ---- Rewrites ---- */
static mr_status parse_unshuffled(const mr_lab *lab, const char *text, mr_pipeline **out) {
    mr_error ignored = MR_ERROR_INIT;
    json_t *document = json_loads(text, 0, NULL);
    json_object_set_new(document, "shuffle", json_false());
    mr_status status = parse(lab, document, out, &ignored);
    json_decref(document);
    return status;
}

static mr_status digest_part(const mr_lab *lab, const mr_pipeline *pipeline, char out[33]) {
    mr_error ignored = MR_ERROR_INIT;
    mr_loader *loader = NULL;
    int64_t samples = 0;
    const course c = {.threads = lab->threads, .world = lab->world, .epochs = 1, .digest = true};
    mr_status status = open_course(lab, pipeline, &c, &loader, &ignored);
    while (status == MR_OK) {
        status = take(lab, loader, &samples, &ignored);
    }
    if (status == MR_END) {
        mr_loader_digest(loader, out);
    }
    mr_loader_close(loader);
    return status == MR_END ? MR_OK : status;
}

static double median(const double *values, int32_t n);

static mr_status compare_rates(const mr_lab *lab, const mr_pipeline *plain,
                               const mr_pipeline *other, double *gain) {
    run_figures a, b;
    double gains[MR_ROUNDS_MAX];
    mr_status status = MR_OK;
    const course c = {.threads = lab->threads, .world = lab->world, .epochs = MANY_EPOCHS};
    double seconds = lab->seconds / lab->rounds;
    for (int32_t i = 0; i < lab->rounds && status == MR_OK; i++) {
        status = run_for(lab, plain, &c, seconds, &a, NULL);
        status = status == MR_OK ? run_for(lab, other, &c, seconds, &b, NULL) : status;
        gains[i] = status == MR_OK ? b.rate / a.rate : 0;
    }
    *gain = status == MR_OK ? median(gains, lab->rounds) : 0;
    return status;
}

void mr_lab_compare(const mr_lab *lab, const char *text, mr_compared *out) {
    mr_pipeline *plain = NULL, *other = NULL;
    char *own = json_dumps(lab->document, JSON_REAL_PRECISION(MR_DIGITS_EXACT));
    char first[33] = "", second[33] = "";
    *out = (mr_compared){false, false, 0};
    if (own && parse_unshuffled(lab, own, &plain) == MR_OK &&
        parse_unshuffled(lab, text, &other) == MR_OK && digest_part(lab, plain, first) == MR_OK &&
        digest_part(lab, other, second) == MR_OK &&
        compare_rates(lab, plain, other, &out->gain) == MR_OK) {
        out->measured = true;
        out->same = strcmp(first, second) == 0;
    }
    mr_pipeline_free(plain);
    mr_pipeline_free(other);
    free(own);
}

mr_status mr_lab_use(mr_lab *lab, const char *text, mr_error *err) {
    mr_pipeline *pipeline = NULL;
    json_t *document = json_loads(text, 0, NULL);
    mr_status status = parse(lab, document, &pipeline, err);
    if (status != MR_OK) {
        json_decref(document);
        return status;
    }
    mr_pipeline_free(lab->plain);
    json_decref(lab->document);
    lab->plain = pipeline;
    lab->document = document;
    return MR_OK;
}

double mr_lab_make_rate(mr_lab *lab, int32_t cut) {
    mr_pipeline *head = NULL;
    run_figures figures = {0, 0};
    const course c = {.threads = lab->threads, .world = lab->world, .epochs = MANY_EPOCHS};
    if (mr_cut_head(lab->plain, cut, lab->ops, &head, NULL) == MR_OK) {
        run_for(lab, head, &c, lab->seconds / 2, &figures, NULL);
    }
    mr_pipeline_free(head);
    return figures.rate;
}

/* ---- Trials ---- */
static void give_up(mr_trial *trial, const char *why) {
    char safe[sizeof trial->why];
    snprintf(trial->why, sizeof trial->why, "%s", mr_text_safe(safe, sizeof safe, why));
    trial->figures.measured = false;
}

static double bytes_of_all(const mr_lab *lab, double bytes, int64_t samples) {
    return samples > 0 ? bytes / (double)samples * (double)lab->samples : 0;
}

static mr_status note_stored(mr_lab *lab, mr_trial *trial, mr_loader *loader, mr_error *err) {
    mr_cache_stats cache = {.size = (uint32_t)sizeof cache};
    mr_status status = mr_loader_cache(loader, 0, &cache);
    if (status != MR_OK || !cache.path) {
        return mr_fail(err, MR_E_IO, "the store could not be opened");
    }
    if (cache.refused > 0 || cache.stored == 0) {
        return mr_fail(err, MR_E_LIMIT,
                       "the part that is tried does not fit into the scratch store");
    }
    bool memory = trial->figures.keep == MR_KEEP_MEMORY;
    double bytes = bytes_of_all(lab, (double)cache.bytes_stored, cache.stored);
    trial->figures.disk_bytes = memory ? 0 : bytes;
    trial->figures.memory_bytes = memory ? bytes : 0;
    return MR_OK;
}

/* One epoch over the part, with everything on the disk at its end. */
static mr_status fill_store(mr_lab *lab, mr_trial *trial, mr_error *err) {
    mr_loader *loader = NULL;
    int64_t samples = 0;
    const course c = {.threads = lab->threads, .world = lab->world, .epochs = 1};
    double start = mr_clock();
    mr_status status = open_course(lab, trial->pipeline, &c, &loader, err);
    while (status == MR_OK) {
        status = take(lab, loader, &samples, err);
    }
    if (status == MR_END) {
        mr_loader_flush(loader);
        trial->figures.first_rate = (double)samples / (mr_clock() - start);
        status = note_stored(lab, trial, loader, err);
    }
    if (trial->figures.keep == MR_KEEP_MEMORY && status == MR_OK) {
        trial->keeper = loader;
    } else {
        mr_loader_close(loader);
    }
    return status;
}

static mr_status prepare_store(mr_lab *lab, mr_trial *trial, mr_error *err) {
    char path[PATH_MAX + 32];
    bool memory = trial->figures.keep == MR_KEEP_MEMORY;
    const char *below = memory ? lab->memory : lab->folder;
    if (!below[0]) {
        return mr_fail(err, MR_E_IO, "there is no /dev/shm to write to");
    }
    snprintf(path, sizeof path, "%s/store%d", below, lab->n_made++);
    snprintf(trial->files, sizeof trial->files, "%s", memory ? "" : path);
    mr_status status = parse_trial(lab, &trial->figures, path, &trial->pipeline, err);
    return status == MR_OK ? fill_store(lab, trial, err) : status;
}

static bool goes_on(void *user, int64_t made, int64_t wanted) {
    const mr_lab *lab = user;
    (void)made;
    (void)wanted;
    return atomic_load(&lab->stop->signal) == 0;
}

/* In the order that it will be read in: shuffled, samples of a pack are mapped and not read, which
 * may be twice as fast. Storage that is slowed down for a test slows no mapped sample down. */
static mr_status parse_pack(const mr_lab *lab, const char *text, mr_pipeline **out, mr_error *err) {
    json_t *document = text ? json_loads(text, 0, NULL) : NULL;
    if (!document) {
        return mr_fail(err, MR_E_UNSUPPORTED, "no source loads such a pack");
    }
    if (lab->storage.bytes_per_second > 0 || lab->storage.open_ns > 0) {
        json_object_set_new(document, "shuffle", json_false());
    }
    mr_status status = parse(lab, document, out, err);
    json_decref(document);
    return status;
}

void mr_lab_pack_options(mr_pack_options *options, mr_keep_kind keep) {
    options->format = keep == MR_KEEP_NPY ? MR_PACK_NPY : MR_PACK_TAR;
    options->compression = keep == MR_KEEP_TAR_ZSTD  ? MR_PACK_ZSTD
                           : keep == MR_KEEP_TAR_LZ4 ? MR_PACK_LZ4
                                                     : MR_PACK_PLAIN;
}

static mr_status prepare_pack(mr_lab *lab, mr_trial *trial, mr_error *err) {
    char path[PATH_MAX + 32], cut[16];
    mr_pack_result made = {.size = (uint32_t)sizeof made};
    snprintf(path, sizeof path, "%s/pack%d", lab->folder, lab->n_made++);
    snprintf(cut, sizeof cut, "%d", trial->figures.cut);
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    options.folder = path;
    options.upto = cut;
    options.take = lab->subset > 0 ? lab->subset : 1;
    mr_lab_pack_options(&options, trial->figures.keep);
    options.threads = lab->threads;
    options.extra_ops = lab->ops;
    options.progress = goes_on;
    options.user = lab;
    double start = mr_clock();
    mr_status status = mr_pipeline_pack(lab->plain, &options, &made, err);
    if (status == MR_OK) {
        trial->figures.offline_seconds =
            (mr_clock() - start) / (double)made.samples * (double)lab->samples;
        trial->figures.disk_bytes = bytes_of_all(lab, (double)made.bytes, made.samples);
        trial->figures.memory_bytes = bytes_of_all(lab, (double)made.unpacked_bytes, made.samples);
        snprintf(trial->files, sizeof trial->files, "%s", path);
        trial->world = 1;
        status = parse_pack(lab, made.document, &trial->pipeline, err);
    }
    mr_free(made.document);
    return status;
}

/* Files of the dataset, where its source names one path to them. */
static void find_source(const mr_lab *lab, char *out, size_t size) {
    json_t *source = json_object_get(lab->document, "source");
    json_t *path = json_object_get(json_object_iter_value(json_object_iter(source)), "path");
    path = json_array_size(path) == 1 ? json_array_get(path, 0) : path;
    snprintf(out, size, "%s", json_is_string(path) ? json_string_value(path) : "");
}

void mr_trial_prepare(mr_lab *lab, mr_trial *trial) {
    mr_error err = MR_ERROR_INIT;
    mr_status status;
    trial->world = lab->world;
    if (trial->figures.keep == MR_KEEP_NOTHING) {
        find_source(lab, trial->files, sizeof trial->files);
        status = parse_trial(lab, &trial->figures, NULL, &trial->pipeline, &err);
    } else if (is_stored(trial->figures.keep)) {
        status = prepare_store(lab, trial, &err);
    } else {
        status = prepare_pack(lab, trial, &err);
    }
    if (status != MR_OK) {
        mr_trial_free(trial);
        give_up(trial, err.text);
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int32_t n) {
    double sorted[MR_ROUNDS_MAX];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void mr_trial_round(mr_lab *lab, mr_trial *trial) {
    mr_error err = MR_ERROR_INIT;
    run_figures figures;
    const course c = {.threads = trial->figures.threads,
                      .reads = trial->figures.reads,
                      .world = trial->world,
                      .epochs = MANY_EPOCHS,
                      .epoch = lab->subset};
    double seconds = lab->seconds / lab->rounds;
    if (!trial->pipeline || trial->n_rates == MR_ROUNDS_MAX) {
        return;
    }
    if (run_for(lab, trial->pipeline, &c, seconds, &figures, &err) != MR_OK) {
        give_up(trial, err.text);
        return;
    }
    trial->rates[trial->n_rates++] = figures.rate;
    trial->figures.rate = median(trial->rates, trial->n_rates);
    trial->figures.first_batch_seconds = figures.first_batch_seconds;
    trial->figures.measured = true;
}

void mr_trial_cold(mr_lab *lab, mr_trial *trial) {
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    int64_t samples = 0;
    const course c = {.threads = trial->figures.threads,
                      .reads = trial->figures.reads,
                      .world = trial->world,
                      .epochs = 1};
    if (!trial->pipeline || !trial->figures.measured || !trial->files[0] ||
        !mr_cold_drop(trial->files)) {
        return;
    }
    double start = mr_clock();
    mr_status status = open_course(lab, trial->pipeline, &c, &loader, &err);
    while (status == MR_OK) {
        status = take(lab, loader, &samples, &err);
    }
    double seconds = mr_clock() - start;
    mr_loader_close(loader);
    trial->cold_rate = status == MR_END && seconds > 0 ? (double)samples / seconds : 0;
}

static void read_verdict(const char *path, char *out, size_t size) {
    mr_trace *trace = NULL;
    char *text = NULL;
    const char *title = NULL;
    if (mr_trace_open(&trace, path, NULL) == MR_OK &&
        mr_trace_text(trace, MR_TRACE_JSON, &text, NULL) == MR_OK) {
        json_t *object = json_loads(text, 0, NULL);
        json_unpack(object, "{s:{s:s}}", "verdict", "bound", &title);
        snprintf(out, size, "%s", title ? title : "unknown");
        json_decref(object);
    }
    mr_free(text);
    mr_trace_close(trace);
}

void mr_trial_explain(mr_lab *lab, mr_trial *trial) {
    char path[PATH_MAX + 32];
    run_figures figures;
    snprintf(path, sizeof path, "%s/trace", lab->folder);
    const course c = {.threads = trial->figures.threads,
                      .reads = trial->figures.reads,
                      .world = trial->world,
                      .epochs = MANY_EPOCHS,
                      .trace = path};
    if (trial->pipeline && trial->figures.measured &&
        run_for(lab, trial->pipeline, &c, lab->seconds / 2, &figures, NULL) == MR_OK) {
        read_verdict(path, trial->bound, sizeof trial->bound);
    }
    unlink(path);
}

void mr_trial_free(mr_trial *trial) {
    mr_loader_close(trial->keeper);
    if (!trial->borrowed) {
        mr_pipeline_free(trial->pipeline);
    }
    trial->keeper = NULL;
    trial->pipeline = NULL;
}
