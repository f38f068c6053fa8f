/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - what the kernel knows about this process: when it started and its peak memory.
 * (ru_maxrss will not do for memory: it survives exec, so it may be the parent's.) */
#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(clockid_t id) {
    struct timespec t = {0, 0};
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double mr_clock(void) {
    return seconds_of(CLOCK_MONOTONIC);
}

/* Start in clock ticks after boot: field 22 of /proc/self/stat, counted after the command's name,
 * which may hold spaces and brackets. -1: unknown. */
static double start_ticks(void) {
    char text[1024] = "";
    unsigned long long ticks = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file) {
        return -1;
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *after_name = strrchr(text, ')');
    int n = after_name ? sscanf(after_name + 1,
                                " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                                "%*d %*d %*d %llu",
                                &ticks)
                       : 0;
    return n == 1 ? (double)ticks : -1;
}

/* CPU time used so far is exact but leaves out waiting, as for a cold disk; the kernel's start
 * time counts it but only in ticks (10 ms). Together they give the start to within the wait of
 * one tick. */
double mr_clock_process_start(void) {
    double now = mr_clock();
    double start = now - seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double per_second = (double)sysconf(_SC_CLK_TCK);
    double ticks = start_ticks();
    if (ticks < 0 || per_second <= 0) {
        return start;
    }
    double earliest = ticks / per_second - (seconds_of(CLOCK_BOOTTIME) - now);
    double latest = earliest + 1 / per_second;
    return start > latest ? latest : start < earliest ? earliest : start;
}

/* A line of /proc/self/status in bytes; -1: there is none. */
static int64_t memory_of(const char *name) {
    char line[128];
    long long kilobytes = -1;
    size_t n = strlen(name);
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, n) == 0 && sscanf(line + n, ": %lld kB", &kilobytes) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

int64_t mr_memory_peak(void) {
    return memory_of("VmHWM");
}

int64_t mr_memory_of_files(void) {
    return memory_of("RssFile");
}
