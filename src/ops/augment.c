/* SPDX-License-Identifier: Apache-2.0 */
/* augment.c - see augment.h. */
#include "ops/augment.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "ops/area.h"
#include "ops/enhance.h"
#include "ops/points.h"

static bool is_warp(mr_augment_kind kind) {
    return kind >= MR_AUGMENT_SHEAR_X && kind <= MR_AUGMENT_ROTATE;
}

/* ---- Magnitudes ---- */
/* Level i of n from `low` to `high` in float32, as torch.linspace has it: from the nearer end, and
 * rounded once, as a fused multiply-add does. */
static double level_between(double low, double high, int64_t i, int64_t n) {
    float from = (float)low, to = (float)high, step = (to - from) / (float)(n - 1);
    double near_low = (double)from + (double)step * (double)i;
    double near_high = (double)to - (double)step * (double)(n - 1 - i);
    return (double)(float)(i < n / 2 ? near_low : near_high);
}

static double largest(const mr_augment_space *s, mr_augment_kind kind, const mr_type *image) {
    switch (kind) {
    case MR_AUGMENT_SHEAR_X:
    case MR_AUGMENT_SHEAR_Y:
        return s->shear;
    case MR_AUGMENT_TRANSLATE_X:
        return s->translate > 0.0 ? s->translate : 150.0 / 331.0 * (double)image->dims[1];
    case MR_AUGMENT_TRANSLATE_Y:
        return s->translate > 0.0 ? s->translate : 150.0 / 331.0 * (double)image->dims[0];
    case MR_AUGMENT_ROTATE:
        return s->turn;
    default:
        return s->enhance;
    }
}

mr_augment_step mr_augment_at(const mr_augment_space *space, mr_augment_kind kind, int64_t level,
                              int64_t bins, bool negative, const mr_type *image) {
    mr_augment_step step = {kind, 0.0};
    if (kind >= MR_AUGMENT_SHEAR_X && kind <= MR_AUGMENT_SHARPNESS) {
        double value = level_between(0.0, largest(space, kind, image), level, bins);
        step.magnitude = negative ? -value : value;
    } else if (kind == MR_AUGMENT_POSTERIZE) {
        float lost = (float)level / (float)((double)(bins - 1) / space->posterize);
        step.magnitude = 8.0 - (double)rintf(lost);
    } else if (kind == MR_AUGMENT_SOLARIZE) {
        step.magnitude = level_between(255.0, 0.0, level, bins);
    }
    return step;
}

/* ---- Changes of a whole image, from one buffer to the other or in place ---- */
typedef struct canvas {
    const mr_augment_params *params;
    uint8_t *now, *other;
    int64_t height, width;
    int32_t channels;
    void *memory; /* of a warp */
} canvas;

static size_t n_pixels(const canvas *c) {
    return (size_t)(c->height * c->width);
}

static size_t row_bytes(const canvas *c) {
    return (size_t)(c->width * c->channels);
}

static void exchange(canvas *c) {
    uint8_t *swap = c->now;
    c->now = c->other;
    c->other = swap;
}

static mr_map map_of(const mr_augment_step *step, int64_t height, int64_t width) {
    const double center[2] = {(double)width * 0.5, (double)height * 0.5}, none[2] = {0, 0};
    double amount = step->magnitude, whole = trunc(amount);
    const double across[2] = {whole, 0}, down[2] = {0, whole};
    mr_map map = {{1, 0, 0, 0, 1, 0, 0, 0}, false};
    switch (step->kind) {
    case MR_AUGMENT_SHEAR_X: /* the tangent of the angle whose tangent this is */
        map.m[1] = amount;
        break;
    case MR_AUGMENT_SHEAR_Y:
        map.m[3] = amount;
        break;
    case MR_AUGMENT_ROTATE:
        mr_rotation(amount, center, map.m);
        break;
    default:
        map = mr_affine_map(0.0, step->kind == MR_AUGMENT_TRANSLATE_X ? across : down, 1.0, none,
                            center);
    }
    return map;
}

static void warp(canvas *c, const mr_augment_step *step) {
    const mr_map map = map_of(step, c->height, c->width);
    uint8_t fill[3];
    mr_fill_bytes(&c->params->warp.fill, fill);
    const mr_warp *w =
        mr_warp_start(&map, c->params->warp.filter == 1, fill, c->height, c->width, c->memory);
    size_t bytes = row_bytes(c);
    const mr_scene scene = {.part = {c->now, bytes, c->height, c->width, c->channels,
                                     c->now + bytes * (size_t)c->height},
                            .height = c->height,
                            .width = c->width};
    for (int64_t y = 0; y < c->height; y++) {
        mr_warp_row(w, &scene, y, 0, c->width, c->other + (size_t)y * bytes);
    }
    exchange(c);
}

static void sharpen(canvas *c, float factor) {
    size_t bytes = row_bytes(c);
    for (int64_t y = 0; y < c->height; y++) {
        const uint8_t *row = c->now + (size_t)y * bytes;
        const mr_three_rows rows = {y > 0 ? row - bytes : NULL,
                                    row,
                                    y < c->height - 1 ? row + bytes : NULL,
                                    0,
                                    c->width,
                                    c->channels};
        mr_enhance_sharpness_row(c->other + (size_t)y * bytes, &rows, 0, c->width, factor);
    }
    exchange(c);
}

static void enhance(canvas *c, const mr_augment_step *step) {
    float factor = (float)(1.0 + step->magnitude);
    size_t pixels = n_pixels(c), channels = (size_t)c->channels;
    if (step->kind == MR_AUGMENT_BRIGHTNESS) {
        mr_enhance_brightness(c->now, pixels * channels, factor);
    } else if (step->kind == MR_AUGMENT_COLOR) {
        mr_enhance_saturation(c->now, pixels, channels, factor);
    } else if (step->kind == MR_AUGMENT_CONTRAST) {
        mr_enhance_contrast(c->now, pixels, channels, factor);
    } else {
        sharpen(c, factor);
    }
}

static void make_table(const mr_augment_step *step, const uint64_t histogram[256],
                       uint8_t table[256]) {
    switch (step->kind) {
    case MR_AUGMENT_POSTERIZE:
        mr_table_posterize((int64_t)step->magnitude, table);
        break;
    case MR_AUGMENT_SOLARIZE:
        mr_table_solarize(step->magnitude, table);
        break;
    case MR_AUGMENT_AUTOCONTRAST:
        mr_table_autocontrast(histogram, 0.0, 0.0, table);
        break;
    case MR_AUGMENT_EQUALIZE:
        mr_table_equalize(histogram, table);
        break;
    default:
        mr_table_invert(table);
    }
}

static void map_values(canvas *c, const mr_augment_step *step) {
    mr_histograms histograms = {0};
    mr_byte_tables tables;
    if (step->kind == MR_AUGMENT_AUTOCONTRAST || step->kind == MR_AUGMENT_EQUALIZE) {
        mr_histograms_count(&histograms, c->now, n_pixels(c), c->channels);
    }
    for (int32_t i = 0; i < c->channels; i++) {
        make_table(step, histograms.of[i], tables.of[i]);
    }
    mr_tables_apply(&tables, c->other, c->now, n_pixels(c), c->channels);
    exchange(c);
}

static void change(canvas *c, const mr_augment_step *step) {
    if (step->kind == MR_AUGMENT_IDENTITY) {
        return;
    }
    if (is_warp(step->kind)) {
        warp(c, step);
    } else if (step->kind <= MR_AUGMENT_SHARPNESS) {
        enhance(c, step);
    } else {
        map_values(c, step);
    }
}

/* ---- As an op ---- */
typedef struct augmenting {
    mr_augment_list list;
    canvas canvas;
    mr_region wanted;
} augmenting;

static mr_augment_list draw_list(const mr_augment_params *p, const mr_key *key, const mr_type *in) {
    mr_augment_list list = {0};
    p->draw(p, key, in, &list);
    for (int32_t i = 0; p->spares_mask && i < list.n; i++) {
        if (!is_warp(list.steps[i].kind)) {
            list.steps[i].kind = MR_AUGMENT_IDENTITY;
        }
    }
    return list;
}

static bool changes(const mr_augment_list *list) {
    for (int32_t i = 0; i < list->n; i++) {
        if (list->steps[i].kind != MR_AUGMENT_IDENTITY) {
            return true;
        }
    }
    return false;
}

static mr_status augment_all(void *user, const mr_pixels *part, mr_error *err) {
    augmenting *a = user;
    (void)err;
    for (int64_t y = 0; y < part->height; y++) {
        memcpy(a->canvas.now + (size_t)y * row_bytes(&a->canvas),
               part->data + (size_t)y * part->stride, row_bytes(&a->canvas));
    }
    for (int32_t i = 0; i < a->list.n; i++) {
        change(&a->canvas, &a->list.steps[i]);
    }
    return MR_OK;
}

static void give_row(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    const augmenting *a = user;
    size_t pixel = (size_t)part->channels;
    memcpy(out, a->canvas.now + (size_t)y * row_bytes(&a->canvas) + (size_t)a->wanted.x * pixel,
           (size_t)a->wanted.width * pixel);
}

static mr_status make(const void *params, mr_call *call, const mr_flow *flow, mr_area *area,
                      mr_error *err) {
    const mr_augment_params *p = params;
    const int64_t *dims = flow->in->dims;
    size_t bytes = (size_t)(dims[0] * dims[1] * dims[2]);
    const mr_augment_list list = draw_list(p, &call->key, flow->in);
    if (!changes(&list)) {
        return MR_OK;
    }
    augmenting *a = mr_scratch(call, sizeof *a);
    uint8_t *now = mr_scratch(call, bytes), *other = mr_scratch(call, bytes);
    void *memory = mr_scratch(call, mr_warp_memory(dims[0], dims[1]));
    if (!a || !now || !other || !memory) {
        return mr_fail_memory(err, bytes);
    }
    *a = (augmenting){
        list, {p, now, other, dims[0], dims[1], (int32_t)dims[2], memory}, *flow->wanted};
    *area = (mr_area){.user = a, .begin = augment_all, .row = give_row, .reach = MR_AREA_ALL};
    return MR_OK;
}

mr_status mr_augment_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                         mr_error *err) {
    return mr_area_run(make, params, call, in, out, err);
}

mr_status mr_augment_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                          const mr_region *wanted, mr_region *needed, mr_error *err) {
    const mr_augment_list list = draw_list(params, &call->key, in);
    (void)out;
    (void)err;
    *needed = changes(&list) ? mr_whole_region(in) : *wanted;
    return MR_OK;
}

mr_status mr_augment_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                          mr_rows *own, mr_error *err) {
    return mr_area_pass(make, params, call, flow, to, own, err);
}

mr_status mr_augment_follow(const void *params, mr_call *call, const mr_type *in,
                            const mr_type *out, double m[8], mr_error *err) {
    const mr_augment_list list = draw_list(params, &call->key, in);
    (void)out;
    (void)err;
    mr_follow_shift(m, 0, 0);
    for (int32_t i = 0; i < list.n; i++) {
        if (is_warp(list.steps[i].kind)) {
            const mr_map map = map_of(&list.steps[i], in->dims[0], in->dims[1]);
            double next[8];
            mr_map_invert(map.m, next);
            mr_follow_then(m, next);
        }
    }
    return MR_OK;
}

void mr_augment_spare_mask(void *params) {
    mr_augment_params *p = params;
    p->spares_mask = true;
}
