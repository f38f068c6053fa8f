/* SPDX-License-Identifier: Apache-2.0 */
/* cut_mix.c - the op cut_mix: a rectangle of another image of the batch, and as much of its target.
 */
#include "ops/mixing.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"

enum { DRAW_X, DRAW_Y, DRAW_SHARE };

typedef struct cut_mix_params {
    double alpha;
} cut_mix_params;

/* ---- Images: rows and columns are the last two axes, or the first two where channels come last */
typedef struct planes {
    int64_t n, height, width;
    size_t pixel; /* bytes */
} planes;

static bool is_image(const mr_type *type) {
    return type->n_dims >= 2;
}

static planes planes_of(const mr_type *type) {
    size_t size = mr_dtype_size(type->dtype);
    if (type->layout == MR_HWC) {
        return (planes){1, type->dims[0], type->dims[1], (size_t)type->dims[2] * size};
    }
    planes p = {1, type->dims[type->n_dims - 2], type->dims[type->n_dims - 1], size};
    for (int32_t i = 0; i < type->n_dims - 2; i++) {
        p.n *= type->dims[i];
    }
    return p;
}

static mr_status check_size(const mr_field *first, const mr_field *other, mr_error *err) {
    const planes a = planes_of(&first->type), b = planes_of(&other->type);
    if (a.height == b.height && a.width == b.width) {
        return MR_OK;
    }
    mr_fail(err, MR_E_TYPE,
            "%s is of %lld x %lld pixels and %s of %lld x %lld: cut_mix cannot cut "
            "them alike",
            first->name, (long long)a.height, (long long)a.width, other->name, (long long)b.height,
            (long long)b.width);
    mr_hint(err, "resize both to one size before it, or name fields in \"field\"");
    return MR_E_TYPE;
}

static mr_status check_batch(const void *params, const mr_field *fields, int32_t n, mr_error *err) {
    const mr_field *image = NULL;
    (void)params;
    for (int32_t i = 0; i < n; i++) {
        if (!is_image(&fields[i].type)) {
            MR_TRY(mr_check_blended("cut_mix", &fields[i], err));
        } else if (image) {
            MR_TRY(check_size(image, &fields[i], err));
        } else {
            image = &fields[i];
        }
    }
    return image ? MR_OK : mr_fail(err, MR_E_TYPE, "cut_mix needs an image among its fields");
}

/* ---- The rectangle ---- */
typedef struct cut {
    int64_t left, top, right, bottom;
    planes planes;
} cut;

static int64_t within(int64_t value, int64_t most) {
    return value < 0 ? 0 : value > most ? most : value;
}

static cut draw_cut(const cut_mix_params *p, const mr_key *key, const planes *of) {
    double own = mr_draw_beta(key, DRAW_SHARE, p->alpha), half = 0.5 * sqrt(1.0 - own);
    int64_t x = mr_draw_below(key, DRAW_X, of->width > 0 ? of->width : 1);
    int64_t y = mr_draw_below(key, DRAW_Y, of->height > 0 ? of->height : 1);
    int64_t across = (int64_t)(half * (double)of->width);
    int64_t down = (int64_t)(half * (double)of->height);
    return (cut){within(x - across, of->width), within(y - down, of->height),
                 within(x + across, of->width), within(y + down, of->height), *of};
}

static double share_left(const cut *c) {
    double area = (double)(c->planes.width * c->planes.height);
    return area > 0.0 ? 1.0 - (double)((c->right - c->left) * (c->bottom - c->top)) / area : 1.0;
}

static void paste(const void *user, void *to, const void *from) {
    const cut *c = user;
    size_t bytes = (size_t)(c->right - c->left) * c->planes.pixel;
    for (int64_t plane = 0; plane < c->planes.n; plane++) {
        for (int64_t y = c->top; y < c->bottom; y++) {
            int64_t row = plane * c->planes.height + y;
            size_t at = (size_t)(row * c->planes.width + c->left) * c->planes.pixel;
            memcpy((char *)to + at, (const char *)from + at, bytes);
        }
    }
}

static const mr_column *first_image(const mr_column *fields, int32_t n) {
    const mr_column *field = fields;
    while (field < fields + n - 1 && !is_image(&field->type)) {
        field++;
    }
    return field;
}

static mr_status run_batch(const void *params, mr_call *call, int64_t n, const mr_column *fields,
                           int32_t n_fields, mr_error *err) {
    const planes of_first = planes_of(&first_image(fields, n_fields)->type);
    cut c = draw_cut(params, &call->key, &of_first);
    for (int32_t i = 0; i < n_fields; i++) {
        if (is_image(&fields[i].type)) {
            c.planes = planes_of(&fields[i].type);
            MR_TRY(mr_with_previous(call, n, &fields[i], paste, &c, err));
        } else {
            MR_TRY(mr_blend(call, n, &fields[i], share_left(&c), err));
        }
    }
    return MR_OK;
}

static const mr_param rows[] = {
    MR_MIXING_ALPHA_ROW(cut_mix_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "fields:image=float32x3x2x8x9,label=float32x3x7", "7bbea0100602538505baa9ffb0615479"},
    {"{\"alpha\": 0.3}", "fields:image=uint8x4x3x16x16,mask=int32x4x16x16,label=float16x4x3",
     "ce0c63aea670e0061613a918fdc88802"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_cut_mix = {
    MR_OP_HEADER,
    .name = "cut_mix",
    .summary = "Puts a rectangle of the image before it into every image of a batch.",
    .doc =
        "For the same draws equal to torchvision's v2.CutMix. The share is drawn as in mix_up, "
        "with "
        "draws 2 and 3, 4 and 5, ...; the middle of the rectangle is x = below(draw 0, width), y = "
        "below(draw 1, height); it reaches floor(sqrt(1 - share) / 2 * side) to each side, cut off "
        "at the edges. Fields of two and more axes are images, of any type and of one size (so "
        "masks go with them); the others are targets and blended by the area that was left.",
    .flags = MR_OP_RANDOM | MR_OP_BATCH,
    .version = 1,
    .param_size = sizeof(cut_mix_params),
    .params = rows,
    .check_batch = check_batch,
    .run_batch = run_batch,
    .examples = examples,
};
