/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - what the image ops share: see image.h. */
#include "ops/image.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"

const char *const mr_filter_names[] = {"bilinear", "bicubic", "nearest", "lanczos", "box", NULL};

static mr_status check_sides(int64_t height, int64_t width, mr_error *err) {
    if (height == 0 || width == 0) {
        return mr_fail(err, MR_E_TYPE, "the image has no pixels (%" PRId64 " x %" PRId64 ")",
                       height, width);
    }
    int64_t pixels = 0;
    if (height > 0 && width > 0 &&
        (__builtin_mul_overflow(height, width, &pixels) || pixels > MR_IMAGE_MAX_PIXELS)) {
        return mr_fail(err, MR_E_LIMIT,
                       "an image of %" PRId64 " x %" PRId64 " is over the limit of %" PRId64
                       " pixels",
                       height, width, MR_IMAGE_MAX_PIXELS);
    }
    return MR_OK;
}

static mr_status refuse(const mr_type *in, const char *wanted, mr_error *err) {
    char text[128];
    mr_fail(err, MR_E_TYPE, "needs an image %s[H, W, C] HWC with 1 or 3 channels, not %s", wanted,
            mr_type_text(in, text, sizeof text));
    mr_hint(err, in->n_dims == 1 ? "decode_image makes images of files"
                                 : "put this op before cast and normalize");
    return MR_E_TYPE;
}

static bool is_image(const mr_type *in) {
    int64_t channels = in->n_dims == 3 ? in->dims[2] : 0;
    return in->layout == MR_HWC && (channels == -1 || channels == 1 || channels == 3);
}

mr_status mr_image_check(const mr_type *in, mr_error *err) {
    return in->dtype == MR_U8 && is_image(in) ? check_sides(in->dims[0], in->dims[1], err)
                                              : refuse(in, "uint8", err);
}

mr_status mr_image_check_any(const mr_type *in, mr_error *err) {
    return is_image(in) ? check_sides(in->dims[0], in->dims[1], err) : refuse(in, "", err);
}

mr_status mr_image_resized(const mr_type *in, int64_t height, int64_t width, mr_type *out,
                           mr_error *err) {
    MR_TRY(check_sides(height, width, err));
    *out = *in;
    out->dims[0] = height;
    out->dims[1] = width;
    return MR_OK;
}

int64_t mr_size_height(const mr_ints *size) {
    return size->v[0];
}

int64_t mr_size_width(const mr_ints *size) {
    return size->v[size->n - 1];
}

mr_status mr_fill_check(const mr_ints *fill, const mr_type *in, mr_error *err) {
    if (fill->n == 2) {
        return mr_fail(err, MR_E_TYPE, "fill must have 1 or 3 numbers, not 2");
    }
    if (fill->n == 3 && in->dims[2] == 1) {
        return mr_fail(err, MR_E_TYPE, "fill has 3 numbers but the image has 1 channel");
    }
    return MR_OK;
}

void mr_fill_bytes(const mr_ints *fill, uint8_t out[3]) {
    for (int32_t c = 0; c < 3; c++) {
        out[c] = (uint8_t)fill->v[c % fill->n];
    }
}

bool mr_applies(double p, const mr_key *key, uint32_t draw) {
    return mr_draw_unit(key, draw) < p;
}

mr_pixels mr_image_pixels(const mr_view *view) {
    const int64_t *dims = view->type.dims;
    return (mr_pixels){.data = view->data,
                       .stride = (size_t)(dims[1] * dims[2]),
                       .height = dims[0],
                       .width = dims[1],
                       .channels = (int32_t)dims[2],
                       .end = (const uint8_t *)view->data + view->size};
}

mr_pixels mr_image_part(const mr_pixels *image, int64_t top, int64_t left, int64_t height,
                        int64_t width) {
    mr_pixels part = *image;
    part.data += (size_t)top * image->stride + (size_t)(left * image->channels);
    part.height = height;
    part.width = width;
    return part;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

void mr_image_cutout(const mr_pixels *image, int64_t top, int64_t left, uint8_t *out,
                     int64_t height, int64_t width) {
    size_t pixel = (size_t)image->channels, row_bytes = (size_t)width * pixel;
    int64_t from = clamp(-left, 0, width), to = clamp(image->width - left, from, width);
    size_t before = (size_t)from * pixel, inside = (size_t)(to - from) * pixel;
    for (int64_t y = 0; y < height; y++, out += row_bytes) {
        int64_t row = top + y;
        if (row < 0 || row >= image->height || inside == 0) {
            memset(out, 0, row_bytes);
            continue;
        }
        const uint8_t *in = image->data + (size_t)row * image->stride;
        memset(out, 0, before);
        memcpy(out + before, in + (size_t)(left + from) * pixel, inside);
        memset(out + before + inside, 0, row_bytes - before - inside);
    }
}

mr_status mr_image_resample(mr_call *call, const mr_pixels *in, mr_view *out, mr_filter filter,
                            mr_error *err) {
    int64_t height = out->type.dims[0], width = out->type.dims[1];
    size_t bytes = mr_resample_memory(in, height, width, filter);
    void *memory = mr_scratch(call, bytes);
    if (!memory) {
        return mr_fail_memory(err, bytes);
    }
    mr_resample(call->kernels, in, out->data, height, width, filter, memory);
    return MR_OK;
}

void mr_follow_shift(double m[8], int64_t x, int64_t y) {
    m[0] = m[4] = 1;
    m[1] = m[3] = 0;
    m[2] = (double)x;
    m[5] = (double)y;
}

static double entry(const double m[8], int row, int column) {
    return row == 2 && column == 2 ? 1.0 : m[3 * row + column];
}

/* The product of both as 3 x 3, with a last number of 1. */
void mr_follow_then(double m[8], const double next[8]) {
    double product[9];
    for (int i = 0; i < 9; i++) {
        product[i] = 0.0;
        for (int k = 0; k < 3; k++) {
            product[i] += entry(next, i / 3, k) * entry(m, k, i % 3);
        }
    }
    for (int i = 0; i < 8; i++) {
        m[i] = product[i] / product[8];
    }
}

void mr_follow_box(double m[8], const mr_region *box, const mr_type *out) {
    m[0] = (double)out->dims[1] / (double)box->width;
    m[4] = (double)out->dims[0] / (double)box->height;
    m[1] = m[3] = 0;
    m[2] = (double)-box->x * m[0];
    m[5] = (double)-box->y * m[4];
}
