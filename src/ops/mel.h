/* SPDX-License-Identifier: Apache-2.0 */
/* mel.h - spectrograms on the mel scale, which mel_spectrogram and mfcc share: torchaudio's
 * melscale_fbanks over a short-time Fourier transform. */
#ifndef MR_OPS_MEL_H
#define MR_OPS_MEL_H

#include "ops/stft.h"

typedef struct mr_mel_params {
    mr_stft_params stft;
    int64_t sample_rate, n_mels;
    double f_min, f_max; /* after mr_mel_check f_max is not 0 */
    int32_t mel_scale;
    bool norm;
} mr_mel_params;

extern const char *const mr_mel_scales[];

typedef struct mr_mel {
    mr_stft stft;
    mr_bank bank;
    void *memory;
} mr_mel;

mr_status mr_mel_check(mr_mel_params *p, mr_error *err);
mr_status mr_mel_open(mr_mel *mel, const mr_mel_params *p, mr_error *err);
void mr_mel_close(mr_mel *mel);

#define MR_MEL_ROWS(struct_, member_)                                                              \
    {.name = "sample_rate",                                                                        \
     .kind = MR_PARAM_INT,                                                                         \
     .offset = offsetof(struct_, member_.sample_rate),                                             \
     .fallback = "16000",                                                                          \
     .min = 1,                                                                                     \
     .max = 1 << 24,                                                                               \
     .doc = "Samples in a second, which the filters' frequencies refer to."},                      \
        MR_STFT_ROWS(struct_, member_.stft),                                                       \
        {.name = "n_mels",                                                                         \
         .kind = MR_PARAM_INT,                                                                     \
         .offset = offsetof(struct_, member_.n_mels),                                              \
         .fallback = "128",                                                                        \
         .min = 1,                                                                                 \
         .max = 4096,                                                                              \
         .doc = "How many filters."},                                                              \
        {.name = "f_min",                                                                          \
         .kind = MR_PARAM_FLOAT,                                                                   \
         .offset = offsetof(struct_, member_.f_min),                                               \
         .fallback = "0",                                                                          \
         .min = 0,                                                                                 \
         .max = 1 << 24,                                                                           \
         .doc = "Where the first filter begins, in Hz."},                                          \
        {.name = "f_max",                                                                          \
         .kind = MR_PARAM_FLOAT,                                                                   \
         .offset = offsetof(struct_, member_.f_max),                                               \
         .fallback = "0",                                                                          \
         .min = 0,                                                                                 \
         .max = 1 << 24,                                                                           \
         .doc = "Where the last filter ends, in Hz; 0: half of sample_rate."},                     \
        {.name = "mel_scale",                                                                      \
         .kind = MR_PARAM_CHOICE,                                                                  \
         .offset = offsetof(struct_, member_.mel_scale),                                           \
         .fallback = "\"htk\"",                                                                    \
         .choices = mr_mel_scales,                                                                 \
         .doc = "Which mel scale."},                                                               \
    {                                                                                              \
        .name = "norm", .kind = MR_PARAM_BOOL, .offset = offsetof(struct_, member_.norm),          \
        .fallback = "false", .doc = "Divide each filter by its width, torchaudio's \"slaney\"."    \
    }

#endif
