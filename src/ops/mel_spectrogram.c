/* SPDX-License-Identifier: Apache-2.0 */
/* mel_spectrogram.c - the op mel_spectrogram: a spectrogram in bands as wide as hearing has them,
 * as a rule with the logarithm taken. */
#include "ops/mel.h"

#include "core/error.h"
#include "core/memory.h"
#include "kernels/kernels.h"

#include <millrace/millrace.h>

typedef struct mel_params {
    mr_mel_params mel;
    int32_t log;
    double log_offset;
} mel_params;

static const char *const log_names[] = {"none", "log", "log10", "db", NULL};
enum { LOG_NONE, LOG_NATURAL, LOG_10, LOG_DB };
static const float log_scales[] = {0.0f, 1.0f, 0x1.bcb7b2p-2f, 0x1.15f2cep+2f}; /* 10 / log 10 */

static mr_status check(void *params, mr_error *err) {
    mel_params *p = params;
    return mr_mel_check(&p->mel, err);
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mel_params *p = params;
    return mr_stft_plan(&p->mel.stft, p->mel.n_mels, in, out, err);
}

static mr_status open_mel(const void *params, void **state, mr_error *err) {
    const mel_params *p = params;
    *state = mr_zalloc(1, sizeof(mr_mel));
    return *state ? mr_mel_open(*state, &p->mel, err) : mr_fail_memory(err, sizeof(mr_mel));
}

static void close_mel(void *state) {
    if (state) {
        mr_mel_close(state);
        mr_free(state);
    }
}

typedef struct work {
    const mel_params *params;
    const mr_sound_kernels *kernels;
    const mr_mel *mel;
    float *bands;
    mr_stft_out to;
} work;

static void take_frames(void *user, float *bins, int64_t first, int64_t n) {
    const work *w = user;
    int32_t log = w->params->log;
    w->kernels->filter(&w->mel->bank, bins, w->bands);
    if (log != LOG_NONE) {
        w->kernels->log(w->bands, (size_t)w->mel->bank.n_rows, (float)w->params->log_offset,
                        log_scales[log]);
    }
    mr_stft_store(&w->to, w->bands, first, n);
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const mel_params *p = params;
    mr_mel *mel = call->state;
    work w = {.params = p,
              .kernels = call->kernels->sound,
              .mel = mel,
              .bands = mr_lanes(call, p->mel.n_mels)};
    if (!w.bands) {
        return mr_fail_memory(err, (size_t)p->mel.n_mels * MR_LANES * sizeof(float));
    }
    for (int64_t channel = 0; channel < mr_stft_channels(&in->type); channel++) {
        w.to = mr_stft_out_of(&p->mel.stft, out, p->mel.n_mels, channel);
        const mr_stft_sink sink = {take_frames, &w};
        MR_TRY(mr_stft_run(&mel->stft, &p->mel.stft, call, in, channel, &sink, err));
    }
    return MR_OK;
}

static const mr_param rows[] = {
    MR_MEL_ROWS(mel_params, mel),
    {.name = "log",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mel_params, log),
     .fallback = "\"none\"",
     .choices = log_names,
     .doc = "What is taken of the sums: nothing, log, log10, or 10 x log10."},
    {.name = "log_offset",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mel_params, log_offset),
     .fallback = "1e-8",
     .min = 0,
     .max = 1e9,
     .doc = "Added before the logarithm; sums below 2^-126 count as that."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"n_fft\": 128, \"n_mels\": 10}", "int16:700", "e8d5fccd3d8ee552ded1885caa3b42f4"},
    {"{\"n_fft\": 1024, \"win_length\": 320, \"hop_length\": 160, \"n_mels\": 80, \"power\": "
     "\"1\", "
     "\"log\": \"log\", \"layout\": \"time_freq\"}",
     "int16:4000", "b9c57d6c4650aadb0ed785869c434f30"},
    {"{\"n_fft\": 400, \"n_mels\": 20, \"mel_scale\": \"slaney\", \"norm\": true, \"log\": \"db\"}",
     "float32:900x2", "4f815c1a551ce6182c4b8ff97c9445c4"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_mel_spectrogram = {
    MR_OP_HEADER,
    .name = "mel_spectrogram",
    .summary = "Turns sound into a spectrogram on the mel scale, if wanted with its logarithm.",
    .doc =
        "torchaudio's MelSpectrogram with the same parameters, in float32 and within its rounding "
        "errors, then scale x log(x + log_offset); the bits are the same on every CPU. Types and "
        "shapes as spectrogram's, with n_mels in the place of n_fft / 2 + 1.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(mel_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = open_mel,
    .close = close_mel,
    .run = run,
    .examples = examples,
};
