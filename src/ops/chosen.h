/* SPDX-License-Identifier: Apache-2.0 */
/* chosen.h - ops that run some of the ops they are given, by choice: random_apply, one_of and
 * random_order differ in how they choose. What is chosen must not change the type that comes out.
 */
#ifndef MR_OPS_CHOSEN_H
#define MR_OPS_CHOSEN_H

#include "ops/flow.h"

#define MR_CHOSEN_MAX 16

/* Places in the list of inner ops, in the order in which they run. */
typedef struct mr_chosen_places {
    int32_t n;
    int32_t at[MR_CHOSEN_MAX];
} mr_chosen_places;

/* What the parameters of these ops begin with; `choose` is set by check. */
typedef struct mr_chosen_params {
    void (*choose)(const void *params, const mr_key *key, mr_chosen_places *out);
    mr_ops ops;
    bool spares_mask; /* inner ops that are about colour are left out; set by spare_mask */
} mr_chosen_params;

#define MR_CHOSEN_OPS_ROW(struct_name, text)                                                       \
    {                                                                                              \
        .name = "ops", .kind = MR_PARAM_OPS, .offset = offsetof(struct_name, chosen.ops),          \
        .min_len = 1, .max_len = MR_CHOSEN_MAX, .doc = (text)                                      \
    }

/* For check: ops on batches do not stand among others. */
mr_status mr_chosen_check(const mr_chosen_params *p, mr_error *err);

/* What comes out of a choice for an image. */
mr_status mr_chosen_type(const mr_chosen_params *p, const mr_chosen_places *choice,
                         const mr_type *in, mr_type *out, mr_error *err);
bool mr_same_type(const mr_type *a, const mr_type *b);

/* Members for the tables of these ops. */
mr_status mr_chosen_open(const void *params, void **state, mr_error *err);
void mr_chosen_close(void *state);
mr_status mr_chosen_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                        mr_error *err);
mr_status mr_chosen_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         const mr_region *wanted, mr_region *needed, mr_error *err);
mr_status mr_chosen_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                         mr_rows *own, mr_error *err);
mr_status mr_chosen_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                           double m[8], mr_error *err);
mr_status mr_chosen_check_batch(const void *params, const mr_field *fields, int32_t n,
                                mr_error *err);
mr_status mr_chosen_run_batch(const void *params, mr_call *call, int64_t n, const mr_column *fields,
                              int32_t n_fields, mr_error *err);
uint32_t mr_chosen_flags(const void *params);
void mr_chosen_spare_mask(void *params);

#endif
