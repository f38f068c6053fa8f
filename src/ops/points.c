/* SPDX-License-Identifier: Apache-2.0 */
/* points.c - see points.h. The tables are those of Pillow's ImageOps. */
#include "ops/points.h"

#include <math.h>
#include <string.h>

#include "core/error.h"

enum { DRAW_APPLY };

/* ---- Tables ---- */
void mr_table_posterize(int64_t bits, uint8_t table[256]) {
    for (int i = 0; i < 256; i++) {
        table[i] = (uint8_t)(i & (0xFF << (8 - bits)));
    }
}

void mr_table_solarize(double threshold, uint8_t table[256]) {
    for (int i = 0; i < 256; i++) {
        table[i] = (uint8_t)((double)i < threshold ? i : 255 - i);
    }
}

void mr_table_invert(uint8_t table[256]) {
    for (int i = 0; i < 256; i++) {
        table[i] = (uint8_t)(255 - i);
    }
}

static void make_identity(uint8_t table[256]) {
    for (int i = 0; i < 256; i++) {
        table[i] = (uint8_t)i;
    }
}

void mr_table_equalize(const uint64_t histogram[256], uint8_t table[256]) {
    uint64_t all = 0, last = 0;
    for (int i = 0; i < 256; i++) {
        all += histogram[i];
        last = histogram[i] ? histogram[i] : last;
    }
    uint64_t step = (all - last) / 255, sum = step / 2;
    make_identity(table);
    for (int i = 0; i < 256 && step > 0; i++) {
        uint64_t level = sum / step;
        table[i] = (uint8_t)(level < 255 ? level : 255);
        sum += histogram[i];
    }
}

/* Takes `cut` values off one end of the histogram. */
static void cut_off(uint64_t histogram[256], uint64_t cut, bool from_above) {
    for (int k = 0; k < 256 && cut > 0; k++) {
        uint64_t *count = &histogram[from_above ? 255 - k : k];
        uint64_t taken = cut < *count ? cut : *count;
        *count -= taken;
        cut -= taken;
    }
}

/* Percent of a count, rounded down; the division is of a multiple, so it is not rounded up. */
static uint64_t share_of(uint64_t all, double percent) {
    double parts = (double)all * percent;
    return (uint64_t)((parts - fmod(parts, 100.0)) / 100.0);
}

static void stretch(int low, int high, uint8_t table[256]) {
    double scale = 255.0 / (double)(high - low), offset = -(double)low * scale;
    for (int i = 0; i < 256; i++) {
        double level = (double)i * scale + offset;
        table[i] = (uint8_t)(level <= 0.0 ? 0.0 : level >= 255.0 ? 255.0 : level);
    }
}

void mr_table_autocontrast(const uint64_t histogram[256], double cutoff_low, double cutoff_high,
                           uint8_t table[256]) {
    uint64_t left[256], all = 0;
    int low = 0, high = 255;
    memcpy(left, histogram, sizeof left);
    for (int i = 0; i < 256; i++) {
        all += left[i];
    }
    cut_off(left, share_of(all, cutoff_low), false);
    cut_off(left, share_of(all, cutoff_high), true);
    while (low < 255 && left[low] == 0) {
        low++;
    }
    while (high > 0 && left[high] == 0) {
        high--;
    }
    if (high <= low) {
        make_identity(table);
    } else {
        stretch(low, high, table);
    }
}

/* ---- Pixels ---- */
void mr_histograms_count(mr_histograms *h, const uint8_t *bytes, size_t pixels, int32_t channels) {
    size_t step = (size_t)channels;
    for (size_t c = 0; c < step; c++) {
        for (size_t i = 0; i < pixels; i++) {
            h->of[c][bytes[i * step + c]]++;
        }
    }
}

void mr_tables_apply(const mr_byte_tables *restrict t, uint8_t *restrict out,
                     const uint8_t *restrict in, size_t pixels, int32_t channels) {
    if (channels == 1) {
        for (size_t i = 0; i < pixels; i++) {
            out[i] = t->of[0][in[i]];
        }
        return;
    }
    for (size_t i = 0; i < 3 * pixels; i += 3) {
        out[i] = t->of[0][in[i]];
        out[i + 1] = t->of[1][in[i + 1]];
        out[i + 2] = t->of[2][in[i + 2]];
    }
}

/* ---- As an op ---- */
typedef struct pointing {
    const void *params;
    mr_byte_tables tables;
    mr_histograms histograms;
    mr_region needed, wanted;
} pointing;

static mr_status count_all(void *user, const mr_pixels *part, mr_error *err) {
    pointing *w = user;
    const mr_points_params *p = w->params;
    (void)err;
    for (int64_t y = 0; y < part->height; y++) {
        mr_histograms_count(&w->histograms, part->data + (size_t)y * part->stride,
                            (size_t)part->width, part->channels);
    }
    for (int32_t c = 0; c < part->channels; c++) {
        p->table_for(w->params, w->histograms.of[c], w->tables.of[c]);
    }
    return MR_OK;
}

static void point_row(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    const pointing *w = user;
    const uint8_t *in = part->data + (size_t)(y - w->needed.y) * part->stride +
                        (size_t)(w->wanted.x - w->needed.x) * (size_t)part->channels;
    mr_tables_apply(&w->tables, out, in, (size_t)w->wanted.width, part->channels);
}

static mr_status make(const void *params, mr_call *call, const mr_flow *flow, mr_area *area,
                      mr_error *err) {
    const mr_points_params *p = params;
    if (!mr_applies(p->p, &call->key, DRAW_APPLY)) {
        return MR_OK;
    }
    pointing *w = mr_scratch(call, sizeof *w);
    if (!w) {
        return mr_fail_memory(err, sizeof *w);
    }
    memset(w, 0, sizeof *w);
    w->params = params;
    w->needed = *flow->needed;
    w->wanted = *flow->wanted;
    for (int c = 0; p->table && c < 3; c++) {
        p->table(params, w->tables.of[c]);
    }
    *area = (mr_area){.user = w,
                      .begin = p->table ? NULL : count_all,
                      .row = point_row,
                      .reach = p->table ? 0 : MR_AREA_ALL};
    return MR_OK;
}

/* Without a look at the whole image rows need not be kept. */
typedef struct flowing {
    mr_byte_tables tables;
    size_t pixels;
    int32_t channels;
    uint8_t *row;
    mr_rows to;
} flowing;

static mr_status flow_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const flowing *f = user;
    mr_tables_apply(&f->tables, f->row, pixels, f->pixels, f->channels);
    return f->to.row(f->to.user, y, f->row, err);
}

static mr_status flow_pass(const mr_points_params *p, mr_call *call, const mr_flow *flow,
                           const mr_rows *to, mr_rows *own, mr_error *err) {
    flowing *f = mr_scratch(call, sizeof *f);
    size_t bytes = (size_t)(flow->wanted->width * flow->in->dims[2]);
    uint8_t *row = mr_scratch(call, bytes);
    if (!f || !row) {
        return mr_fail_memory(err, bytes);
    }
    f->pixels = (size_t)flow->wanted->width;
    f->channels = (int32_t)flow->in->dims[2];
    f->row = row;
    f->to = *to;
    for (int c = 0; c < 3; c++) {
        p->table(p, f->tables.of[c]);
    }
    *own = (mr_rows){flow_row, f};
    return MR_OK;
}

mr_status mr_points_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return MR_OK;
}

mr_status mr_points_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                        mr_error *err) {
    return mr_area_run(make, params, call, in, out, err);
}

mr_status mr_points_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         const mr_region *wanted, mr_region *needed, mr_error *err) {
    const mr_points_params *p = params;
    bool all = p->table_for && mr_applies(p->p, &call->key, DRAW_APPLY);
    (void)out;
    (void)err;
    *needed = all ? mr_whole_region(in) : *wanted;
    return MR_OK;
}

mr_status mr_points_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                         mr_rows *own, mr_error *err) {
    const mr_points_params *p = params;
    if (p->table && mr_applies(p->p, &call->key, DRAW_APPLY)) {
        return flow_pass(p, call, flow, to, own, err);
    }
    return mr_area_pass(make, params, call, flow, to, own, err);
}

uint32_t mr_points_flags(const void *params) {
    const mr_points_params *p = params;
    return (p->table_for ? MR_OP_HEAVY : 0u) | (p->p > 0.0 && p->p < 1.0 ? MR_OP_RANDOM : 0u);
}
