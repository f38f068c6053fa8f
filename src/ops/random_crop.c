/* SPDX-License-Identifier: Apache-2.0 */
/* random_crop.c - the op random_crop: a rectangle of fixed size at a drawn place. */
#include "ops/flow.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/error.h"

enum { DRAW_TOP, DRAW_LEFT };

typedef struct random_crop_params {
    mr_ints size;
    bool pad_if_needed;
} random_crop_params;

static bool smaller(int64_t side, int64_t length) {
    return side >= 0 && side < length;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const random_crop_params *p = params;
    int64_t height = mr_size_height(&p->size), width = mr_size_width(&p->size);
    MR_TRY(mr_image_check(in, err));
    if (!p->pad_if_needed && (smaller(in->dims[0], height) || smaller(in->dims[1], width))) {
        mr_fail(err, MR_E_TYPE,
                "the image of %" PRId64 " x %" PRId64 " is smaller than the crop of %" PRId64
                " x %" PRId64,
                in->dims[0], in->dims[1], height, width);
        mr_hint(err, "put resize or pad before it, or set \"pad_if_needed\": true");
        return MR_E_TYPE;
    }
    return mr_image_resized(in, height, width, out, err);
}

/* Where the crop starts on one axis. A side that is too short is padded by what it lacks on both
 * ends, so the crop has that much room to move, and may start before the image. */
static int64_t draw_start(const mr_key *key, uint32_t draw, int64_t side, int64_t length) {
    int64_t lacks = side < length ? length - side : 0;
    return mr_draw_below(key, draw, side + 2 * lacks - length + 1) - lacks;
}

static int64_t draw_top(const mr_call *call, const mr_type *in, const mr_type *out) {
    return draw_start(&call->key, DRAW_TOP, in->dims[0], out->dims[0]);
}

static int64_t draw_left(const mr_call *call, const mr_type *in, const mr_type *out) {
    return draw_start(&call->key, DRAW_LEFT, in->dims[1], out->dims[1]);
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    mr_pixels image = mr_image_pixels(in);
    (void)params;
    (void)err;
    mr_image_window(&image, draw_top(call, &in->type, &out->type),
                    draw_left(call, &in->type, &out->type), out->data, out->type.dims[0],
                    out->type.dims[1]);
    return MR_OK;
}

static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    (void)params;
    (void)err;
    *needed = mr_window_needs(in, draw_top(call, in, out), draw_left(call, in, out), wanted);
    return MR_OK;
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    (void)params;
    return mr_window_pass(call, flow, draw_top(call, flow->in, flow->out),
                          draw_left(call, flow->in, flow->out), to, own, err);
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(random_crop_params, size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number for a square, or [height, width]."},
    {.name = "pad_if_needed",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(random_crop_params, pad_if_needed),
     .fallback = "false",
     .doc = "Put zeros around an image that is too small, instead of refusing it."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": [5, 6]}", "image:9x11x3", "5d8c559a5d244d9bf13f5e99f28f8cb0"},
    {"{\"size\": 12, \"pad_if_needed\": true}", "image:9x13x1", "da9d537d6f998e477a880fe12fc0998a"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_random_crop = {
    MR_OP_HEADER,
    .name = "random_crop",
    .summary = "Cuts a rectangle of fixed size out of the image, at a random place.",
    .doc = "All places are equally likely. Draw 0 is the first row, below(height - size + 1); draw "
           "1 the first column likewise. With pad_if_needed a side that lacks k pixels is first "
           "extended by k zeros on both ends, as torchvision does.",
    .flags = MR_OP_RANDOM,
    .version = 1,
    .param_size = sizeof(random_crop_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .want = want,
    .pass = pass,
    .examples = examples,
};
