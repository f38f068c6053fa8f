/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - millrace tune: measures where a pipeline is best cut, what is best kept there, and with
 * how many threads and reads; then chooses. */
#include <millrace/tune.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "errors.h"
#include "outputs.h"
#include "plugins.h"
#include "ranks.h"
#include "text.h"
#include "tune_lab.h"
#include "tune_page.h"

typedef struct tune_values {
    const char *path, *scratch, *seconds, *consumer, *weights, *disk, *memory, *storage, *keep;
    int64_t epochs, threads, rounds;
    mr_files plugins, outputs;
    bool json, quiet, apply, cold, rewrite;
} tune_values;

/* The last trials are left for other numbers of threads and reads. */
enum { TRIALS_MAX = 512, SWEEP_MAX = 16, DEFAULT_READS = 32 };

typedef struct tune_run {
    const tune_values *values;
    mr_plugins plugins;
    mr_pipeline *pipeline;
    bool bad_document;
    mr_lab lab;
    mr_tune_goal goal;
    mr_trial *trials;
    int32_t n, chosen;
    const char *document, *page;    /* of the outputs; NULL: not asked for */
    char folder[PATH_MAX];          /* of the pack that was made; "": none was */
    bool left_out[MR_N_KEEP_KINDS]; /* by --keep */
    mr_rewrites rewrites;
    mr_compared compared[MR_REWRITES_MAX];
    int32_t made; /* the rewrite that was made, or -1 */
    mr_stop stop;
    int signal;
    mr_error err;
} tune_run;

/* ---- Options ---- */
static mr_status read_number(const char *name, const char *text, double least, double *out,
                             mr_error *err) {
    char *end = NULL;
    if (!text) {
        return MR_OK;
    }
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least) || value > 1e15) {
        mr_fail(err, MR_E_PARAM, "--%s %.64s is not a number from %g on", name, text, least);
        return err->code;
    }
    *out = value;
    return MR_OK;
}

/* "20GB", as in documents. */
static mr_status read_bytes(const char *name, const char *text, double *out, mr_error *err) {
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    char *end = NULL;
    if (!text) {
        return MR_OK;
    }
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) == 0 && value > 0) {
            *out = value * units[i].bytes;
            return MR_OK;
        }
    }
    mr_fail(err, MR_E_PARAM, "--%s %.64s is not a size", name, text);
    mr_hint(err, "write it as 20GB");
    return err->code;
}

static mr_status read_weights(const char *text, mr_tune_goal *goal, mr_error *err) {
    int used = 0;
    if (text &&
        (sscanf(text, "%lf,%lf,%lf%n", &goal->w_prepare, &goal->w_store, &goal->w_throughput,
                &used) != 3 ||
         text[used] || goal->w_prepare < 0 || goal->w_store < 0 || goal->w_throughput < 0)) {
        mr_fail(err, MR_E_PARAM, "--presto %.64s is not three weights", text);
        mr_hint(err, "preparing, storage, throughput: --presto 0,0,1");
        return err->code;
    }
    return MR_OK;
}

static int find_keep(const char *name, size_t length) {
    int keep = MR_N_KEEP_KINDS - 1;
    while (keep >= 0 && (strlen(mr_keep_name((mr_keep_kind)keep)) != length ||
                         strncmp(mr_keep_name((mr_keep_kind)keep), name, length) != 0)) {
        keep--;
    }
    return keep;
}

/* "pack tar,cache": what may be kept. */
static mr_status read_keeps(tune_run *r, const char *text) {
    for (int i = MR_KEEP_NOTHING + 1; text && i < MR_N_KEEP_KINDS; i++) {
        r->left_out[i] = true;
    }
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, ",");
        int keep = find_keep(at, length);
        if (keep < 0) {
            mr_fail(&r->err, MR_E_PARAM, "--keep knows no \"%.*s\"",
                    (int)(length < 64 ? length : 64), at);
            mr_hint(&r->err, "cache, cache lz4, cache zstd, in memory, pack tar, pack npy, pack "
                             "zstd, pack lz4; several with commas between");
            return r->err.code;
        }
        r->left_out[keep] = false;
        at += length + (at[length] == ',');
    }
    return MR_OK;
}

static bool is_page(const char *path) {
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".html") == 0;
}

static mr_status read_outputs(tune_run *r) {
    const tune_values *v = r->values;
    for (int32_t i = 0; i < v->outputs.n; i++) {
        const char **own = is_page(v->outputs.v[i]) ? &r->page : &r->document;
        if (*own) {
            mr_fail(&r->err, MR_E_PARAM, "-o names two files of a kind");
            mr_hint(&r->err, "one that ends in .html for the page, one for the document");
            return r->err.code;
        }
        *own = v->outputs.v[i];
    }
    if ((v->apply || v->rewrite) && !r->document) {
        mr_fail(&r->err, MR_E_PARAM, "%s needs -o with a name for the tuned document",
                v->apply ? "--apply" : "--rewrite");
        return r->err.code;
    }
    const mr_named_file files[] = {
        {"PIPELINE.json", v->path, true}, {"-o", r->document, false}, {"-o", r->page, false}};
    return mr_outputs_check(files, 3, &r->err);
}

static mr_status read_options(tune_run *r) {
    const tune_values *v = r->values;
    r->goal.size = (uint32_t)sizeof r->goal;
    r->goal.epochs = v->epochs;
    r->lab.seconds = 2;
    r->lab.rounds = (int32_t)v->rounds;
    mr_status status = read_number("seconds", v->seconds, 0.01, &r->lab.seconds, &r->err);
    status = status ? status : read_number("consumer", v->consumer, 0, &r->goal.consumer, &r->err);
    status = status ? status : read_bytes("disk", v->disk, &r->goal.disk_cap, &r->err);
    status = status ? status : read_bytes("memory", v->memory, &r->goal.memory_cap, &r->err);
    status = status ? status : read_weights(v->weights, &r->goal, &r->err);
    status = status ? status : mr_storage_read(&r->lab.storage, v->storage, &r->err);
    status = status ? status : read_keeps(r, v->keep);
    return status ? status : read_outputs(r);
}

/* ---- Measuring ---- */
static bool is_stopped(const tune_run *r) {
    return atomic_load(&r->stop.signal) != 0;
}

static void say(const tune_run *r, const char *what, const mr_trial *trial) {
    if (!r->values->quiet && !r->values->json) {
        fprintf(stderr, "%s: cut %d, %s\n", what, trial->figures.cut,
                mr_keep_name(trial->figures.keep));
    }
}

static mr_trial *add_trial(tune_run *r, int32_t cut, mr_keep_kind keep) {
    mr_trial *trial = &r->trials[r->n++];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = r->values->threads > 0 ? r->values->threads : cpus;
    *trial =
        (mr_trial){.figures = {.size = (uint32_t)sizeof trial->figures, .cut = cut, .keep = keep}};
    trial->figures.threads = (uint32_t)threads;
    trial->figures.reads = DEFAULT_READS;
    return trial;
}

/* What is in memory is never cold; what could not be measured cold is not chosen by it. */
static double rate_that_counts(const tune_run *r, const mr_trial *trial) {
    bool from_disk = r->values->cold && trial->figures.keep != MR_KEEP_MEMORY;
    return from_disk ? trial->cold_rate : trial->figures.rate;
}

static int32_t choose(tune_run *r) {
    mr_strategy list[TRIALS_MAX];
    for (int32_t i = 0; i < r->n; i++) {
        list[i] = r->trials[i].figures;
        list[i].rate = rate_that_counts(r, &r->trials[i]);
    }
    int32_t chosen = mr_tune_choose(list, r->n, &r->goal);
    for (int32_t i = 0; i < r->n; i++) {
        list[i].rate = r->trials[i].figures.rate;
        list[i].measured = r->trials[i].figures.measured;
        r->trials[i].figures = list[i];
    }
    return chosen;
}

/* Short runs in turn, so that what else the machine does meets all alike. */
static void measure(tune_run *r, int32_t first, int32_t n) {
    for (int32_t round = 0; round < r->lab.rounds; round++) {
        for (int32_t i = first; i < first + n && !is_stopped(r); i++) {
            mr_trial_round(&r->lab, &r->trials[i]);
        }
    }
    for (int32_t i = first; i < first + n && !is_stopped(r); i++) {
        mr_trial_cold(&r->lab, &r->trials[i]);
    }
}

/* The document as it is from now on, with what the lab leaves out. */
static mr_status use_rewrite(tune_run *r, int32_t i) {
    const mr_strategy plain = {.keep = MR_KEEP_NOTHING};
    mr_pipeline *pipeline = NULL;
    mr_status status = mr_lab_use(&r->lab, r->rewrites.list[i].document, &r->err);
    json_t *document = status == MR_OK ? mr_lab_document(&r->lab, &plain) : NULL;
    char *text = document ? json_dumps(document, JSON_REAL_PRECISION(MR_DIGITS_EXACT)) : NULL;
    if (status == MR_OK && text) {
        status = mr_pipeline_parse(&pipeline, text, strlen(text), r->plugins.ops, &r->err);
    }
    if (pipeline) {
        mr_pipeline_free(r->pipeline);
        r->pipeline = pipeline;
        r->made = i;
    }
    free(text);
    json_decref(document);
    return status;
}

/* Only what is the same, byte by byte, on all that was compared, and not slower, is ever made. */
static mr_status try_rewrites(tune_run *r) {
    r->rewrites.size = (uint32_t)sizeof r->rewrites;
    mr_status status = mr_rewrites_find(r->lab.plain, &r->rewrites, &r->err);
    for (int32_t i = 0; status == MR_OK && i < r->rewrites.n && !is_stopped(r); i++) {
        if (!r->values->quiet && !r->values->json) {
            fprintf(stderr, "comparing: %s\n", r->rewrites.list[i].text);
        }
        mr_lab_compare(&r->lab, r->rewrites.list[i].document, &r->compared[i]);
    }
    for (int32_t i = 0; status == MR_OK && i < r->rewrites.n && r->values->rewrite; i++) {
        const mr_compared *c = &r->compared[i];
        if (r->rewrites.list[i].same_bytes && c->measured && c->same && c->gain > 1) {
            return use_rewrite(r, i); /* there is one at most */
        }
    }
    return status;
}

static mr_status measure_plain(tune_run *r) {
    mr_status status = mr_lab_choose_subset(&r->lab, &r->err);
    status = status == MR_OK ? try_rewrites(r) : status;
    if (status != MR_OK || is_stopped(r)) {
        return status;
    }
    r->goal.samples = r->lab.samples;
    mr_trial *plain = add_trial(r, 0, MR_KEEP_NOTHING);
    say(r, "measuring", plain);
    mr_trial_prepare(&r->lab, plain);
    measure(r, 0, 1);
    if (!plain->figures.measured && !is_stopped(r)) {
        return mr_fail(&r->err, MR_E_INTERNAL, "the pipeline cannot be measured: %s", plain->why);
    }
    choose(r);
    return MR_OK;
}

/* Nothing that is kept at this cut can be better than the time it takes to make it. */
static bool cannot_win(tune_run *r, int32_t cut, char *why, size_t size) {
    double best = r->trials[0].figures.total_seconds;
    bool enough = r->goal.consumer > 0 && r->trials[0].figures.rate >= r->goal.consumer;
    bool weighted = r->goal.w_prepare + r->goal.w_store + r->goal.w_throughput > 0;
    if (weighted) {
        return false;
    }
    if (enough) {
        snprintf(why, size, "the pipeline as it is keeps up with the consumer");
        return true;
    }
    double rate = mr_lab_make_rate(&r->lab, cut);
    if (rate > 0 && mr_tune_least_seconds(&r->goal, rate) >= best) {
        snprintf(why, size, "making it takes as long as all epochs without");
        return true;
    }
    return false;
}

static void prepare_cut(tune_run *r, int32_t cut) {
    char why[128] = "";
    bool pruned = cannot_win(r, cut, why, sizeof why);
    for (int keep = MR_KEEP_DISK; keep < MR_N_KEEP_KINDS && !is_stopped(r); keep++) {
        if (r->left_out[keep]) {
            continue;
        }
        mr_trial *trial = add_trial(r, cut, (mr_keep_kind)keep);
        if (pruned) {
            snprintf(trial->why, sizeof trial->why, "%s", why);
        } else {
            say(r, "preparing", trial);
            mr_trial_prepare(&r->lab, trial);
        }
    }
}

/* The chosen cut with other numbers of threads and reads; what it keeps is there already. */
static void sweep(tune_run *r) {
    int32_t best = choose(r), first = r->n;
    if (best < 0) {
        return;
    }
    const mr_trial parent = r->trials[best];
    for (uint32_t threads = 1; r->values->threads == 0 && threads < parent.figures.threads;
         threads *= 2) {
        mr_trial *trial = add_trial(r, parent.figures.cut, parent.figures.keep);
        *trial = parent;
        trial->figures.threads = threads;
    }
    for (uint32_t reads = 8; reads <= 128; reads *= 16) {
        mr_trial *trial = add_trial(r, parent.figures.cut, parent.figures.keep);
        *trial = parent;
        trial->figures.reads = reads;
    }
    for (int32_t i = first; i < r->n; i++) {
        r->trials[i].borrowed = true;
        r->trials[i].keeper = NULL;
        r->trials[i].n_rates = 0;
        r->trials[i].figures.measured = false;
    }
    measure(r, first, r->n - first);
}

static mr_status measure_all(tune_run *r) {
    mr_status status = measure_plain(r);
    int32_t last = mr_cut_last(r->lab.plain);
    int32_t most = (TRIALS_MAX - SWEEP_MAX) / MR_N_KEEP_KINDS - 1;
    for (int32_t cut = last > most ? last - most : 0;
         status == MR_OK && cut <= last && !is_stopped(r); cut++) {
        prepare_cut(r, cut);
    }
    if (status == MR_OK && !is_stopped(r)) {
        measure(r, 1, r->n - 1);
        sweep(r);
        for (int32_t i = 0; i < r->n && !is_stopped(r); i++) {
            mr_trial_explain(&r->lab, &r->trials[i]);
        }
        r->chosen = choose(r);
    }
    return status;
}

/* ---- The result ---- */
static const char *cut_name(const tune_run *r, int32_t cut) {
    json_t *op = json_array_get(json_object_get(r->lab.document, "ops"), (size_t)cut - 1);
    const char *name = cut > 0 ? json_object_iter_key(json_object_iter(op)) : "source";
    return name ? name : "?";
}

/* Ops of the user's document, which may have caches, up to a cut of ours. */
static int32_t cut_of_user(const tune_run *r, int32_t cut) {
    int32_t seen = 0, at = 0;
    json_t *document = json_loads(mr_pipeline_json(r->pipeline), 0, NULL);
    json_t *ops = json_object_get(document, "ops");
    for (; seen < cut && at < (int32_t)json_array_size(ops); at++) {
        json_t *op = json_array_get(ops, (size_t)at);
        seen += strcmp(json_object_iter_key(json_object_iter(op)), "cache") != 0;
    }
    json_decref(document);
    return at;
}

static double prepare_seconds(const tune_run *r, const mr_strategy *s) {
    double n = (double)r->goal.samples;
    double extra = s->first_rate > 0 ? n / s->first_rate - n / s->rate : 0;
    return s->offline_seconds + (extra > 0 ? extra : 0);
}

static void pack_command(const tune_run *r, const mr_strategy *s, char *out, size_t size) {
    char path[512];
    snprintf(out, size, "millrace pack %s -o FOLDER --upto %d --format %s%s",
             mr_text_safe(path, sizeof path, r->made >= 0 ? r->document : r->values->path),
             cut_of_user(r, s->cut), s->keep == MR_KEEP_NPY ? "npy" : "tar",
             s->keep == MR_KEEP_TAR_ZSTD  ? " --compress zstd"
             : s->keep == MR_KEEP_TAR_LZ4 ? " --compress lz4"
                                          : "");
}

static void print_row(const tune_run *r, int32_t i) {
    const mr_trial *trial = &r->trials[i];
    const mr_strategy *s = &trial->figures;
    char prepare[32], disk[32], memory[32], rate[32], cold[32] = "-", total[32], even[32] = "never";
    if (!s->measured) {
        printf("  %-22s %-10s  %s\n", cut_name(r, s->cut), mr_keep_name(s->keep),
               trial->why[0] ? trial->why : "not measured");
        return;
    }
    if (s->break_even >= 0) {
        snprintf(even, sizeof even, "%lld", (long long)s->break_even);
    }
    if (trial->cold_rate > 0) {
        mr_text_rate(cold, sizeof cold, trial->cold_rate);
    }
    printf("%c %-22s %-10s %3u %4u %9s %9s %9s %10s %10s %7.3f %10s %6s  %s%s\n",
           i == r->chosen ? '*' : ' ', s->keep ? cut_name(r, s->cut) : "-", mr_keep_name(s->keep),
           s->threads, s->reads, mr_text_time(prepare, sizeof prepare, prepare_seconds(r, s)),
           mr_text_bytes(disk, sizeof disk, (int64_t)s->disk_bytes),
           mr_text_bytes(memory, sizeof memory, (int64_t)s->memory_bytes),
           mr_text_rate(rate, sizeof rate, s->rate), cold, s->first_batch_seconds,
           mr_text_time(total, sizeof total, s->total_seconds), even, trial->bound,
           s->over_cap ? ", over a cap" : "");
}

static void print_table(const tune_run *r) {
    char samples[32], subset[32];
    printf(
        "%s samples, %lld %s; measured on %s of them, %g s in %d %s each from the page cache, once "
        "from the disk (cold)\n",
        mr_text_count(samples, sizeof samples, r->lab.samples), (long long)r->goal.epochs,
        mr_text_plural(r->goal.epochs, "epoch", "epochs"),
        mr_text_count(subset, sizeof subset, r->lab.subset), r->lab.seconds, r->lab.rounds,
        mr_text_plural(r->lab.rounds, "run", "runs"));
    printf("  %-22s %-10s %3s %4s %9s %9s %9s %10s %10s %7s %10s %6s  %s\n", "cut behind", "keeps",
           "thr", "rds", "prepare", "disk", "memory", "samples/s", "cold", "first", "total", "even",
           "bound by");
    for (int32_t i = 0; i < r->n; i++) {
        print_row(r, i);
    }
}

/* What changes no byte may be made; the rest is for people to decide. */
static void print_rewrites(const tune_run *r) {
    for (int32_t i = 0; i < r->rewrites.n; i++) {
        const mr_compared *c = &r->compared[i];
        bool same = r->rewrites.list[i].same_bytes && c->same;
        if (c->measured) {
            printf("%s: %s: %.2f times as fast%s\n", same ? "same bytes" : "other bytes, not made",
                   r->rewrites.list[i].text, c->gain,
                   i == r->made                  ? ", made"
                   : same && !r->values->rewrite ? ", made by --rewrite"
                                                 : "");
        }
    }
}

static void print_choice(const tune_run *r) {
    const mr_strategy *s = &r->trials[r->chosen].figures;
    char command[1024], path[512];
    printf("chosen: %s%s%s, --threads %u --reads %u\n", mr_keep_name(s->keep),
           s->keep ? " behind " : "", s->keep ? cut_name(r, s->cut) : "", s->threads, s->reads);
    if (s->keep >= MR_KEEP_TAR && !r->folder[0]) {
        pack_command(r, s, command, sizeof command);
        printf("%s\n", command);
        printf("writes the tuned document too: FOLDER/pipeline.json\n");
    } else if (r->document) {
        printf("written to %s\n", mr_text_safe(path, sizeof path, r->document));
    }
    if (r->folder[0]) {
        printf("the pack is in %s\n", mr_text_safe(path, sizeof path, r->folder));
    }
    if (r->values->weights) {
        printf("Weights compare shares of what was measured: the fastest and the one that prepares "
               "nothing\ncan tie exactly, and a strategy nobody would take changes the scores of "
               "the others.\n");
    }
}

static json_t *row_json(const tune_run *r, int32_t i) {
    const mr_trial *t = &r->trials[i];
    const mr_strategy *s = &t->figures;
    json_t *row =
        json_pack("{s:i, s:s, s:s, s:i, s:i, s:b, s:b}", "cut", s->cut, "behind",
                  cut_name(r, s->cut), "keeps", mr_keep_name(s->keep), "threads", (int)s->threads,
                  "reads", (int)s->reads, "measured", s->measured, "chosen", i == r->chosen);
    if (s->measured && t->cold_rate > 0) {
        json_object_set_new(row, "cold_samples_per_second", json_real(t->cold_rate));
    }
    if (s->measured) {
        json_object_update_new(
            row,
            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:b, s:s}", "prepare_seconds",
                      prepare_seconds(r, s), "samples_per_second", s->rate, "first_rate",
                      s->first_rate, "first_batch_seconds", s->first_batch_seconds, "disk_bytes",
                      s->disk_bytes, "memory_bytes", s->memory_bytes, "total_seconds",
                      s->total_seconds, "break_even", (json_int_t)s->break_even, "score", s->score,
                      "over_cap", s->over_cap, "bound", t->bound));
    } else {
        json_object_set_new(row, "why", json_string(t->why));
    }
    return row;
}

static json_t *rewrites_json(const tune_run *r) {
    json_t *list = json_array();
    for (int32_t i = 0; i < r->rewrites.n; i++) {
        const mr_compared *c = &r->compared[i];
        const mr_rewrite *own = &r->rewrites.list[i];
        json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:f, s:b}", "text", own->text,
                                              "same_bytes", own->same_bytes && c->same, "measured",
                                              c->measured, "gain", c->gain, "made", i == r->made));
    }
    return list;
}

static json_t *result_json(const tune_run *r) {
    char command[1024];
    json_t *rows = json_array();
    for (int32_t i = 0; i < r->n; i++) {
        json_array_append_new(rows, row_json(r, i));
    }
    json_t *object =
        json_pack("{s:I, s:I, s:I, s:f, s:o, s:o}", "samples", (json_int_t)r->lab.samples, "subset",
                  (json_int_t)r->lab.subset, "epochs", (json_int_t)r->goal.epochs, "seconds",
                  r->lab.seconds, "strategies", rows, "rewrites", rewrites_json(r));
    if (r->chosen >= 0) {
        const mr_strategy *s = &r->trials[r->chosen].figures;
        json_t *document = mr_lab_document(&r->lab, s);
        json_object_set_new(object, "document", document ? document : json_null());
        if (!document) {
            pack_command(r, s, command, sizeof command);
            json_object_set_new(object, "pack", json_string(command));
        }
        json_object_set_new(object, "folder", r->folder[0] ? mr_json_text(r->folder) : json_null());
    }
    return object;
}

static mr_status write_text(tune_run *r, const char *path, const char *text, size_t size) {
    return text ? mr_file_replace(path, text, size, &r->err)
                : mr_fail(&r->err, MR_E_MEMORY, "out of memory");
}

static mr_status write_document(tune_run *r) {
    const mr_strategy *chosen = &r->trials[r->chosen].figures, plain = {.keep = MR_KEEP_NOTHING};
    bool rewritten = r->made >= 0 && chosen->keep >= MR_KEEP_TAR; /* which the pack is made of */
    json_t *document = r->document ? mr_lab_document(&r->lab, rewritten ? &plain : chosen) : NULL;
    if (!document) {
        return MR_OK;
    }
    char *text = json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(MR_DIGITS_EXACT));
    json_decref(document);
    mr_status status = write_text(r, r->document, text, text ? strlen(text) : 0);
    free(text);
    return status;
}

static mr_status write_page(tune_run *r) {
    size_t size = 0;
    if (!r->page) {
        return MR_OK;
    }
    json_t *result = result_json(r);
    char *text = mr_tune_page(result, r->values->path, &size);
    json_decref(result);
    mr_status status = write_text(r, r->page, text, size);
    free(text);
    return status;
}

/* ---- Applying ---- */
static bool goes_on(void *user, int64_t made, int64_t wanted) {
    (void)made;
    (void)wanted;
    return !is_stopped(user);
}

/* tuned.json is of the pack in tuned-pack. */
static void name_folder(tune_run *r) {
    size_t n = strlen(r->document);
    n = n > 5 && strcmp(r->document + n - 5, ".json") == 0 ? n - 5 : n;
    snprintf(r->folder, sizeof r->folder, "%.*s-pack", (int)n, r->document);
}

static mr_status make_pack(tune_run *r, const mr_strategy *s) {
    char cut[16];
    mr_pipeline *pipeline = NULL;
    mr_pack_result made = {.size = (uint32_t)sizeof made};
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_lab_pack_options(&options, s->keep);
    name_folder(r);
    snprintf(cut, sizeof cut, "%d", s->cut);
    options.folder = r->folder;
    options.upto = cut;
    options.threads = s->threads;
    options.extra_ops = r->plugins.ops;
    options.progress = goes_on;
    options.user = r;
    mr_status status = mr_lab_without_caches(&r->lab, r->pipeline, &pipeline, &r->err);
    if (status == MR_OK) {
        status = mr_pipeline_pack(pipeline, &options, &made, &r->err);
    }
    mr_pipeline_free(pipeline);
    if (status == MR_OK && made.document) {
        status = write_text(r, r->document, made.document, strlen(made.document));
    } else if (status == MR_OK) {
        status = mr_fail(&r->err, MR_E_UNSUPPORTED, "no source loads such a pack");
    }
    mr_free(made.document);
    return status;
}

static mr_status write_all(tune_run *r) {
    const mr_strategy *s = &r->trials[r->chosen].figures;
    bool pack = r->values->apply && s->keep >= MR_KEEP_TAR;
    mr_status status = pack ? make_pack(r, s) : write_document(r);
    return status == MR_OK ? write_page(r) : status;
}

/* ---- The command ---- */
static mr_status open_all(tune_run *r) {
    const tune_values *v = r->values;
    mr_status status = read_options(r);
    if (status == MR_OK) {
        status = mr_plugins_open(&r->plugins, &v->plugins, &r->err);
    }
    if (status == MR_OK) {
        status = mr_pipeline_load(&r->pipeline, v->path, r->plugins.ops, &r->err);
        r->bad_document = status != MR_OK;
    }
    if (status == MR_OK) {
        r->lab.ops = r->plugins.ops;
        r->lab.threads = (uint32_t)v->threads;
        r->lab.stop = &r->stop;
        status = mr_stop_begin(&r->stop, NULL, &r->err);
    }
    return status;
}

static mr_status tune(tune_run *r) {
    mr_status status = mr_lab_open(&r->lab, r->pipeline, r->values->scratch, &r->err);
    if (status == MR_OK) {
        status = measure_all(r);
    }
    r->signal = is_stopped(r) ? atomic_load(&r->stop.signal) : 0;
    if (status == MR_OK && !r->signal && r->chosen < 0) {
        status = mr_fail(&r->err, MR_E_LIMIT, "no strategy fits the caps");
    }
    if (status == MR_OK && !r->signal) {
        status = write_all(r);
        r->signal = is_stopped(r) ? atomic_load(&r->stop.signal) : 0;
    }
    if (status == MR_OK && !r->signal && r->values->json) {
        mr_json_print(result_json(r), MR_DIGITS_EXACT);
    } else if (status == MR_OK && !r->signal) {
        print_table(r);
        print_rewrites(r);
        print_choice(r);
    }
    for (int32_t i = 0; i < r->n; i++) {
        mr_trial_free(&r->trials[i]);
    }
    mr_lab_close(&r->lab);
    mr_stop_end(&r->stop);
    return r->signal ? MR_OK : status;
}

static int run_tune(const void *values) {
    tune_run *r = calloc(1, sizeof *r);
    mr_error memory = MR_ERROR_INIT;
    mr_trial *trials = calloc(TRIALS_MAX, sizeof *trials);
    if (!r || !trials) {
        mr_fail(&memory, MR_E_MEMORY, "out of memory");
        free(r);
        free(trials);
        return mr_error_print(&memory);
    }
    r->values = values;
    r->trials = trials;
    r->chosen = r->made = -1;
    r->err = (mr_error)MR_ERROR_INIT;
    mr_status status = open_all(r);
    if (status == MR_OK) {
        status = tune(r);
    }
    int code = status == MR_OK   ? (r->signal ? 128 + r->signal : MR_EXIT_OK)
               : r->bad_document ? mr_error_print_document(&r->err, r->values->path)
                                 : mr_error_print(&r->err);
    mr_rewrites_free(&r->rewrites);
    mr_pipeline_free(r->pipeline);
    mr_plugins_close(&r->plugins);
    free(trials);
    free(r);
    return code;
}

static const mr_option_row operands[] = {
    {.name = "PIPELINE.json",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(tune_values, path),
     .doc = "The pipeline document. Caches in it are left out: they are what is chosen."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "output",
     .argument = "FILE",
     .letter = 'o',
     .kind = MR_OPTION_FILES,
     .offset = offsetof(tune_values, outputs),
     .doc = "Write the tuned document here; where a pack was chosen, the command for it is printed "
            "instead. A name that ends in .html gets a page that draws throughput against storage. "
            "May be given for each."},
    {.name = "apply",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(tune_values, apply),
     .doc = "Where a pack was chosen, make it: with -o tuned.json in the folder tuned-pack, and "
            "tuned.json loads it."},
    {.name = "rewrite",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(tune_values, rewrite),
     .doc = "Make the rewrites that change no byte and are faster, before all else: the tuned "
            "document has them."},
    {.name = "cold",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(tune_values, cold),
     .doc = "Choose by the rates from the disk, for datasets that memory does not hold."},
    {.name = "epochs",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(tune_values, epochs),
     .fallback = "90",
     .min = 1,
     .max = UINT32_MAX,
     .doc = "How many epochs there will be."},
    {.name = "keep",
     .argument = "LIST",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(tune_values, keep),
     .doc = "What may be kept, with commas between: cache, cache lz4, cache zstd, in memory, pack "
            "tar, pack npy, pack zstd, pack lz4; otherwise all are tried."},
    {.name = "consumer",
     .argument = "RATE",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(tune_values, consumer),
     .doc = "Samples a second that the training takes; otherwise it takes any number."},
    {.name = "disk",
     .argument = "SIZE",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(tune_values, disk),
     .doc = "The most that may be kept on disk, 100GB for instance."},
    {.name = "memory",
     .argument = "SIZE",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(tune_values, memory),
     .doc = "The most that may be kept in memory."},
    {.name = "seconds",
     .argument = "S",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(tune_values, seconds),
     .doc = "How long each strategy is measured; otherwise two seconds."},
    {.name = "rounds",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(tune_values, rounds),
     .fallback = "5",
     .min = 1,
     .max = MR_ROUNDS_MAX,
     .doc = "In so many short runs, strategies taking turns; the middle one counts."},
    {.name = "scratch",
     .argument = "DIR",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(tune_values, scratch),
     .fallback = ".",
     .doc = "Where to make a folder for trying, which is removed at the end: on the disk that a "
            "store or pack would be on."},
    {.name = "presto",
     .argument = "P,S,T",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(tune_values, weights),
     .doc = "Choose by PRESTO's weighted shares of preparing time, storage and throughput instead "
            "of the total time."},
    MR_THREADS_ROW(tune_values),
    MR_STORAGE_ROW(tune_values),
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(tune_values, json),
     .doc = "Print one line of JSON instead of a table."},
    {.name = "quiet",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(tune_values, quiet),
     .doc = "Do not say what is being measured."},
    MR_PLUGIN_ROW(tune_values),
    {.name = NULL},
};

const mr_command mr_command_tune = {
    .name = "tune",
    .summary = "Measure which steps to do once and which in every epoch, and choose.",
    .doc = "Tries every cut of a pipeline before its first random op with everything that can keep "
           "samples there: a cache on disk, packed or not, a cache in memory, packs. Each is made "
           "for a part of the dataset and measured in short runs, in turn; what cannot win is left "
           "out, and said. Sizes and times are reckoned for the whole dataset from the part. "
           "Chosen is what lets the training end first: the time to prepare, and the epochs at the "
           "rate of the loader or of the consumer, whichever is lower. Nothing is changed or "
           "deleted but what the command made itself. See docs/tune.md.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(tune_values),
    .run = run_tune,
};
