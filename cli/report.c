/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - millrace report: what a trace says, as text, as a page, and for other programs. */
#include <jansson.h>
#include <stdio.h>

#include "command.h"
#include "errors.h"
#include "outputs.h"
#include "report_try.h"

typedef struct report_values {
    const char *trace, *other;
    const char *page, *photos, *chrome, *csv;
    bool json, try_it;
} report_values;

static mr_status print_text(const mr_trace *trace, mr_trace_text_kind kind, mr_error *err) {
    char *text = NULL;
    mr_status status = mr_trace_text(trace, kind, &text, err);
    if (status == MR_OK) {
        fputs(text, stdout);
    }
    mr_free(text);
    return status;
}

/* ---- Two runs ---- */
/* The verdict's figures; NULL: no memory. */
static json_t *verdict_of(const mr_trace *trace, mr_error *err) {
    char *text = NULL;
    json_t *figures =
        mr_trace_text(trace, MR_TRACE_JSON, &text, err) == MR_OK ? json_loads(text, 0, NULL) : NULL;
    json_t *verdict = json_incref(json_object_get(figures, "verdict"));
    json_decref(figures);
    mr_free(text);
    return verdict;
}

static double figure(const json_t *verdict, const char *name) {
    return json_number_value(json_object_get(verdict, name));
}

static mr_status print_comparison(const mr_trace *trace, const mr_trace *other, mr_error *err) {
    json_t *first = verdict_of(trace, err), *second = verdict_of(other, err);
    bool known = first && second;
    if (known) {
        double before = figure(first, "rate"), after = figure(second, "rate");
        printf("\n%-34s %12s %12s\n", "the two beside each other", "TRACE", "OTHER");
        printf("%-34s %12.0f %12.0f   x %.2f\n", "samples/s", before, after,
               before > 0 ? after / before : 0);
        printf("%-34s %10.1f %% %10.1f %%\n", "the consumer waits", 100 * figure(first, "stall"),
               100 * figure(second, "stall"));
        printf("%-34s %10.1f %% %10.1f %%\n", "workers without work", 100 * figure(first, "idle"),
               100 * figure(second, "idle"));
        printf("every op beside the other: -o FILE.html\n");
    }
    json_decref(first);
    json_decref(second);
    return known ? MR_OK : mr_fail(err, MR_E_MEMORY, "out of memory");
}

/* ---- All ---- */
static mr_status write_files(const report_values *v, const mr_trace *trace, const mr_trace *other,
                             mr_error *err) {
    mr_status status = MR_OK;
    if (v->page) {
        status = mr_trace_page(trace, other, v->photos, v->page, err);
    }
    if (status == MR_OK && v->chrome) {
        status = mr_trace_export(trace, MR_TRACE_CHROME, v->chrome, err);
    }
    if (status == MR_OK && v->csv) {
        status = mr_trace_export(trace, MR_TRACE_CSV, v->csv, err);
    }
    return status;
}

static mr_status print_traces(const report_values *v, const mr_trace *trace, const mr_trace *other,
                              mr_error *err) {
    mr_trace_text_kind kind = v->json ? MR_TRACE_JSON : MR_TRACE_REPORT;
    mr_status status = MR_OK;
    if (v->json || !(v->page || v->chrome || v->csv)) {
        status = print_text(trace, kind, err);
        if (status == MR_OK && other) {
            fputs(v->json ? "" : "\n", stdout);
            status = print_text(other, kind, err);
        }
        if (status == MR_OK && other && !v->json) {
            status = print_comparison(trace, other, err);
        }
    }
    return status;
}

static mr_status check_files(const report_values *v, mr_error *err) {
    const mr_named_file files[] = {
        {"TRACE", v->trace, true},      {"OTHER", v->other, true}, {"--out", v->page, false},
        {"--chrome", v->chrome, false}, {"--csv", v->csv, false},
    };
    return mr_outputs_check(files, sizeof files / sizeof *files, err);
}

static int run_report(const void *values) {
    const report_values *v = values;
    mr_error err = MR_ERROR_INIT;
    mr_trace *trace = NULL, *other = NULL;
    mr_status status = check_files(v, &err);
    if (status == MR_OK) {
        status = mr_trace_open(&trace, v->trace, &err);
    }
    if (status == MR_OK && v->other && v->other[0]) {
        status = mr_trace_open(&other, v->other, &err);
    }
    if (status == MR_OK && mr_trace_missing(trace)[0]) {
        mr_warning_print(mr_trace_missing(trace));
    }
    if (status == MR_OK) {
        status = print_traces(v, trace, other, &err);
    }
    if (status == MR_OK) {
        status = write_files(v, trace, other, &err);
    }
    if (status == MR_OK && v->try_it) {
        fflush(stdout);
        status = mr_report_try(trace, &err);
    }
    mr_trace_close(trace);
    mr_trace_close(other);
    return status == MR_OK ? MR_EXIT_OK : mr_error_print(&err);
}

static const mr_option_row operands[] = {
    {.name = "TRACE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(report_values, trace),
     .doc = "A file that millrace run --trace wrote."},
    {.name = "OTHER",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(report_values, other),
     .fallback = "",
     .doc = "Another one, to compare it with."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "out",
     .argument = "FILE",
     .letter = 'o',
     .kind = MR_OPTION_FILE,
     .offset = offsetof(report_values, page),
     .doc = "Write a page for a browser, complete in one file, instead of text."},
    {.name = "photos",
     .argument = "FOLDER",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(report_values, photos),
     .doc = "Look for the slowest samples below this folder and show them on the page."},
    {.name = "chrome",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(report_values, chrome),
     .doc = "Write every span as a Chrome trace event, for ui.perfetto.dev."},
    {.name = "csv",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(report_values, csv),
     .doc = "Write every span as a line of CSV."},
    {.name = "try",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(report_values, try_it),
     .doc = "Run the pipeline that a profiled torch loader was translated to for three seconds, on "
            "the files that the trace names, and say how fast it is."},
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(report_values, json),
     .doc = "Print every figure as one line of JSON."},
    {.name = NULL},
};

const mr_command mr_command_report = {
    .name = "report",
    .summary = "Show where a traced run spent its time.",
    .doc =
        "Says what held the run up, with the evidence and what to change first; then how often and "
        "how long each op ran, how long threads waited and for what, and which samples took "
        "longest.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(report_values),
    .run = run_report,
};
