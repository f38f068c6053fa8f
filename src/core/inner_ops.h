/* SPDX-License-Identifier: Apache-2.0 */
/* inner_ops.h - ops as a parameter of another op. They are those of the build: ops of plug-ins and
 * functions of a host language, which only a pipeline knows, cannot stand there. */
#ifndef MR_CORE_INNER_OPS_H
#define MR_CORE_INNER_OPS_H

#include <jansson.h>
#include <millrace/op.h>

/* How long the path to a list of ops may be: a bound on how deep they stand inside each other. */
#define MR_INNER_PATH_MAX 110

/* A list of calls, or one call, at `where` in the document. On failure `out` is freed by
 * mr_inner_ops_free, as on success. */
mr_status mr_inner_ops_read(json_t *value, const char *where, mr_ops *out, mr_error *err);
void mr_inner_ops_free(mr_ops *ops);

/* As a pipeline document lists them; NULL: out of memory. */
json_t *mr_inner_ops_json(const mr_ops *ops);

/* The nature of an op with these parameters. */
uint32_t mr_op_flags(const mr_op_class *op, const void *params);

#endif
