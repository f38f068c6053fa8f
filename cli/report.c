/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - millrace report: what a trace says, as text, as a page, and for other programs. */
#include <stdio.h>

#include "command.h"
#include "errors.h"

typedef struct report_values {
    const char *trace, *other;
    const char *page, *chrome, *csv;
    bool json;
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

static mr_status write_files(const report_values *v, const mr_trace *trace, const mr_trace *other,
                             mr_error *err) {
    mr_status status = MR_OK;
    if (v->page) {
        status = mr_trace_page(trace, other, v->page, err);
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
    }
    return status;
}

static int run_report(const void *values) {
    const report_values *v = values;
    mr_error err = MR_ERROR_INIT;
    mr_trace *trace = NULL, *other = NULL;
    mr_status status = mr_trace_open(&trace, v->trace, &err);
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
