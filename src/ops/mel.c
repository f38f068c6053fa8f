/* SPDX-License-Identifier: Apache-2.0 */
/* mel.c - triangular filters on the mel scale. Made in float64 of our own exp and log: the same
 * weights on every machine, torchaudio's to within its float32. */
#include "ops/mel.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

const char *const mr_mel_scales[] = {"htk", "slaney", NULL};
enum { SCALE_HTK };

/* Of an odd rate the whole part, as torchaudio has it. */
static double half_rate(const mr_mel_params *p) {
    int64_t half = p->sample_rate / 2;
    return (double)half;
}

mr_status mr_mel_check(mr_mel_params *p, mr_error *err) {
    MR_TRY(mr_stft_check(&p->stft, err));
    double half = (double)p->sample_rate / 2.0;
    p->f_max = p->f_max > 0.0 ? p->f_max : half_rate(p);
    if (!(p->f_min < p->f_max) || p->f_max > half) {
        return mr_fail(err, MR_E_PARAM,
                       "f_min (%g) must be below f_max (%g), which is at most half of sample_rate",
                       p->f_min, p->f_max);
    }
    return MR_OK;
}

/* ---- The scale ---- */
static const double LN_10 = 0x1.26bb1bbb55516p+1;
static const double SLANEY_STEP = 200.0 / 3.0; /* linear up to 1000 Hz, then logarithmic */
static const double SLANEY_KNEE = 1000.0;
static const double SLANEY_LOG = 0x1.199b76b9099dcp-4; /* log(6.4) / 27 */

static double mel_of(int32_t scale, double hertz) {
    if (scale == SCALE_HTK) {
        return 2595.0 * (mr_exact_log(1.0 + hertz / 700.0) / LN_10);
    }
    return hertz < SLANEY_KNEE
               ? hertz / SLANEY_STEP
               : SLANEY_KNEE / SLANEY_STEP + mr_exact_log(hertz / SLANEY_KNEE) / SLANEY_LOG;
}

static double hertz_of(int32_t scale, double mel) {
    if (scale == SCALE_HTK) {
        return 700.0 * (mr_exact_exp(mel / 2595.0 * LN_10) - 1.0);
    }
    double knee = SLANEY_KNEE / SLANEY_STEP;
    return mel < knee ? mel * SLANEY_STEP : SLANEY_KNEE * mr_exact_exp(SLANEY_LOG * (mel - knee));
}

/* ---- The filters ---- */
typedef struct triangle {
    double from, peak, to;
} triangle;

static triangle triangle_of(const mr_mel_params *p, int64_t row) {
    double low = mel_of(p->mel_scale, p->f_min), high = mel_of(p->mel_scale, p->f_max);
    double step = (high - low) / (double)(p->n_mels + 1);
    return (triangle){hertz_of(p->mel_scale, low + step * (double)row),
                      hertz_of(p->mel_scale, low + step * (double)(row + 1)),
                      hertz_of(p->mel_scale, low + step * (double)(row + 2))};
}

static double weight_at(const triangle *t, double hertz) {
    double up = (hertz - t->from) / (t->peak - t->from), down = (t->to - hertz) / (t->to - t->peak);
    double least = up < down ? up : down;
    return least > 0.0 ? least : 0.0;
}

/* One filter's weights from its first bin that is not 0 on; how many there are. */
static int32_t make_row(const mr_mel_params *p, int64_t row, int32_t *from, float *weights) {
    triangle t = triangle_of(p, row);
    int32_t bins = (int32_t)(p->stft.n_fft / 2 + 1), n = 0;
    double norm = p->norm ? 2.0 / (t.to - t.from) : 1.0;
    *from = 0;
    for (int32_t bin = 0; bin < bins; bin++) {
        double hertz = half_rate(p) * bin / (bins - 1);
        float weight = (float)(weight_at(&t, hertz) * norm);
        if (weight > 0.0f || n > 0) {
            *from = n == 0 ? bin : *from;
            weights[n++] = weight;
        }
    }
    while (n > 0 && weights[n - 1] == 0.0f) {
        n--;
    }
    return n;
}

static mr_status make_bank(mr_mel *mel, const mr_mel_params *p, mr_error *err) {
    size_t rows = (size_t)p->n_mels, bins = (size_t)p->stft.n_fft / 2 + 1;
    /* Filters overlap each other by half, so that a bin is in two; a row is made at full length. */
    size_t numbers = 2 * rows + 3 * bins + 2 * rows;
    int32_t *from = mel->memory = mr_zalloc(numbers, sizeof(float));
    if (!from) {
        return mr_fail_memory(err, numbers * sizeof(float));
    }
    int32_t *count = from + rows;
    float *weights = (float *)(count + rows);
    mel->bank = (mr_bank){(int32_t)rows, from, count, weights};
    for (size_t row = 0; row < rows; row++) {
        count[row] = make_row(p, (int64_t)row, &from[row], weights);
        weights += count[row];
    }
    return MR_OK;
}

mr_status mr_mel_open(mr_mel *mel, const mr_mel_params *p, mr_error *err) {
    MR_TRY(mr_stft_open(&mel->stft, &p->stft, err));
    return make_bank(mel, p, err);
}

void mr_mel_close(mr_mel *mel) {
    mr_stft_close(&mel->stft);
    mr_free(mel->memory);
}
