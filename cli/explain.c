/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - millrace explain: the arithmetic behind the verdict on a trace. */
#include <stdio.h>

#include "command.h"
#include "errors.h"

typedef struct explain_values {
    const char *trace;
} explain_values;

static int run_explain(const void *values) {
    const explain_values *v = values;
    mr_error err = MR_ERROR_INIT;
    mr_trace *trace = NULL;
    char *text = NULL;
    mr_status status = mr_trace_open(&trace, v->trace, &err);
    if (status == MR_OK) {
        status = mr_trace_text(trace, MR_TRACE_EXPLAIN, &text, &err);
    }
    if (status == MR_OK) {
        fputs(text, stdout);
    }
    mr_free(text);
    mr_trace_close(trace);
    return status == MR_OK ? MR_EXIT_OK : mr_error_print(&err);
}

static const mr_option_row operands[] = {
    {.name = "TRACE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(explain_values, trace),
     .doc = "A file that millrace run --trace wrote."},
    {.name = NULL},
};

const mr_command mr_command_explain = {
    .name = "explain",
    .summary = "Show the arithmetic behind a report's verdict.",
    .doc = "Storage, threads, CPUs, the host language's lock and the consumer each have a highest "
           "rate, which follows from what was measured; a run goes at the lowest of them. Shows "
           "these rates, where the workers' time went, and what other numbers of threads and "
           "caches would give.",
    .operands = operands,
    .values_size = sizeof(explain_values),
    .run = run_explain,
};
