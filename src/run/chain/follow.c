/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h. */
#include "run/chain/follow.h"

#include <math.h>
#include <string.h>

static double load(const mr_type *type, const unsigned char *at) {
    float single;
    double number;
    if (type->dtype == MR_F32) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    memcpy(&number, at, sizeof number);
    return number;
}

static void store(const mr_type *type, unsigned char *at, double number) {
    float single = (float)number;
    if (type->dtype == MR_F32) {
        memcpy(at, &single, sizeof single);
    } else {
        memcpy(at, &number, sizeof number);
    }
}

/* A point that no plane image shows, because it lies behind whoever looks, is not a number. */
static void move(const double m[8], double *x, double *y) {
    double from_x = *x, from_y = *y, depth = m[6] * from_x + m[7] * from_y + 1.0;
    double scale = depth > 0.0 ? depth : (double)NAN;
    *x = (m[0] * from_x + m[1] * from_y + m[2]) / scale;
    *y = (m[3] * from_x + m[4] * from_y + m[5]) / scale;
}

typedef struct box {
    double left, top, right, bottom;
} box;

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static box around_corners(const double m[8], const box *b) {
    double x[4] = {b->left, b->right, b->left, b->right};
    double y[4] = {b->top, b->top, b->bottom, b->bottom};
    for (int i = 0; i < 4; i++) {
        move(m, &x[i], &y[i]);
        if (isnan(x[i])) {
            return (box){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
        }
    }
    return (box){smaller(smaller(x[0], x[1]), smaller(x[2], x[3])),
                 smaller(smaller(y[0], y[1]), smaller(y[2], y[3])),
                 larger(larger(x[0], x[1]), larger(x[2], x[3])),
                 larger(larger(y[0], y[1]), larger(y[2], y[3]))};
}

static double area(const box *b) {
    return (b->right - b->left) * (b->bottom - b->top);
}

/* False: too little of it is left. What is not a number is never left. */
static bool move_box(const mr_motion *motion, box *b) {
    box whole = around_corners(motion->matrix, b);
    *b = (box){larger(whole.left, 0), larger(whole.top, 0), smaller(whole.right, motion->width),
               smaller(whole.bottom, motion->height)};
    return b->right > b->left && b->bottom > b->top &&
           area(b) >= motion->min_visible * area(&whole);
}

static bool move_row(mr_kind kind, const mr_motion *motion, const mr_type *type,
                     unsigned char *row) {
    size_t size = mr_dtype_size(type->dtype);
    box b = {load(type, row), load(type, row + size), 0, 0};
    if (kind == MR_KIND_POINTS) {
        move(motion->matrix, &b.left, &b.top);
    } else {
        b.right = load(type, row + 2 * size);
        b.bottom = load(type, row + 3 * size);
        if (!move_box(motion, &b)) {
            return false;
        }
        store(type, row + 2 * size, b.right);
        store(type, row + 3 * size, b.bottom);
    }
    store(type, row, b.left);
    store(type, row + size, b.top);
    return true;
}

int64_t mr_follow(mr_kind kind, const mr_motion *motion, const mr_view *in, void *to) {
    size_t row = (size_t)in->type.dims[1] * mr_dtype_size(in->type.dtype);
    const unsigned char *from = in->data;
    unsigned char *next = to;
    int64_t kept = 0;
    for (int64_t i = 0; i < in->type.dims[0]; i++, from += row) {
        memcpy(next, from, row);
        if (move_row(kind, motion, &in->type, next)) {
            next += row;
            kept++;
        }
    }
    return kept;
}
