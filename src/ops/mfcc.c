/* SPDX-License-Identifier: Apache-2.0 */
/* mfcc.c - the op mfcc: mel-frequency cepstral coefficients, the cosine transform of a logarithmic
 * mel spectrogram. */
#include "ops/mel.h"

#include "core/error.h"
#include "core/memory.h"
#include "kernels/kernels.h"

#include <math.h>

#include <millrace/millrace.h>

typedef struct mfcc_params {
    mr_mel_params mel;
    int64_t n_mfcc;
    bool log_mels;
} mfcc_params;

/* A worker's mel filters, and the cosine transform as a bank of full rows. */
typedef struct mfcc {
    mr_mel mel;
    mr_bank cosines;
    void *memory;
} mfcc;

static mr_status check(void *params, mr_error *err) {
    mfcc_params *p = params;
    MR_TRY(mr_mel_check(&p->mel, err));
    if (p->n_mfcc > p->mel.n_mels) {
        return mr_fail(err, MR_E_PARAM, "n_mfcc (%lld) is more than n_mels (%lld)",
                       (long long)p->n_mfcc, (long long)p->mel.n_mels);
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mfcc_params *p = params;
    return mr_stft_plan(&p->mel.stft, p->n_mfcc, in, out, err);
}

/* DCT-II with orthonormal rows. */
static double cosine_at(int64_t row, int64_t column, int64_t n) {
    double cosine = 0.0, sine = 0.0;
    mr_turn((2 * column + 1) * row % (4 * n), 4 * n, &cosine, &sine);
    return cosine * sqrt((row == 0 ? 1.0 : 2.0) / (double)n);
}

static mr_status make_cosines(mfcc *m, const mfcc_params *p, mr_error *err) {
    size_t rows = (size_t)p->n_mfcc, columns = (size_t)p->mel.n_mels;
    int32_t *from = m->memory = mr_zalloc(2 * rows + rows * columns, sizeof(float));
    if (!from) {
        return mr_fail_memory(err, rows * columns * sizeof(float));
    }
    int32_t *count = from + rows;
    float *weights = (float *)(count + rows);
    m->cosines = (mr_bank){(int32_t)rows, from, count, weights};
    for (size_t row = 0; row < rows; row++) {
        count[row] = (int32_t)columns;
        for (size_t column = 0; column < columns; column++) {
            *weights++ = (float)cosine_at((int64_t)row, (int64_t)column, (int64_t)columns);
        }
    }
    return MR_OK;
}

static mr_status open_mfcc(const void *params, void **state, mr_error *err) {
    const mfcc_params *p = params;
    mfcc *m = *state = mr_zalloc(1, sizeof *m);
    if (!m) {
        return mr_fail_memory(err, sizeof *m);
    }
    MR_TRY(mr_mel_open(&m->mel, &p->mel, err));
    return make_cosines(m, p, err);
}

static void close_mfcc(void *state) {
    mfcc *m = state;
    if (m) {
        mr_mel_close(&m->mel);
        mr_free(m->memory);
        mr_free(m);
    }
}

/* All bands of all frames, since decibels are cut off below the strongest. */
typedef struct work {
    const mfcc_params *params;
    const mr_sound_kernels *kernels;
    const mfcc *m;
    float *bands;  /* of all frames, group after group */
    float highest; /* of the decibels */
} work;

static float *group_at(const work *w, int64_t first) {
    return w->bands + first * w->params->mel.n_mels;
}

static void note_highest(work *w, const float *bands, int64_t n) {
    for (int64_t i = 0; i < w->params->mel.n_mels; i++) {
        for (int64_t lane = 0; lane < n; lane++) {
            float value = bands[i * MR_LANES + lane];
            w->highest = value > w->highest ? value : w->highest;
        }
    }
}

static void take_frames(void *user, float *bins, int64_t first, int64_t n) {
    work *w = user;
    float *bands = group_at(w, first);
    w->kernels->filter(&w->m->mel.bank, bins, bands);
    if (w->params->log_mels) {
        w->kernels->log(bands, (size_t)w->params->mel.n_mels, 1e-6f, 1.0f);
        return;
    }
    for (int64_t i = 0; i < w->params->mel.n_mels * MR_LANES; i++) {
        bands[i] = bands[i] > 1e-10f ? bands[i] : 1e-10f;
    }
    w->kernels->log(bands, (size_t)w->params->mel.n_mels, 0.0f, 0x1.15f2cep+2f);
    note_highest(w, bands, n);
}

static void finish_groups(const work *w, const mr_stft_out *to, float *memory) {
    float floor = w->params->log_mels ? -INFINITY : w->highest - 80.0f;
    for (int64_t first = 0; first < to->frames; first += MR_LANES) {
        float *bands = group_at(w, first);
        int64_t n = to->frames - first < MR_LANES ? to->frames - first : MR_LANES;
        for (int64_t i = 0; i < w->params->mel.n_mels * MR_LANES; i++) {
            bands[i] = bands[i] < floor ? floor : bands[i];
        }
        w->kernels->filter(&w->m->cosines, bands, memory);
        mr_stft_store(to, memory, first, n);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const mfcc_params *p = params;
    mfcc *m = call->state;
    int64_t frames = mr_stft_frames(&p->mel.stft, in->type.dims[0]);
    int64_t groups = (frames + MR_LANES - 1) / MR_LANES;
    float *memory = mr_lanes(call, p->n_mfcc);
    work w = {.params = p, .kernels = call->kernels->sound, .m = m};
    w.bands = mr_lanes(call, groups * p->mel.n_mels);
    if (!memory || !w.bands) {
        return mr_fail_memory(err, (size_t)(groups * p->mel.n_mels) * MR_LANES * sizeof(float));
    }
    for (int64_t channel = 0; channel < mr_stft_channels(&in->type); channel++) {
        mr_stft_out to = mr_stft_out_of(&p->mel.stft, out, p->n_mfcc, channel);
        const mr_stft_sink sink = {take_frames, &w};
        w.highest = -INFINITY;
        MR_TRY(mr_stft_run(&m->mel.stft, &p->mel.stft, call, in, channel, &sink, err));
        finish_groups(&w, &to, memory);
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "n_mfcc",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mfcc_params, n_mfcc),
     .fallback = "40",
     .min = 1,
     .max = 4096,
     .doc = "How many coefficients are kept."},
    {.name = "log_mels",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mfcc_params, log_mels),
     .fallback = "false",
     .doc = "log(x + 1e-6) instead of decibels that end 80 below the strongest."},
    MR_MEL_ROWS(mfcc_params, mel),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"n_fft\": 128, \"n_mels\": 10, \"n_mfcc\": 6}", "int16:700",
     "046d92511f896e724c71dee8cb296556"},
    {"{\"n_fft\": 400, \"n_mels\": 40, \"n_mfcc\": 13, \"log_mels\": true, \"layout\": "
     "\"time_freq\"}",
     "float32:900x2", "63645d5c54499f2dc65d5c54355b9778"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_mfcc = {
    MR_OP_HEADER,
    .name = "mfcc",
    .summary = "Turns sound into mel-frequency cepstral coefficients.",
    .doc = "torchaudio's MFCC with the same parameters (dct_type 2, norm ortho, top_db 80 of each "
           "channel), in float32 and within its rounding errors; the bits are the same on every "
           "CPU. norm is the filters' here.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(mfcc_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = open_mfcc,
    .close = close_mfcc,
    .run = run,
    .examples = examples,
};
