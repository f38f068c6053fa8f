/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - millrace report: what a trace says, as text, as a page, and for other programs. */
#include <jansson.h>
#include <stdio.h>

#include "command.h"
#include "errors.h"
#include "outputs.h"
#include "report_try.h"

typedef struct report_values {
    mr_files traces;
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
typedef struct opened {
    mr_trace *list[MR_FILES_MAX];
    int32_t n;
    bool are_ranks; /* of one run: told together */
} opened;

static mr_trace *other_of(const opened *traces) {
    return traces->n > 1 ? traces->list[1] : NULL;
}

static mr_status write_page(const report_values *v, const opened *traces, mr_error *err) {
    return traces->are_ranks
               ? mr_trace_ranks_page(traces->list, traces->n, v->photos, v->page, err)
               : mr_trace_page(traces->list[0], other_of(traces), v->photos, v->page, err);
}

static mr_status write_files(const report_values *v, const opened *traces, mr_error *err) {
    mr_status status = v->page ? write_page(v, traces, err) : MR_OK;
    if (status == MR_OK && v->chrome) {
        status = mr_trace_export(traces->list[0], MR_TRACE_CHROME, v->chrome, err);
    }
    if (status == MR_OK && v->csv) {
        status = mr_trace_export(traces->list[0], MR_TRACE_CSV, v->csv, err);
    }
    return status;
}

static mr_status print_ranks(const opened *traces, mr_trace_text_kind kind, mr_error *err) {
    char *text = NULL;
    mr_status status = mr_trace_ranks(traces->list, traces->n, kind, &text, err);
    if (status == MR_OK) {
        fputs(text, stdout);
    }
    mr_free(text);
    return status;
}

static mr_status print_traces(const report_values *v, const opened *traces, mr_error *err) {
    mr_trace_text_kind kind = v->json ? MR_TRACE_JSON : MR_TRACE_REPORT;
    const mr_trace *trace = traces->list[0], *other = other_of(traces);
    if (!v->json && (v->page || v->chrome || v->csv)) {
        return MR_OK;
    }
    if (traces->are_ranks) {
        return print_ranks(traces, kind, err);
    }
    mr_status status = print_text(trace, kind, err);
    if (status == MR_OK && other) {
        fputs(v->json ? "" : "\n", stdout);
        status = print_text(other, kind, err);
    }
    return status == MR_OK && other && !v->json ? print_comparison(trace, other, err) : status;
}

/* Spans are written of one trace. */
static mr_status check_several(const report_values *v, const opened *traces, mr_error *err) {
    if (traces->are_ranks && (v->chrome || v->csv || v->try_it)) {
        return mr_fail(err, MR_E_PARAM, "--chrome, --csv and --try are of one rank's trace");
    }
    return MR_OK;
}

static mr_status check_files(const report_values *v, mr_error *err) {
    mr_named_file files[MR_FILES_MAX + 3];
    int32_t n = 0;
    for (int32_t i = 0; i < v->traces.n; i++) {
        files[n++] = (mr_named_file){"TRACE", v->traces.v[i], true};
    }
    files[n++] = (mr_named_file){"--out", v->page, false};
    files[n++] = (mr_named_file){"--chrome", v->chrome, false};
    files[n++] = (mr_named_file){"--csv", v->csv, false};
    return mr_outputs_check(files, n, err);
}

static mr_status open_traces(opened *traces, const report_values *v, mr_error *err) {
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < v->traces.n; i++) {
        status = mr_trace_open(&traces->list[i], v->traces.v[i], err);
        traces->n += status == MR_OK;
        if (status == MR_OK && mr_trace_missing(traces->list[i])[0]) {
            mr_warning_print(mr_trace_missing(traces->list[i]));
        }
    }
    traces->are_ranks =
        traces->n > 2 || (traces->n == 2 && mr_trace_are_ranks(traces->list[0], traces->list[1]));
    return status == MR_OK ? check_several(v, traces, err) : status;
}

static int run_report(const void *values) {
    const report_values *v = values;
    mr_error err = MR_ERROR_INIT;
    opened traces = {.n = 0};
    mr_status status = check_files(v, &err);
    if (status == MR_OK) {
        status = open_traces(&traces, v, &err);
    }
    if (status == MR_OK) {
        status = print_traces(v, &traces, &err);
    }
    if (status == MR_OK) {
        status = write_files(v, &traces, &err);
    }
    if (status == MR_OK && v->try_it) {
        fflush(stdout);
        status = mr_report_try(traces.list[0], &err);
    }
    for (int32_t i = 0; i < traces.n; i++) {
        mr_trace_close(traces.list[i]);
    }
    return status == MR_OK ? MR_EXIT_OK : mr_error_print(&err);
}

static const mr_option_row operands[] = {
    {.name = "TRACE...",
     .kind = MR_OPTION_FILES,
     .offset = offsetof(report_values, traces),
     .doc = "A file that millrace run --trace wrote. Another one, to compare it with; or those of "
            "all ranks of one run, to see them together."},
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
