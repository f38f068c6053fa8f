/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - a loader's figures in the text format that Prometheus scrapes. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"

static void put_value(FILE *out, const char *name, const char *type, const char *help,
                      double value) {
    fprintf(out, "# HELP millrace_%s %s\n# TYPE millrace_%s %s\nmillrace_%s %.9g\n", name, help,
            name, type, name, value);
}

static void put_totals(FILE *out, const mr_stats *stats) {
    put_value(out, "samples_total", "counter", "Samples delivered.", (double)stats->samples);
    put_value(out, "batches_total", "counter", "Batches delivered.", (double)stats->batches);
    put_value(out, "skipped_total", "counter", "Bad samples replaced.", (double)stats->skipped);
    put_value(out, "read_bytes_total", "counter", "Bytes read.", (double)stats->bytes_read);
    put_value(out, "wait_seconds_total", "counter", "Time the consumer waited for batches.",
              (double)stats->wait_ns * 1e-9);
    put_value(out, "threads", "gauge", "Threads that compute.", stats->threads);
}

/* Ops of one name are told apart by their place. */
static void put_line(FILE *out, const mr_line *line, int32_t place) {
    char label[128];
    snprintf(label, sizeof label,
             line->kind == MR_LINE_OP ? "what=\"%s\",place=\"%d\"" : "what=\"%s\"", line->name,
             place);
    fprintf(out, "millrace_time_seconds{%s,quantile=\"0.5\"} %.9g\n", label, line->p50);
    fprintf(out, "millrace_time_seconds{%s,quantile=\"0.99\"} %.9g\n", label, line->p99);
    fprintf(out, "millrace_time_seconds_sum{%s} %.9g\n", label, line->seconds);
    fprintf(out, "millrace_time_seconds_count{%s} %lld\n", label, (long long)line->count);
}

static void put_lines(FILE *out, const mr_loader *loader) {
    int32_t place = 0;
    fputs("# HELP millrace_time_seconds Time of each kind of work, each wait and each op, of all "
          "threads.\n# TYPE millrace_time_seconds summary\n",
          out);
    for (int32_t i = 0; i < mr_loader_n_lines(loader); i++) {
        mr_line line = {.size = (uint32_t)sizeof line};
        mr_loader_line(loader, i, &line);
        if (line.count > 0) {
            put_line(out, &line, place);
        }
        place += line.kind == MR_LINE_OP;
    }
}

mr_status mr_loader_metrics(const mr_loader *loader, char **out, mr_error *err) {
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory) {
        return mr_fail_memory(err, 4096);
    }
    mr_loader_stats(loader, &stats);
    put_totals(memory, &stats);
    put_lines(memory, loader);
    bool lost = ferror(memory) != 0;
    lost = fclose(memory) != 0 || lost || !text; /* glibc does not tell of the last realloc */
    if (lost) {
        free(text);
        return mr_fail_memory(err, 4096);
    }
    *out = text;
    return MR_OK;
}
