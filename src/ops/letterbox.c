/* SPDX-License-Identifier: Apache-2.0 */
/* letterbox.c - the op letterbox: the whole image in a size, with bars where its shape differs. */
#include "ops/flow.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"

typedef struct letterbox_params {
    mr_ints size;
    int32_t filter;
    mr_ints fill;
} letterbox_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const letterbox_params *p = params;
    MR_TRY(mr_image_check(in, err));
    MR_TRY(mr_fill_check(&p->fill, in, err));
    return mr_image_resized(in, mr_size_height(&p->size), mr_size_width(&p->size), out, err);
}

/* ---- Where the image lies in the output ---- */
static int64_t at_least_one(double side) {
    return side < 1.0 ? 1 : (int64_t)side;
}

static mr_region fit(const mr_type *in, const mr_type *out) {
    double height = (double)in->dims[0], width = (double)in->dims[1];
    mr_region r = {0, 0, out->dims[1], out->dims[0]};
    double ratio = width / height, wanted = (double)r.width / (double)r.height;
    if (ratio > wanted) {
        r.height = at_least_one(rint(height / width * (double)r.width));
    } else if (ratio < wanted) {
        r.width = at_least_one(rint(width / height * (double)r.height));
    }
    r.x = (int64_t)rint((double)(out->dims[1] - r.width) * 0.5);
    r.y = (int64_t)rint((double)(out->dims[0] - r.height) * 0.5);
    return r;
}

static mr_status follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                        double m[8], mr_error *err) {
    const mr_region place = fit(in, out);
    (void)params;
    (void)call;
    (void)err;
    m[0] = (double)place.width / (double)in->dims[1];
    m[4] = (double)place.height / (double)in->dims[0];
    m[1] = m[3] = 0;
    m[2] = (double)place.x;
    m[5] = (double)place.y;
    return MR_OK;
}

/* The type of the image between resizing and putting it there. */
static mr_type fitted_type(const mr_type *in, const mr_region *place) {
    mr_type type = *in;
    type.dims[0] = place->height;
    type.dims[1] = place->width;
    return type;
}

static mr_region whole(const mr_type *image) {
    return (mr_region){0, 0, image->dims[1], image->dims[0]};
}

/* ---- As two fused ops: the resize, then a cutout that is larger than the image ---- */
typedef struct stages {
    mr_region place, box, between; /* between: the part of the resized image that is wanted */
    mr_type fitted;
} stages;

static stages stages_of(const mr_type *in, const mr_type *out, const mr_region *wanted) {
    stages s = {.place = fit(in, out), .box = whole(in)};
    s.fitted = fitted_type(in, &s.place);
    s.between = mr_cutout_needs(&s.fitted, -s.place.y, -s.place.x, wanted);
    return s;
}

static int32_t tolerate(const void *params, mr_call *call, const mr_type *in, const mr_type *out) {
    const letterbox_params *p = params;
    const mr_region everything = whole(out);
    const stages s = stages_of(in, out, &everything);
    (void)call;
    return mr_resample_tolerates(&s.box, &s.fitted, (mr_filter)p->filter);
}

static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    const letterbox_params *p = params;
    const stages s = stages_of(in, out, wanted);
    (void)err;
    *needed = mr_resample_needs(call, &s.box, &s.fitted, (mr_filter)p->filter, &s.between);
    return MR_OK;
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    const letterbox_params *p = params;
    stages *s = mr_scratch(call, sizeof *s);
    mr_rows bars;
    uint8_t fill[3];
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    *s = stages_of(flow->in, flow->out, flow->wanted);
    mr_fill_bytes(&p->fill, fill);
    const mr_flow first = {flow->in, &s->fitted, flow->needed, &s->between};
    const mr_flow second = {&s->fitted, flow->out, &s->between, flow->wanted};
    MR_TRY(mr_cutout_pass(call, &second, -s->place.y, -s->place.x, fill, to, &bars, err));
    return mr_resample_pass(call, &first, &s->box, (mr_filter)p->filter, &bars, own, err);
}

/* ---- The whole image at once: the rows of the same two ---- */
typedef struct keeping {
    uint8_t *out;
    size_t row_bytes;
} keeping;

static mr_status keep_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const keeping *k = user;
    (void)err;
    memcpy(k->out + (size_t)y * k->row_bytes, pixels, k->row_bytes);
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const mr_region needed = whole(&in->type), wanted = whole(&out->type);
    const mr_flow flow = {&in->type, &out->type, &needed, &wanted};
    keeping keep = {out->data, (size_t)(out->type.dims[1] * out->type.dims[2])};
    const mr_rows to = {keep_row, &keep};
    mr_rows own;
    const uint8_t *row = in->data;
    mr_call unshrunk = *call;
    unshrunk.shrink = 1;
    MR_TRY(pass(params, &unshrunk, &flow, &to, &own, err));
    for (int64_t y = 0; y < needed.height; y++, row += in->type.dims[1] * in->type.dims[2]) {
        MR_TRY(own.row(own.user, y, row, err));
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(letterbox_params, size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number for a square, or [height, width]."},
    {.name = "filter",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(letterbox_params, filter),
     .fallback = "\"bilinear\"",
     .choices = mr_filter_names,
     .for_mask = "\"nearest\"",
     .doc = "As in resize."},
    {.name = "fill",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(letterbox_params, fill),
     .fallback = "[114]",
     .for_mask = "[0]",
     .min = 0,
     .max = 255,
     .min_len = 1,
     .max_len = 3,
     .doc = "Value of the bars, for all channels or for each."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 12}", "image:9x20x3", "0810a31cc864ba40332789794dda5fd1"},
    {"{\"size\": [12, 30], \"fill\": [1, 2, 3], \"filter\": \"bicubic\"}", "image:9x11x3",
     "a2dfeee940728a73cf92ecf647395e0b"},
    {"{\"size\": 6}", "image:1x40x1", "f1e0ddedc8b298b4ddf5545dc5577fa9"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_letterbox = {
    MR_OP_HEADER,
    .name = "letterbox",
    .summary = "Resizes the image to fit into a size and puts bars beside it.",
    .doc = "Equal to ImageOps.pad of Pillow 13: the side that would be too long becomes the size, "
           "the other one is in proportion, rounded, halves to even; the image lies in the middle, "
           "an odd pixel before or behind it so that its place is even. A side is never less "
           "than a pixel.",
    .flags = MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(letterbox_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .follow = follow,
    .want = want,
    .pass = pass,
    .tolerate = tolerate,
    .examples = examples,
    .also = "longest_max_size",
};
