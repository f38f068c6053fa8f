/* SPDX-License-Identifier: Apache-2.0 */
/* rand_augment.c - the op rand_augment: a few drawn changes, all of one magnitude. */
#include "ops/augment.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/error.h"

enum { DRAW_KIND, DRAW_SIGN, DRAWS_PER_STEP };

typedef struct rand_augment_params {
    mr_augment_params augment;
    int64_t num_ops, magnitude, bins;
} rand_augment_params;

static const mr_augment_space space = {.shear = 0.3, .turn = 30, .enhance = 0.9, .posterize = 4};

static void draw(const void *params, const mr_key *key, const mr_type *in, mr_augment_list *out) {
    const rand_augment_params *p = params;
    out->n = (int32_t)p->num_ops;
    for (uint32_t i = 0; i < (uint32_t)out->n; i++) {
        uint32_t first = i * DRAWS_PER_STEP;
        mr_augment_kind kind =
            (mr_augment_kind)mr_draw_below(key, first + DRAW_KIND, MR_AUGMENT_DRAWN);
        bool negative = mr_draw_below(key, first + DRAW_SIGN, 2) == 1;
        out->steps[i] = mr_augment_at(&space, kind, p->magnitude, p->bins, negative, in);
    }
}

static mr_status check(void *params, mr_error *err) {
    rand_augment_params *p = params;
    p->augment.draw = draw;
    if (p->magnitude >= p->bins) {
        return mr_fail(err, MR_E_PARAM, "magnitude %" PRId64 " must be below bins, %" PRId64,
                       p->magnitude, p->bins);
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "num_ops",
     .kind = MR_PARAM_INT,
     .offset = offsetof(rand_augment_params, num_ops),
     .fallback = "2",
     .min = 1,
     .max = MR_AUGMENT_STEPS,
     .doc = "How many changes, one after the other."},
    {.name = "magnitude",
     .kind = MR_PARAM_INT,
     .offset = offsetof(rand_augment_params, magnitude),
     .fallback = "9",
     .min = 0,
     .max = 1000,
     .doc = "How strong they are: a level below bins."},
    {.name = "bins",
     .kind = MR_PARAM_INT,
     .offset = offsetof(rand_augment_params, bins),
     .fallback = "31",
     .min = 2,
     .max = 1001,
     .doc = "How many levels there are."},
    MR_WARP_FILTER_ROW(mr_augment_params),
    MR_FILL_ROW(mr_augment_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:12x15x3", "c797156d342413e410bc13b90b95b373"},
    {"{\"num_ops\": 5, \"magnitude\": 25, \"filter\": \"bilinear\", \"fill\": 9}", "image:12x15x1",
     "e13e84608f6e7fd04a459d81d0529b05"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_rand_augment = {
    MR_OP_HEADER,
    .name = "rand_augment",
    .summary = "Changes the image in a few random ways, all of one magnitude.",
    .doc =
        "torchvision's RandAugment over Pillow, for the same draws. Step i: the change is "
        "below(draw 2 i, 14) of identity, shear_x, shear_y, translate_x, translate_y, rotate, "
        "brightness, color, contrast, sharpness, posterize, solarize, autocontrast, equalize; "
        "where "
        "it has a sign it is negative if below(draw 2 i + 1, 2) is 1. Magnitudes are those of "
        "torch.linspace in float32. A shear's tangent is the magnitude itself, which torchvision "
        "takes through an angle and back, so its last bit may differ.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(rand_augment_params),
    .params = rows,
    .check = check,
    .plan = mr_warp_plan,
    .run = mr_augment_run,
    .want = mr_augment_want,
    .pass = mr_augment_pass,
    .follow = mr_augment_follow,
    .spare_mask = mr_augment_spare_mask,
    .examples = examples,
};
