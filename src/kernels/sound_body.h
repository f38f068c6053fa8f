/* SPDX-License-Identifier: Apache-2.0 */
/* sound_body.h - the loops of sound.h for one kind of number, included by sound.c and sound_avx2.c.
 *
 * Before it stand: real, a float or a vector of them; whole, int32_t or a vector; STEP, how many
 * lanes a real has; AS_WHOLE and AS_REAL, the same bits; TO_REAL, the same value; PICK(mask, a, b),
 * a where the mask's bits are set; ROOT. */

typedef struct complex_real {
    real re, im;
} complex_real;

/* Value i of the lanes that begin at `at`; a complex number takes two values. */
static inline real get(const float *at, int32_t i) {
    return *(const real *)(at + (size_t)i * MR_LANES);
}

static inline void put(float *at, int32_t i, real value) {
    *(real *)(at + (size_t)i * MR_LANES) = value;
}

static inline complex_real get_complex(const float *at, int32_t i) {
    return (complex_real){get(at, 2 * i), get(at, 2 * i + 1)};
}

static inline complex_real add(complex_real a, complex_real b) {
    return (complex_real){a.re + b.re, a.im + b.im};
}

static inline complex_real subtract(complex_real a, complex_real b) {
    return (complex_real){a.re - b.re, a.im - b.im};
}

static inline complex_real scale(complex_real a, float by) {
    return (complex_real){a.re * by, a.im * by};
}

/* -i times a: a quarter turn in the transform's direction. */
static inline complex_real quarter(complex_real a) {
    return (complex_real){a.im, -a.re};
}

static inline void put_turned(float *at, int32_t i, complex_real a, const float *turn) {
    put(at, 2 * i, a.re * turn[0] - a.im * turn[1]);
    put(at, 2 * i + 1, a.re * turn[1] + a.im * turn[0]);
}

static inline void put_complex(float *at, int32_t i, complex_real a) {
    put(at, 2 * i, a.re);
    put(at, 2 * i + 1, a.im);
}

/* ---- Butterflies: `in` and `apart` values on, to `out` and `stride` values on ---- */
static inline void butterfly_2(const float *in, int32_t apart, float *out, int32_t stride,
                               const float *turns) {
    complex_real a = get_complex(in, 0), b = get_complex(in, apart);
    put_complex(out, 0, add(a, b));
    put_turned(out, stride, subtract(a, b), turns);
}

static inline void butterfly_3(const float *in, int32_t apart, float *out, int32_t stride,
                               const float *turns) {
    const float half_root_3 = 0x1.bb67aep-1f;
    complex_real a = get_complex(in, 0), b = get_complex(in, apart), c = get_complex(in, 2 * apart);
    complex_real sum = add(b, c), side = scale(quarter(subtract(b, c)), half_root_3);
    complex_real middle = subtract(a, scale(sum, 0.5f));
    put_complex(out, 0, add(a, sum));
    put_turned(out, stride, add(middle, side), turns);
    put_turned(out, 2 * stride, subtract(middle, side), turns + 2);
}

static inline void butterfly_4(const float *in, int32_t apart, float *out, int32_t stride,
                               const float *turns) {
    complex_real a = get_complex(in, 0), b = get_complex(in, apart), c = get_complex(in, 2 * apart),
                 d = get_complex(in, 3 * apart);
    complex_real ac = add(a, c), a_c = subtract(a, c), bd = add(b, d),
                 b_d = quarter(subtract(b, d));
    put_complex(out, 0, add(ac, bd));
    put_turned(out, stride, add(a_c, b_d), turns);
    put_turned(out, 2 * stride, subtract(ac, bd), turns + 2);
    put_turned(out, 3 * stride, subtract(a_c, b_d), turns + 4);
}

static inline void butterfly_5(const float *in, int32_t apart, float *out, int32_t stride,
                               const float *turns) {
    const float cos_1 = 0x1.3c6ef4p-2f, cos_2 = -0x1.9e377ap-1f; /* of 72 and 144 degrees */
    const float sin_1 = 0x1.e6f0e2p-1f, sin_2 = 0x1.2cf230p-1f;
    complex_real a = get_complex(in, 0), b = get_complex(in, apart), c = get_complex(in, 2 * apart),
                 d = get_complex(in, 3 * apart), e = get_complex(in, 4 * apart);
    complex_real be = add(b, e), cd = add(c, d), b_e = subtract(b, e), c_d = subtract(c, d);
    complex_real near = add(a, add(scale(be, cos_1), scale(cd, cos_2)));
    complex_real far = add(a, add(scale(be, cos_2), scale(cd, cos_1)));
    complex_real near_side = quarter(add(scale(b_e, sin_1), scale(c_d, sin_2)));
    complex_real far_side = quarter(subtract(scale(b_e, sin_2), scale(c_d, sin_1)));
    put_complex(out, 0, add(a, add(be, cd)));
    put_turned(out, stride, add(near, near_side), turns);
    put_turned(out, 2 * stride, add(far, far_side), turns + 2);
    put_turned(out, 3 * stride, subtract(far, far_side), turns + 4);
    put_turned(out, 4 * stride, subtract(near, near_side), turns + 6);
}

/* ---- Passes: Stockham's order, which needs no permutation ---- */
#define PASS(radix_)                                                                               \
    static void pass_##radix_(const mr_fft_pass *pass, const float *in, float *out) {              \
        int32_t span = pass->span, stride = pass->stride;                                          \
        for (int32_t p = 0; p < span; p++) {                                                       \
            const float *turns = pass->turns + (size_t)p * 2 * (radix_ - 1);                       \
            for (int32_t q = 0; q < stride; q++) {                                                 \
                butterfly_##radix_(in + (size_t)(q + stride * p) * 2 * MR_LANES, stride * span,    \
                                   out + (size_t)(q + stride * radix_ * p) * 2 * MR_LANES, stride, \
                                   turns);                                                         \
            }                                                                                      \
        }                                                                                          \
    }
PASS(2)
PASS(3)
PASS(4)
PASS(5)
#undef PASS

static void run_pass(const mr_fft_pass *pass, const float *in, float *out) {
    switch (pass->radix) {
    case 2:
        pass_2(pass, in, out);
        return;
    case 3:
        pass_3(pass, in, out);
        return;
    case 4:
        pass_4(pass, in, out);
        return;
    default:
        pass_5(pass, in, out);
    }
}

/* Even and odd numbers went in as real and imaginary parts; what comes out is taken apart again. */
static inline void put_power(const mr_fft *fft, const float *z, int32_t k, float *out) {
    int32_t half = fft->n / 2;
    complex_real a = get_complex(z, k == half ? 0 : k), b = get_complex(z, k == 0 ? 0 : half - k);
    const float *turn = fft->turns + (size_t)2 * (size_t)k;
    real even_re = (a.re + b.re) * 0.5f, even_im = (a.im - b.im) * 0.5f;
    real odd_re = (a.im + b.im) * 0.5f, odd_im = (b.re - a.re) * 0.5f;
    real re = even_re + (odd_re * turn[0] - odd_im * turn[1]);
    real im = even_im + (odd_re * turn[1] + odd_im * turn[0]);
    put(out, k, re * re + im * im);
}

static void power_lanes(const mr_fft *fft, float *data, float *work, float *out) {
    for (int32_t i = 0; i < fft->n_passes; i++) {
        run_pass(&fft->passes[i], data, work);
        float *swap = data;
        data = work;
        work = swap;
    }
    for (int32_t k = 0; k <= fft->n / 2; k++) {
        put_power(fft, data, k, out);
    }
}

static void power(const mr_fft *fft, float *data, float *work, float *out) {
    for (int lane = 0; lane < MR_LANES; lane += STEP) {
        power_lanes(fft, data + lane, work + lane, out + lane);
    }
}

static void filter_lanes(const mr_bank *bank, const float *in, float *out) {
    const float *weights = bank->weights;
    for (int32_t row = 0; row < bank->n_rows; row++) {
        real sum = TO_REAL((whole){0});
        for (int32_t i = 0; i < bank->count[row]; i++) {
            sum = sum + get(in, bank->from[row] + i) * weights[i];
        }
        put(out, row, sum);
        weights += bank->count[row];
    }
}

static void filter(const mr_bank *bank, const float *in, float *out) {
    for (int lane = 0; lane < MR_LANES; lane += STEP) {
        filter_lanes(bank, in + lane, out + lane);
    }
}

/* log x = e log 2 + log m with m between sqrt(1/2) and sqrt(2), log m = 2 atanh((m - 1) / (m + 1)).
 * Within two units in the last place. */
static inline real log_of(real x) {
    whole bits = AS_WHOLE(PICK(x < 0x1p-126f, TO_REAL((whole){0}) + 0x1p-126f, x));
    whole exponent = (bits - 0x3F3504F3) >> 23;
    real m = AS_REAL(bits - exponent * (1 << 23));
    real s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
    real sum = s2 * 0x1.745d18p-4f + 0x1.c71c72p-4f; /* 1 / 11, 1 / 9 */
    sum = sum * s2 + 0x1.24924ap-3f;
    sum = sum * s2 + 0x1.99999ap-3f;
    sum = sum * s2 + 0x1.555556p-2f;
    real tail = sum * s2 * s, e = TO_REAL(exponent);
    real result = e * 0x1.62e4p-1f + (2.0f * s + (2.0f * tail + e * 0x1.7f7d1cp-20f));
    return PICK(x == x, result, x);
}

static void log_all(float *data, size_t n, float offset, float by) {
    for (size_t i = 0; i < n * MR_LANES; i += STEP) {
        real x = *(const real *)(data + i) + offset;
        *(real *)(data + i) = log_of(x) * by;
    }
}

static void root_all(float *data, size_t n) {
    for (size_t i = 0; i < n * MR_LANES; i += STEP) {
        *(real *)(data + i) = ROOT(*(const real *)(data + i));
    }
}
