/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - millrace sweep: one pipeline under several settings, each measured several times, in
 * turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "options.h"
#include "outputs.h"
#include "plugins.h"
#include "sweep_job.h"
#include "text.h"

typedef struct sweep_values {
    const char *path, *lists[MR_SWEEP_AXES];
    const char *page, *csv, *scratch;
    int64_t samples, rounds, seed;
    mr_files plugins;
    bool json, quiet;
} sweep_values;

enum { MOST_VALUES = 64, MOST_JOBS = 1024 };

typedef struct axis {
    int64_t values[MOST_VALUES];
    int32_t n; /* 0: the setting is left as it is */
} axis;

typedef struct sweep_run {
    const sweep_values *values;
    mr_plugins plugins;
    mr_sweep_lab lab;
    bool bad_document;
    axis axes[MR_SWEEP_AXES];
    mr_sweep_job *jobs;
    int32_t n;
    mr_error err;
} sweep_run;

/* ---- Options ---- */
static mr_status read_value(axis *a, const char *name, const char *word, mr_error *err) {
    int64_t value = 0;
    bool known = mr_number_read(word, &value) && value >= 1 && value <= 1 << 24;
    if (!known || a->n == MOST_VALUES) {
        mr_fail(err, MR_E_PARAM, "--%s: %.64s is not a whole number from 1 on", name, word);
        mr_hint(err, "write up to %d of them with commas: --%s 1,2,4", (int)MOST_VALUES, name);
        return err->code;
    }
    a->values[a->n++] = value;
    return MR_OK;
}

static mr_status read_list(axis *a, const char *name, const char *text, mr_error *err) {
    mr_status status = MR_OK;
    char word[64];
    while (text && status == MR_OK) {
        size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), text);
        status = read_value(a, name, word, err);
        text = text[length] ? text + length + 1 : NULL;
    }
    return status;
}

static mr_status read_axes(sweep_run *r) {
    mr_status status = MR_OK;
    bool any = false;
    r->n = 1;
    for (int i = 0; i < MR_SWEEP_AXES && status == MR_OK; i++) {
        axis *a = &r->axes[i];
        status = read_list(a, mr_sweep_axis_names[i], r->values->lists[i], &r->err);
        any = any || a->n > 0;
        r->n = r->n > MOST_JOBS ? r->n : r->n * (a->n > 0 ? a->n : 1);
    }
    if (status == MR_OK && !any) {
        mr_fail(&r->err, MR_E_PARAM, "there is nothing to sweep");
        mr_hint(&r->err, "give a list of settings: --threads 1,2,4");
        return r->err.code;
    }
    if (status == MR_OK && r->n > MOST_JOBS) {
        return mr_fail(&r->err, MR_E_PARAM, "more than %d combinations", (int)MOST_JOBS);
    }
    return status;
}

/* Combination i: the last setting changes fastest. */
static void set_job(const sweep_run *r, int32_t number, mr_sweep_job *job) {
    for (int i = MR_SWEEP_AXES - 1; i >= 0; i--) {
        const axis *a = &r->axes[i];
        job->set[i] = a->n > 0 ? a->values[number % a->n] : 0;
        number = a->n > 0 ? number / a->n : number;
    }
}

static mr_status check_files(const sweep_values *v, mr_error *err) {
    const mr_named_file files[] = {
        {"PIPELINE.json", v->path, true}, {"--out", v->page, false}, {"--csv", v->csv, false}};
    return mr_outputs_check(files, 3, err);
}

static mr_status open_all(sweep_run *r) {
    const sweep_values *v = r->values;
    mr_status status = check_files(v, &r->err);
    status = status == MR_OK ? read_axes(r) : status;
    status = status == MR_OK ? mr_plugins_open(&r->plugins, &v->plugins, &r->err) : status;
    if (status == MR_OK) {
        status = mr_pipeline_load(&r->lab.pipeline, v->path, r->plugins.ops, &r->err);
        r->bad_document = status != MR_OK;
    }
    if (status != MR_OK) {
        return status;
    }
    r->lab.samples = v->samples;
    r->lab.seed = v->seed;
    r->jobs = calloc((size_t)r->n, sizeof *r->jobs);
    if (!r->jobs) {
        return mr_fail(&r->err, MR_E_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < r->n; i++) {
        set_job(r, i, &r->jobs[i]);
    }
    return mr_sweep_lab_open(&r->lab, v->scratch, &r->err);
}

/* ---- Measuring ---- */
static void say(const sweep_run *r, const char *what, int32_t i) {
    if (r->values->quiet || r->values->json) {
        return;
    }
    fprintf(stderr, "%s:", what);
    for (int k = 0; k < MR_SWEEP_AXES; k++) {
        if (r->axes[k].n > 0) {
            fprintf(stderr, " %s %lld", mr_sweep_axis_names[k], (long long)r->jobs[i].set[k]);
        }
    }
    fputc('\n', stderr);
}

/* In turns, each round beginning with another one, so that what else the machine does meets all of
 * them alike. The first, which finds files that are not in memory yet, is not counted. */
static mr_status measure(sweep_run *r) {
    mr_status status = MR_OK;
    say(r, "warming up", r->n - 1);
    mr_sweep_job warm = r->jobs[r->n - 1];
    status = mr_sweep_job_run(&r->lab, &warm, false, &r->err);
    mr_sweep_job_free(&warm);
    if (status == MR_OK && warm.error[0]) {
        return mr_fail(&r->err, warm.code < 0 ? warm.code : MR_E_INTERNAL, "%s", warm.error);
    }
    for (int64_t round = 0; round < r->values->rounds && status == MR_OK; round++) {
        for (int32_t i = 0; i < r->n && status == MR_OK; i++) {
            int32_t at = (int32_t)((i + round) % r->n);
            say(r, "measuring", at);
            status = mr_sweep_job_run(&r->lab, &r->jobs[at], false, &r->err);
        }
    }
    for (int32_t i = 0; i < r->n && status == MR_OK; i++) {
        say(r, "tracing", i);
        status = mr_sweep_job_run(&r->lab, &r->jobs[i], true, &r->err);
    }
    return status;
}

/* ---- The result ---- */
static json_t *axes_json(const sweep_run *r) {
    json_t *axes = json_object();
    for (int k = 0; k < MR_SWEEP_AXES; k++) {
        if (r->axes[k].n == 0) {
            continue;
        }
        json_t *values = json_array();
        for (int32_t i = 0; i < r->axes[k].n; i++) {
            json_array_append_new(values, json_integer(r->axes[k].values[i]));
        }
        json_object_set_new(axes, mr_sweep_axis_names[k], values);
    }
    return axes;
}

static json_t *result_json(const sweep_run *r) {
    json_t *runs = json_array();
    for (int32_t i = 0; i < r->n; i++) {
        json_array_append_new(runs, mr_sweep_job_json(&r->jobs[i]));
    }
    return json_pack("{s:o, s:o, s:o}", "what", mr_json_text(r->values->path), "axes", axes_json(r),
                     "runs", runs);
}

static mr_status write_text(const char *document, mr_sweep_text_kind kind, const char *path,
                            mr_error *err) {
    char *text = NULL;
    mr_status status = mr_sweep_text(document, kind, &text, err);
    if (status == MR_OK && path) {
        status = mr_file_replace(path, text, strlen(text), err);
    } else if (status == MR_OK) {
        fputs(text, stdout);
    }
    mr_free(text);
    return status;
}

static mr_status show(sweep_run *r) {
    const sweep_values *v = r->values;
    json_t *result = result_json(r);
    char *document = result ? json_dumps(result, JSON_COMPACT) : NULL;
    mr_status status = document ? MR_OK : mr_fail(&r->err, MR_E_MEMORY, "out of memory");
    if (status == MR_OK && v->csv) {
        status = write_text(document, MR_SWEEP_CSV, v->csv, &r->err);
    }
    if (status == MR_OK && v->page) {
        status = write_text(document, MR_SWEEP_PAGE, v->page, &r->err);
    }
    if (status == MR_OK && v->json) {
        puts(document);
    } else if (status == MR_OK) {
        status =
            write_text(document, v->quiet ? MR_SWEEP_CONCLUSION : MR_SWEEP_TABLE, NULL, &r->err);
    }
    json_decref(result);
    free(document);
    return status;
}

static void close_all(sweep_run *r) {
    for (int32_t i = 0; i < r->n && r->jobs; i++) {
        mr_sweep_job_free(&r->jobs[i]);
    }
    mr_sweep_lab_close(&r->lab);
    mr_pipeline_free(r->lab.pipeline);
    mr_plugins_close(&r->plugins);
    free(r->jobs);
}

static int run_sweep(const void *values) {
    sweep_run *r = calloc(1, sizeof *r);
    mr_error memory = MR_ERROR_INIT;
    if (!r) {
        mr_fail(&memory, MR_E_MEMORY, "out of memory");
        return mr_error_print(&memory);
    }
    r->values = values;
    r->err = (mr_error)MR_ERROR_INIT;
    mr_status status = open_all(r);
    status = status == MR_OK ? measure(r) : status;
    status = status == MR_OK ? show(r) : status;
    int code = status == MR_OK            ? MR_EXIT_OK
               : status == MR_E_CANCELLED ? 128 + r->lab.signal
               : r->bad_document          ? mr_error_print_document(&r->err, r->values->path)
                                          : mr_error_print(&r->err);
    close_all(r);
    free(r);
    return code;
}

static const mr_option_row operands[] = {
    {.name = "PIPELINE.json",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(sweep_values, path),
     .doc = "The pipeline document."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "threads",
     .argument = "LIST",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(sweep_values, lists[MR_SWEEP_THREADS]),
     .doc = "Numbers of threads, with commas: 1,2,4."},
    {.name = "reads",
     .argument = "LIST",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(sweep_values, lists[MR_SWEEP_READS]),
     .doc = "Numbers of reads in flight."},
    {.name = "batch",
     .argument = "LIST",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(sweep_values, lists[MR_SWEEP_BATCH]),
     .doc = "Sizes of batches, instead of the pipeline's."},
    {.name = "ahead",
     .argument = "LIST",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(sweep_values, lists[MR_SWEEP_AHEAD]),
     .doc = "Numbers of batches that are made ahead."},
    {.name = "samples",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(sweep_values, samples),
     .fallback = "0",
     .min = 0,
     .max = INT64_MAX / 2,
     .doc = "Samples that a job takes, rounded up to whole batches; 0: one epoch."},
    {.name = "rounds",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(sweep_values, rounds),
     .fallback = "3",
     .min = 1,
     .max = 100,
     .doc = "How often each combination is measured, in turns with the others."},
    {.name = "seed",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(sweep_values, seed),
     .fallback = "-1",
     .min = 0,
     .max = MR_SEED_MAX,
     .doc = "Seed instead of the pipeline's."},
    {.name = "out",
     .argument = "FILE",
     .letter = 'o',
     .kind = MR_OPTION_FILE,
     .offset = offsetof(sweep_values, page),
     .doc = "Write a page for a browser, with curves, complete in one file."},
    {.name = "csv",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(sweep_values, csv),
     .doc = "Write the figures as CSV: a row for each combination, columns for each op."},
    {.name = "scratch",
     .argument = "FOLDER",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(sweep_values, scratch),
     .fallback = "/tmp",
     .doc = "Where a folder for traces is made, and removed again."},
    MR_PLUGIN_ROW(sweep_values),
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(sweep_values, json),
     .doc = "Print every measurement as one line of JSON."},
    {.name = "quiet",
     .letter = 'q',
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(sweep_values, quiet),
     .doc = "Print what follows alone."},
    {.name = NULL},
};

const mr_command mr_command_sweep = {
    .name = "sweep",
    .summary = "Measure a pipeline under several settings.",
    .doc =
        "Runs every combination of the settings, each in a process of its own, several times and "
        "in "
        "turns; then once more with a trace. Shows end-to-end time, samples/s, CPU seconds in all "
        "and for each op, and memory; and says where more of a setting stops paying, and what "
        "then holds the pipeline up.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(sweep_values),
    .run = run_sweep,
};
