/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - CPU features and CPU count. */
#include "core/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct feature_row {
    const char *name;
    uint32_t removes; /* what goes when this is disabled */
} feature_row;

static const feature_row features[] = {
    {"avx2", MR_CPU_AVX2 | MR_CPU_AVX512},
    {"avx512", MR_CPU_AVX512},
    {"neon", MR_CPU_NEON},
};

static uint32_t detect(void) {
    uint32_t found = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")) {
        found |= MR_CPU_AVX2;
    }
    if (found && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("avx512vnni")) {
        found |= MR_CPU_AVX512;
    }
#elif defined(__aarch64__)
    found |= MR_CPU_NEON;
#endif
    return found;
}

static mr_status remove_named(uint32_t *out, const char *name, size_t length, mr_error *err) {
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if (strlen(features[i].name) == length && memcmp(features[i].name, name, length) == 0) {
            *out &= ~features[i].removes;
            return MR_OK;
        }
    }
    mr_fail(err, MR_E_PARAM, "unknown CPU feature \"%.*s\"", (int)length, name);
    mr_hint(err, "known are avx2, avx512 and neon, separated by commas");
    return MR_E_PARAM;
}

mr_status mr_cpu_features(const char *disable, uint32_t *out, mr_error *err) {
    uint32_t left = detect();
    for (const char *name = disable ? disable : ""; *name;) {
        size_t length = strcspn(name, ",");
        if (length > 0 && remove_named(&left, name, length, err) < 0) {
            return MR_E_PARAM;
        }
        name += length + (name[length] == ',');
    }
    *out = left;
    return MR_OK;
}

const char *mr_cpu_text(uint32_t found) {
    if (found & MR_CPU_AVX512) {
        return "avx2,avx512";
    }
    if (found & MR_CPU_AVX2) {
        return "avx2";
    }
    return found & MR_CPU_NEON ? "neon" : "none";
}

/* CPUs' worth of time that cgroup v2 grants, rounded up, or a large number without a quota. */
static uint32_t cgroup_cpus(void) {
    long long quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    int n = file ? fscanf(file, "%lld %lld", &quota, &period) : 0;
    if (file) {
        fclose(file);
    }
    if (n != 2 || quota <= 0 || period <= 0) {
        return UINT32_MAX;
    }
    return (uint32_t)((quota + period - 1) / period);
}

uint32_t mr_cpu_count(void) {
    cpu_set_t set;
    uint32_t count = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        count = (uint32_t)CPU_COUNT(&set);
    } else {
        long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t has bits */
        count = online > 0 ? (uint32_t)online : 1;
    }
    uint32_t limit = cgroup_cpus();
    count = count < limit ? count : limit;
    return count > 0 ? count : 1;
}
