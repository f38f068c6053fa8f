/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - which variants run on which CPU. */
#include "kernels/kernels.h"

#include "core/cpu.h"
#include "kernels/sound.h"

static const mr_kernels scalar = {
    .name = "scalar",
    .resample_rows = mr_resample_rows_scalar,
    .resample_columns = mr_resample_columns_scalar,
    .lookup_32 = mr_lookup_32_scalar,
    .lookup_16 = mr_lookup_16_scalar,
    .normalize = mr_normalize_scalar,
    .split = mr_split_scalar,
    .mirror = mr_mirror_scalar,
    .sound = &mr_sound_scalar,
    .jpeg = {.idct = mr_jpeg_idct_scalar,
             .widen = mr_jpeg_widen_scalar,
             .heighten = mr_jpeg_heighten_scalar,
             .enlarge = mr_jpeg_enlarge_scalar,
             .to_rgb = mr_jpeg_to_rgb_scalar,
             .unstuff = mr_jpeg_unstuff_scalar},
};

#if defined(__x86_64__)
static const mr_kernels avx2 = {
    .name = "avx2",
    .split_taps = mr_split_taps_avx2,
    .resample_rows = mr_resample_rows_avx2,
    .resample_columns = mr_resample_columns_avx2,
    .lookup_32 = mr_lookup_32_avx2,
    .lookup_16 = mr_lookup_16_avx2,
    .normalize = mr_normalize_avx2,
    .split = mr_split_avx2,
    .mirror = mr_mirror_avx2,
    .sound = &mr_sound_avx2,
    .jpeg = {.idct = mr_jpeg_idct_avx2,
             .widen = mr_jpeg_widen_avx2,
             .heighten = mr_jpeg_heighten_avx2,
             .enlarge = mr_jpeg_enlarge_avx2,
             .to_rgb = mr_jpeg_to_rgb_avx2,
             .unstuff = mr_jpeg_unstuff_avx2},
    .cpu = MR_CPU_AVX2,
};

/* Where a kernel gains little from wider vectors, that of AVX2. */
static const mr_kernels avx512 = {
    .name = "avx512",
    .split_taps = mr_split_taps_avx512,
    .resample_rows = mr_resample_rows_avx512,
    .resample_columns = mr_resample_columns_avx512,
    .lookup_32 = mr_lookup_32_avx2,
    .lookup_16 = mr_lookup_16_avx2,
    .normalize = mr_normalize_avx512,
    .split = mr_split_avx2,
    .mirror = mr_mirror_avx2,
    .sound = &mr_sound_avx2,
    .jpeg = {.idct = mr_jpeg_idct_avx2,
             .widen = mr_jpeg_widen_avx512,
             .heighten = mr_jpeg_heighten_avx512,
             .enlarge = mr_jpeg_enlarge_avx512,
             .to_rgb = mr_jpeg_to_rgb_avx512,
             .unstuff = mr_jpeg_unstuff_avx2},
    .cpu = MR_CPU_AVX2 | MR_CPU_AVX512,
};
#endif

const mr_kernels *mr_kernels_for(uint32_t cpu_features) {
#if defined(__x86_64__)
    if (cpu_features & MR_CPU_AVX512) {
        return &avx512;
    }
    if (cpu_features & MR_CPU_AVX2) {
        return &avx2;
    }
#endif
    (void)cpu_features;
    return &scalar;
}
