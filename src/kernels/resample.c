/* SPDX-License-Identifier: Apache-2.0 */
/* resample.c - resizing, equal to Pillow's bit for bit.
 *
 * Weights are computed in double, normalised to a sum of 1 and rounded to 22 fractional bits. The
 * image is resampled along its rows and along its columns, each time rounded to bytes. The order of
 * the floating-point operations, and of the two passes, is part of the result: keep it. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "core/angle.h"

#define ALIGN 64u

/* ---- Filters ---- */
static double bilinear(double x) {
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic with a = -0.5. */
static double bicubic(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    }
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double sinc(double x) {
    if (x == 0.0) {
        return 1.0;
    }
    x = x * MR_PI;
    return mr_exact_sin(x) / x;
}

/* A sinc under the middle lobe of one three times as wide. */
static double lanczos(double x) {
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

static double box(double x) {
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

typedef struct filter_row {
    double (*at)(double x);
    double support;
} filter_row;

static const filter_row filters[] = {
    [MR_BILINEAR] = {bilinear, 1.0},
    [MR_BICUBIC] = {bicubic, 2.0},
    [MR_LANCZOS] = {lanczos, 3.0},
    [MR_BOX] = {box, 0.5},
};

/* ---- Weights of one axis ---- */
static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

mr_axis mr_whole_axis(int64_t n_in, int64_t n_out) {
    return (mr_axis){n_in, n_out, 0.0, (double)n_in};
}

bool mr_axis_changes(const mr_axis *axis) {
    return axis->n_in != axis->n_out || axis->from != 0.0 || axis->length != (double)axis->n_in;
}

static double scale_of(const mr_axis *axis) {
    return axis->length / (double)axis->n_out;
}

static double center_of(const mr_axis *axis, int64_t at) {
    return axis->from + ((double)at + 0.5) * scale_of(axis);
}

static double support_of(const mr_axis *axis, mr_filter filter) {
    double scale = scale_of(axis);
    return filters[filter].support * (scale < 1.0 ? 1.0 : scale);
}

static int32_t width_of(const mr_axis *axis, mr_filter filter) {
    double reach = ceil(support_of(axis, filter)) * 2.0 + 1.0;
    int32_t taps = (int32_t)(reach < (double)axis->n_in ? reach : (double)axis->n_in);
    return (taps + MR_TAP_ALIGN - 1) / MR_TAP_ALIGN * MR_TAP_ALIGN;
}

size_t mr_taps_memory(const mr_axis *axis, mr_filter filter) {
    size_t width = (size_t)width_of(axis, filter), n = (size_t)axis->n_out;
    return aligned(n * width * sizeof(int32_t)) + 2 * aligned(n * width * sizeof(int16_t)) +
           3 * aligned(n * width * sizeof(int8_t)) + 2 * aligned(n * sizeof(int32_t)) +
           aligned(width * sizeof(double));
}

static void *take(unsigned char **memory, size_t bytes) {
    void *piece = *memory;
    *memory += aligned(bytes);
    return piece;
}

/* The inputs that an output around `center` is made of. */
static mr_span reach_of(int64_t n_in, double center, double support) {
    int32_t low = (int32_t)(center - support + 0.5), high = (int32_t)(center + support + 0.5);
    return (mr_span){low < 0 ? 0 : low, high > n_in ? n_in : high};
}

mr_span mr_taps_reach(const mr_axis *axis, mr_filter filter, int64_t at) {
    return reach_of(axis->n_in, center_of(axis, at), support_of(axis, filter));
}

typedef struct weighing {
    int64_t n_in;
    double support, shrink;
    double *weights; /* of one output */
} weighing;

/* Weights of one output, in double, normalised; returns the inputs they are for. `at`, the filter,
 * is a constant where this is inlined. */
static inline mr_span weigh(const weighing *w, double center, double (*at)(double x)) {
    mr_span reach = reach_of(w->n_in, center, w->support);
    int32_t low = (int32_t)reach.from, high = (int32_t)reach.to;
    double sum = 0.0;
    for (int32_t i = 0; i < high - low; i++) {
        w->weights[i] = at((i + low - center + 0.5) * w->shrink);
        sum += w->weights[i];
    }
    for (int32_t i = 0; i < high - low && sum != 0.0; i++) {
        w->weights[i] /= sum;
    }
    return reach;
}

static mr_span weigh_by(const weighing *w, double center, mr_filter filter) {
    return filter == MR_BILINEAR ? weigh(w, center, bilinear)
                                 : weigh(w, center, filters[filter].at);
}

static int32_t fixed_point(double weight) {
    double scaled = weight * (1 << MR_TAP_BITS);
    return (int32_t)(weight < 0.0 ? scaled - 0.5 : scaled + 0.5);
}

static void store_weights(mr_taps *taps, int32_t at, const double *weights) {
    int32_t *row = taps->weights + (size_t)at * (size_t)taps->width;
    for (int32_t i = 0; i < taps->count[at]; i++) {
        row[i] = fixed_point(weights[i]);
    }
    for (int32_t i = taps->count[at]; i < taps->width; i++) {
        row[i] = 0;
    }
}

/* Where n outputs' weights lie; returns the memory behind them. */
static unsigned char *lay_out(mr_taps *taps, size_t n, void *memory) {
    unsigned char *at = memory;
    size_t all = n * (size_t)taps->width;
    taps->weights = take(&at, all * sizeof(int32_t));
    taps->high = take(&at, all * sizeof(int16_t));
    taps->low = take(&at, all * sizeof(int16_t));
    for (int i = 0; i < 3; i++) {
        taps->digits[i] = take(&at, all * sizeof(int8_t));
    }
    taps->first = take(&at, n * sizeof(int32_t));
    taps->count = take(&at, n * sizeof(int32_t));
    return at;
}

void mr_taps_make(mr_taps *taps, const mr_kernels *kernels, const mr_axis *axis, mr_filter filter,
                  mr_span wanted, int64_t origin, void *memory) {
    double scale = scale_of(axis);
    *taps = (mr_taps){.n_out = (int32_t)(wanted.to - wanted.from), .width = width_of(axis, filter)};
    const weighing w = {.n_in = axis->n_in,
                        .support = support_of(axis, filter),
                        .shrink = 1.0 / (scale < 1.0 ? 1.0 : scale),
                        .weights = (void *)lay_out(taps, (size_t)taps->n_out, memory)};
    for (int32_t i = 0; i < taps->n_out; i++) {
        mr_span reach = weigh_by(&w, center_of(axis, wanted.from + i), filter);
        taps->first[i] = (int32_t)(reach.from - origin);
        taps->count[i] = (int32_t)(reach.to - reach.from);
        taps->most = taps->count[i] > taps->most ? taps->count[i] : taps->most;
        store_weights(taps, i, w.weights);
    }
    taps->groups = (taps->most + MR_TAP_GROUP - 1) / MR_TAP_GROUP;
    if (kernels->split_taps) {
        kernels->split_taps(taps);
    }
}

/* ---- Scalar loops ---- */
static inline uint8_t to_byte(int32_t sum) {
    int32_t value = sum >> MR_TAP_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* `channels` is a constant where this is inlined. */
static inline void row_part(uint8_t *out, const uint8_t *in, int32_t channels, const mr_taps *taps,
                            int32_t from) {
    for (int32_t x = from; x < taps->n_out; x++) {
        const int32_t *weights = taps->weights + (size_t)x * (size_t)taps->width;
        const uint8_t *pixel = in + (size_t)taps->first[x] * (size_t)channels;
        for (int32_t c = 0; c < channels; c++) {
            int32_t sum = 1 << (MR_TAP_BITS - 1);
            for (int32_t i = 0; i < taps->count[x]; i++) {
                sum += pixel[i * channels + c] * weights[i];
            }
            out[(size_t)x * (size_t)channels + (size_t)c] = to_byte(sum);
        }
    }
}

void mr_resample_row_part(uint8_t *out, const uint8_t *in, int32_t channels, const mr_taps *taps,
                          int32_t from) {
    if (channels == 3) {
        row_part(out, in, 3, taps, from);
    } else {
        row_part(out, in, 1, taps, from);
    }
}

void mr_resample_rows_scalar(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                             int32_t rows, int32_t channels, const mr_taps *taps) {
    (void)in_end;
    for (int32_t y = 0; y < rows; y++) {
        mr_resample_row_part(out, in, channels, taps, 0);
        out += (size_t)taps->n_out * (size_t)channels;
        in += stride;
    }
}

void mr_resample_columns_scalar(uint8_t *out, const uint8_t *top, size_t stride, size_t row_bytes,
                                const mr_taps *taps, int32_t y) {
    const int32_t *weights = taps->weights + (size_t)y * (size_t)taps->width;
    for (size_t x = 0; x < row_bytes; x++) {
        int32_t sum = 1 << (MR_TAP_BITS - 1);
        for (int32_t i = 0; i < taps->count[y]; i++) {
            sum += top[(size_t)i * stride + x] * weights[i];
        }
        out[x] = to_byte(sum);
    }
}

/* ---- Nearest: Pillow walks in steps, adding up, so the sum's rounding is part of the result ----
 */
void mr_nearest_make(int32_t *columns, int64_t n_in, int64_t n_out) {
    double step = (double)n_in / (double)n_out, at = step * 0.5;
    for (int64_t x = 0; x < n_out; x++) {
        int64_t column = (int64_t)at;
        columns[x] = (int32_t)(column < n_in ? column : n_in - 1);
        at += step;
    }
}

void mr_nearest_row(uint8_t *out, const uint8_t *in, const int32_t *columns, int64_t width,
                    int32_t channels) {
    for (int64_t x = 0; x < width; x++) {
        for (int32_t c = 0; c < channels; c++) {
            *out++ = in[(size_t)columns[x] * (size_t)channels + (size_t)c];
        }
    }
}

static void nearest(const mr_pixels *in, uint8_t *out, int64_t height, int64_t width,
                    void *memory) {
    int32_t *columns = memory, *rows = columns + width;
    size_t row_bytes = (size_t)width * (size_t)in->channels;
    mr_nearest_make(columns, in->width, width);
    mr_nearest_make(rows, in->height, height);
    for (int64_t y = 0; y < height; y++, out += row_bytes) {
        if (y > 0 && rows[y] == rows[y - 1]) {
            memcpy(out, out - row_bytes, row_bytes);
        } else {
            mr_nearest_row(out, in->data + (size_t)rows[y] * in->stride, columns, width,
                           in->channels);
        }
    }
}

/* ---- From the top ---- */
static void copy_rows(uint8_t *out, const mr_pixels *in) {
    size_t row_bytes = (size_t)in->width * (size_t)in->channels;
    for (int64_t y = 0; y < in->height; y++) {
        memcpy(out + (size_t)y * row_bytes, in->data + (size_t)y * in->stride, row_bytes);
    }
}

/* Pillow 13 resamples columns before rows when the height shrinks by more than twice as many pixels
 * as the width; older versions never do. The order is seen in the rounding. */
bool mr_resample_columns_first(int64_t in_height, int64_t in_width, int64_t height, int64_t width) {
    int64_t shrinks = in_height - height;
    return in_width != width && shrinks > 0 && shrinks > 2 * (in_width - width);
}

static bool columns_first(const mr_pixels *in, int64_t height, int64_t width) {
    return mr_resample_columns_first(in->height, in->width, height, width);
}

/* Bytes of the image between the two passes. */
static size_t between_bytes(const mr_pixels *in, int64_t height, int64_t width) {
    bool columns = columns_first(in, height, width);
    int64_t pixels = columns ? height * in->width : in->height * width;
    return (size_t)pixels * (size_t)in->channels;
}

size_t mr_resample_memory(const mr_pixels *in, int64_t height, int64_t width, mr_filter filter) {
    bool across = in->width != width, down = in->height != height;
    if (filter == MR_NEAREST) {
        return (size_t)(width + height) * sizeof(int32_t);
    }
    const mr_axis x = mr_whole_axis(in->width, width), y = mr_whole_axis(in->height, height);
    size_t bytes = across ? mr_taps_memory(&x, filter) : 0;
    bytes += down ? mr_taps_memory(&y, filter) : 0;
    return bytes + (across && down ? aligned(between_bytes(in, height, width)) : 0);
}

/* The image of a pass's result. */
static mr_pixels result(const uint8_t *data, int64_t height, int64_t width, int32_t channels) {
    size_t stride = (size_t)width * (size_t)channels;
    return (mr_pixels){data, stride, height, width, channels, data + (size_t)height * stride};
}

static mr_pixels pass_rows(const mr_kernels *kernels, const mr_pixels *in, uint8_t *out,
                           int64_t width, mr_filter filter, unsigned char **memory) {
    mr_taps taps;
    const mr_axis axis = mr_whole_axis(in->width, width);
    mr_taps_make(&taps, kernels, &axis, filter, (mr_span){0, width}, 0,
                 take(memory, mr_taps_memory(&axis, filter)));
    kernels->resample_rows(out, in->data, in->stride, in->end, (int32_t)in->height, in->channels,
                           &taps);
    return result(out, in->height, width, in->channels);
}

static mr_pixels pass_columns(const mr_kernels *kernels, const mr_pixels *in, uint8_t *out,
                              int64_t height, mr_filter filter, unsigned char **memory) {
    mr_taps taps;
    const mr_axis axis = mr_whole_axis(in->height, height);
    size_t row_bytes = (size_t)in->width * (size_t)in->channels;
    mr_taps_make(&taps, kernels, &axis, filter, (mr_span){0, height}, 0,
                 take(memory, mr_taps_memory(&axis, filter)));
    for (int32_t y = 0; y < taps.n_out; y++) {
        const uint8_t *top = in->data + (size_t)taps.first[y] * in->stride;
        kernels->resample_columns(out + (size_t)y * row_bytes, top, in->stride, row_bytes, &taps,
                                  y);
    }
    return result(out, height, in->width, in->channels);
}

static void both_passes(const mr_kernels *kernels, const mr_pixels *in, uint8_t *out,
                        int64_t height, int64_t width, mr_filter filter, unsigned char **memory) {
    uint8_t *between = take(memory, between_bytes(in, height, width));
    if (columns_first(in, height, width)) {
        mr_pixels half = pass_columns(kernels, in, between, height, filter, memory);
        pass_rows(kernels, &half, out, width, filter, memory);
    } else {
        mr_pixels half = pass_rows(kernels, in, between, width, filter, memory);
        pass_columns(kernels, &half, out, height, filter, memory);
    }
}

void mr_resample(const mr_kernels *kernels, const mr_pixels *in, uint8_t *out, int64_t height,
                 int64_t width, mr_filter filter, void *memory) {
    bool across = in->width != width, down = in->height != height;
    unsigned char *at = memory;
    if (!across && !down) {
        copy_rows(out, in);
    } else if (filter == MR_NEAREST) {
        nearest(in, out, height, width, memory);
    } else if (across && down) {
        both_passes(kernels, in, out, height, width, filter, &at);
    } else if (across) {
        pass_rows(kernels, in, out, width, filter, &at);
    } else {
        pass_columns(kernels, in, out, height, filter, &at);
    }
}
