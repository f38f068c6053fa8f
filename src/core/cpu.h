/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - which instructions may be used, and how many CPUs this process has. */
#ifndef MR_CORE_CPU_H
#define MR_CORE_CPU_H

#include <millrace/types.h>

enum {
    MR_CPU_AVX2 = 1u << 0,   /* AVX2, BMI, BMI2 and FMA together */
    MR_CPU_AVX512 = 1u << 1, /* F, BW, VL, DQ, VBMI, VBMI2 and VNNI together, with all of AVX2: Ice
                                Lake, Zen 4 and later. CPUs before those slow down for it. */
    MR_CPU_NEON = 1u << 2
};

/* What the CPU and the kernel offer, less the names in `disable` ("avx2,avx512", NULL: none). An
 * unknown name is refused. Disabling avx2 disables avx512 too. */
mr_status mr_cpu_features(const char *disable, uint32_t *out, mr_error *err);

/* "avx2", "avx2,avx512", or "none"; a literal. */
const char *mr_cpu_text(uint32_t features);

/* CPUs this process may use: affinity mask and cgroup quota, at least 1. */
uint32_t mr_cpu_count(void);

#endif
