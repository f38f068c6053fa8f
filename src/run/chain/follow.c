/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h. */
#include "run/chain/follow.h"

#include <math.h>
#include <string.h>

#include "core/error.h"

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

/* ---- Formats ---- */
static box box_from(mr_box_format format, const double v[4]) {
    double left = format == MR_BOX_CENTER ? v[0] - v[2] / 2.0 : v[0];
    double top = format == MR_BOX_CENTER ? v[1] - v[3] / 2.0 : v[1];
    return format == MR_BOX_CORNERS ? (box){v[0], v[1], v[2], v[3]}
                                    : (box){left, top, left + v[2], top + v[3]};
}

static void box_to(mr_box_format format, const box *b, double v[4]) {
    double width = b->right - b->left, height = b->bottom - b->top;
    bool center = format == MR_BOX_CENTER, corners = format == MR_BOX_CORNERS;
    v[0] = center ? b->left + width / 2.0 : b->left;
    v[1] = center ? b->top + height / 2.0 : b->top;
    v[2] = corners ? b->right : width;
    v[3] = corners ? b->bottom : height;
}

static mr_status refuse_box(const mr_motion *motion, int64_t row, const double v[4],
                            mr_error *err) {
    bool corners = motion->format == MR_BOX_CORNERS;
    mr_fail(err, MR_E_CORRUPT, "box %lld of %s is [%g, %g, %g, %g]: %s", (long long)row,
            motion->name, v[0], v[1], v[2], v[3],
            corners ? "as left, top, right, bottom it ends before it begins"
                    : "its width or height is negative");
    mr_hint(err, "say what they are: \"kinds\": {\"%s\": \"%s\"}", motion->name,
            corners ? "boxes_xywh" : "boxes");
    return MR_E_CORRUPT;
}

/* ---- Rows ---- */
static void load_row(const mr_type *type, const unsigned char *row, int n, double *v) {
    for (int i = 0; i < n; i++) {
        v[i] = load(type, row + (size_t)i * mr_dtype_size(type->dtype));
    }
}

static void store_row(const mr_type *type, unsigned char *row, int n, const double *v) {
    for (int i = 0; i < n; i++) {
        store(type, row + (size_t)i * mr_dtype_size(type->dtype), v[i]);
    }
}

static void move_point(const mr_motion *motion, const mr_type *type, unsigned char *row) {
    double v[2];
    load_row(type, row, 2, v);
    move(motion->matrix, &v[0], &v[1]);
    store_row(type, row, 2, v);
}

/* A box of which nothing is left and that is kept all the same is empty, inside of the image. */
static box emptied(const mr_motion *motion, const box *b) {
    double left = smaller(larger(b->left, 0), motion->width);
    double top = smaller(larger(b->top, 0), motion->height);
    return (box){left, top, larger(left, smaller(b->right, motion->width)),
                 larger(top, smaller(b->bottom, motion->height))};
}

static mr_status move_box_row(const mr_motion *motion, const mr_type *type, int64_t number,
                              unsigned char *row, bool *left, mr_error *err) {
    double v[4];
    load_row(type, row, 4, v);
    box b = box_from(motion->format, v);
    if (b.right < b.left || b.bottom < b.top) {
        return refuse_box(motion, number, v, err);
    }
    *left = move_box(motion, &b);
    if (!*left) {
        b = emptied(motion, &b);
    }
    box_to(motion->format, &b, v);
    store_row(type, row, 4, v);
    return MR_OK;
}

mr_status mr_follow(mr_kind kind, const mr_motion *motion, const mr_view *in, void *to,
                    int64_t *kept, mr_error *err) {
    const mr_type *type = &in->type;
    bool single = type->n_dims == 1;
    size_t row = (size_t)type->dims[type->n_dims - 1] * mr_dtype_size(type->dtype);
    const unsigned char *from = in->data;
    unsigned char *next = to;
    *kept = 0;
    for (int64_t i = 0; i < (single ? 1 : type->dims[0]); i++, from += row) {
        bool left = true;
        memcpy(next, from, row);
        if (kind == MR_KIND_POINTS) {
            move_point(motion, type, next);
        } else {
            MR_TRY(move_box_row(motion, type, i, next, &left, err));
        }
        next += left || single ? row : 0;
        *kept += left || single;
    }
    return MR_OK;
}
