/* SPDX-License-Identifier: Apache-2.0 */
/* stft.h - short-time Fourier transforms, which spectrogram, mel_spectrogram and mfcc share. What
 * is computed is torchaudio's Spectrogram: frames of n_fft samples, hop_length apart, under a
 * window of win_length in their middle; parameters have its names. Work is done for 8 frames at a
 * time. */
#ifndef MR_OPS_STFT_H
#define MR_OPS_STFT_H

#include <millrace/op.h>

#include "kernels/sound.h"

typedef struct mr_stft_params {
    int64_t n_fft, win_length, hop_length; /* after mr_stft_check none is 0 */
    int32_t window, pad_mode, power, layout;
    bool center;
} mr_stft_params;

enum { MR_POWER_1, MR_POWER_2 };
enum { MR_FREQ_TIME, MR_TIME_FREQ };
extern const char *const mr_stft_windows[], *const mr_stft_pads[], *const mr_stft_powers[],
                                                                       *const mr_stft_layouts[];

/* A worker's transform and its memory. */
typedef struct mr_stft {
    mr_fft fft;
    float *window;              /* n_fft numbers, 0 outside of win_length */
    float *data, *work, *power; /* for 8 frames */
    float *memory;
} mr_stft;

mr_status mr_stft_check(mr_stft_params *p, mr_error *err);
mr_status mr_stft_open(mr_stft *stft, const mr_stft_params *p, mr_error *err);
void mr_stft_close(mr_stft *stft);

/* Takes the numbers of `n` frames (8, at the end perhaps fewer) from frame `first` on:
 * (n_fft / 2 + 1) x 8 squares or magnitudes, which it may change. */
typedef struct mr_stft_sink {
    void (*frames)(void *user, float *bins, int64_t first, int64_t n);
    void *user;
} mr_stft_sink;

/* The output's type with `bins` numbers for each frame: [bins, frames], with channels
 * [channels, bins, frames]; time_freq exchanges the last two. */
mr_status mr_stft_plan(const mr_stft_params *p, int64_t bins, const mr_type *in, mr_type *out,
                       mr_error *err);

/* How many channels and frames an input has. */
int64_t mr_stft_channels(const mr_type *in);
int64_t mr_stft_frames(const mr_stft_params *p, int64_t samples);

/* Transforms one channel. */
mr_status mr_stft_run(mr_stft *stft, const mr_stft_params *p, mr_call *call, const mr_view *in,
                      int64_t channel, const mr_stft_sink *sink, mr_error *err);

/* Where results go. */
typedef struct mr_stft_out {
    float *data; /* of one channel */
    int64_t bins, frames;
    int32_t layout;
} mr_stft_out;

mr_stft_out mr_stft_out_of(const mr_stft_params *p, const mr_view *out, int64_t bins,
                           int64_t channel);
void mr_stft_store(const mr_stft_out *out, const float *lanes, int64_t first, int64_t n);

/* Scratch for lanes: rows x 8 numbers, aligned. */
float *mr_lanes(mr_call *call, int64_t rows);

#define MR_STFT_ROWS(struct_, member_)                                                             \
    {.name = "n_fft",                                                                              \
     .kind = MR_PARAM_INT,                                                                         \
     .offset = offsetof(struct_, member_.n_fft),                                                   \
     .fallback = "400",                                                                            \
     .min = 2,                                                                                     \
     .max = MR_FFT_MAX,                                                                            \
     .doc = "Samples in a transform: even, and without prime factors above 5."},                   \
        {.name = "win_length",                                                                     \
         .kind = MR_PARAM_INT,                                                                     \
         .offset = offsetof(struct_, member_.win_length),                                          \
         .fallback = "0",                                                                          \
         .min = 0,                                                                                 \
         .max = MR_FFT_MAX,                                                                        \
         .doc = "Samples under the window, in the middle of n_fft; 0: n_fft."},                    \
        {.name = "hop_length",                                                                     \
         .kind = MR_PARAM_INT,                                                                     \
         .offset = offsetof(struct_, member_.hop_length),                                          \
         .fallback = "0",                                                                          \
         .min = 0,                                                                                 \
         .max = 2147483647,                                                                        \
         .doc = "Samples from one frame to the next; 0: half of win_length."},                     \
        {.name = "window",                                                                         \
         .kind = MR_PARAM_CHOICE,                                                                  \
         .offset = offsetof(struct_, member_.window),                                              \
         .fallback = "\"hann\"",                                                                   \
         .choices = mr_stft_windows,                                                               \
         .doc = "The window's form; hann and hamming are the periodic ones."},                     \
        {.name = "power",                                                                          \
         .kind = MR_PARAM_CHOICE,                                                                  \
         .offset = offsetof(struct_, member_.power),                                               \
         .fallback = "\"2\"",                                                                      \
         .choices = mr_stft_powers,                                                                \
         .doc = "\"2\" for squares of magnitudes, \"1\" for magnitudes."},                         \
        {.name = "center",                                                                         \
         .kind = MR_PARAM_BOOL,                                                                    \
         .offset = offsetof(struct_, member_.center),                                              \
         .fallback = "true",                                                                       \
         .doc = "Whether frame k has its middle at sample k x hop_length, so that the signal is "  \
                "continued by n_fft / 2 on both ends, or its beginning."},                         \
        {.name = "pad_mode",                                                                       \
         .kind = MR_PARAM_CHOICE,                                                                  \
         .offset = offsetof(struct_, member_.pad_mode),                                            \
         .fallback = "\"reflect\"",                                                                \
         .choices = mr_stft_pads,                                                                  \
         .doc = "How the signal is continued: mirrored, or with zeros."},                          \
    {                                                                                              \
        .name = "layout", .kind = MR_PARAM_CHOICE, .offset = offsetof(struct_, member_.layout),    \
        .fallback = "\"freq_time\"", .choices = mr_stft_layouts,                                   \
        .doc = "Which axis is the last; torchaudio has time there."                                \
    }

#endif
