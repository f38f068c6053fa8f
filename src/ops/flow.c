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

mr_region mr_window_needs(const mr_type *in, int64_t top, int64_t left, const mr_region *wanted) {
    mr_region needed;
    cut(in->dims[1], left + wanted->x, wanted->width, &needed.x, &needed.width);
    cut(in->dims[0], top + wanted->y, wanted->height, &needed.y, &needed.height);
    return needed;
}

typedef struct window {
    mr_region needed, wanted;
    int64_t top;           /* input row of output row 0 */
    int64_t next;          /* output row to give next */
    size_t before, inside; /* bytes of zeros and of image in a row */
    size_t row_bytes;
    uint8_t *row;   /* a row with zeros around it; NULL where there are none to add */
    uint8_t *zeros; /* a row of them */
    mr_rows to;
} window;

static mr_status give(window *w, const uint8_t *pixels, mr_error *err) {
    return w->to.row(w->to.user, w->next++, pixels, err);
}

static mr_status give_inside(window *w, const uint8_t *pixels, mr_error *err) {
    if (!w->row) {
        return give(w, pixels, err);
    }
    memcpy(w->row + w->before, pixels, w->inside);
    return give(w, w->row, err);
}

/* Input row y: the zeros above it, the row itself, and below the last one the zeros that follow. */
static mr_status window_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    window *w = user;
    int64_t end = w->wanted.y + w->wanted.height;
    while (w->next < end && w->top + w->next < y) {
        MR_TRY(give(w, w->zeros, err));
    }
    if (w->next < end && w->top + w->next == y) {
        MR_TRY(w->inside > 0 ? give_inside(w, pixels, err) : give(w, w->zeros, err));
    }
    while (y == w->needed.y + w->needed.height - 1 && w->next < end) {
        MR_TRY(give(w, w->zeros, err));
    }
    return MR_OK;
}

/* How a wanted row is made of zeros and the needed columns. */
static void measure(window *w, int64_t left, int64_t width, size_t pixel) {
    int64_t from = clamp(-(left + w->wanted.x), 0, w->wanted.width);
    int64_t to = clamp(width - (left + w->wanted.x), from, w->wanted.width);
    w->before = (size_t)from * pixel;
    w->inside = (size_t)(to - from) * pixel;
    w->row_bytes = (size_t)w->wanted.width * pixel;
}

mr_status mr_window_pass(mr_call *call, const mr_flow *flow, int64_t top, int64_t left,
                         const mr_rows *to, mr_rows *own, mr_error *err) {
    window *w = mr_scratch(call, sizeof *w);
    if (!w) {
        return mr_fail_memory(err, sizeof *w);
    }
    *w = (window){.needed = *flow->needed, .wanted = *flow->wanted, .top = top, .to = *to};
    w->next = w->wanted.y;
    measure(w, left, flow->in->dims[1], (size_t)flow->in->dims[2]);
    w->zeros = mr_scratch(call, w->row_bytes);
    bool whole = w->inside == w->row_bytes;
    w->row = whole ? NULL : mr_scratch(call, w->row_bytes);
    if (!w->zeros || (!whole && !w->row)) {
        return mr_fail_memory(err, w->row_bytes);
    }
    memset(w->zeros, 0, w->row_bytes);
    if (w->row) {
        memset(w->row, 0, w->row_bytes);
    }
    *own = (mr_rows){window_row, w};
    return MR_OK;
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
