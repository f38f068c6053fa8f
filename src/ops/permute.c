/* SPDX-License-Identifier: Apache-2.0 */
/* permute.c - the op permute: channels last to planes, and back. */
#include "ops/flow.h"

#include <millrace/millrace.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"

static const char *const layout_names[] = {"chw", "hwc", NULL};
static const mr_layout layouts[] = {MR_CHW, MR_HWC};

typedef struct permute_params {
    int32_t layout;
} permute_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const permute_params *p = params;
    char text[128];
    if (in->layout == MR_PLAIN || in->n_dims != 3) {
        mr_fail(err, MR_E_TYPE, "needs an image, HWC or CHW, not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "decode_image makes images of files");
        return MR_E_TYPE;
    }
    *out = *in;
    out->layout = layouts[p->layout];
    if (out->layout != in->layout) {
        bool planes = out->layout == MR_CHW;
        out->dims[0] = in->dims[planes ? 2 : 1];
        out->dims[1] = in->dims[planes ? 0 : 2];
        out->dims[2] = in->dims[planes ? 1 : 0];
    }
    return MR_OK;
}

/* `rows` x `columns` elements become columns x rows. */
static void transpose(uint8_t *out, const uint8_t *in, size_t rows, size_t columns, size_t size) {
    for (size_t c = 0; c < columns; c++) {
        for (size_t r = 0; r < rows; r++, out += size) {
            memcpy(out, in + (r * columns + c) * size, size);
        }
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    size_t size = mr_dtype_size(in->type.dtype), n = in->size / size;
    bool from_planes = in->type.layout == MR_CHW;
    size_t channels = (size_t)in->type.dims[from_planes ? 0 : 2];
    (void)params;
    (void)err;
    if (in->type.layout == out->type.layout || n == 0) {
        memcpy(out->data, in->data, in->size);
    } else if (size == 1 && !from_planes && (channels == 1 || channels == 3)) {
        call->kernels->split(out->data, in->data, n / channels, (int32_t)channels, n / channels);
    } else {
        size_t pixels = n / channels;
        transpose(out->data, in->data, from_planes ? channels : pixels,
                  from_planes ? pixels : channels, size);
    }
    return MR_OK;
}

typedef struct permuting {
    const mr_kernels *kernels;
    uint8_t *out;
    size_t width, plane; /* pixels; plane 0: as they are */
    int32_t channels;
} permuting;

static mr_status permute_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const permuting *p = user;
    size_t bytes = p->width * (size_t)p->channels;
    (void)err;
    if (p->plane) {
        p->kernels->split(p->out + (size_t)y * p->width, pixels, p->width, p->channels, p->plane);
    } else {
        memcpy(p->out + (size_t)y * bytes, pixels, bytes);
    }
    return MR_OK;
}

static mr_status finish(const void *params, mr_call *call, const mr_flow *flow, mr_view *out,
                        mr_rows *own, mr_error *err) {
    const int64_t *dims = flow->in->dims;
    permuting *p = mr_scratch(call, sizeof *p);
    (void)params;
    if (!p) {
        return mr_fail_memory(err, sizeof *p);
    }
    *p =
        (permuting){call->kernels, out->data, (size_t)dims[1],
                    out->type.layout == MR_CHW ? (size_t)(dims[0] * dims[1]) : 0, (int32_t)dims[2]};
    *own = (mr_rows){permute_row, p};
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "layout",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(permute_params, layout),
     .fallback = "\"chw\"",
     .choices = layout_names,
     .doc = "chw: one plane per channel; hwc: channels last."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "06f85a7c6d4ce6fcdd974ec375908a35"},
    {"{\"layout\": \"hwc\"}", "image:5x7x3", "8f358a71d85f5fbf2b77e9cf19b9781b"},
    {"{}", "image:5x7x1", "e84c3337759c1c796cd0f48454a518c1"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_permute = {
    MR_OP_HEADER,
    .name = "permute",
    .summary = "Changes between channels last and one plane per channel.",
    .doc = "Elements of any type; an image that has the layout already stays as it is. Equal to "
           "numpy's transpose.",
    .version = 1,
    .param_size = sizeof(permute_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .want = mr_want_same,
    .finish = finish,
    .examples = examples,
};
