/* SPDX-License-Identifier: Apache-2.0 */
/* stft.c - frames of a signal, windowed and transformed. */
#include "ops/stft.h"

#include "core/error.h"
#include "core/memory.h"
#include "kernels/kernels.h"
#include "ops/numbers.h"

#include <millrace/millrace.h>

const char *const mr_stft_windows[] = {"hann", "hamming", "ones", NULL};
const char *const mr_stft_pads[] = {"reflect", "constant", NULL};
const char *const mr_stft_powers[] = {"1", "2", NULL};
const char *const mr_stft_layouts[] = {"freq_time", "time_freq", NULL};
enum { WINDOW_HANN, WINDOW_HAMMING };
enum { PAD_REFLECT };

/* ---- Parameters ---- */
mr_status mr_stft_check(mr_stft_params *p, mr_error *err) {
    if (!mr_fft_can(p->n_fft)) {
        mr_fail(err, MR_E_PARAM, "n_fft is %lld: it must be even, without prime factors above 5",
                (long long)p->n_fft);
        mr_hint(err, "512, 1024 and 400 are such numbers");
        return MR_E_PARAM;
    }
    p->win_length = p->win_length ? p->win_length : p->n_fft;
    p->hop_length = p->hop_length ? p->hop_length : p->win_length / 2;
    if (p->win_length > p->n_fft || p->hop_length < 1) {
        return mr_fail(err, MR_E_PARAM, "win_length is %lld, must be from 2 to n_fft (%lld)",
                       (long long)p->win_length, (long long)p->n_fft);
    }
    return MR_OK;
}

static double window_at(int32_t form, int64_t i, int64_t n) {
    double cosine = 0.0, sine = 0.0;
    mr_turn(i, n, &cosine, &sine);
    return form == WINDOW_HANN      ? 0.5 - 0.5 * cosine
           : form == WINDOW_HAMMING ? 0.54 - 0.46 * cosine
                                    : 1.0;
}

mr_status mr_stft_open(mr_stft *stft, const mr_stft_params *p, mr_error *err) {
    size_t n = (size_t)p->n_fft, lanes = n * MR_LANES;
    size_t spare = 2 * (size_t)MR_LANES; /* behind the power of n / 2 + 1 bins, for small n */
    size_t size = (3 * lanes + spare + n) * sizeof(float) + MR_ALIGN;
    MR_TRY(mr_fft_make(&stft->fft, (int32_t)n, err));
    stft->memory = mr_default_allocator.alloc(NULL, size, MR_ALIGN);
    if (!stft->memory) {
        return mr_fail_memory(err, size);
    }
    stft->data = stft->memory;
    stft->work = stft->data + lanes;
    stft->power = stft->work + lanes;
    stft->window = stft->power + lanes + spare;
    memset(stft->window, 0, n * sizeof(float));
    int64_t left = (p->n_fft - p->win_length) / 2;
    for (int64_t i = 0; i < p->win_length; i++) {
        stft->window[left + i] = (float)window_at(p->window, i, p->win_length);
    }
    return MR_OK;
}

void mr_stft_close(mr_stft *stft) {
    mr_fft_free(&stft->fft);
    if (stft->memory) {
        mr_default_allocator.release(NULL, stft->memory, 0);
        stft->memory = NULL;
    }
}

/* ---- Types ---- */
int64_t mr_stft_channels(const mr_type *in) {
    return in->n_dims == 2 ? in->dims[1] : 1;
}

static int64_t pad_of(const mr_stft_params *p) {
    return p->center ? p->n_fft / 2 : 0;
}

int64_t mr_stft_frames(const mr_stft_params *p, int64_t samples) {
    int64_t length = samples + 2 * pad_of(p);
    return length < p->n_fft ? 0 : 1 + (length - p->n_fft) / p->hop_length;
}

static mr_status check_input(const mr_stft_params *p, const mr_type *in, mr_error *err) {
    bool takes =
        in->dtype == MR_F32 || in->dtype == MR_F64 || in->dtype == MR_I16 || in->dtype == MR_I32;
    if (!takes || in->n_dims < 1 || in->n_dims > 2 || in->layout != MR_PLAIN) {
        char text[96];
        mr_fail(err, MR_E_TYPE, "needs sound, [samples] or [samples, channels], not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "put decode_audio before it");
        return MR_E_TYPE;
    }
    bool reflects = p->center && p->pad_mode == PAD_REFLECT;
    if (in->dims[0] >= 0 && reflects && in->dims[0] <= p->n_fft / 2) {
        mr_fail(err, MR_E_TYPE, "%lld samples cannot be mirrored by %lld", (long long)in->dims[0],
                (long long)p->n_fft / 2);
        mr_hint(err, "\"pad_mode\": \"constant\" takes sounds of any length");
        return MR_E_TYPE;
    }
    return MR_OK;
}

mr_status mr_stft_plan(const mr_stft_params *p, int64_t bins, const mr_type *in, mr_type *out,
                       mr_error *err) {
    MR_TRY(check_input(p, in, err));
    int64_t frames = in->dims[0] < 0 ? -1 : mr_stft_frames(p, in->dims[0]);
    *out = (mr_type){.dtype = MR_F32, .layout = MR_PLAIN};
    if (in->n_dims == 2) {
        out->dims[out->n_dims++] = in->dims[1];
    }
    out->dims[out->n_dims++] = p->layout == MR_FREQ_TIME ? bins : frames;
    out->dims[out->n_dims++] = p->layout == MR_FREQ_TIME ? frames : bins;
    if (mr_type_bytes(out) == -2) {
        return mr_fail(err, MR_E_TYPE, "so many frames fit into no memory");
    }
    return MR_OK;
}

/* ---- Signals ---- */
/* Whole numbers are parts of 2^15 or 2^31, as decoders have them. */
static void read_channel(const mr_view *in, int64_t channel, float *out) {
    size_t step = (size_t)mr_stft_channels(&in->type), n = (size_t)in->type.dims[0];
    size_t at = (size_t)channel;
    switch (in->type.dtype) {
    case MR_F32:
        for (size_t i = 0; i < n; i++, at += step) {
            out[i] = mr_load_f32(in->data, at);
        }
        return;
    case MR_F64:
        for (size_t i = 0; i < n; i++, at += step) {
            out[i] = (float)mr_load_f64(in->data, at);
        }
        return;
    case MR_I16:
        for (size_t i = 0; i < n; i++, at += step) {
            int16_t value;
            memcpy(&value, (const unsigned char *)in->data + 2 * at, sizeof value);
            out[i] = (float)value * 0x1p-15f;
        }
        return;
    default:
        for (size_t i = 0; i < n; i++, at += step) {
            out[i] = (float)mr_load_whole(MR_I32, in->data, at) * 0x1p-31f;
        }
    }
}

/* The signal's n numbers lie `pad` into memory; both ends are filled up. */
static void pad_signal(float *memory, int64_t n, int64_t pad, bool reflect) {
    float *signal = memory + pad;
    if (!reflect || n == 0) {
        memset(memory, 0, (size_t)pad * sizeof *memory);
        memset(signal + n, 0, (size_t)pad * sizeof *memory);
        return;
    }
    for (int64_t i = 1; i <= pad; i++) {
        signal[-i] = signal[i];
        signal[n - 1 + i] = signal[n - 1 - i];
    }
}

/* 8 frames side by side under the window; frames behind the last are zeros. */
static void gather(mr_stft *stft, const mr_stft_params *p, const float *from, int64_t n) {
    int64_t first = (p->n_fft - p->win_length) / 2, last = first + p->win_length;
    float *data = stft->data;
    memset(data, 0, (size_t)first * MR_LANES * sizeof *data);
    memset(data + last * MR_LANES, 0, (size_t)(p->n_fft - last) * MR_LANES * sizeof *data);
    for (int64_t i = first; i < last; i++) {
        for (int64_t lane = 0; lane < MR_LANES; lane++) {
            float value = lane < n ? from[lane * p->hop_length + i] : 0.0f;
            data[i * MR_LANES + lane] = value * stft->window[i];
        }
    }
}

mr_status mr_stft_run(mr_stft *stft, const mr_stft_params *p, mr_call *call, const mr_view *in,
                      int64_t channel, const mr_stft_sink *sink, mr_error *err) {
    int64_t samples = in->type.dims[0], pad = pad_of(p), frames = mr_stft_frames(p, samples);
    const mr_sound_kernels *kernels = call->kernels->sound;
    size_t size = (size_t)(samples + 2 * pad) * sizeof(float) + 1;
    float *signal = mr_scratch(call, size);
    if (!signal) {
        return mr_fail_memory(err, size);
    }
    read_channel(in, channel, signal + pad);
    pad_signal(signal, samples, pad, p->pad_mode == PAD_REFLECT);
    for (int64_t first = 0; first < frames; first += MR_LANES) {
        int64_t n = frames - first < MR_LANES ? frames - first : MR_LANES;
        gather(stft, p, signal + first * p->hop_length, n);
        kernels->power(&stft->fft, stft->data, stft->work, stft->power);
        if (p->power == MR_POWER_1) {
            kernels->root(stft->power, (size_t)p->n_fft / 2 + 1);
        }
        sink->frames(sink->user, stft->power, first, n);
    }
    return MR_OK;
}

/* ---- Results ---- */
mr_stft_out mr_stft_out_of(const mr_stft_params *p, const mr_view *out, int64_t bins,
                           int64_t channel) {
    const int64_t *dims = out->type.dims + (out->type.n_dims - 2);
    int64_t frames = dims[p->layout == MR_FREQ_TIME ? 1 : 0];
    return (mr_stft_out){.data = (float *)out->data + channel * bins * frames,
                         .bins = bins,
                         .frames = frames,
                         .layout = p->layout};
}

void mr_stft_store(const mr_stft_out *out, const float *lanes, int64_t first, int64_t n) {
    if (out->layout == MR_FREQ_TIME) {
        for (int64_t bin = 0; bin < out->bins; bin++) {
            memcpy(out->data + bin * out->frames + first, lanes + bin * MR_LANES,
                   (size_t)n * sizeof *lanes);
        }
        return;
    }
    for (int64_t lane = 0; lane < n; lane++) {
        float *to = out->data + (first + lane) * out->bins;
        for (int64_t bin = 0; bin < out->bins; bin++) {
            to[bin] = lanes[bin * MR_LANES + lane];
        }
    }
}

float *mr_lanes(mr_call *call, int64_t rows) {
    return mr_scratch(call, (size_t)rows * MR_LANES * sizeof(float) + 1);
}
