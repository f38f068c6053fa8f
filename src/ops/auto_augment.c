/* SPDX-License-Identifier: Apache-2.0 */
/* auto_augment.c - the op auto_augment: one of 25 pairs of changes, found by search for a dataset.
 */
#include "ops/augment.h"

#include <stddef.h>

enum { PAIRS = 25, BINS = 10 };
enum { DRAW_PAIR, DRAW_APPLY, DRAW_SIGN = DRAW_APPLY + 2 };

/* Short names, for the tables. */
enum {
    SHEAR_X = MR_AUGMENT_SHEAR_X,
    SHEAR_Y = MR_AUGMENT_SHEAR_Y,
    TRANSLATE_X = MR_AUGMENT_TRANSLATE_X,
    TRANSLATE_Y = MR_AUGMENT_TRANSLATE_Y,
    ROTATE = MR_AUGMENT_ROTATE,
    BRIGHTNESS = MR_AUGMENT_BRIGHTNESS,
    COLOR = MR_AUGMENT_COLOR,
    CONTRAST = MR_AUGMENT_CONTRAST,
    SHARPNESS = MR_AUGMENT_SHARPNESS,
    POSTERIZE = MR_AUGMENT_POSTERIZE,
    SOLARIZE = MR_AUGMENT_SOLARIZE,
    AUTOCONTRAST = MR_AUGMENT_AUTOCONTRAST,
    EQUALIZE = MR_AUGMENT_EQUALIZE,
    INVERT = MR_AUGMENT_INVERT
};

typedef struct part {
    uint8_t kind, tenths, level; /* tenths: of its probability */
} part;

typedef struct pair {
    part parts[2];
} pair;

static const pair imagenet[PAIRS] = {
    {{{POSTERIZE, 4, 8}, {ROTATE, 6, 9}}},  {{{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}}},
    {{{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}}, {{{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}}},
    {{{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}}, {{{EQUALIZE, 4, 0}, {ROTATE, 8, 8}}},
    {{{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}}}, {{{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}}},
    {{{ROTATE, 2, 3}, {SOLARIZE, 6, 8}}},   {{{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}}},
    {{{ROTATE, 8, 8}, {COLOR, 4, 0}}},      {{{ROTATE, 4, 9}, {EQUALIZE, 6, 0}}},
    {{{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}}}, {{{INVERT, 6, 0}, {EQUALIZE, 10, 0}}},
    {{{COLOR, 6, 4}, {CONTRAST, 10, 8}}},   {{{ROTATE, 8, 8}, {COLOR, 10, 2}}},
    {{{COLOR, 8, 8}, {SOLARIZE, 8, 7}}},    {{{SHARPNESS, 4, 7}, {INVERT, 6, 0}}},
    {{{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}}}, {{{COLOR, 4, 0}, {EQUALIZE, 6, 0}}},
    {{{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}}, {{{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}}},
    {{{INVERT, 6, 0}, {EQUALIZE, 10, 0}}},  {{{COLOR, 6, 4}, {CONTRAST, 10, 8}}},
    {{{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}},
};

static const pair cifar10[PAIRS] = {
    {{{INVERT, 1, 0}, {CONTRAST, 2, 6}}},          {{{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}}},
    {{{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}}},      {{{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}}},
    {{{AUTOCONTRAST, 5, 0}, {EQUALIZE, 9, 0}}},    {{{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}}},
    {{{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}}},         {{{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}}},
    {{{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}}},        {{{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}}},
    {{{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}}},        {{{EQUALIZE, 3, 0}, {AUTOCONTRAST, 4, 0}}},
    {{{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}}},    {{{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}}},
    {{{SOLARIZE, 5, 2}, {INVERT, 0, 0}}},          {{{EQUALIZE, 2, 0}, {AUTOCONTRAST, 6, 0}}},
    {{{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}}},        {{{COLOR, 9, 9}, {EQUALIZE, 6, 0}}},
    {{{AUTOCONTRAST, 8, 0}, {SOLARIZE, 2, 8}}},    {{{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}}},
    {{{SOLARIZE, 4, 5}, {AUTOCONTRAST, 9, 0}}},    {{{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}}},
    {{{AUTOCONTRAST, 9, 0}, {SOLARIZE, 8, 3}}},    {{{EQUALIZE, 8, 0}, {INVERT, 1, 0}}},
    {{{TRANSLATE_Y, 7, 9}, {AUTOCONTRAST, 9, 0}}},
};

static const pair svhn[PAIRS] = {
    {{{SHEAR_X, 9, 4}, {INVERT, 2, 0}}},       {{{SHEAR_Y, 9, 8}, {INVERT, 7, 0}}},
    {{{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}}},    {{{INVERT, 9, 0}, {EQUALIZE, 6, 0}}},
    {{{EQUALIZE, 6, 0}, {ROTATE, 9, 3}}},      {{{SHEAR_X, 9, 4}, {AUTOCONTRAST, 8, 0}}},
    {{{SHEAR_Y, 9, 8}, {INVERT, 4, 0}}},       {{{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}}},
    {{{INVERT, 9, 0}, {AUTOCONTRAST, 8, 0}}},  {{{EQUALIZE, 6, 0}, {ROTATE, 9, 3}}},
    {{{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}}},     {{{SHEAR_Y, 8, 8}, {INVERT, 7, 0}}},
    {{{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}}}, {{{INVERT, 9, 0}, {EQUALIZE, 6, 0}}},
    {{{CONTRAST, 3, 3}, {ROTATE, 8, 4}}},      {{{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}}},
    {{{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}}},     {{{INVERT, 6, 0}, {ROTATE, 8, 4}}},
    {{{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}}},  {{{SHEAR_X, 1, 6}, {INVERT, 6, 0}}},
    {{{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}}}, {{{SHEAR_Y, 8, 4}, {INVERT, 8, 0}}},
    {{{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}}},  {{{SHEAR_Y, 8, 5}, {AUTOCONTRAST, 7, 0}}},
    {{{SHEAR_X, 7, 2}, {INVERT, 1, 0}}},
};

static const char *const policy_names[] = {"imagenet", "cifar10", "svhn", NULL};
static const pair *const policies[] = {imagenet, cifar10, svhn};

typedef struct auto_augment_params {
    mr_augment_params augment;
    int32_t policy;
} auto_augment_params;

static const mr_augment_space space = {.shear = 0.3, .turn = 30, .enhance = 0.9, .posterize = 4};

static void draw(const void *params, const mr_key *key, const mr_type *in, mr_augment_list *out) {
    const auto_augment_params *p = params;
    const pair *chosen = &policies[p->policy][mr_draw_below(key, DRAW_PAIR, PAIRS)];
    out->n = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const part *change = &chosen->parts[i];
        bool negative = mr_draw_below(key, DRAW_SIGN + i, 2) == 0;
        if (mr_applies((double)change->tenths / 10.0, key, DRAW_APPLY + i)) {
            out->steps[out->n++] = mr_augment_at(&space, (mr_augment_kind)change->kind,
                                                 change->level, BINS, negative, in);
        }
    }
}

static mr_status check(void *params, mr_error *err) {
    auto_augment_params *p = params;
    (void)err;
    p->augment.draw = draw;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "policy",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(auto_augment_params, policy),
     .fallback = "\"imagenet\"",
     .choices = policy_names,
     .doc = "The dataset for which the pairs were found."},
    MR_WARP_FILTER_ROW(mr_augment_params),
    MR_FILL_ROW(mr_augment_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:12x15x3", "82533b9faf630816e42b11a0830dbd56"},
    {"{\"policy\": \"cifar10\", \"fill\": 9}", "image:12x15x3", "9a04e94d79e478702cb22f531abe1254"},
    {"{\"policy\": \"svhn\", \"filter\": \"bilinear\"}", "image:12x15x1",
     "69610ff1b65fbe3e040c5172c104ad27"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_auto_augment = {
    MR_OP_HEADER,
    .name = "auto_augment",
    .summary = "Changes the image by one of 25 pairs of changes that were found for a dataset.",
    .doc =
        "torchvision's AutoAugment over Pillow, with its three policies, for the same draws. Draw "
        "0 is the pair, below(25). Part i = 0, 1 of it is done if draw 1 + i, uniform in [0, 1), "
        "is below its probability; where it has a sign it is negative if below(draw 3 + i, 2) is "
        "0. Changes are those of rand_augment with 10 bins, and invert.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(auto_augment_params),
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
