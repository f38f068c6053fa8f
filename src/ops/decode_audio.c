/* SPDX-License-Identifier: Apache-2.0 */
/* decode_audio.c - encoded sound to samples, through libsndfile. MR_REQUIRES(sndfile)
 *
 * How many frames there are is known for certain only once all are decoded: headers may be
 * wrong, and FLAC streams may not say. So peek decodes, and run hands out what it made (kept.h). */
#include <sndfile.h>
#include <stdio.h>
#include <string.h>

#include "codecs/codec.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/kept.h"
#include "ops/numbers.h"

#include <millrace/millrace.h>

#define CHUNK 65536 /* samples that are decoded at a time */

typedef struct audio_params {
    int32_t dtype;
    bool mono;
    int64_t channels, sample_rate, max_samples, max_channels;
} audio_params;

static const char *const dtype_names[] = {"float32", "int16", "int32", "float64", NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_I16, MR_I32, MR_F64};

/* ---- libsndfile over memory ---- */
typedef struct cursor {
    const unsigned char *bytes;
    sf_count_t size, at;
} cursor;

static sf_count_t on_length(void *user) {
    return ((const cursor *)user)->size;
}

static sf_count_t on_seek(sf_count_t offset, int whence, void *user) {
    cursor *c = user;
    sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? c->at : c->size;
    if (offset < -base || offset > c->size - base) {
        return -1;
    }
    return c->at = base + offset;
}

static sf_count_t on_read(void *out, sf_count_t count, void *user) {
    cursor *c = user;
    sf_count_t left = c->size - c->at, n = count < left ? count : left;
    if (n > 0) {
        memcpy(out, c->bytes + c->at, (size_t)n);
        c->at += n;
    }
    return n > 0 ? n : 0;
}

static sf_count_t on_write(const void *bytes, sf_count_t count, void *user) {
    (void)bytes;
    (void)count;
    (void)user;
    return 0;
}

static sf_count_t on_tell(void *user) {
    return ((const cursor *)user)->at;
}

/* ---- Which files ---- */
static bool starts(const mr_view *in, const char *mark) {
    return in->size >= 12 && memcmp(in->data, mark, 4) == 0;
}

static bool is_mpeg(const mr_view *in) {
    const uint8_t *b = in->data;
    return in->size >= 12 && (memcmp(b, "ID3", 3) == 0 || (b[0] == 0xFF && (b[1] & 0xE0) == 0xE0));
}

static mr_status check_mark(const mr_view *in, mr_error *err) {
    if (starts(in, "RIFF") || starts(in, "RF64") || starts(in, "fLaC") || starts(in, "OggS") ||
        is_mpeg(in)) {
        return MR_OK;
    }
    const char *name = mr_looks_like(in->data, in->size);
    return mr_fail(err, MR_E_UNSUPPORTED, "this is %s; WAV, FLAC, Ogg and MP3 are decoded",
                   name ? name : "no sound file that is known");
}

/* What libsndfile says of a failure, which may be that there was no memory. */
static mr_status decoder_failed(int code, mr_error *err) {
    const char *text = sf_error_number(code);
    mr_status status = text && strstr(text, "malloc") ? MR_E_MEMORY : MR_E_CORRUPT;
    return mr_fail(err, status, "cannot decode sound: %s", text ? text : "no reason given");
}

static bool is_float_file(int format) {
    int kind = format & SF_FORMAT_SUBMASK;
    return kind == SF_FORMAT_FLOAT || kind == SF_FORMAT_DOUBLE;
}

static mr_status check_limits(const audio_params *p, const SF_INFO *info, mr_error *err) {
    if (info->channels < 1 || info->channels > p->max_channels) {
        return mr_fail(err, MR_E_LIMIT, "%d channels are more than max_channels (%lld)",
                       info->channels, (long long)p->max_channels);
    }
    bool known = info->frames != SF_COUNT_MAX;
    if (info->frames < 0 || (known && info->frames > p->max_samples / info->channels)) {
        mr_fail(err, MR_E_LIMIT, "%lld frames of %d channels are more than max_samples (%lld)",
                (long long)info->frames, info->channels, (long long)p->max_samples);
        mr_hint(err, "if the file is meant to be this long, raise decode_audio's max_samples");
        return MR_E_LIMIT;
    }
    return MR_OK;
}

static mr_status check_wishes(const audio_params *p, const SF_INFO *info, mr_error *err) {
    if (p->sample_rate > 0 && info->samplerate != p->sample_rate) {
        mr_fail(err, MR_E_UNSUPPORTED, "the file has %d samples a second, not %lld",
                info->samplerate, (long long)p->sample_rate);
        mr_hint(err, "leave out \"sample_rate\", or convert the file");
        return MR_E_UNSUPPORTED;
    }
    if (p->channels > 0 && info->channels != p->channels) {
        return mr_fail(err, MR_E_UNSUPPORTED, "the file has %d channels, not %lld", info->channels,
                       (long long)p->channels);
    }
    if (!mr_is_float(dtypes[p->dtype]) && is_float_file(info->format)) {
        mr_fail(err, MR_E_UNSUPPORTED, "the file has floating-point samples, which have no scale");
        mr_hint(err, "choose \"dtype\": \"float32\"");
        return MR_E_UNSUPPORTED;
    }
    return MR_OK;
}

/* ---- Samples ---- */
typedef struct decoder {
    const audio_params *params;
    SNDFILE *file;
    SF_INFO info;
    mr_kept *kept;
    sf_count_t frames; /* decoded so far */
} decoder;

static sf_count_t read_frames(const decoder *d, void *out, sf_count_t frames) {
    switch (dtypes[d->params->dtype]) {
    case MR_I16:
        return sf_readf_short(d->file, out, frames);
    case MR_I32:
        return sf_readf_int(d->file, out, frames);
    case MR_F64:
        return sf_readf_double(d->file, out, frames);
    default:
        return sf_readf_float(d->file, out, frames);
    }
}

/* The mean of channels, summed in their order in float64, rounded once. In place. */
static void mix(mr_dtype dtype, void *data, size_t frames, size_t channels) {
    for (size_t i = 0; i < frames; i++) {
        double sum = 0.0;
        for (size_t c = 0; c < channels; c++) {
            sum += mr_load_number(dtype, data, i * channels + c);
        }
        double mean = sum / (double)channels;
        if (dtype == MR_F32) {
            ((float *)data)[i] = (float)mean;
        } else if (dtype == MR_F64) {
            ((double *)data)[i] = mean;
        } else if (dtype == MR_I16) {
            ((int16_t *)data)[i] = (int16_t)__builtin_rint(mean);
        } else {
            ((int32_t *)data)[i] = (int32_t)__builtin_rint(mean);
        }
    }
}

/* Decodes one chunk behind what is there. MR_END: there was nothing more. */
static mr_status decode_chunk(decoder *d, mr_error *err) {
    mr_dtype dtype = dtypes[d->params->dtype];
    size_t channels = (size_t)d->info.channels, width = mr_dtype_size(dtype);
    sf_count_t wanted = CHUNK / d->info.channels;
    size_t room = (size_t)wanted * channels * width;
    void *out = mr_kept_room(d->kept, room);
    if (!out) {
        return mr_fail_memory(err, room);
    }
    sf_count_t n = read_frames(d, out, wanted);
    if (sf_error(d->file) != SF_ERR_NO_ERROR || n < 0) {
        return decoder_failed(sf_error(d->file), err);
    }
    d->frames += n;
    if (d->frames > d->params->max_samples / d->info.channels) {
        return mr_fail(err, MR_E_LIMIT, "there are more samples than max_samples (%lld)",
                       (long long)d->params->max_samples);
    }
    if (d->params->mono && channels > 1) {
        mix(dtype, out, (size_t)n, channels);
    }
    d->kept->size += (size_t)n * width * (d->params->mono ? 1 : channels);
    return n == 0 ? MR_END : MR_OK;
}

/* What the header says; of an MP3 without a table of contents that is a guess. */
static bool frames_are_known(const SF_INFO *info) {
    return info->frames != SF_COUNT_MAX && (info->format & SF_FORMAT_TYPEMASK) != SF_FORMAT_MPEG;
}

static mr_status decode_all(decoder *d, mr_error *err) {
    mr_status status = MR_OK;
    if (!d->file) {
        return decoder_failed(sf_error(NULL), err);
    }
    MR_TRY(check_limits(d->params, &d->info, err));
    MR_TRY(check_wishes(d->params, &d->info, err));
    while (status == MR_OK) {
        status = decode_chunk(d, err);
    }
    MR_TRY(status);
    if (frames_are_known(&d->info) && d->frames < d->info.frames) {
        return mr_fail(err, MR_E_CORRUPT, "the sound ends after %lld of %lld frames",
                       (long long)d->frames, (long long)d->info.frames);
    }
    return MR_OK;
}

/* ---- The op ---- */
static mr_type type_of(const audio_params *p, int64_t frames, int64_t channels) {
    return (mr_type){.dtype = dtypes[p->dtype],
                     .layout = MR_PLAIN,
                     .n_dims = p->mono ? 1 : 2,
                     .dims = {frames, p->mono ? 0 : channels}};
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const audio_params *p = params;
    if (in->dtype != MR_U8 || in->layout != MR_PLAIN || in->n_dims != 1) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "decode_audio takes encoded bytes, uint8[?], not %s",
                       mr_type_text(in, text, sizeof text));
    }
    *out = type_of(p, -1, p->channels > 0 ? p->channels : -1);
    return MR_OK;
}

static mr_status decode(const audio_params *p, mr_kept *kept, const mr_view *in, mr_error *err) {
    SF_VIRTUAL_IO memory_io = {on_length, on_seek, on_read, on_write, on_tell};
    cursor at = {in->data, (sf_count_t)in->size, 0};
    decoder d = {.params = p, .kept = kept};
    mr_kept_begin(kept);
    MR_TRY(check_mark(in, err));
    d.file = sf_open_virtual(&memory_io, SFM_READ, &d.info, &at);
    mr_status status = decode_all(&d, err);
    if (d.file) {
        sf_close(d.file);
    }
    MR_TRY(status);
    mr_type type = type_of(p, d.frames, d.info.channels);
    mr_kept_end(kept, &type, in);
    return MR_OK;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    mr_kept *kept = call->state;
    MR_TRY(decode(params, kept, in, err));
    *out = kept->type;
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    mr_kept *kept = call->state;
    if (!mr_kept_has(kept, in)) {
        MR_TRY(decode(params, kept, in, err));
    }
    return mr_kept_give(kept, out, err);
}

static mr_status open_kept(const void *params, void **state, mr_error *err) {
    (void)params;
    *state = mr_zalloc(1, sizeof(mr_kept));
    return *state ? MR_OK : mr_fail_memory(err, sizeof(mr_kept));
}

static void close_kept(void *state) {
    if (state) {
        mr_kept_free(state);
        mr_free(state);
    }
}

static const mr_param rows[] = {
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(audio_params, dtype),
     .fallback = "\"float32\"",
     .choices = dtype_names,
     .doc = "Element type of samples: floats from -1 to 1, or whole numbers that fill their type."},
    {.name = "mono",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(audio_params, mono),
     .fallback = "false",
     .doc = "Give the mean of all channels, as [frames] instead of [frames, channels]."},
    {.name = "channels",
     .kind = MR_PARAM_INT,
     .offset = offsetof(audio_params, channels),
     .fallback = "0",
     .min = 0,
     .max = 1024,
     .doc = "Refuse files with another number of channels; 0: any."},
    {.name = "sample_rate",
     .kind = MR_PARAM_INT,
     .offset = offsetof(audio_params, sample_rate),
     .fallback = "0",
     .min = 0,
     .max = 1 << 24,
     .doc = "Refuse files with another number of frames a second; 0: any."},
    {.name = "max_samples",
     .kind = MR_PARAM_INT,
     .offset = offsetof(audio_params, max_samples),
     .fallback = "100000000",
     .min = 1,
     .max = 17179869184.0,
     .doc = "Refuse files of more samples over all channels, before memory is taken for them."},
    {.name = "max_channels",
     .kind = MR_PARAM_INT,
     .offset = offsetof(audio_params, max_channels),
     .fallback = "64",
     .min = 1,
     .max = 1024,
     .doc = "Refuse files of more channels."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}",
     "bytes:"
     "524946463800000057415645666d74201000000001000200803e000000fa00000400100064617461140000000000e"
     "80318fcff7f00800500faff07003930c7cf",
     "b1bbfa155525895e4a221dcb2934c27e"},
    {"{\"dtype\": \"int16\", \"mono\": true}",
     "bytes:"
     "524946463800000057415645666d74201000000001000200803e000000fa00000400100064617461140000000000e"
     "80318fcff7f00800500faff07003930c7cf",
     "d8b8b88b907d9c078162e4e55d0dfdaf"},
    {NULL, NULL, NULL},
};

/* Says nothing about the libraries behind it: libFLAC, libvorbis, libopus, libmpg123. */
static void libraries(char *text, size_t size) {
    snprintf(text, size, "%s", sf_version_string());
}

extern const mr_op_class mr_op_decode_audio;
const mr_op_class mr_op_decode_audio = {
    MR_OP_HEADER,
    .name = "decode_audio",
    .summary = "Decodes a WAV, FLAC, Ogg or MP3 recording.",
    .doc =
        "Samples are libsndfile's: equal to soundfile.read(f, dtype, always_2d=True), also for "
        "mono once the mean is taken (in float64, rounded once). A file that holds less than its "
        "header says, or that libsndfile finds an error in, is refused. MP3 is decoded by "
        "libmpg123, whose floats may differ in the last bit between CPUs.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(audio_params),
    .params = rows,
    .plan = plan,
    .peek = peek,
    .open = open_kept,
    .close = close_kept,
    .run = run,
    .libraries = libraries,
    .examples = examples,
};
