/* SPDX-License-Identifier: Apache-2.0 */
/* augment.h - what rand_augment, trivial_augment and auto_augment share: fifteen changes of an
 * image, each by a magnitude, as torchvision makes them over Pillow. The ops differ in what they
 * draw. */
#ifndef MR_OPS_AUGMENT_H
#define MR_OPS_AUGMENT_H

#include "ops/warping.h"

/* In torchvision's order, which is that of its draws. */
typedef enum mr_augment_kind {
    MR_AUGMENT_IDENTITY,
    MR_AUGMENT_SHEAR_X,
    MR_AUGMENT_SHEAR_Y,
    MR_AUGMENT_TRANSLATE_X,
    MR_AUGMENT_TRANSLATE_Y,
    MR_AUGMENT_ROTATE,
    MR_AUGMENT_BRIGHTNESS,
    MR_AUGMENT_COLOR,
    MR_AUGMENT_CONTRAST,
    MR_AUGMENT_SHARPNESS,
    MR_AUGMENT_POSTERIZE,
    MR_AUGMENT_SOLARIZE,
    MR_AUGMENT_AUTOCONTRAST,
    MR_AUGMENT_EQUALIZE,
    MR_AUGMENT_INVERT, /* of auto_augment alone */
    MR_AUGMENT_KINDS
} mr_augment_kind;

#define MR_AUGMENT_DRAWN (MR_AUGMENT_EQUALIZE + 1) /* kinds to draw from */

/* The largest magnitudes. */
typedef struct mr_augment_space {
    double shear, turn, enhance; /* turn in degrees */
    double translate;            /* pixels; 0: 150 / 331 of the side */
    double posterize;            /* bits that are lost */
} mr_augment_space;

typedef struct mr_augment_step {
    mr_augment_kind kind;
    double magnitude;
} mr_augment_step;

#define MR_AUGMENT_STEPS 16

typedef struct mr_augment_list {
    int32_t n;
    mr_augment_step steps[MR_AUGMENT_STEPS];
} mr_augment_list;

/* What the parameters of these ops begin with; `draw` is set by check. */
typedef struct mr_augment_params {
    mr_warp_params warp; /* filter and fill */
    void (*draw)(const void *params, const mr_key *key, const mr_type *in, mr_augment_list *out);
    bool spares_mask; /* colours stay; set by spare_mask */
} mr_augment_params;

/* Level 0 .. bins - 1 of a kind as a magnitude; `negative` counts for those that have a sign. */
mr_augment_step mr_augment_at(const mr_augment_space *space, mr_augment_kind kind, int64_t level,
                              int64_t bins, bool negative, const mr_type *image);

/* Members for the tables of these ops; plan is mr_warp_plan. */
mr_status mr_augment_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                         mr_error *err);
mr_status mr_augment_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                          const mr_region *wanted, mr_region *needed, mr_error *err);
mr_status mr_augment_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                          mr_rows *own, mr_error *err);
mr_status mr_augment_follow(const void *params, mr_call *call, const mr_type *in,
                            const mr_type *out, double m[8], mr_error *err);
void mr_augment_spare_mask(void *params);

#endif
