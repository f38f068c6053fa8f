/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine itself costs: samples made of nothing, one per ticket and in morsels. CPU time of
 * all threads per sample, and the rate; the median of several runs. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 5 };

static double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* An op that only copies but says that it is heavy: so that each sample is a ticket of its own. */
static mr_status copy_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    (void)err;
    *out = *in;
    return MR_OK;
}

static mr_status copy_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                          mr_error *err) {
    (void)params;
    (void)call;
    (void)err;
    memcpy(out->data, in->data, in->size);
    return MR_OK;
}

static const mr_op_class heavy_copy = {MR_OP_HEADER, .name = "heavy_copy", .flags = MR_OP_HEAVY,
                                       .plan = copy_plan, .run = copy_run};
static const mr_op_class *const extra_ops[] = {&heavy_copy, NULL};

typedef struct result {
    double cpu_ns, wall_ns; /* per sample */
    uint32_t morsel;
} result;

static int run_once(const char *json, uint32_t threads, result *out) {
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    mr_stats stats = {.size = sizeof stats};
    mr_options options = MR_OPTIONS_INIT;
    options.threads = threads;
    if (mr_pipeline_parse(&pipeline, json, strlen(json), extra_ops, NULL) < 0 ||
        mr_loader_open(&loader, pipeline, &options, NULL) < 0) {
        return -1;
    }
    double cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID), wall = clock_seconds(CLOCK_MONOTONIC);
    while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = clock_seconds(CLOCK_MONOTONIC) - wall;
    mr_loader_stats(loader, &stats);
    *out = (result){cpu * 1e9 / (double)stats.samples, wall * 1e9 / (double)stats.samples,
                    stats.morsel};
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return 0;
}

static int measure(int64_t bytes, int64_t batch, uint32_t threads, const char *ops) {
    char json[256];
    double cpu[RUNS], wall[RUNS];
    result r = {0};
    snprintf(json, sizeof json,
             "{\"source\": {\"synthetic\": {\"samples\": 1000000, \"shape\": [%lld]}}, \"batch\": "
             "%lld, \"ops\": [%s]}",
             (long long)bytes, (long long)batch, ops);
    for (int i = 0; i < RUNS; i++) {
        if (run_once(json, threads, &r) < 0) {
            return 1;
        }
        cpu[i] = r.cpu_ns;
        wall[i] = r.wall_ns;
    }
    qsort(cpu, RUNS, sizeof *cpu, compare_doubles);
    qsort(wall, RUNS, sizeof *wall, compare_doubles);
    printf("%7lld bytes  batch %5lld  %u threads  morsel %4u  cpu %7.1f ns/sample  wall %7.1f "
           "ns/sample\n",
           (long long)bytes, (long long)batch, threads, r.morsel, cpu[RUNS / 2], wall[RUNS / 2]);
    return 0;
}

int main(void) {
    int failed = 0;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        failed |= measure(16, 256, threads, "");
        failed |= measure(1024, 256, threads, "");
        failed |= measure(3072, 256, threads, "");
        failed |= measure(1024, 256, threads, "\"heavy_copy\"");
    }
    return failed;
}
