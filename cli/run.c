/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - millrace run: takes all batches of a pipeline as fast as they come, and says how fast
 * that was and what was delivered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "consume.h"
#include "document.h"
#include "errors.h"
#include "outcome.h"
#include "outputs.h"
#include "plugins.h"
#include "progress.h"
#include "ranks.h"
#include "stop.h"
#include "storage.h"
#include "top.h"

typedef struct run_values {
    const char *path;
    int64_t threads, seed, epochs, steps, batch, world, rank, ahead, reads;
    const char *state_in, *state_out, *digests, *trace, *disable_cpu;
    const char *consume, *metrics, *journal, *fabric, *set_digests, *storage;
    mr_files plugins;
    int32_t io;
    bool json, quiet, poison, no_digest, top, no_names;
} run_values;

enum { MOST_NAMED = 5, NAME_SIZE = 4096 };

typedef struct run {
    const run_values *values;
    run_values own; /* for this rank */
    char names[MOST_NAMED][NAME_SIZE];
    mr_plugins plugins;
    mr_pipeline *pipeline;
    bool bad_document; /* the error is the pipeline document's */
    char *state;       /* text of --state-in */
    mr_loader *loader;
    FILE *digests, *set_digests;
    mr_consume consume;
    mr_storage storage;
    mr_stop stop;
    mr_top top;
    mr_progress progress;
    mr_progress_point point;
    mr_outcome report;
    double process_start, start;
    mr_error err;
} run;

/* ---- Before -------------------------------------------------------------------------------- */

static mr_status check_digests(const run_values *v, mr_error *err) {
    if (v->no_digest && (v->digests || v->set_digests)) {
        mr_fail(err, MR_E_PARAM, "--%s and --no-digest exclude each other",
                v->digests ? "digests" : "set-digests");
        mr_hint(err, "leave one of them out");
        return err->code;
    }
    return MR_OK;
}

/* Which rank this is, and the names of its files. Of ranks that a launcher started, the first alone
 * writes the state where it has no name for each: they are all the same. */
static mr_status find_rank(run *r) {
    run_values *v = &r->own;
    const char **paths[MOST_NAMED] = {&v->state_out, &v->digests, &v->set_digests, &v->trace,
                                      &v->metrics};
    *v = *r->values;
    r->values = v;
    bool told = v->world >= 1 || v->rank >= 0;
    mr_ranks_find(&v->world, &v->rank);
    bool launched = v->world > 1 && !told;
    for (int i = 0; i < MOST_NAMED; i++) {
        const char *given = *paths[i];
        bool common = launched && given && !mr_ranks_is_own(given, v->rank);
        if (!mr_ranks_name(paths[i], v->rank, r->names[i], NAME_SIZE)) {
            return mr_fail(&r->err, MR_E_PARAM, "the name %.60s... is too long", given);
        }
        if (common && i > 0) {
            mr_fail(&r->err, MR_E_PARAM, "%lld ranks cannot all write to %s", (long long)v->world,
                    given);
            mr_hint(&r->err, "put {rank} into the name: %s.{rank}", given);
            return MR_E_PARAM;
        }
        *paths[i] = common && v->rank > 0 ? NULL : *paths[i];
    }
    return MR_OK;
}

/* A file that a run replaces: its state, its figures. */
typedef struct replaced_file {
    const char *path; /* NULL: not asked for */
    const char *what, *option, *example;
} replaced_file;

/* One that cannot be written shall be known now, not after hours. */
static mr_status check_replaced(replaced_file file, mr_error *err) {
    char folder[4096];
    struct stat info;
    if (!file.path) {
        return MR_OK;
    }
    snprintf(folder, sizeof folder, "%s", file.path);
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder] = '\0';
    }
    if (stat(file.path, &info) == 0 && !S_ISREG(info.st_mode)) {
        bool is_folder = S_ISDIR(info.st_mode);
        mr_fail(err, MR_E_IO, "cannot write %s to %s: it is %s", file.what, file.path,
                is_folder ? "a folder" : "not a regular file");
        mr_hint(err, "name a file: %s %s%s%s", file.option, is_folder ? file.path : "",
                is_folder ? "/" : "", file.example);
        return err->code;
    }
    if (access(slash ? folder : ".", W_OK | X_OK) != 0) {
        mr_fail(err, MR_E_IO, "cannot write %s to %s: %s", file.what, file.path,
                strerrordesc_np(errno));
        mr_hint(err, "%s needs a folder that exists and can be written to", file.option);
        return err->code;
    }
    return MR_OK;
}

/* A state may be replaced by the one that follows from it; what else is written twice is lost. */
static mr_status check_apart(const run_values *v, mr_error *err) {
    const mr_named_file files[] = {
        {"PIPELINE.json", v->path, true}, {"--state-out", v->state_out, false},
        {"--digests", v->digests, false}, {"--trace", v->trace, false},
        {"--metrics", v->metrics, false}, {"--set-digests", v->set_digests, false},
    };
    const mr_named_file beside_state[] = {
        {"--state-in", v->state_in, true},
        {"--digests", v->digests, false},
        {"--trace", v->trace, false},
        {"--metrics", v->metrics, false},
    };
    mr_status status = mr_outputs_check(files, sizeof files / sizeof *files, err);
    return status == MR_OK
               ? mr_outputs_check(beside_state, sizeof beside_state / sizeof *beside_state, err)
               : status;
}

static mr_status check_files(const run_values *v, mr_error *err) {
    const replaced_file state = {v->state_out, "the state", "--state-out", "state.json"};
    const replaced_file figures = {v->metrics, "the figures", "--metrics", "millrace.prom"};
    mr_status status = check_apart(v, err);
    if (status == MR_OK) {
        status = check_replaced(state, err);
    }
    return status == MR_OK ? check_replaced(figures, err) : status;
}

static mr_status open_lines(const char *path, FILE **out, mr_error *err) {
    if (!path) {
        return MR_OK;
    }
    *out = fopen(path, "we");
    if (!*out) {
        return mr_fail(err, MR_E_IO, "cannot write digests to %s: %s", path,
                       strerrordesc_np(errno));
    }
    setvbuf(*out, NULL, _IOLBF, BUFSIZ);
    return MR_OK;
}

static mr_status open_digests(run *r) {
    mr_status status = open_lines(r->values->digests, &r->digests, &r->err);
    return status == MR_OK ? open_lines(r->values->set_digests, &r->set_digests, &r->err) : status;
}

static mr_status load_state(run *r, mr_options *options) {
    if (!r->values->state_in) {
        return MR_OK;
    }
    size_t size = 0;
    mr_status status =
        mr_file_load(r->values->state_in, (size_t)1 << 31, &r->state, &size, &r->err);
    options->state = r->state;
    options->state_size = size;
    if (status == MR_E_LIMIT) {
        status = mr_fail(&r->err, MR_E_STATE, "this is not a saved state: it is too long");
        mr_hint(&r->err, "use the file that --state-out wrote, or start without a state");
    }
    return status;
}

static void write_log(void *user, const char *text) {
    mr_progress_warn(user, text);
}

static mr_options options_of(run *r) {
    const run_values *v = r->values;
    mr_options chosen = MR_OPTIONS_INIT;
    chosen.storage_bytes_per_second = r->storage.bytes_per_second;
    chosen.storage_open_ns = r->storage.open_ns;
    chosen.threads = v->threads < 0 ? MR_THREADS_AUTO : (uint32_t)v->threads;
    chosen.world = (uint32_t)v->world;
    chosen.rank = v->rank < 0 ? 0 : (uint32_t)v->rank;
    chosen.seed = v->seed;
    chosen.batch = v->batch;
    chosen.epochs = v->epochs;
    chosen.digest = !v->no_digest;
    chosen.poison = v->poison;
    chosen.batches_ahead = (uint32_t)v->ahead;
    chosen.reads_in_flight = (uint32_t)v->reads;
    chosen.io = (mr_io_kind)v->io;
    chosen.disable_cpu = v->disable_cpu;
    chosen.trace = v->trace;
    chosen.no_names = v->no_names;
    chosen.journal = v->journal;
    chosen.fabric = v->fabric;
    if (!v->quiet) {
        chosen.log = (mr_log){write_log, &r->progress};
    }
    return chosen;
}

static mr_status open_loader(run *r) {
    mr_options chosen = options_of(r);
    mr_status status = load_state(r, &chosen);
    if (status == MR_OK) {
        status = mr_loader_open(&r->loader, r->pipeline, &chosen, &r->err);
    }
    if (status == MR_OK && mr_loader_steps_left(r->loader) == 0) {
        mr_progress_warn(&r->progress, "the state is at the end of the run: nothing is left to "
                                       "deliver (--epochs N makes it longer)");
    }
    return status;
}

static mr_status open_all(run *r) {
    mr_status status = find_rank(r);
    const run_values *v = r->values;
    if (status == MR_OK) {
        status = mr_ranks_check(v->world, v->rank, &r->err);
    }
    if (status == MR_OK) {
        status = mr_storage_read(&r->storage, v->storage, &r->err);
    }
    if (status == MR_OK) {
        status = check_digests(v, &r->err);
    }
    if (status == MR_OK) {
        status = check_files(v, &r->err);
    }
    if (status == MR_OK) {
        status = mr_consume_read(&r->consume, v->consume, &r->err);
    }
    if (status == MR_OK) {
        status = mr_plugins_open(&r->plugins, &v->plugins, &r->err);
    }
    if (status == MR_OK) {
        status = mr_document_load(&r->pipeline, v->path, r->plugins.ops, &r->err);
        r->bad_document = status != MR_OK;
    }
    if (status == MR_OK) {
        status = open_loader(r);
    }
    return status == MR_OK ? open_digests(r) : status;
}

/* ---- The run ------------------------------------------------------------------------------- */

static int64_t steps_of_run(const run *r) {
    int64_t left = mr_loader_steps_left(r->loader);
    left = left < 0 ? INT64_MAX : left;
    return r->values->steps > 0 && r->values->steps < left ? r->values->steps : left;
}

static void begin_progress(run *r) {
    int64_t epochs = r->values->epochs;
    r->progress.epochs = epochs > 0 ? epochs : mr_pipeline_settings(r->pipeline)->epochs;
    r->progress.epoch_steps = mr_loader_n_steps(r->loader);
    r->progress.loader = r->loader;
    r->progress.run_steps = steps_of_run(r);
}

static mr_status write_line(FILE *file, const char *path, const mr_batch *batch, const char *digest,
                            mr_error *err) {
    int n = fprintf(file, "%lld %lld %lld %s\n", (long long)mr_batch_epoch(batch),
                    (long long)mr_batch_step(batch), (long long)mr_batch_size(batch), digest);
    return n < 0 ? mr_fail(err, MR_E_IO, "cannot write digests to %s: %s", path,
                           strerrordesc_np(errno))
                 : MR_OK;
}

/* A sum over the samples, so that those of all ranks add up to the step's whatever each has. */
static void set_digest(const mr_batch *batch, char out[33]) {
    const int64_t *samples = mr_batch_samples(batch);
    uint64_t high = 0, low = 0;
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        uint64_t digest = mr_batch_sample_digest(batch, i);
        uint64_t mixed = (digest ^ (uint64_t)samples[i] * 0x9E3779B97F4A7C15u) | 1;
        low += digest * mixed;
        high += mixed * mixed * mixed;
    }
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)high, (unsigned long long)low);
}

static mr_status write_digest(run *r, const mr_batch *batch) {
    mr_status status = MR_OK;
    char set[33];
    if (r->digests) {
        status = write_line(r->digests, r->values->digests, batch, mr_batch_digest(batch), &r->err);
    }
    if (r->set_digests && status == MR_OK) {
        set_digest(batch, set);
        status = write_line(r->set_digests, r->values->set_digests, batch, set, &r->err);
    }
    return status;
}

/* A sample is looked for in the last cache first, and found in one at most. */
static void count_hits(run *r) {
    int32_t n = mr_loader_n_caches(r->loader);
    mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
    r->point.hits = 0;
    for (int32_t i = 0; i < n && mr_loader_cache(r->loader, i, &stats) == MR_OK; i++) {
        r->point.hits += stats.hits;
        r->point.asked = stats.hits + stats.misses;
    }
}

static mr_status count_batch(run *r, const mr_batch *batch) {
    mr_outcome *report = &r->report;
    double now = mr_clock();
    if (report->first_batch_seconds < 0) {
        report->first_batch_seconds = now - r->process_start;
        report->before_seconds = r->start - r->process_start;
        report->first_epoch = mr_batch_epoch(batch);
    }
    report->last_epoch = mr_batch_epoch(batch);
    report->seconds = now - r->start;
    r->point.epoch = mr_batch_epoch(batch);
    r->point.step = mr_batch_step(batch);
    r->point.steps++;
    r->point.samples += mr_batch_size(batch);
    if (r->progress.on) {
        count_hits(r);
    }
    mr_progress_update(&r->progress, &r->point);
    mr_top_update(&r->top);
    return write_digest(r, batch);
}

static mr_status take_batches(run *r) {
    int64_t steps = steps_of_run(r);
    mr_status status = MR_OK;
    while (status == MR_OK && r->point.steps < steps) {
        mr_batch *batch = NULL;
        status = mr_loader_next(r->loader, &batch, &r->err);
        if (status == MR_OK) {
            status = count_batch(r, batch);
            mr_consume_step(&r->consume, r->point.steps - 1, &r->stop);
            mr_batch_unref(batch);
        }
    }
    return status == MR_END ? MR_OK : status;
}

/* ---- After --------------------------------------------------------------------------------- */

static mr_status save_state(run *r, mr_error *err) {
    if (!r->values->state_out) {
        return MR_OK;
    }
    size_t room = mr_loader_state_bytes(r->loader);
    char *text = malloc(room);
    mr_status status = text ? mr_loader_save(r->loader, text, room, err)
                            : mr_fail(err, MR_E_MEMORY, "no memory for the state");
    if (text && status == MR_OK) {
        status = mr_file_replace(r->values->state_out, text, strlen(text), err);
    }
    free(text);
    return status;
}

static mr_status close_lines(FILE **file, const char *path, mr_error *err) {
    FILE *open = *file;
    *file = NULL;
    return open && fclose(open) != 0 ? mr_fail(err, MR_E_IO, "cannot write digests to %s: %s", path,
                                               strerrordesc_np(errno))
                                     : MR_OK;
}

static mr_status close_digests(run *r, mr_error *err) {
    mr_status status = close_lines(&r->digests, r->values->digests, err);
    mr_status sets = close_lines(&r->set_digests, r->values->set_digests, err);
    return status == MR_OK ? sets : status;
}

static void print_report(run *r) {
    if (r->loader) {
        mr_outcome_skips(r->loader);
    }
    if (r->values->json) {
        mr_outcome_json(&r->report);
    } else if (r->loader && r->values->quiet) {
        mr_outcome_digest(&r->report);
    } else if (r->loader) {
        mr_outcome_text(&r->report);
    }
}

static void close_all(run *r) {
    mr_loader_close(r->loader);
    mr_pipeline_free(r->pipeline);
    mr_plugins_close(&r->plugins);
    mr_free(r->state);
    mr_consume_free(&r->consume);
    if (r->digests) {
        fclose(r->digests);
    }
    if (r->set_digests) {
        fclose(r->set_digests);
    }
}

/* Takes the batches while signals are watched. What was delivered is saved however it ended. */
static mr_status run_loader(run *r) {
    mr_error after = MR_ERROR_INIT;
    mr_status status = mr_stop_begin(&r->stop, r->loader, &r->err);
    if (status != MR_OK) {
        return status;
    }
    begin_progress(r);
    mr_top_begin(&r->top, r->loader, r->values->top, r->values->metrics,
                 r->values->quiet ? NULL : &r->progress);
    status = take_batches(r);
    mr_progress_end(&r->progress);
    mr_loader_flush(r->loader);
    mr_top_end(&r->top);
    mr_status saved = save_state(r, &after);
    r->report.state = saved == MR_OK ? r->values->state_out : NULL;
    saved = saved == MR_OK ? close_digests(r, &after) : saved;
    r->report.signal = mr_stop_end(&r->stop);
    if (saved != MR_OK && (status == MR_OK || status == MR_E_CANCELLED)) {
        r->err = after;
        r->report.signal = 0;
        return saved;
    }
    return r->report.signal && status == MR_E_CANCELLED ? MR_OK : status;
}

static int exit_code(const run *r, mr_status status) {
    if (status == MR_OK) {
        return r->report.signal ? 128 + r->report.signal : MR_EXIT_OK;
    }
    return r->bad_document ? mr_error_print_document(&r->err, r->values->path)
                           : mr_error_print(&r->err);
}

static int run_run(const void *values) {
    run *r = calloc(1, sizeof *r);
    mr_error memory = MR_ERROR_INIT;
    if (!r) {
        mr_fail(&memory, MR_E_MEMORY, "out of memory");
        return mr_error_print(&memory);
    }
    r->values = values;
    r->err = (mr_error)MR_ERROR_INIT;
    r->process_start = mr_clock_process_start();
    r->report = (mr_outcome){.first_epoch = -1, .last_epoch = -1, .first_batch_seconds = -1};
    mr_progress_begin(&r->progress, !r->values->quiet && !r->values->top);
    r->start = mr_clock();
    mr_status status = open_all(r);
    r->report.path = r->values->path;
    r->report.no_digest = r->values->no_digest;
    r->report.pipeline = r->pipeline;
    r->report.loader = r->loader;
    if (status == MR_OK) {
        status = run_loader(r);
    }
    r->report.error = status == MR_OK ? NULL : &r->err;
    print_report(r);
    int code = exit_code(r, status);
    close_all(r);
    free(r);
    return code;
}

static const char *const io_kinds[] = {"auto", "uring", "pread", NULL};

static const mr_option_row operands[] = {
    MR_DOCUMENT_ROW(run_values),
    {.name = NULL},
};

static const mr_option_row options[] = {
    MR_THREADS_OR_AUTO_ROW(run_values),
    {.name = "seed",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(run_values, seed),
     .fallback = "-1",
     .min = 0,
     .max = MR_SEED_MAX,
     .doc = "Seed of order and randomness, instead of the document's."},
    {.name = "epochs",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(run_values, epochs),
     .min = 1,
     .max = UINT32_MAX,
     .doc = "Times through the dataset, instead of the document's. A run that goes on from a "
            "state ends where the whole run would have."},
    {.name = "steps",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(run_values, steps),
     .min = 1,
     .max = INT64_MAX,
     .doc = "End after this many batches."},
    {.name = "batch",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(run_values, batch),
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples in a step over all ranks, instead of the document's."},
    MR_WORLD_ROW(run_values),
    MR_RANK_ROW(run_values),
    {.name = "state-in",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, state_in),
     .doc = "Go on from a state that --state-out saved."},
    {.name = "state-out",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, state_out),
     .doc = "Save the state after the last batch, also if the run fails or is stopped."},
    {.name = "digests",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, digests),
     .doc = "Write a line for each batch: epoch, step, samples, digest. Two such files are "
            "compared by millrace digest."},
    {.name = "set-digests",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, set_digests),
     .doc = "Likewise, with digests of the batch as a set: those of all ranks are compared by "
            "millrace digest --set."},
    {.name = "journal",
     .argument = "FOLDER",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, journal),
     .doc = "Write down what the clock decides about a stream, and digests; see millrace replay."},
    {.name = "trace",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, trace),
     .doc = "Write what every thread does to this file, for millrace report."},
    {.name = "no-names",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(run_values, no_names),
     .doc = "Leave names of files, folders and classes out of the trace."},
    {.name = "consume",
     .argument = "TIME",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(run_values, consume),
     .doc = "Let this time pass after each batch, 12ms for instance, in place of a training step; "
            "or the times in a file, a line for each step."},
    {.name = "top",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(run_values, top),
     .doc = "Show how often and how long each op ran, on a terminal every second, else at the "
            "end."},
    {.name = "metrics",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(run_values, metrics),
     .doc = "Keep the figures in this file, for Prometheus; replaced every second."},
    {.name = "fabric",
     .argument = "URL",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(run_values, fabric),
     .doc = "Take from here what other runs and nodes have read or made, and offer them ours: "
            "redis://HOST[:PORT]; or mpi: ranks that mpirun started send each other what they "
            "keep. The bytes are the same."},
    {.name = "no-digest",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(run_values, no_digest),
     .doc = "Compute no digest: for measuring speed alone."},
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(run_values, json),
     .doc = "End with one line of JSON on standard output instead of text."},
    {.name = "quiet",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(run_values, quiet),
     .doc = "No progress bar and no warnings; without --json the digest is all that is printed."},
    MR_PLUGIN_ROW(run_values),
    {.name = "io",
     .argument = "KIND",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(run_values, io),
     .fallback = "auto",
     .choices = io_kinds,
     .doc = "How files are read. auto is io_uring where the kernel allows it, else pread."},
    {.name = "reads",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(run_values, reads),
     .min = 1,
     .max = 4096,
     .doc = "Reads in flight at once; otherwise 32."},
    {.name = "ahead",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(run_values, ahead),
     .min = 1,
     .max = MR_AHEAD_MAX,
     .doc = "Batches made ahead of the one consumed; otherwise chosen."},
    {.name = "disable-cpu",
     .argument = "LIST",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(run_values, disable_cpu),
     .doc = "CPU features not to use, such as avx2,avx512. The bytes stay the same."},
    MR_STORAGE_ROW(run_values),
    {.name = "poison",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(run_values, poison),
     .doc = "Fill batch memory with garbage before use: shows bytes that nobody wrote."},
    {.name = NULL},
};

const mr_command mr_command_run = {
    .name = "run",
    .summary = "Run a pipeline; show its speed, memory and the digest of what it delivered.",
    .doc = "Runs a pipeline as a training program would, and throws the batches away. On a "
           "terminal a bar shows the share of the epoch, the rate and the time left. At the end "
           "stand throughput, peak memory, and a digest of all that was delivered: two runs "
           "with the same digest delivered the same bytes in the same order.\n\n"
           "Ctrl-C ends a run in good order: what was delivered is reported, and saved where "
           "--state-out asks for it.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(run_values),
    .run = run_run,
};
