/* SPDX-License-Identifier: Apache-2.0 */
/* color_jitter.c - the op color_jitter: brightness, contrast, saturation and hue, each by a drawn
 * factor, in a drawn order.
 *
 * The arithmetic is Pillow's: a blend is first + factor * (second - first) in float32, cut to a
 * byte; hue is shifted in Pillow's 8-bit HSV, whose conversions mix float32 and double. Where a
 * value is rounded to float32 is part of the result. */
#include "ops/enhance.h"

#include <millrace/millrace.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, PARTS };
enum { DRAW_FACTOR = 0, DRAW_ORDER = PARTS };

typedef struct range {
    double low, high;
} range;

typedef struct color_jitter_params {
    mr_floats given[PARTS];
    range ranges[PARTS]; /* derived */
} color_jitter_params;

static const char *const part_names[] = {"brightness", "contrast", "saturation", "hue"};

/* ---- Parameters ---- */
/* One number f is [center - f, center + f], factors not below 0; two are the range itself. */
static range range_of(const mr_floats *given, int part) {
    double center = part == HUE ? 0.0 : 1.0, f = given->v[0];
    range out = {center - f, center + f};
    if (given->n == 2) {
        out = (range){given->v[0], given->v[1]};
    } else if (part != HUE && out.low < 0.0) {
        out.low = 0.0;
    }
    return out;
}

static mr_status check_part(const color_jitter_params *p, int part, mr_error *err) {
    const range *r = &p->ranges[part];
    double low = part == HUE ? -0.5 : 0.0, high = part == HUE ? 0.5 : 1e6;
    if (r->low <= r->high && r->low >= low && r->high <= high) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "%s: the range [%g, %g] must be ordered and within [%g, %g]",
            part_names[part], r->low, r->high, low, high);
    mr_hint(err, "a number f means %s", part == HUE ? "[-f, f]" : "[max(0, 1 - f), 1 + f]");
    return MR_E_PARAM;
}

static mr_status check(void *params, mr_error *err) {
    color_jitter_params *p = params;
    for (int part = 0; part < PARTS; part++) {
        p->ranges[part] = range_of(&p->given[part], part);
        MR_TRY(check_part(p, part, err));
    }
    return MR_OK;
}

/* A part whose range is its neutral value alone is left out: even a hue of 0 would round. */
static bool is_off(const color_jitter_params *p, int part) {
    double neutral = part == HUE ? 0.0 : 1.0;
    return p->ranges[part].low == neutral && p->ranges[part].high == neutral;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return MR_OK;
}

/* ---- Hue ---- */
static inline uint8_t max_of(uint8_t a, uint8_t b) {
    return a > b ? a : b;
}

static inline uint8_t min_of(uint8_t a, uint8_t b) {
    return a < b ? a : b;
}

/* How far a channel is below the largest, as a share of the spread. */
static inline float below(uint8_t most, uint8_t channel, float spread) {
    return (float)(most - channel) / spread;
}

/* Hue of a pixel that is not grey, 0 .. 254. */
static inline uint8_t hue_of(const uint8_t *rgb, uint8_t most, float spread) {
    float h;
    if (rgb[0] == most) {
        h = below(most, rgb[2], spread) - below(most, rgb[1], spread);
    } else if (rgb[1] == most) {
        h = (float)(2.0 + (double)below(most, rgb[0], spread) -
                    (double)below(most, rgb[2], spread));
    } else {
        h = (float)(4.0 + (double)below(most, rgb[1], spread) -
                    (double)below(most, rgb[0], spread));
    }
    double turn = (double)h / 6.0 + 1.0; /* below 2: the remainder of 1 is a subtraction */
    float rest = (float)(turn >= 1.0 ? turn - 1.0 : turn);
    return (uint8_t)(int)((double)rest * 255.0);
}

/* What depends on an 8-bit hue or saturation alone, made once per worker. */
typedef struct hsv_tables {
    uint8_t sector[256]; /* of six */
    float part[256];     /* of the sector */
    float saturation[256];
} hsv_tables;

static void make_tables(hsv_tables *t) {
    for (int i = 0; i < 256; i++) {
        double sixths = (double)i * 6.0 / 255.0;
        int sector = (int)sixths;
        t->sector[i] = (uint8_t)(sector % 6);
        t->part[i] = (float)(sixths - (double)sector);
        t->saturation[i] = (float)((double)i / 255.0);
    }
}

/* For all hues, saturations and values the same as round(), which is a call. */
static inline uint8_t rounded(double value) {
    return (uint8_t)(int)(value + 0.5);
}

/* The pixel of an 8-bit hue and saturation with value v. */
static inline void set_hsv(uint8_t *rgb, const hsv_tables *t, uint8_t hue, uint8_t saturation,
                           uint8_t v) {
    static const uint8_t order[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3},
                                        {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
    const uint8_t *pick = order[t->sector[hue]];
    float part = t->part[hue], s = t->saturation[saturation];
    uint8_t parts[4] = {v, rounded(v * (1.0 - (double)s)), rounded(v * (1.0 - (double)(s * part))),
                        rounded(v * (1.0 - (double)s * (1.0 - (double)part)))};
    rgb[0] = parts[pick[0]];
    rgb[1] = parts[pick[1]];
    rgb[2] = parts[pick[2]];
}

static inline void shift_pixel(uint8_t *rgb, const hsv_tables *t, uint8_t shift) {
    uint8_t most = max_of(rgb[0], max_of(rgb[1], rgb[2]));
    uint8_t least = min_of(rgb[0], min_of(rgb[1], rgb[2]));
    if (most == least) { /* grey has no hue */
        return;
    }
    float spread = (float)(most - least);
    uint8_t hue = hue_of(rgb, most, spread);
    uint8_t saturation = (uint8_t)(int)((double)(spread / (float)most) * 255.0);
    if (saturation == 0) {
        rgb[0] = rgb[1] = rgb[2] = most;
        return;
    }
    set_hsv(rgb, t, (uint8_t)(hue + shift), saturation, most);
}

static void shift_hue(uint8_t *bytes, size_t pixels, double factor, const hsv_tables *t) {
    uint8_t shift = (uint8_t)(int32_t)(factor * 255.0);
    for (size_t i = 0; i < pixels; i++) {
        shift_pixel(bytes + 3 * i, t, shift);
    }
}

/* ---- All together ---- */
static mr_status open_tables(const void *params, void **state, mr_error *err) {
    (void)params;
    *state = mr_zalloc(1, sizeof(hsv_tables));
    if (!*state) {
        return mr_fail_memory(err, sizeof(hsv_tables));
    }
    make_tables(*state);
    return MR_OK;
}

static void close_tables(void *state) {
    mr_free(state);
}

static void apply_part(int part, double factor, uint8_t *bytes, size_t pixels, size_t channels,
                       const hsv_tables *t) {
    if (part == BRIGHTNESS) {
        mr_enhance_brightness(bytes, pixels * channels, (float)factor);
    } else if (part == CONTRAST) {
        mr_enhance_contrast(bytes, pixels, channels, (float)factor);
    } else if (part == SATURATION) {
        mr_enhance_saturation(bytes, pixels, channels, (float)factor);
    } else if (channels == 3 && part == HUE) {
        shift_hue(bytes, pixels, factor, t);
    }
}

static void draw_order(const mr_key *key, int order[PARTS]) {
    for (int i = 0; i < PARTS; i++) {
        order[i] = i;
    }
    uint32_t draw = DRAW_ORDER;
    for (int i = PARTS - 1; i > 0; i--) {
        int64_t j = mr_draw_below(key, draw++, i + 1);
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const color_jitter_params *p = params;
    size_t channels = (size_t)in->type.dims[2];
    int order[PARTS];
    (void)err;
    memcpy(out->data, in->data, in->size);
    draw_order(&call->key, order);
    for (int i = 0; i < PARTS; i++) {
        int part = order[i];
        double factor = mr_draw_range(&call->key, DRAW_FACTOR + (uint32_t)part, p->ranges[part].low,
                                      p->ranges[part].high);
        if (!is_off(p, part)) {
            apply_part(part, factor, out->data, in->size / channels, channels, call->state);
        }
    }
    return MR_OK;
}

#define ROW(part, text)                                                                            \
    .kind = MR_PARAM_FLOATS,                                                                       \
    .offset = offsetof(color_jitter_params, given) + (part) * sizeof(mr_floats), .fallback = "0",  \
    .min_len = 1, .max_len = 2, .doc = (text)

static const mr_param rows[] = {
    {.name = "brightness",
     ROW(BRIGHTNESS, "f for factors in [max(0, 1 - f), 1 + f]; or [low, high].")},
    {.name = "contrast", ROW(CONTRAST, "Likewise, around the mean grey.")},
    {.name = "saturation", ROW(SATURATION, "Likewise; grey images are left as they are.")},
    {.name = "hue", ROW(HUE, "f for shifts in [-f, f], or [low, high]; 0.5 is half the circle.")},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"brightness\": 0.4, \"contrast\": 0.4, \"saturation\": 0.4, \"hue\": 0.1}", "image:6x7x3",
     "4325d400df2f5e853e4bf1ffb7ff0871"},
    {"{\"hue\": [0.25, 0.25]}", "image:6x7x3", "777d52d8bd9ff781bd730499cf3e1cf1"},
    {"{\"contrast\": [0.5, 0.5], \"saturation\": 1}", "image:6x7x1",
     "355c3f33c519c3261109956f3ad60788"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_color_jitter = {
    MR_OP_HEADER,
    .name = "color_jitter",
    .summary = "Changes brightness, contrast, saturation and hue by random factors.",
    .doc = "For the same factors and order equal to torchvision over Pillow bit for bit "
           "(ImageEnhance, "
           "and the hue in 8-bit HSV shifted by trunc(255 * factor)). Draws 0 .. 3 are the factors "
           "of brightness, contrast, saturation and hue, uniform in their ranges. The order starts "
           "as these four; for i = 3, 2, 1, with draws 4, 5, 6: exchange entries i and "
           "below(i + 1). A part whose range is only its neutral value (1, hue: 0) is left out.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(color_jitter_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = open_tables,
    .close = close_tables,
    .run = run,
    .examples = examples,
    .also = "random_brightness_contrast hue_saturation_value random_brightness random_contrast "
            "brightness contrast",
};
