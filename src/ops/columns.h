/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - what ops on a sample's fields share. */
#ifndef MR_OPS_COLUMNS_H
#define MR_OPS_COLUMNS_H

#include <millrace/millrace.h>

/* The first of the names that is no field's, nor a pattern that fits one; or NULL. */
const char *mr_unknown_column(const mr_strings *names, const mr_field *in, int32_t n_in);
mr_status mr_no_such_column(const char *name, const mr_field *in, int32_t n_in, mr_error *err);

/* Whether the list has the field's name, or a pattern that fits it; patterns leave fields out that
 * are delivered on request only. */
bool mr_names_column(const mr_strings *names, const mr_field *field);

/* stack and concat: fields of one element type and of fixed size ... */
mr_status mr_check_columns(const mr_field *in, int32_t n_in, mr_error *err);
/* ... one after the other, as run_sample. */
mr_status mr_join_columns(const void *params, mr_call *call, const mr_view *in, int32_t n_in,
                          mr_view *out, int32_t n_out, mr_error *err);

#endif
