/* SPDX-License-Identifier: Apache-2.0 */
/* resample_audio.c - another number of samples a second, through libsoxr. MR_REQUIRES(soxr)
 *
 * Up to quality high libsoxr computes in float32 with the vectors that every x86-64 has, so that
 * bits do not depend on the CPU; above, it asks for AVX, which is why there is no such quality
 * here. */
#include <soxr.h>
#include <stdio.h>

#include "core/error.h"
#include "ops/numbers.h"

typedef struct resample_params {
    int64_t from, to;
    int32_t quality;
} resample_params;

static const char *const quality_names[] = {"high", "medium", "low", "quick", NULL};
static const unsigned long recipes[] = {SOXR_HQ, SOXR_MQ, SOXR_LQ, SOXR_QQ};

/* libsoxr's own rule: rounded to the nearest. */
static int64_t length_of(const resample_params *p, int64_t samples) {
    return (samples * p->to + p->from / 2) / p->from;
}

static bool takes(mr_dtype dtype) {
    return dtype == MR_F32 || dtype == MR_F64 || dtype == MR_I16 || dtype == MR_I32;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const resample_params *p = params;
    if (!takes(in->dtype) || in->n_dims < 1 || in->n_dims > 2 || in->layout != MR_PLAIN) {
        char text[96];
        mr_fail(err, MR_E_TYPE, "needs sound, [samples] or [samples, channels], not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "put decode_audio before it");
        return MR_E_TYPE;
    }
    if (in->dims[0] > (int64_t)1 << 36) {
        return mr_fail(err, MR_E_TYPE, "%lld samples are too many", (long long)in->dims[0]);
    }
    *out = *in;
    out->dims[0] = in->dims[0] < 0 ? -1 : length_of(p, in->dims[0]);
    return MR_OK;
}

static soxr_datatype_t datatype_of(mr_dtype dtype) {
    return dtype == MR_F32   ? SOXR_FLOAT32_I
           : dtype == MR_F64 ? SOXR_FLOAT64_I
           : dtype == MR_I16 ? SOXR_INT16_I
                             : SOXR_INT32_I;
}

/* Interleaved frames. */
typedef struct frames {
    void *data;
    size_t n;
} frames;

static mr_status resample(const resample_params *p, mr_dtype dtype, unsigned channels,
                          const frames *in, const frames *out, mr_error *err) {
    soxr_io_spec_t io = soxr_io_spec(datatype_of(dtype), datatype_of(dtype));
    io.flags = SOXR_NO_DITHER;
    soxr_quality_spec_t quality = soxr_quality_spec(recipes[p->quality], 0);
    soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    soxr_error_t failed = soxr_oneshot((double)p->from, (double)p->to, channels, in->data, in->n,
                                       NULL, out->data, out->n, NULL, &io, &quality, &runtime);
    if (failed) {
        mr_status status = strstr(failed, "alloc") ? MR_E_MEMORY : MR_E_INTERNAL;
        return mr_fail(err, status, "cannot resample: %s", failed);
    }
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const resample_params *p = params;
    int64_t channels = in->type.n_dims == 2 ? in->type.dims[1] : 1;
    if (out->size == 0) {
        return MR_OK;
    }
    if (p->from == p->to) {
        memcpy(out->data, in->data, in->size);
        return MR_OK;
    }
    /* With more room than samples libsoxr sees that the input ends, and takes it into account. */
    size_t row = (size_t)channels * mr_dtype_size(in->type.dtype);
    frames to = {.n = (size_t)out->type.dims[0] + 16}, from = {.n = (size_t)in->type.dims[0]};
    from.data = mr_scratch(call, in->size);
    to.data = mr_scratch(call, to.n * row);
    if (!from.data || !to.data) {
        return mr_fail_memory(err, in->size + to.n * row);
    }
    memcpy(from.data, in->data, in->size);
    memset(to.data, 0, to.n * row);
    MR_TRY(resample(p, in->type.dtype, (unsigned)channels, &from, &to, err));
    memcpy(out->data, to.data, out->size);
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "from",
     .kind = MR_PARAM_INT,
     .offset = offsetof(resample_params, from),
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples a second that come in."},
    {.name = "to",
     .kind = MR_PARAM_INT,
     .offset = offsetof(resample_params, to),
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples a second that go out."},
    {.name = "quality",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(resample_params, quality),
     .fallback = "\"high\"",
     .choices = quality_names,
     .doc = "libsoxr's recipes HQ, MQ, LQ and QQ."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"from\": 48000, \"to\": 16000}", "float32:900x2", "e8f3b10e017a45975e4a6be74dbec043"},
    {"{\"from\": 8000, \"to\": 11025, \"quality\": \"low\"}", "int16:300",
     "ceb35e5b0f0382d5395441d37a0fd227"},
    {NULL, NULL, NULL},
};

static void libraries(char *text, size_t size) {
    snprintf(text, size, "%s", soxr_version());
}

const mr_op_class mr_op_resample_audio = {
    MR_OP_HEADER,
    .name = "resample_audio",
    .summary = "Changes the number of samples a second.",
    .doc = "libsoxr's soxr_oneshot without dither: equal to soxr.resample(x, from, to, quality) of "
           "the "
           "soxr package. The output has samples x to / from samples, rounded to the nearest.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(resample_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .libraries = libraries,
    .examples = examples,
};
