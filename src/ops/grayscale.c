/* SPDX-License-Identifier: Apache-2.0 */
/* grayscale.c - the op grayscale: colour to grey. */
#include "ops/image.h"

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

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const grayscale_params *p = params;
    const uint8_t *from = in->data;
    uint8_t *to = out->data;
    size_t step = (size_t)in->type.dims[2], pixels = in->size / step, wide = (size_t)p->channels;
    (void)call;
    (void)err;
    for (size_t i = 0; i < pixels; i++) {
        uint8_t grey = step == 3 ? mr_luma(from + 3 * i) : from[i];
        memset(to + i * wide, grey, wide);
    }
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
    {"{}", "image:5x7x3", ""},
    {"{\"channels\": 3}", "image:5x7x3", ""},
    {"{\"channels\": 3}", "image:5x7x1", ""},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_grayscale = {
    MR_OP_HEADER,
    .name = "grayscale",
    .summary = "Turns colour into grey.",
    .doc = "Equal to Pillow's convert(\"L\"): (19595 R + 38470 G + 7471 B + 32768) / 65536, "
           "rounded down. Grey images stay as they are.",
    .version = 1,
    .param_size = sizeof(grayscale_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .examples = examples,
};
