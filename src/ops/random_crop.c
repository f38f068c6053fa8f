/* SPDX-License-Identifier: Apache-2.0 */
/* random_crop.c - the op random_crop: a rectangle of fixed size at a drawn place. */
#include "ops/flow.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/error.h"

enum { DRAW_TOP, DRAW_LEFT };

typedef struct random_crop_params {
    mr_crop_params crop;
    mr_ints size;
    bool pad_if_needed;
} random_crop_params;

static bool smaller(int64_t side, int64_t length) {
    return side >= 0 && side < length;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const random_crop_params *p = params;
    int64_t height = mr_size_height(&p->size), width = mr_size_width(&p->size);
    MR_TRY(mr_image_check_any(in, err));
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

static mr_place place(const void *params, const mr_key *key, const mr_type *in,
                      const mr_type *out) {
    (void)params;
    return (mr_place){draw_start(key, DRAW_TOP, in->dims[0], out->dims[0]),
                      draw_start(key, DRAW_LEFT, in->dims[1], out->dims[1])};
}

static mr_status check(void *params, mr_error *err) {
    random_crop_params *p = params;
    (void)err;
    p->crop.place = place;
    return MR_OK;
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
    .flags = MR_OP_RANDOM | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(random_crop_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = mr_crop_run,
    .follow = mr_crop_follow,
    .want = mr_crop_want,
    .pass = mr_crop_pass,
    .examples = examples,
};
