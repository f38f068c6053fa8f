/* SPDX-License-Identifier: Apache-2.0 */
/* avx512.h - how a function of the kernels says that it is compiled for AVX-512: for all that
 * MR_CPU_AVX512 asks a CPU for. For x86-64 alone. */
#ifndef MR_KERNELS_AVX512_H
#define MR_KERNELS_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,"             \
                          "avx512vnni,bmi2")))
#define AVX512_INLINE static inline AVX512 __attribute__((always_inline))

/* The first n of 64. */
AVX512_INLINE __mmask64 first_64(size_t n) {
    return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

#endif
