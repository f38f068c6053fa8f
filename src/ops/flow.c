/* SPDX-License-Identifier: Apache-2.0 */
/* flow.c - see flow.h. */
#include "ops/flow.h"

#include <string.h>

#include "core/error.h"
#include "kernels/resampler.h"

mr_status mr_want_same(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err) {
    (void)params;
    (void)call;
    (void)in;
    (void)out;
    (void)err;
    *needed = *wanted;
    return MR_OK;
}

/* ---- Windows ---- */
static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The part of [from, from + length) inside [0, side), or the nearest single place. */
static void cut(int64_t side, int64_t from, int64_t length, int64_t *start, int64_t *count) {
    int64_t low = clamp(from, 0, side - 1), high = clamp(from + length, low + 1, side);
    *start = low;
    *count = high - low;
}

mr_region mr_cutout_needs(const mr_type *in, int64_t top, int64_t left, const mr_region *wanted) {
    mr_region needed;
    cut(in->dims[1], left + wanted->x, wanted->width, &needed.x, &needed.width);
    cut(in->dims[0], top + wanted->y, wanted->height, &needed.y, &needed.height);
    return needed;
}

/* A row of pixels of one value; fill may be NULL. */
static void fill_row(uint8_t *row, size_t bytes, const uint8_t *fill, size_t pixel) {
    for (size_t i = 0; i < bytes; i++) {
        row[i] = fill ? fill[i % pixel] : 0;
    }
}

typedef struct cutout {
    mr_region needed, wanted;
    int64_t top;           /* input row of output row 0 */
    int64_t next;          /* output row to give next */
    size_t before, inside; /* bytes of border and of image in a row */
    size_t row_bytes;
    uint8_t *row;    /* a row with a border around it; NULL where there is none to add */
    uint8_t *border; /* a row of it alone */
    mr_rows to;
} cutout;

static mr_status give(cutout *w, const uint8_t *pixels, mr_error *err) {
    return w->to.row(w->to.user, w->next++, pixels, err);
}

static mr_status give_inside(cutout *w, const uint8_t *pixels, mr_error *err) {
    if (!w->row) {
        return give(w, pixels, err);
    }
    memcpy(w->row + w->before, pixels, w->inside);
    return give(w, w->row, err);
}

/* Input row y: the border above it, the row itself, and below the last one what follows. */
static mr_status cutout_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    cutout *w = user;
    int64_t end = w->wanted.y + w->wanted.height;
    while (w->next < end && w->top + w->next < y) {
        MR_TRY(give(w, w->border, err));
    }
    if (w->next < end && w->top + w->next == y) {
        MR_TRY(w->inside > 0 ? give_inside(w, pixels, err) : give(w, w->border, err));
    }
    while (y == w->needed.y + w->needed.height - 1 && w->next < end) {
        MR_TRY(give(w, w->border, err));
    }
    return MR_OK;
}

/* How a wanted row is made of border and the needed columns. */
static void measure(cutout *w, int64_t left, int64_t width, size_t pixel) {
    int64_t from = clamp(-(left + w->wanted.x), 0, w->wanted.width);
    int64_t to = clamp(width - (left + w->wanted.x), from, w->wanted.width);
    w->before = (size_t)from * pixel;
    w->inside = (size_t)(to - from) * pixel;
    w->row_bytes = (size_t)w->wanted.width * pixel;
}

mr_status mr_cutout_pass(mr_call *call, const mr_flow *flow, int64_t top, int64_t left,
                         const uint8_t *fill, const mr_rows *to, mr_rows *own, mr_error *err) {
    cutout *w = mr_scratch(call, sizeof *w);
    if (!w) {
        return mr_fail_memory(err, sizeof *w);
    }
    *w = (cutout){.needed = *flow->needed, .wanted = *flow->wanted, .top = top, .to = *to};
    w->next = w->wanted.y;
    measure(w, left, flow->in->dims[1], (size_t)flow->in->dims[2]);
    w->border = mr_scratch(call, w->row_bytes);
    bool whole = w->inside == w->row_bytes;
    w->row = whole ? NULL : mr_scratch(call, w->row_bytes);
    if (!w->border || (!whole && !w->row)) {
        return mr_fail_memory(err, w->row_bytes);
    }
    fill_row(w->border, w->row_bytes, fill, (size_t)flow->in->dims[2]);
    if (w->row) {
        memcpy(w->row, w->border, w->row_bytes);
    }
    *own = (mr_rows){cutout_row, w};
    return MR_OK;
}

/* ---- Crops ---- */
/* Pixels as bytes, whatever the element type: a crop only moves them. */
static mr_pixels bytes_of(const mr_view *in) {
    mr_pixels image = mr_image_pixels(in);
    size_t width = mr_dtype_size(in->type.dtype);
    image.stride *= width;
    image.channels *= (int32_t)width;
    return image;
}

mr_status mr_crop_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                      mr_error *err) {
    const mr_crop_params *p = params;
    mr_pixels image = bytes_of(in);
    mr_place at = p->place(params, &call->key, &in->type, &out->type);
    (void)err;
    mr_image_cutout(&image, at.top, at.left, out->data, out->type.dims[0], out->type.dims[1]);
    return MR_OK;
}

mr_status mr_crop_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         double m[8], mr_error *err) {
    const mr_crop_params *p = params;
    mr_place at = p->place(params, &call->key, in, out);
    (void)err;
    mr_follow_shift(m, -at.left, -at.top);
    return MR_OK;
}

mr_status mr_crop_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err) {
    const mr_crop_params *p = params;
    mr_place at = p->place(params, &call->key, in, out);
    (void)err;
    *needed = mr_cutout_needs(in, at.top, at.left, wanted);
    return MR_OK;
}

mr_status mr_crop_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                       mr_rows *own, mr_error *err) {
    const mr_crop_params *p = params;
    mr_place at = p->place(params, &call->key, flow->in, flow->out);
    return mr_cutout_pass(call, flow, at.top, at.left, NULL, to, own, err);
}

/* ---- Resampling ---- */
/* A side of the box in an image that is `shrink` times smaller: the pixels that it touches, and
 * where among them it begins. A shrink is a power of two, so nothing is rounded. */
static mr_axis side_of_box(int64_t from, int64_t length, int64_t n_out, int32_t shrink) {
    int64_t first = from / shrink, end = (from + length + shrink - 1) / shrink;
    return (mr_axis){.n_in = end - first,
                     .n_out = n_out,
                     .from = (double)(from - first * shrink) / shrink,
                     .length = (double)length / shrink};
}

static mr_resampler_config resampler_config(const mr_call *call, const mr_region *box,
                                            const mr_type *out, mr_filter filter,
                                            const mr_region *wanted) {
    return (mr_resampler_config){
        .kernels = call->kernels,
        .filter = filter,
        .channels = (int32_t)out->dims[2],
        .x = side_of_box(box->x, box->width, out->dims[1], call->shrink),
        .y = side_of_box(box->y, box->height, out->dims[0], call->shrink),
        .rows = {wanted->y, wanted->y + wanted->height},
        .columns = {wanted->x, wanted->x + wanted->width},
    };
}

mr_region mr_resample_needs(const mr_call *call, const mr_region *box, const mr_type *out,
                            mr_filter filter, const mr_region *wanted) {
    mr_resampler_config c = resampler_config(call, box, out, filter, wanted);
    mr_span rows = mr_resampler_needs(&c.y, filter, c.rows);
    mr_span columns = mr_resampler_needs(&c.x, filter, c.columns);
    return (mr_region){box->x / call->shrink + columns.from, box->y / call->shrink + rows.from,
                       columns.to - columns.from, rows.to - rows.from};
}

int32_t mr_resample_tolerates(const mr_region *box, const mr_type *out, mr_filter filter) {
    int64_t across = box->width / out->dims[1], down = box->height / out->dims[0];
    int64_t both = across < down ? across : down;
    if (filter == MR_NEAREST || both < 1) {
        return 1;
    }
    return both < INT32_MAX ? (int32_t)both : INT32_MAX;
}

typedef struct resampling {
    mr_resampler *resampler;
    int64_t next;
    mr_rows to;
} resampling;

static mr_status resampling_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    resampling *r = user;
    const uint8_t *out;
    (void)y;
    mr_resampler_put(r->resampler, pixels);
    while ((out = mr_resampler_get(r->resampler)) != NULL) {
        MR_TRY(r->to.row(r->to.user, r->next++, out, err));
    }
    return MR_OK;
}

mr_status mr_resample_pass(mr_call *call, const mr_flow *flow, const mr_region *box,
                           mr_filter filter, const mr_rows *to, mr_rows *own, mr_error *err) {
    const mr_resampler_config config = resampler_config(call, box, flow->out, filter, flow->wanted);
    size_t bytes = mr_resampler_memory(&config);
    resampling *r = mr_scratch(call, sizeof *r);
    void *memory = mr_scratch(call, bytes);
    if (!r || !memory) {
        return mr_fail_memory(err, bytes);
    }
    *r = (resampling){mr_resampler_start(&config, memory), flow->wanted->y, *to};
    *own = (mr_rows){resampling_row, r};
    return MR_OK;
}

/* ---- Resizes ---- */
mr_status mr_resize_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                        mr_error *err) {
    const mr_resize_params *p = params;
    mr_pixels image = mr_image_pixels(in);
    mr_region box = p->box(params, &call->key, &in->type);
    mr_pixels part = mr_image_part(&image, box.y, box.x, box.height, box.width);
    return mr_image_resample(call, &part, out, (mr_filter)p->filter, err);
}

mr_status mr_resize_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                           double m[8], mr_error *err) {
    const mr_resize_params *p = params;
    mr_region box = p->box(params, &call->key, in);
    (void)err;
    mr_follow_box(m, &box, out);
    return MR_OK;
}

mr_status mr_resize_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         const mr_region *wanted, mr_region *needed, mr_error *err) {
    const mr_resize_params *p = params;
    mr_region box = p->box(params, &call->key, in);
    (void)err;
    *needed = mr_resample_needs(call, &box, out, (mr_filter)p->filter, wanted);
    return MR_OK;
}

mr_status mr_resize_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                         mr_rows *own, mr_error *err) {
    const mr_resize_params *p = params;
    mr_region box = p->box(params, &call->key, flow->in);
    return mr_resample_pass(call, flow, &box, (mr_filter)p->filter, to, own, err);
}

int32_t mr_resize_tolerate(const void *params, mr_call *call, const mr_type *in,
                           const mr_type *out) {
    const mr_resize_params *p = params;
    mr_region box = p->box(params, &call->key, in);
    return mr_resample_tolerates(&box, out, (mr_filter)p->filter);
}
