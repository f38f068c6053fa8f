/* SPDX-License-Identifier: Apache-2.0 */
/* normalize.c - the op normalize: bytes to the numbers a model is fed, in the layout it wants.
 *
 * A byte has 256 values, so each channel has a table of results, made once per worker. What is in
 * the table is defined to the last bit, and every way of applying it is the same; computing it
 * anew, where that gives the same for all 256. */
#include "ops/flow.h"

#include <millrace/millrace.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "kernels/half.h"

#define CHANNELS 3
#define TABLE (CHANNELS * 256)

static const char *const dtype_names[] = {"float32", "float16", "bfloat16", "uint8", NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16, MR_U8};

static const char *const layout_names[] = {"chw", "hwc", NULL};
enum { LAYOUT_CHW, LAYOUT_HWC };

typedef struct normalize_params {
    mr_floats mean, std;
    int32_t dtype, layout;
} normalize_params;

typedef struct tables {
    mr_normal of_32;
    uint16_t of_16[TABLE];
} tables;

static bool all_are(const mr_floats *list, double value) {
    for (int32_t i = 0; i < list->n; i++) {
        if (list->v[i] != value) {
            return false;
        }
    }
    return true;
}

static mr_status check(void *params, mr_error *err) {
    const normalize_params *p = params;
    if (p->mean.n == 2 || p->std.n == 2) {
        return mr_fail(err, MR_E_PARAM, "mean and std must have 1 or 3 numbers, not 2");
    }
    for (int32_t i = 0; i < p->std.n; i++) {
        if (!((float)p->std.v[i] > 0.0f)) {
            return mr_fail(err, MR_E_PARAM, "std must be above 0, not %g", p->std.v[i]);
        }
    }
    if (dtypes[p->dtype] == MR_U8 && !(all_are(&p->mean, 0.0) && all_are(&p->std, 1.0))) {
        mr_fail(err, MR_E_PARAM, "dtype uint8 keeps the bytes as they are");
        mr_hint(err, "leave out mean and std, or choose float32, float16 or bfloat16");
        return MR_E_PARAM;
    }
    return MR_OK;
}

/* Of bytes: means and deviations of an image of 0 to 1 are below 1. */
static const char *doubt(const void *params) {
    const normalize_params *p = params;
    bool large = false;
    for (int32_t i = 0; i < p->mean.n; i++) {
        large = large || p->mean.v[i] > 2.0;
    }
    for (int32_t i = 0; i < p->std.n; i++) {
        large = large || p->std.v[i] > 10.0;
    }
    return large
               ? "mean and std seem to be of values from 0 to 255: they are of values from 0 to 1, "
                 "so divide them by 255"
               : NULL;
}

/* The type of one image of a stack, which has a dimension before the others. */
static mr_type without_stack(const mr_type *in) {
    mr_type image = *in;
    if (in->layout == MR_HWC && in->n_dims == 4) {
        image.n_dims = 3;
        memmove(image.dims, image.dims + 1, 3 * sizeof *image.dims);
    }
    return image;
}

static mr_type with_stack(const mr_type *image, int64_t n) {
    mr_type stack = *image;
    stack.n_dims = 4;
    memmove(stack.dims + 1, stack.dims, 3 * sizeof *stack.dims);
    stack.dims[0] = n;
    return stack;
}

static mr_status plan_image(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const normalize_params *p = params;
    MR_TRY(mr_image_check(in, err));
    if (in->dims[2] == 1 && (p->mean.n > 1 || p->std.n > 1)) {
        mr_fail(err, MR_E_TYPE, "mean and std are for 3 channels but the image has 1");
        mr_hint(err, "give one number each, or decode to 3 channels");
        return MR_E_TYPE;
    }
    *out = *in;
    out->dtype = dtypes[p->dtype];
    if (p->layout == LAYOUT_CHW) {
        *out = (mr_type){.dtype = out->dtype,
                         .layout = MR_CHW,
                         .n_dims = 3,
                         .dims = {in->dims[2], in->dims[0], in->dims[1]}};
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mr_type image = without_stack(in);
    MR_TRY(plan_image(params, &image, out, err));
    if (in->n_dims == 4) {
        *out = with_stack(out, in->dims[0]);
    }
    return MR_OK;
}

static mr_status open_tables(const void *params, void **state, mr_error *err) {
    const normalize_params *p = params;
    tables *t = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    float mean[CHANNELS], std[CHANNELS];
    for (int c = 0; c < CHANNELS; c++) {
        mean[c] = (float)p->mean.v[c % p->mean.n];
        std[c] = (float)p->std.v[c % p->std.n];
    }
    mr_normal_make(&t->of_32, mean, std);
    for (int i = 0; i < TABLE; i++) {
        float value = mr_float_of_bits(t->of_32.bits[i]);
        t->of_16[i] = dtypes[p->dtype] == MR_BF16 ? mr_bf16(value) : mr_f16(value);
    }
    *state = t;
    return MR_OK;
}

static void close_tables(void *state) {
    mr_free(state);
}

/* What normalising some pixels takes. */
typedef struct work {
    const mr_kernels *kernels;
    const tables *tables;
    mr_dtype dtype;
    int32_t channels;
    size_t plane; /* elements; 0: interleaved */
    size_t width; /* pixels of a row */
    void *out;
} work;

static work work_of(const normalize_params *p, const mr_call *call, const mr_type *in,
                    const mr_view *out) {
    bool planar = p->layout == LAYOUT_CHW;
    return (work){.kernels = call->kernels,
                  .tables = call->state,
                  .dtype = out->type.dtype,
                  .channels = (int32_t)in->dims[2],
                  .plane = planar ? (size_t)(in->dims[0] * in->dims[1]) : 0,
                  .width = (size_t)in->dims[1],
                  .out = out->data};
}

/* Pixels `first` .. of the image. */
static void normalize_pixels(const work *w, size_t first, const uint8_t *in, size_t pixels) {
    size_t at = w->plane ? first : first * (size_t)w->channels;
    if (w->dtype == MR_F32 && w->plane && w->channels == 3 && w->tables->of_32.computable) {
        w->kernels->normalize((uint32_t *)w->out + at, in, pixels, &w->tables->of_32, w->plane);
    } else if (w->dtype == MR_F32) {
        w->kernels->lookup_32((uint32_t *)w->out + at, in, pixels, w->channels,
                              w->tables->of_32.bits, w->plane);
    } else if (w->dtype != MR_U8) {
        w->kernels->lookup_16((uint16_t *)w->out + at, in, pixels, w->channels, w->tables->of_16,
                              w->plane);
    } else if (w->plane) {
        w->kernels->split((uint8_t *)w->out + at, in, pixels, w->channels, w->plane);
    } else {
        memcpy((uint8_t *)w->out + at, in, pixels * (size_t)w->channels);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const mr_type image = without_stack(&in->type);
    int64_t n = in->type.n_dims == 4 ? in->type.dims[0] : 1;
    size_t bytes = n ? in->size / (size_t)n : 0, out_bytes = n ? out->size / (size_t)n : 0;
    work w = work_of(params, call, &image, out);
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        w.out = (uint8_t *)out->data + (size_t)i * out_bytes;
        normalize_pixels(&w, 0, (const uint8_t *)in->data + (size_t)i * bytes,
                         bytes / (size_t)w.channels);
    }
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    if (in->pieces) {
        return mr_fail(err, MR_E_UNSUPPORTED, "the images differ in size");
    }
    for (int64_t i = 0; i < n; i++) {
        mr_view from = mr_column_value(in, i), to = mr_column_value(out, i);
        MR_TRY(run(params, call, &from, &to, err));
    }
    return MR_OK;
}

static mr_status normalize_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const work *w = user;
    (void)err;
    normalize_pixels(w, (size_t)y * w->width, pixels, w->width);
    return MR_OK;
}

static mr_status finish(const void *params, mr_call *call, const mr_flow *flow, mr_view *out,
                        mr_rows *own, mr_error *err) {
    work *w = mr_scratch(call, sizeof *w);
    if (!w) {
        return mr_fail_memory(err, sizeof *w);
    }
    *w = work_of(params, call, flow->in, out);
    *own = (mr_rows){normalize_row, w};
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "mean",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(normalize_params, mean),
     .fallback = "[0]",
     .min_len = 1,
     .max_len = CHANNELS,
     .doc = "Subtracted from byte / 255; for all channels or for each."},
    {.name = "std",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(normalize_params, std),
     .fallback = "[1]",
     .min_len = 1,
     .max_len = CHANNELS,
     .doc = "What the difference is divided by; likewise."},
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(normalize_params, dtype),
     .fallback = "\"float32\"",
     .choices = dtype_names,
     .doc = "Element type of the output; uint8 keeps the bytes and changes only the layout."},
    {.name = "layout",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(normalize_params, layout),
     .fallback = "\"chw\"",
     .choices = layout_names,
     .doc = "chw: one plane per channel; hwc: channels last."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}", "image:6x7x3",
     "b1ad3fc3ab6da8b1c10a253201be1372"},
    {"{\"mean\": 0.5, \"std\": 0.5, \"dtype\": \"float16\"}", "image:6x7x1",
     "e13e53de0dd2977a0231c87de6679f00"},
    {"{\"mean\": 0.5, \"std\": 0.25, \"dtype\": \"bfloat16\", \"layout\": \"hwc\"}", "image:6x7x3",
     "331cf4f4cb122293c9de82118b09d779"},
    {"{\"dtype\": \"uint8\"}", "image:6x7x3", "ff0ffcc77b615371fd407ece613e98c7"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_normalize = {
    MR_OP_HEADER,
    .doubt = doubt,
    .name = "normalize",
    .summary = "Turns bytes into normalised numbers: (byte / 255 - mean) / std.",
    .doc =
        "Computed in float32, one rounding per operation, equal to torchvision's ToTensor and "
        "Normalize on a CPU bit for bit; float16 and bfloat16 are that number rounded to nearest, "
        "ties to even. A stack of images, as five_crop gives, is normalised image by image.",
    .flags = MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(normalize_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = open_tables,
    .close = close_tables,
    .run = run,
    .run_rows = run_rows,
    .want = mr_want_same,
    .finish = finish,
    .examples = examples,
    .also = "normalise",
};
