/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h - what one_hot and multi_hot share: numbers of classes as ones among zeros. */
#ifndef MR_OPS_HOT_H
#define MR_OPS_HOT_H

#include "ops/numbers.h"

typedef struct mr_hot_params {
    int64_t classes;
    int32_t dtype; /* place in mr_hot_dtypes */
} mr_hot_params;

extern const char *const mr_hot_dtype_names[]; /* float32, uint8, int64 */
extern const mr_dtype mr_hot_dtypes[];

#define MR_HOT_ROWS                                                                                \
    {.name = "classes",                                                                            \
     .kind = MR_PARAM_INT,                                                                         \
     .offset = offsetof(mr_hot_params, classes),                                                   \
     .min = 1,                                                                                     \
     .max = 1 << 24,                                                                               \
     .doc = "How many classes there are; numbers go from 0 to one less."},                         \
        {.name = "dtype",                                                                          \
         .kind = MR_PARAM_CHOICE,                                                                  \
         .offset = offsetof(mr_hot_params, dtype),                                                 \
         .fallback = "\"float32\"",                                                                \
         .choices = mr_hot_dtype_names,                                                            \
         .doc = "Element type of the output."},                                                    \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Sets a one for each number of `in`; so many of them that follow each other share a row. */
mr_status mr_hot_fill(const mr_hot_params *params, const mr_view *in, size_t together, mr_view *out,
                      mr_error *err);

#endif
