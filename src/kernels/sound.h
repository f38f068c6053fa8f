/* SPDX-License-Identifier: Apache-2.0 */
/* sound.h - Fourier transforms of real signals, filter banks and logarithms, for 8 frames at a
 * time.
 *
 * Numbers of the 8 frames lie side by side: value i of frame f is at [8 * i + f]. So a vector holds
 * one value of each frame, every frame goes through the same operations in the same order whatever
 * the width of vectors, and nothing is ever shuffled. Trigonometric tables are made of IEEE
 * operations alone: the same bits on every machine. */
#ifndef MR_KERNELS_SOUND_H
#define MR_KERNELS_SOUND_H

#include <millrace/types.h>

#define MR_LANES 8
#define MR_FFT_MAX 65536
#define MR_FFT_FACTORS 16

/* One pass: values become groups of `radix`, `span` of them, at distance `stride`. */
typedef struct mr_fft_pass {
    int32_t radix, span, stride;
    const float *turns; /* (radix - 1) complex numbers for each place of the span */
} mr_fft_pass;

/* A transform of n real numbers through one of n / 2 complex ones. */
typedef struct mr_fft {
    int32_t n, n_passes;
    mr_fft_pass passes[MR_FFT_FACTORS];
    const float *turns; /* of the last step, n / 2 + 1 complex numbers */
    float *memory;      /* what the tables lie in */
} mr_fft;

/* Whether n is even and n / 2 has no prime factor above 5. */
bool mr_fft_can(int64_t n);
mr_status mr_fft_make(mr_fft *fft, int32_t n, mr_error *err);
void mr_fft_free(mr_fft *fft); /* a zeroed one is allowed */

/* Rows of a matrix that are zero but for one stretch each. */
typedef struct mr_bank {
    int32_t n_rows;
    const int32_t *from;  /* of each row, the first column that is not zero */
    const int32_t *count; /* and how many there are */
    const float *weights; /* one row's after the other's */
} mr_bank;

typedef struct mr_sound_kernels {
    /* data: n x 8 numbers, destroyed; work: as many; out: (n / 2 + 1) x 8 squares of magnitudes.
     * All aligned to 32 bytes. */
    void (*power)(const mr_fft *fft, float *data, float *work, float *out);
    /* out: n_rows x 8. */
    void (*filter)(const mr_bank *bank, const float *in, float *out);
    /* n x 8 numbers: scale * log(x + offset) in place, numbers below 2^-126 counting as that. */
    void (*log)(float *data, size_t n, float offset, float scale);
    /* n x 8 numbers: square roots in place. */
    void (*root)(float *data, size_t n);
} mr_sound_kernels;

extern const mr_sound_kernels mr_sound_scalar;
#if defined(__x86_64__)
extern const mr_sound_kernels mr_sound_avx2;
#endif

/* cos and sin of 2 pi k / n, 0 <= k < n, correct to the last bits of float64. */
void mr_turn(int64_t k, int64_t n, double *cosine, double *sine);

#endif
