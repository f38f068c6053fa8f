/* SPDX-License-Identifier: Apache-2.0 */
/* counters.c - see counters.h. The CPU's counters are one group, so that they count the same
 * moments; where the kernel had to share them with others, values are scaled to the whole time. */
#include "span/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char *const mr_counter_names[MR_COUNTERS] = {"cpu_ns",       "minor_faults", "major_faults",
                                                   "waits",        "preempted",    "cycles",
                                                   "instructions", "cache_misses"};

static int open_event(uint64_t event, int group) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.config = event;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    attributes.read_format =
        PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}

void mr_counters_open(mr_counters *counters) {
    *counters =
        (mr_counters){.group = open_event(PERF_COUNT_HW_CPU_CYCLES, -1), .others = {-1, -1}};
    if (counters->group < 0) {
        counters->refused = errno;
        counters->group = -1;
        return;
    }
    counters->others[0] = open_event(PERF_COUNT_HW_INSTRUCTIONS, counters->group);
    counters->others[1] = open_event(PERF_COUNT_HW_CACHE_MISSES, counters->group);
}

static void read_group(int group, mr_counts *out) {
    struct {
        uint64_t n, enabled, running, values[3];
    } read_out;
    memset(&read_out, 0, sizeof read_out);
    if (read(group, &read_out, sizeof read_out) <= 0 || read_out.running == 0) {
        return;
    }
    double scale = (double)read_out.enabled / (double)read_out.running;
    for (uint64_t i = 0; i < read_out.n && i < 3; i++) {
        out->v[MR_COUNT_CYCLES + i] = (int64_t)((double)read_out.values[i] * scale);
    }
}

void mr_counters_read(const mr_counters *counters, mr_counts *out) {
    struct rusage usage = {0};
    struct timespec cpu = {0, 0};
    (void)getrusage(RUSAGE_THREAD, &usage);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    *out = (mr_counts){.v = {[MR_COUNT_CPU_NS] = (int64_t)cpu.tv_sec * 1000000000 + cpu.tv_nsec,
                             [MR_COUNT_MINOR_FAULTS] = usage.ru_minflt,
                             [MR_COUNT_MAJOR_FAULTS] = usage.ru_majflt,
                             [MR_COUNT_WAITS] = usage.ru_nvcsw,
                             [MR_COUNT_PREEMPTED] = usage.ru_nivcsw}};
    if (counters->group > 0) {
        read_group(counters->group, out);
    }
}

void mr_counters_close(mr_counters *counters) {
    for (int i = 0; counters->group > 0 && i < 2; i++) {
        if (counters->others[i] >= 0) {
            close(counters->others[i]);
        }
    }
    if (counters->group > 0) {
        close(counters->group);
    }
    counters->group = 0;
}
