/* SPDX-License-Identifier: Apache-2.0 */
/* grayscale.c - the op grayscale: colour to grey. */
#include "ops/flow.h"

#include <stddef.h>
#include <string.h>

#include "core/error.h"

typedef struct grayscale_params {
    int64_t channels;
} grayscale_params;

static mr_status check(void *params, mr_error *err) {
    const grayscale_params *p = params;
    if (p->channels == 2) {
        return mr_fail(err, MR_E_PARAM, "channels must be 1 or 3");
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const grayscale_params *p = params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    out->dims[2] = p->channels;
    return MR_OK;
}

/* Pixels of `step` channels to grey ones of `wide`. */
static void to_grey(uint8_t *to, const uint8_t *from, size_t pixels, size_t step, size_t wide) {
    for (size_t i = 0; i < pixels; i++) {
        uint8_t grey = step == 3 ? mr_luma(from + 3 * i) : from[i];
        memset(to + i * wide, grey, wide);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const grayscale_params *p = params;
    size_t step = (size_t)in->type.dims[2];
    (void)call;
    (void)err;
    to_grey(out->data, in->data, in->size / step, step, (size_t)p->channels);
    return MR_OK;
}

typedef struct greying {
    size_t pixels, step, wide;
    uint8_t *row;
    mr_rows to;
} greying;

static mr_status grey_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const greying *g = user;
    to_grey(g->row, pixels, g->pixels, g->step, g->wide);
    return g->to.row(g->to.user, y, g->row, err);
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    const grayscale_params *p = params;
    greying *g = mr_scratch(call, sizeof *g);
    size_t bytes = (size_t)(flow->wanted->width * p->channels);
    uint8_t *row = mr_scratch(call, bytes);
    if (!g || !row) {
        return mr_fail_memory(err, bytes);
    }
    *g = (greying){(size_t)flow->wanted->width, (size_t)flow->in->dims[2], (size_t)p->channels, row,
                   *to};
    *own = (mr_rows){grey_row, g};
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "channels",
     .kind = MR_PARAM_INT,
     .offset = offsetof(grayscale_params, channels),
     .fallback = "1",
     .min = 1,
     .max = 3,
     .doc = "1, or 3 equal ones."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "95807155f65e0da0a4eacd6e3c57477c"},
    {"{\"channels\": 3}", "image:5x7x3", "494d193c2b0f01116d939b0069520f80"},
    {"{\"channels\": 3}", "image:5x7x1", "1e3a96a6c18e53c16c59527650db6817"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_grayscale = {
    MR_OP_HEADER,
    .name = "grayscale",
    .summary = "Turns colour into grey.",
    .doc = "Equal to Pillow's convert(\"L\"): (19595 R + 38470 G + 7471 B + 32768) / 65536, "
           "rounded down. Grey images stay as they are.",
    .flags = MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(grayscale_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .want = mr_want_same,
    .pass = pass,
    .examples = examples,
    .also = "random_grayscale to_gray to_grayscale greyscale",
};
