/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - a loader's figures in the text format that Prometheus scrapes. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/number.h"

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

static void put_stream(FILE *out, const mr_stream_stats *s) {
    put_value(out, "stream_entries_total", "counter", "Entries of the stream that were read.",
              (double)s->entries);
    put_value(out, "stream_bytes_total", "counter", "Bytes of them.", (double)s->bytes);
    put_value(out, "stream_missing_total", "counter", "Entries that are damaged or gone.",
              (double)s->missing);
    put_value(out, "stream_left_out_total", "counter", "Entries left out by thinning or dropping.",
              (double)s->left_out);
    put_value(out, "stream_spilled_total", "counter", "Entries spilled to a folder.",
              (double)s->spilled);
    put_value(out, "stream_spill_bytes", "gauge", "Bytes of files of what is spilled.",
              (double)s->spill_bytes);
    if (s->received > 0 || s->sent > 0) {
        put_value(out, "stream_received_total", "counter", "Entries whose bytes other ranks sent.",
                  (double)s->received);
        put_value(out, "stream_received_bytes_total", "counter", "Bytes of them.",
                  (double)s->received_bytes);
        put_value(out, "stream_sent_total", "counter", "Entries sent to other ranks.",
                  (double)s->sent);
        put_value(out, "stream_sent_bytes_total", "counter", "Bytes of them.",
                  (double)s->sent_bytes);
    }
    put_value(out, "stream_replayed_total", "counter", "Samples shown again.", (double)s->replayed);
    put_value(out, "stream_filled_steps_total", "counter",
              "Steps in which old samples took the place of new ones.", (double)s->filled);
    put_value(out, "stream_starved_seconds_total", "counter",
              "Time the consumer waited because the stream had too little.",
              (double)s->starved_ns * 1e-9);
    put_value(out, "stream_waiting", "gauge", "Entries read, and of no step yet.",
              (double)s->waiting);
    put_value(out, "stream_kept", "gauge", "Samples in the rehearsal buffer.", (double)s->kept);
    if (s->behind >= 0) {
        put_value(out, "stream_behind", "gauge", "Entries in the stream, and of no step yet.",
                  (double)s->behind);
    }
    if (s->newest > 0) {
        put_value(out, "stream_newest_seconds", "gauge",
                  "Time of the newest entry that was read, since 1970.", (double)s->newest * 1e-9);
    }
}

static void put_servers(FILE *out, const mr_origin_stats *s) {
    put_value(out, "server_requests_total", "counter", "Requests to servers.", (double)s->requests);
    put_value(out, "server_retries_total", "counter", "Requests sent again after a failure.",
              (double)s->retries);
    put_value(out, "server_hedges_total", "counter", "Requests sent beside one that hung.",
              (double)s->hedges);
    put_value(out, "server_busy_total", "counter", "Answers that the server is busy.",
              (double)s->busy);
    put_value(out, "server_bytes_total", "counter", "Bytes that servers sent.",
              (double)s->received);
    put_value(out, "server_requests_in_flight", "gauge", "Requests under way.", s->in_flight);
    put_value(out, "server_requests_allowed", "gauge", "Requests that may be under way.", s->width);
    put_value(out, "server_first_byte_seconds", "gauge",
              "Time until an answer begins, a moving mean.", s->first_byte);
}

/* Where bytes come from: a line for each origin. */
static void put_origins(FILE *out, const mr_loader *loader) {
    static const char *const names[] = {"asked", "found", "bytes"};
    static const char *const help[] = {"Blocks that each origin was asked for.",
                                       "Blocks that each origin had.",
                                       "Bytes that each origin gave."};
    mr_origin_stats s = {.size = (uint32_t)sizeof s};
    for (int k = 0; k < 3 && mr_loader_n_origins(loader) > 0; k++) {
        fprintf(out,
                "# HELP millrace_origin_%s_total %s\n# TYPE millrace_origin_%s_total counter\n",
                names[k], help[k], names[k]);
        for (int32_t i = 0; mr_loader_origin(loader, i, &s) == MR_OK; i++) {
            const int64_t values[] = {s.asked, s.found, s.bytes};
            fprintf(out, "millrace_origin_%s_total{origin=\"%s\"} %lld\n", names[k], s.name,
                    (long long)values[k]);
        }
    }
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
    mr_point point = mr_point_begin();
    mr_loader_stats(loader, &stats);
    put_totals(memory, &stats);
    mr_stream_stats stream = {.size = (uint32_t)sizeof stream};
    if (mr_loader_stream(loader, &stream) == MR_OK) {
        put_stream(memory, &stream);
    }
    put_origins(memory, loader);
    mr_origin_stats origin = {.size = (uint32_t)sizeof origin};
    for (int32_t i = 0; mr_loader_origin(loader, i, &origin) == MR_OK; i++) {
        if (origin.requests > 0) {
            put_servers(memory, &origin);
        }
    }
    put_lines(memory, loader);
    mr_point_end(point);
    bool lost = ferror(memory) != 0;
    lost = fclose(memory) != 0 || lost || !text; /* glibc does not tell of the last realloc */
    if (lost) {
        free(text);
        return mr_fail_memory(err, 4096);
    }
    *out = text;
    return MR_OK;
}
