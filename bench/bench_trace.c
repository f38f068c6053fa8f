/* SPDX-License-Identifier: Apache-2.0 */
/* bench_trace.c - what recording costs, and how long ten million spans take to read and to export.
 */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "span/track.h"

enum { OPS = 4, LAPS = 4, ROUNDS = 7 };

static double seconds_since(int64_t start) {
    return (double)(mr_monotonic_ns() - start) * 1e-9;
}

/* Samples of four laps, each emptied from the ring as a drain would. Best of several rounds. */
static double span_cost(size_t ring, uint32_t every) {
    mr_tracks tracks = {0};
    static mr_time_span out[4096];
    double best = 1;
    if (!mr_tracks_init(&tracks, 1, OPS, every, ring)) {
        exit(1);
    }
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    for (int round = 0; track && round < ROUNDS; round++) {
        int64_t start = mr_monotonic_ns(), drained = 0;
        enum { SAMPLES = 20000 };
        for (int i = 0; i < SAMPLES; i++) {
            mr_track_begin(track, i, 0);
            for (int k = 0; k < LAPS; k++) {
                mr_track_lap(track, MR_SPAN_OP, k, 1, 1000, 1000);
            }
            mr_track_end(track);
            if (ring && i % 512 == 0) {
                int64_t from = mr_monotonic_ns();
                while (mr_track_take(track, out, 4096) > 0) {
                }
                drained += mr_monotonic_ns() - from;
            }
        }
        double each = (seconds_since(start) - (double)drained * 1e-9) / SAMPLES / (LAPS + 1);
        best = each < best ? each : best;
    }
    mr_tracks_free(&tracks);
    return best * 1e9;
}

static const char header[] =
    "{\"millrace\":\"0\",\"setup\":{\"threads\":2,\"cpus\":2,\"batch\":100},\"ops\":[{\"name\":"
    "\"decode_image\",\"fused\":1},{\"name\":\"resize\",\"fused\":1},{\"name\":\"flip\","
    "\"fused\":1},"
    "{\"name\":\"normalize\",\"fused\":1}],\"tracks\":[{\"kind\":\"consumer\",\"number\":0},{"
    "\"kind\":"
    "\"worker\",\"number\":0},{\"kind\":\"worker\",\"number\":1}]}";

static void write_spans(FILE *file, int64_t n) {
    static mr_time_span piece[5000];
    for (int64_t done = 0; done < n; done += 5000) {
        for (int64_t i = 0; i < 5000; i++) {
            uint64_t sample = (uint64_t)((done + i) / 5), part = (uint64_t)((done + i) % 5);
            piece[i] = (mr_time_span){.start = sample * 1000000 + part * 200000,
                                      .duration = part < 4 ? 199000 : 1000000,
                                      .item = (int64_t)sample,
                                      .batch = (uint32_t)(sample / 100),
                                      .bytes_in = 100000 + (uint32_t)(sample % 1000) * 100,
                                      .bytes_out = 150528,
                                      .kind = part < 4 ? MR_SPAN_OP : MR_SPAN_SAMPLE,
                                      .n_ops = part < 4,
                                      .op = part < 4 ? (uint16_t)part : 0};
        }
        const mr_chunk_head head = {MR_CHUNK_SPANS, 1 + (uint32_t)(done / 5000 % 2), sizeof piece};
        fwrite(&head, sizeof head, 1, file);
        fwrite(piece, sizeof piece, 1, file);
    }
}

static void make_trace(const char *path, int64_t n) {
    FILE *file = fopen(path, "we");
    size_t size = strlen(header), padded = (size + 7) / 8 * 8;
    mr_trace_head head = {.version = MR_TRACE_VERSION, .header_size = (uint32_t)padded};
    if (!file) {
        perror(path);
        exit(1);
    }
    memcpy(head.magic, MR_TRACE_MAGIC, sizeof head.magic);
    fwrite(&head, sizeof head, 1, file);
    fprintf(file, "%-*s", (int)padded, header);
    write_spans(file, n);
    fclose(file);
}

static void timed(const char *what, mr_status status, int64_t start) {
    printf("%-38s %6.2f s%s\n", what, seconds_since(start), status < 0 ? " FAILED" : "");
}

static void bench_ten_million(const char *folder) {
    char path[256], out[256];
    mr_trace *trace = NULL;
    char *text = NULL;
    snprintf(path, sizeof path, "%s/trace", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    make_trace(path, 10000000);
    int64_t start = mr_monotonic_ns();
    timed("10 million spans: read", mr_trace_open(&trace, path, NULL), start);
    start = mr_monotonic_ns();
    timed("  every figure", mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), start);
    mr_free(text);
    start = mr_monotonic_ns();
    timed("  page", mr_trace_page(trace, NULL, NULL, out, NULL), start);
    start = mr_monotonic_ns();
    timed("  Chrome trace events", mr_trace_export(trace, MR_TRACE_CHROME, out, NULL), start);
    start = mr_monotonic_ns();
    timed("  CSV", mr_trace_export(trace, MR_TRACE_CSV, out, NULL), start);
    mr_trace_close(trace);
    unlink(path);
    unlink(out);
}

int main(void) {
    char folder[] = "/tmp/millrace-bench-XXXXXX";
    if (!mkdtemp(folder)) {
        return 1;
    }
    printf("%-38s %6.1f ns\n", "a span, tracing", span_cost(1 << 15, 1));
    printf("%-38s %6.1f ns\n", "a span's tally, not tracing", span_cost(0, 1));
    printf("%-38s %6.1f ns\n", "the same, one sample in 16 timed", span_cost(0, 16));
    bench_ten_million(folder);
    rmdir(folder);
    return 0;
}
