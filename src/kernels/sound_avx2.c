/* SPDX-License-Identifier: Apache-2.0 */
/* sound_avx2.c - the loops of sound_body.h with vectors of 8: one value of each frame. Built for
 * AVX2 (CMakeLists.txt), without FMA. */
#include "kernels/sound.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef float real __attribute__((vector_size(32)));
typedef int32_t whole __attribute__((vector_size(32)));
#define STEP 8

#define AS_WHOLE(x) ((whole)(x))
#define AS_REAL(x) ((real)(x))
#define TO_REAL(x) __builtin_convertvector((x), real)
#define PICK(mask, a, b) ((real)(((whole)(a) & (whole)(mask)) | ((whole)(b) & ~(whole)(mask))))
#define ROOT(x) ((real)_mm256_sqrt_ps((__m256)(x)))
#include "kernels/sound_body.h"

const mr_sound_kernels mr_sound_avx2 = {power, filter, log_all, root_all};
#endif
