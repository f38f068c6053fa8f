/* SPDX-License-Identifier: Apache-2.0 */
/* param.h - parameters as rows of a table.
 *
 * An op, a source, a command or the pipeline document itself describes its parameters once, here;
 * parsing, range checks, defaults, messages, command-line help, Python signatures and the
 * reference pages are all made from the rows. Included by op.h and source.h. */
#ifndef MILLRACE_PARAM_H
#define MILLRACE_PARAM_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_param_kind {
    MR_PARAM_INT,     /* int64_t */
    MR_PARAM_FLOAT,   /* double */
    MR_PARAM_BOOL,    /* bool */
    MR_PARAM_CHOICE,  /* int32_t: position in `choices` */
    MR_PARAM_STRING,  /* const char *, never NULL */
    MR_PARAM_INTS,    /* mr_ints; a single number is a list of one */
    MR_PARAM_FLOATS,  /* mr_floats; likewise */
    MR_PARAM_STRINGS, /* mr_strings; a single string is a list of one */
    MR_PARAM_BYTES,   /* int64_t: a number, or text such as "64MB" (powers of 1000) or "64MiB" */
    MR_PARAM_JSON,    /* const char *: any JSON, as text */
    MR_PARAM_OPS,     /* mr_ops: ops as a pipeline lists them; a single one is a list of one */
    MR_PARAM_NUMBERS  /* mr_numbers: as MR_PARAM_FLOATS, but as many as max_len says */
} mr_param_kind;

#define MR_LIST_MAX 64

typedef struct mr_ints {
    int32_t n;
    int64_t v[MR_LIST_MAX];
} mr_ints;

typedef struct mr_floats {
    int32_t n;
    double v[MR_LIST_MAX];
} mr_floats;

/* For lists that may be longer than MR_LIST_MAX, such as one number for each of a table's columns.
 */
typedef struct mr_numbers {
    int32_t n;
    double *v;
} mr_numbers;

typedef struct mr_strings {
    int32_t n;
    const char **v;
} mr_strings;

/* An op inside another one, with its parameters filled and checked. */
typedef struct mr_inner_op {
    const struct mr_op_class *op;
    void *params;
} mr_inner_op;

typedef struct mr_ops {
    int32_t n;
    mr_inner_op *v;
} mr_ops;

typedef struct mr_param {
    const char *name;
    mr_param_kind kind;
    size_t offset;              /* of the value in the parameter struct */
    const char *fallback;       /* default, as JSON text; NULL: the caller must give it */
    double min, max;            /* allowed range of each number; both 0: any. Bounds included. */
    int32_t min_len, max_len;   /* allowed length of a list; both 0: any up to MR_LIST_MAX */
    const char *const *choices; /* NULL-terminated, for MR_PARAM_CHOICE */
    const char *doc;            /* one sentence */
    const char *for_mask; /* (optional) of an op: the value, as JSON text, that takes the place of
                             any other where the op works on a mask, whose numbers are names */
} mr_param;

#ifdef __cplusplus
}
#endif
#endif
