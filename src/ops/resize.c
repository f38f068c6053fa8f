/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c - the op resize: the whole image to another size. */
#include "ops/flow.h"

#include <stddef.h>

#include "core/error.h"

/* The longer side when the shorter one becomes `size`, as torchvision rounds it: down. */
static int64_t scaled(int64_t size, int64_t longer, int64_t shorter) {
    int64_t product;
    return __builtin_mul_overflow(size, longer, &product) ? INT64_MAX : product / shorter;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mr_resize_params *p = params;
    MR_TRY(mr_image_check(in, err));
    int64_t height = in->dims[0], width = in->dims[1], size = p->size.v[0];
    if (p->size.n == 2) {
        return mr_image_resized(in, p->size.v[0], p->size.v[1], out, err);
    }
    if (height < 0 || width < 0) {
        return mr_image_resized(in, -1, -1, out, err);
    }
    return height <= width ? mr_image_resized(in, size, scaled(size, width, height), out, err)
                           : mr_image_resized(in, scaled(size, height, width), size, out, err);
}

static mr_region whole(const void *params, const mr_key *key, const mr_type *image) {
    (void)params;
    (void)key;
    return (mr_region){0, 0, image->dims[1], image->dims[0]};
}

static mr_status check(void *params, mr_error *err) {
    mr_resize_params *p = params;
    (void)err;
    p->box = whole;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(mr_resize_params, size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number: the shorter side, the other in proportion; or [height, width]."},
    {.name = "filter",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_resize_params, filter),
     .fallback = "\"bilinear\"",
     .choices = mr_filter_names,
     .for_mask = "\"nearest\"",
     .doc = "How pixels are weighed; all but nearest widen when shrinking (antialias)."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 8}", "image:13x20x3", "5bdc8e0d5401be0b11fe54e23ee6ca2f"},
    {"{\"size\": [9, 31], \"filter\": \"bicubic\"}", "image:16x11x3",
     "a69f3eb406e85e5a6eb93924d88365ea"},
    {"{\"size\": [5, 7], \"filter\": \"nearest\"}", "image:16x11x1",
     "3b636f23887eeb65a7b3eb10b0d97515"},
    {"{\"size\": [5, 7], \"filter\": \"lanczos\"}", "image:16x11x3",
     "1ce03dfa81554e83f351b61645a55a0b"},
    {"{\"size\": [5, 20], \"filter\": \"box\"}", "image:16x11x3",
     "ddf5125ee11b82f23fbf01666532cd90"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_resize = {
    MR_OP_HEADER,
    .name = "resize",
    .summary = "Resizes the image to a size, or its shorter side to a length.",
    .doc = "Equal to Image.resize of Pillow 13 bit for bit. With one number n the longer side is "
           "floor(n * longer / shorter), as in torchvision.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(mr_resize_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = mr_resize_run,
    .follow = mr_resize_follow,
    .want = mr_resize_want,
    .pass = mr_resize_pass,
    .tolerate = mr_resize_tolerate,
    .examples = examples,
    .also = "smallest_max_size",
};
