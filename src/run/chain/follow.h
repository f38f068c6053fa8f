/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - boxes and points that follow an image through ops that move its pixels. */
#ifndef MR_RUN_FOLLOW_H
#define MR_RUN_FOLLOW_H

#include "plan/pipeline.h"

/* Where the points of an image of one size come to lie in one of another. */
typedef struct mr_motion {
    double matrix[8];     /* see follow in op.h */
    double width, height; /* of the image that comes out */
    double min_visible;
    mr_box_format format;
    const char *name; /* of the field */
} mr_motion;

/* Moves the rows of `in` into `to`, which has room for all of them; *kept is how many are left. A
 * vector is one row, which is always left.
 *
 * Boxes: the box around the four moved corners, cut off at the image's edges. A box is dropped if
 * nothing of it is left, or less than min_visible of its area. A box that ends before it begins is
 * refused: it is probably of another format.
 *
 * Points (x, y) are moved and neither dropped nor cut off: which point it is may follow from its
 * place in the list. Numbers behind these in a row stay with it. */
mr_status mr_follow(mr_kind kind, const mr_motion *motion, const mr_view *in, void *to,
                    int64_t *kept, mr_error *err);

#endif
