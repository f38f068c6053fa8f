/* SPDX-License-Identifier: Apache-2.0 */
/* random_resized_crop.c - the op random_resized_crop: a random box of the image, resized. */
#include "ops/flow.h"

#include <math.h>
#include <stddef.h>

#include "core/error.h"

#define ATTEMPTS 10u

enum { DRAW_AREA, DRAW_RATIO, DRAW_TOP, DRAW_LEFT, DRAWS_PER_ATTEMPT };

typedef struct random_resized_crop_params {
    mr_resize_params resize;
    mr_floats scale, ratio;
    double log_ratio[2]; /* derived */
} random_resized_crop_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const random_resized_crop_params *p = params;
    MR_TRY(mr_image_check(in, err));
    return mr_image_resized(in, mr_size_height(&p->resize.size), mr_size_width(&p->resize.size),
                            out, err);
}

static bool attempt(const random_resized_crop_params *p, const mr_key *key, uint32_t number,
                    const mr_type *image, mr_region *out) {
    uint32_t draw = number * DRAWS_PER_ATTEMPT;
    double area = (double)(image->dims[0] * image->dims[1]);
    double wanted = area * mr_draw_range(key, draw + DRAW_AREA, p->scale.v[0], p->scale.v[1]);
    double ratio =
        mr_exact_exp(mr_draw_range(key, draw + DRAW_RATIO, p->log_ratio[0], p->log_ratio[1]));
    double width = rint(sqrt(wanted * ratio)), height = rint(sqrt(wanted / ratio));
    if (!(width >= 1.0 && width <= (double)image->dims[1] && height >= 1.0 &&
          height <= (double)image->dims[0])) {
        return false;
    }
    out->height = (int64_t)height;
    out->width = (int64_t)width;
    out->y = mr_draw_below(key, draw + DRAW_TOP, image->dims[0] - out->height + 1);
    out->x = mr_draw_below(key, draw + DRAW_LEFT, image->dims[1] - out->width + 1);
    return true;
}

static int64_t at_least_one(double side) {
    return side < 1.0 ? 1 : (int64_t)side;
}

/* The largest box in the middle whose ratio is allowed. */
static mr_region middle(const random_resized_crop_params *p, const mr_type *image) {
    double ratio = (double)image->dims[1] / (double)image->dims[0];
    mr_region out = {0, 0, image->dims[1], image->dims[0]};
    if (ratio < p->ratio.v[0]) {
        out.height = at_least_one(rint((double)image->dims[1] / p->ratio.v[0]));
    } else if (ratio > p->ratio.v[1]) {
        out.width = at_least_one(rint((double)image->dims[0] * p->ratio.v[1]));
    }
    out.y = (image->dims[0] - out.height) / 2;
    out.x = (image->dims[1] - out.width) / 2;
    return out;
}

static mr_region choose(const void *params, const mr_key *key, const mr_type *image) {
    const random_resized_crop_params *p = params;
    mr_region out;
    for (uint32_t number = 0; number < ATTEMPTS; number++) {
        if (attempt(p, key, number, image, &out)) {
            return out;
        }
    }
    return middle(p, image);
}

static mr_status check(void *params, mr_error *err) {
    random_resized_crop_params *p = params;
    if (p->scale.v[0] > p->scale.v[1]) {
        return mr_fail(err, MR_E_PARAM, "scale must be [smallest, largest], not [%g, %g]",
                       p->scale.v[0], p->scale.v[1]);
    }
    if (p->ratio.v[0] > p->ratio.v[1]) {
        return mr_fail(err, MR_E_PARAM, "ratio must be [smallest, largest], not [%g, %g]",
                       p->ratio.v[0], p->ratio.v[1]);
    }
    p->resize.box = choose;
    p->log_ratio[0] = mr_exact_log(p->ratio.v[0]);
    p->log_ratio[1] = mr_exact_log(p->ratio.v[1]);
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(random_resized_crop_params, resize.size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number for a square, or [height, width]."},
    {.name = "scale",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(random_resized_crop_params, scale),
     .fallback = "[0.08, 1.0]",
     .min = 1e-9,
     .max = 1,
     .min_len = 2,
     .max_len = 2,
     .doc = "Smallest and largest share of the image's area."},
    {.name = "ratio",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(random_resized_crop_params, ratio),
     .fallback = "[0.75, 1.3333333333333333]",
     .min = 1e-6,
     .max = 1e6,
     .min_len = 2,
     .max_len = 2,
     .doc = "Smallest and largest width / height of the box."},
    {.name = "filter",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(random_resized_crop_params, resize.filter),
     .fallback = "\"bilinear\"",
     .choices = mr_filter_names,
     .for_mask = "\"nearest\"",
     .doc = "As in resize."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 8}", "image:24x31x3", "b77fa028ef6c0711e254ee0bf15086ee"},
    {"{\"size\": [6, 9], \"scale\": [0.5, 1.0], \"filter\": \"bicubic\"}", "image:20x20x1",
     "44f0cc3da6a1e0947f955fc8d93ba0dc"},
    {"{\"size\": 4}", "image:3x40x3", "aa1c050c7d82ac07d9e62fa236c24f11"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_random_resized_crop = {
    MR_OP_HEADER,
    .name = "random_resized_crop",
    .summary = "Cuts a box of random area, shape and place out of the image and resizes it.",
    .doc = "Boxes are drawn as in torchvision; the pixels are Pillow's crop, then resize, bit for "
           "bit. Attempt k = 0 .. 9: area = H * W * range(draw 4k, scale); r = exp(range(draw "
           "4k + 1, log of ratio)); w = round(sqrt(area * r)), h = round(sqrt(area / r)), halves "
           "to even. If 1 <= w <= W and 1 <= h <= H: first row = below(draw 4k + 2, H - h + 1), "
           "first column = below(draw 4k + 3, W - w + 1). After ten failures: the largest box in "
           "the middle of an allowed ratio.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(random_resized_crop_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = mr_resize_run,
    .follow = mr_resize_follow,
    .want = mr_resize_want,
    .pass = mr_resize_pass,
    .tolerate = mr_resize_tolerate,
    .examples = examples,
};
