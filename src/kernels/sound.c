/* SPDX-License-Identifier: Apache-2.0 */
/* sound.c - tables of the transforms, and the scalar reference of the loops. */
#include "kernels/sound.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

/* ---- Tables ---- */
/* cos and sin of an angle up to pi / 4, by their series. */
static void small_turn(double angle, double *cosine, double *sine) {
    double square = angle * angle, c = 1.0, s = 1.0;
    for (int i = 20; i >= 2; i -= 2) {
        c = 1.0 - c * square / (i * (i - 1));
        s = 1.0 - s * square / (i * (i + 1));
    }
    *cosine = c;
    *sine = s * angle;
}

void mr_turn(int64_t k, int64_t n, double *cosine, double *sine) {
    const double pi = 0x1.921fb54442d18p+1;
    int64_t eighth = 8 * k / n;         /* of the circle */
    int64_t quarter = (eighth + 1) / 2; /* nearest quarter */
    int64_t rest = 4 * k - quarter * n; /* 4 n-ths from there, at most n / 2 */
    double c = 1.0, s = 0.0;
    small_turn(pi * (double)(rest < 0 ? -rest : rest) / (double)(2 * n), &c, &s);
    s = rest < 0 ? -s : s;
    const double turned[4][2] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    *cosine = turned[quarter % 4][0];
    *sine = turned[quarter % 4][1];
}

bool mr_fft_can(int64_t n) {
    if (n < 2 || n > MR_FFT_MAX || n % 2 != 0) {
        return false;
    }
    int64_t rest = n / 2;
    for (int64_t prime = 2; prime <= 5; prime++) {
        while (rest % prime == 0) {
            rest /= prime;
        }
    }
    return rest == 1;
}

static int32_t next_radix(int32_t rest) {
    return rest % 4 == 0 ? 4 : rest % 2 == 0 ? 2 : rest % 3 == 0 ? 3 : 5;
}

/* The transform turns clockwise: sines are negative. */
static float *put_turn(float *out, int64_t k, int64_t n) {
    double c = 0.0, s = 0.0;
    mr_turn(k % n, n, &c, &s);
    out[0] = (float)c;
    out[1] = (float)-s;
    return out + 2;
}

static float *make_pass(mr_fft_pass *pass, int32_t rest, int32_t stride, float *out) {
    *pass = (mr_fft_pass){.radix = next_radix(rest), .stride = stride, .turns = out};
    pass->span = rest / pass->radix;
    for (int32_t p = 0; p < pass->span; p++) {
        for (int32_t j = 1; j < pass->radix; j++) {
            out = put_turn(out, (int64_t)j * p, rest);
        }
    }
    return out;
}

mr_status mr_fft_make(mr_fft *fft, int32_t n, mr_error *err) {
    int32_t half = n / 2, rest = half;
    /* The passes' tables: less than half of it each time, and half + 1 numbers of the last step. */
    *fft = (mr_fft){.n = n, .memory = mr_zalloc((size_t)half * 5 + 8, sizeof *fft->memory)};
    if (!fft->memory) {
        return mr_fail_memory(err, (size_t)half * 5 * sizeof *fft->memory);
    }
    float *out = fft->memory;
    fft->turns = out;
    for (int32_t k = 0; k <= half; k++) {
        out = put_turn(out, k, n);
    }
    while (rest > 1) {
        out = make_pass(&fft->passes[fft->n_passes++], rest, half / rest, out);
        rest = fft->passes[fft->n_passes - 1].span;
    }
    return MR_OK;
}

void mr_fft_free(mr_fft *fft) {
    mr_free(fft->memory);
    *fft = (mr_fft){0};
}

/* ---- One number at a time ---- */
typedef float real;
typedef int32_t whole;
#define STEP 1

static inline int32_t bits_of(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define AS_WHOLE(x) bits_of(x)
#define AS_REAL(x) float_of(x)
#define TO_REAL(x) ((float)(x))
#define PICK(mask, a, b) ((mask) ? (a) : (b))
#define ROOT(x) sqrtf(x)
#include "kernels/sound_body.h"

const mr_sound_kernels mr_sound_scalar = {power, filter, log_all, root_all};
