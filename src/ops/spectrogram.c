/* SPDX-License-Identifier: Apache-2.0 */
/* spectrogram.c - the op spectrogram: how strong each frequency is in each short stretch of sound.
 */
#include "ops/stft.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

typedef struct spectrogram_params {
    mr_stft_params stft;
} spectrogram_params;

static mr_status check(void *params, mr_error *err) {
    spectrogram_params *p = params;
    return mr_stft_check(&p->stft, err);
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const spectrogram_params *p = params;
    return mr_stft_plan(&p->stft, p->stft.n_fft / 2 + 1, in, out, err);
}

static mr_status open_stft(const void *params, void **state, mr_error *err) {
    const spectrogram_params *p = params;
    *state = mr_zalloc(1, sizeof(mr_stft));
    return *state ? mr_stft_open(*state, &p->stft, err) : mr_fail_memory(err, sizeof(mr_stft));
}

static void close_stft(void *state) {
    if (state) {
        mr_stft_close(state);
        mr_free(state);
    }
}

static void keep_frames(void *user, float *bins, int64_t first, int64_t n) {
    mr_stft_store(user, bins, first, n);
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const spectrogram_params *p = params;
    for (int64_t channel = 0; channel < mr_stft_channels(&in->type); channel++) {
        mr_stft_out to = mr_stft_out_of(&p->stft, out, p->stft.n_fft / 2 + 1, channel);
        const mr_stft_sink sink = {keep_frames, &to};
        MR_TRY(mr_stft_run(call->state, &p->stft, call, in, channel, &sink, err));
    }
    return MR_OK;
}

static const mr_param rows[] = {MR_STFT_ROWS(spectrogram_params, stft), {.name = NULL}};

static const mr_example examples[] = {
    {"{\"n_fft\": 64}", "int16:700", "2832679c4c46d4c8d2fb4c45cc6f59fd"},
    {"{\"n_fft\": 60, \"win_length\": 40, \"hop_length\": 10, \"power\": \"1\", \"center\": false, "
     "\"layout\": \"time_freq\"}",
     "float32:200x2", "04f5e2d9c66d1bf1afc4d7c8d1af048a"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_spectrogram = {
    MR_OP_HEADER,
    .name = "spectrogram",
    .summary = "Turns sound into the strength of each frequency in short stretches.",
    .doc = "torchaudio's Spectrogram with the same parameters (normalized is false), computed in "
           "float32 and within its rounding errors; the bits are the same on every CPU. int16 and "
           "int32 count as parts of 2^15 and 2^31. [samples] becomes [n_fft / 2 + 1, frames], "
           "[samples, channels] becomes [channels, n_fft / 2 + 1, frames].",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(spectrogram_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = open_stft,
    .close = close_stft,
    .run = run,
    .examples = examples,
};
