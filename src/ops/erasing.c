/* SPDX-License-Identifier: Apache-2.0 */
/* erasing.c - the op erasing: drawn boxes of the image are painted over. Also known as cutout. */
#include "ops/flow.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"

#define ATTEMPTS 10u
#define MOST 16

enum { DRAW_APPLY, DRAW_BOXES };
enum { DRAW_AREA, DRAW_RATIO, DRAW_TOP, DRAW_LEFT, DRAWS_PER_ATTEMPT };

typedef struct erasing_params {
    double p;
    mr_floats scale, ratio;
    mr_ints fill;
    int64_t count;
    double log_ratio[2]; /* derived */
} erasing_params;

static mr_status check(void *params, mr_error *err) {
    erasing_params *p = params;
    if (p->scale.v[0] > p->scale.v[1]) {
        return mr_fail(err, MR_E_PARAM, "scale must be [smallest, largest], not [%g, %g]",
                       p->scale.v[0], p->scale.v[1]);
    }
    if (p->ratio.v[0] > p->ratio.v[1]) {
        return mr_fail(err, MR_E_PARAM, "ratio must be [smallest, largest], not [%g, %g]",
                       p->ratio.v[0], p->ratio.v[1]);
    }
    p->log_ratio[0] = mr_exact_log(p->ratio.v[0]);
    p->log_ratio[1] = mr_exact_log(p->ratio.v[1]);
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const erasing_params *p = params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return mr_fill_check(&p->fill, in, err);
}

/* ---- Drawing ---- */
typedef struct erased {
    mr_region boxes[MOST];
    int32_t n;
} erased;

static bool attempt(const erasing_params *p, const mr_key *key, uint32_t draw, const mr_type *image,
                    mr_region *out) {
    int64_t rows = image->dims[0], columns = image->dims[1];
    double area = (double)(rows * columns) *
                  mr_draw_range(key, draw + DRAW_AREA, p->scale.v[0], p->scale.v[1]);
    double ratio =
        mr_exact_exp(mr_draw_range(key, draw + DRAW_RATIO, p->log_ratio[0], p->log_ratio[1]));
    double height = rint(sqrt(area * ratio)), width = rint(sqrt(area / ratio));
    if (!(height < (double)rows && width < (double)columns)) {
        return false;
    }
    *out = (mr_region){.width = (int64_t)width, .height = (int64_t)height};
    out->y = mr_draw_below(key, draw + DRAW_TOP, rows - out->height + 1);
    out->x = mr_draw_below(key, draw + DRAW_LEFT, columns - out->width + 1);
    return true;
}

static erased draw_boxes(const erasing_params *p, const mr_key *key, const mr_type *image) {
    erased e = {.n = 0};
    if (!mr_applies(p->p, key, DRAW_APPLY)) {
        return e;
    }
    for (uint32_t box = 0; box < (uint32_t)p->count; box++) {
        uint32_t draw = DRAW_BOXES + box * ATTEMPTS * DRAWS_PER_ATTEMPT;
        bool found = false;
        for (uint32_t k = 0; k < ATTEMPTS && !found; k++, draw += DRAWS_PER_ATTEMPT) {
            found = attempt(p, key, draw, image, &e.boxes[e.n]);
        }
        e.n += found;
    }
    return e;
}

/* ---- Pixels ---- */
/* Row y of the image, of which `row` has n pixels from column `left` on. */
static void erase_row(const erased *e, const uint8_t fill[3], uint8_t *row, int64_t y, int64_t left,
                      int64_t n, int64_t channels) {
    for (int32_t i = 0; i < e->n; i++) {
        const mr_region *box = &e->boxes[i];
        int64_t from = box->x > left ? box->x - left : 0, to = box->x + box->width - left;
        bool hit = y >= box->y && y < box->y + box->height;
        for (int64_t x = from; hit && x < to && x < n; x++) {
            memcpy(row + x * channels, fill, (size_t)channels);
        }
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const erasing_params *p = params;
    const erased e = draw_boxes(p, &call->key, &in->type);
    int64_t width = in->type.dims[1], channels = in->type.dims[2];
    uint8_t fill[3], *row = out->data;
    (void)err;
    mr_fill_bytes(&p->fill, fill);
    memcpy(out->data, in->data, in->size);
    for (int64_t y = 0; y < in->type.dims[0]; y++, row += width * channels) {
        erase_row(&e, fill, row, y, 0, width, channels);
    }
    return MR_OK;
}

typedef struct erasing {
    erased erased;
    uint8_t fill[3];
    int64_t left, width, channels;
    uint8_t *row;
    mr_rows to;
} erasing;

static mr_status take_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const erasing *e = user;
    memcpy(e->row, pixels, (size_t)(e->width * e->channels));
    erase_row(&e->erased, e->fill, e->row, y, e->left, e->width, e->channels);
    return e->to.row(e->to.user, y, e->row, err);
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    const erasing_params *p = params;
    const erased drawn = draw_boxes(p, &call->key, flow->in);
    if (drawn.n == 0) {
        *own = *to;
        return MR_OK;
    }
    size_t bytes = (size_t)(flow->wanted->width * flow->in->dims[2]);
    erasing *e = mr_scratch(call, sizeof *e);
    uint8_t *row = mr_scratch(call, bytes);
    if (!e || !row) {
        return mr_fail_memory(err, bytes);
    }
    *e = (erasing){.erased = drawn,
                   .left = flow->wanted->x,
                   .width = flow->wanted->width,
                   .channels = flow->in->dims[2],
                   .row = row,
                   .to = *to};
    mr_fill_bytes(&p->fill, e->fill);
    *own = (mr_rows){take_row, e};
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "p",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(erasing_params, p),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Probability of doing it."},
    {.name = "scale",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(erasing_params, scale),
     .fallback = "[0.02, 0.33]",
     .min = 0,
     .max = 1,
     .min_len = 2,
     .max_len = 2,
     .doc = "Smallest and largest share of the image's area."},
    {.name = "ratio",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(erasing_params, ratio),
     .fallback = "[0.3, 3.3]",
     .min = 1e-6,
     .max = 1e6,
     .min_len = 2,
     .max_len = 2,
     .doc = "Smallest and largest height / width of a box."},
    {.name = "count",
     .kind = MR_PARAM_INT,
     .offset = offsetof(erasing_params, count),
     .fallback = "1",
     .min = 1,
     .max = MOST,
     .doc = "How many boxes."},
    {.name = "fill",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(erasing_params, fill),
     .fallback = "[0]",
     .for_mask = "[0]",
     .min = 0,
     .max = 255,
     .min_len = 1,
     .max_len = 3,
     .doc = "What the boxes become, for all channels or for each."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"p\": 1}", "image:9x11x3", "83b8bcceb4dc24820cd8f635d76b0787"},
    {"{\"count\": 3, \"fill\": [1, 2, 3]}", "image:9x11x3", "b7f9383976af1948793035de12618e51"},
    {"{\"p\": 1, \"scale\": [0.9, 1]}", "image:9x11x1", "ea8d37f44a6f666f8ff35880dc5c61fa"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_erasing = {
    MR_OP_HEADER,
    .name = "erasing",
    .summary = "Paints random boxes of the image over.",
    .doc =
        "Boxes are drawn as in torchvision's RandomErasing. Done if draw 0, uniform in [0, 1), is "
        "below p. For box b, attempt k = 0 .. 9, with d = 1 + 40 b + 4 k: area = H * W * "
        "range(draw d, scale); r = exp(range(draw d + 1, log of ratio)); h = round(sqrt(area * "
        "r)), "
        "w = round(sqrt(area / r)), halves to even. If h < H and w < W: first row = below(draw "
        "d + 2, H - h + 1), first column = below(draw d + 3, W - w + 1). After ten failures there "
        "is no such box. torchvision's comes after normalising, where 0 is the mean; here it comes "
        "before, so give the mean as fill for the same.",
    .flags = MR_OP_RANDOM | MR_OP_SIZED | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(erasing_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .want = mr_want_same,
    .pass = pass,
    .examples = examples,
    .also = "random_erasing cutout coarse_dropout",
};
