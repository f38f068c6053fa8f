/* SPDX-License-Identifier: Apache-2.0 */
/* points.h - image ops that give each byte its entry in a table of its channel. Where the table
 * does not depend on the image, rows flow; else the whole image is counted first. */
#ifndef MR_OPS_POINTS_H
#define MR_OPS_POINTS_H

#include "ops/area.h"

typedef struct mr_byte_tables {
    uint8_t of[3][256]; /* one per channel */
} mr_byte_tables;

typedef struct mr_histograms {
    uint64_t of[3][256];
} mr_histograms;

/* What the parameters of these ops begin with; the functions are set by check, one of them. */
typedef struct mr_points_params {
    void (*table)(const void *params, uint8_t table[256]);
    void (*table_for)(const void *params, const uint64_t histogram[256], uint8_t table[256]);
    double p; /* probability, by draw 0 */
} mr_points_params;

#define MR_POINTS_P_ROW(struct_name)                                                               \
    {                                                                                              \
        .name = "p", .kind = MR_PARAM_FLOAT, .offset = offsetof(struct_name, points.p),            \
        .fallback = "1", .min = 0, .max = 1, .doc = "Probability of doing it, by draw 0."          \
    }

void mr_histograms_count(mr_histograms *h, const uint8_t *bytes, size_t pixels, int32_t channels);
/* out and in do not overlap. */
void mr_tables_apply(const mr_byte_tables *restrict t, uint8_t *restrict out,
                     const uint8_t *restrict in, size_t pixels, int32_t channels);

/* The tables themselves, for ops that choose among them. */
void mr_table_posterize(int64_t bits, uint8_t table[256]);
void mr_table_solarize(double threshold, uint8_t table[256]);
void mr_table_invert(uint8_t table[256]);
void mr_table_equalize(const uint64_t histogram[256], uint8_t table[256]);
void mr_table_autocontrast(const uint64_t histogram[256], double cutoff_low, double cutoff_high,
                           uint8_t table[256]);

/* Members for the tables of these ops. */
mr_status mr_points_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err);
mr_status mr_points_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                        mr_error *err);
mr_status mr_points_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         const mr_region *wanted, mr_region *needed, mr_error *err);
mr_status mr_points_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                         mr_rows *own, mr_error *err);
uint32_t mr_points_flags(const void *params);

#endif
