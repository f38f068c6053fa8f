/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - a pipeline document, checked and compiled. Pure: no data, no threads.
 *
 * Compiling resolves names, fills parameters, runs every op's plan from the source's types on, and
 * notes which fields are delivered. The engine reads the result; it never reads JSON. */
#ifndef MR_PLAN_PIPELINE_H
#define MR_PLAN_PIPELINE_H

#include <millrace/millrace.h>

#include "core/hash.h"

/* The source's fields have the first slots; an op on whole samples gives its outputs new ones. */
#define MR_MAX_SLOTS 64

/* An op at its place in the chain of its field. */
typedef struct mr_op_node {
    const mr_op_class *class;
    void *params;
    uint32_t flags;                /* of the op with these parameters */
    int32_t field;                 /* slot; of an op on whole samples, its first input */
    bool named;                    /* the document names the field */
    int32_t inputs[MR_MAX_FIELDS]; /* an op on whole samples: slots; a cache: what it keeps */
    int32_t n_inputs;
    int32_t first_output, n_outputs; /* likewise */
    uint32_t op_word;                /* see core/philox.h */
    mr_type in, out;
    int32_t stream_length; /* ops from this one on that run as one stream; 0 or 1: by itself */
    int32_t whole_length;  /* the same, as if there were no caches */
    mr_type input_types[MR_MAX_FIELDS]; /* a cache: of what it keeps */
    mr_hash128 prefix;                  /* a cache: the way from a sample's bytes to here */
} mr_op_node;

static inline bool mr_op_is_cache(const mr_op_node *node) {
    return (node->class->flags & MR_OP_STORES) != 0;
}

struct mr_pipeline {
    mr_settings settings;
    const mr_source_class *source;
    void *source_params;

    mr_field slots[MR_MAX_SLOTS]; /* as the source, or an op on whole samples, gives them */
    int32_t n_source_fields;
    int32_t n_slots;

    mr_op_node *ops;
    int32_t n_ops;

    bool reads_rest; /* ops before a cache read fields of the source other than the first */

    mr_field fields[MR_MAX_FIELDS];    /* as delivered: type after the last op */
    int32_t field_slot[MR_MAX_FIELDS]; /* slot */
    int32_t n_fields;

    mr_stage *stages;
    char **stage_params;
    char *json;
    char fingerprint[33];
};

#endif
