/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - a pipeline document, checked and compiled. Pure: no data, no threads.
 *
 * Compiling resolves names, fills parameters, runs every op's plan from the source's types on, and
 * notes which fields are delivered. The engine reads the result; it never reads JSON. */
#ifndef MR_PLAN_PIPELINE_H
#define MR_PLAN_PIPELINE_H

#include <millrace/millrace.h>

#include "core/hash.h"
#include "core/registry.h"
#include "plan/bucket_document.h"
#include "plan/route.h"
#include "plan/servers_document.h"
#include "plan/share_document.h"
#include "plan/stream_document.h"
#include "plan/view_document.h"

struct json_t;

/* What a field is to ops that change an image's geometry: "kinds" in the document says so. */
typedef enum mr_kind {
    MR_KIND_ANY,
    MR_KIND_MASK,  /* numbers that name things: never mixed */
    MR_KIND_BOXES, /* [n, 4] in pixels: see mr_box_format */
    MR_KIND_POINTS /* [n, 2]: x, y */
} mr_kind;

/* What the first four numbers of a box are. */
typedef enum mr_box_format {
    MR_BOX_CORNERS, /* left, top, right, bottom */
    MR_BOX_SIZES,   /* left, top, width, height */
    MR_BOX_CENTER   /* x and y of the middle, width, height */
} mr_box_format;

static inline bool mr_kind_follows(mr_kind kind) {
    return kind == MR_KIND_BOXES || kind == MR_KIND_POINTS;
}

/* An op at its place in the chain of its field. An op of the document that works on several fields
 * is as many of these, with the same draws. */
typedef struct mr_op_node {
    const mr_op_class *class;
    void *params;
    uint32_t flags;         /* of the op with these parameters */
    int32_t field;          /* variable; of an op on whole samples, its first input */
    const char *field_name; /* as it is called here */
    mr_kind kind;           /* of the field */
    bool named;             /* the document names the field */
    int32_t call;           /* which op of the document it comes from: see mr_op_call */
    int32_t group;          /* one number for all that come from one; -1: it works on one field */
    int32_t *inputs;        /* an op on whole samples: variables; a cache: what it keeps */
    int32_t n_inputs;
    int32_t first_output, n_outputs; /* likewise */
    uint32_t op_word;                /* see core/philox.h */
    mr_type in, out;
    int32_t fused_length; /* ops from this one on that run fused; 0 or 1: by itself */
    int32_t whole_length; /* the same, as if there were no caches */
    mr_type *input_types; /* a cache: of what it keeps */
    bool follows;         /* boxes or points, where the op moves the image beside them */
    bool spares_mask;     /* its parameters are those of a mask beside an image: see op.h */
    double min_visible;   /* boxes: see run/chain/follow.h */
    mr_box_format format; /* boxes */
    mr_hash128 prefix;    /* a cache: the way from a sample's bytes to here */
} mr_op_node;

/* Are samples taken from anywhere, one by one? */
bool mr_pipeline_wants_single(const mr_pipeline *pipeline);

static inline bool mr_op_is_cache(const mr_op_node *node) {
    return (node->class->flags & MR_OP_STORES) != 0;
}

/* An op of the document, as it is written out again. */
typedef struct mr_op_call {
    const mr_op_class *class;
    int32_t node;         /* one of those it became, with the parameters that were given; or -1 */
    void *params;         /* of one that became none: see arrange in op.h */
    struct json_t *field; /* as it was given; NULL: the first field */
} mr_op_call;

/* How a delivered field whose values vary in size lies in a batch: see collate in op.h. */
typedef struct mr_collation {
    int32_t op;          /* node */
    int32_t field;       /* among those delivered; array 0 stands in its place */
    int32_t first_array; /* of the others, behind all fields */
    int32_t n;
    mr_collated arrays[MR_COLLATED_MAX];
    char *names[MR_COLLATED_MAX];
} mr_collation;

/* The collations of a pipeline or of a mix, whose children have the same. */
const mr_collation *mr_pipeline_collations(const mr_pipeline *pipeline, int32_t *n);

struct mr_pipeline {
    mr_settings settings;
    mr_view_steps view;
    mr_shuffle shuffle;
    mr_share_terms share;
    mr_bucket_terms bucket; /* a child's is the mix's */
    mr_servers_terms servers;
    bool windowed;                 /* the document asks for a shuffle by blocks */
    const mr_source_class *source; /* NULL: a mix */
    void *source_params;
    bool is_stream; /* the source is followed: see source.h */
    mr_rehearse rehearse;
    mr_pace pace;

    /* A mix has whole pipelines, and nothing of its own but texts, `fields`, and in `ops` those of
     * all children, one child after the other. */
    mr_mix_terms mix;
    mr_pipeline **children;
    int32_t n_children; /* 0: no mix */
    int32_t first_op;   /* of a child, in the mix's list */

    /* Fields as the source, which has the first variables, or an op on whole samples gives them. */
    mr_field *variables;
    bool *wanted; /* of each variable: delivered, used by an op, or kept by a cache */
    int32_t n_source_fields;
    int32_t n_variables;

    mr_op_node *ops;
    int32_t n_ops;
    int32_t n_batch_ops; /* the last ones: on batches, not on samples */
    int32_t n_groups;
    mr_op_call *calls;
    int32_t n_calls;
    struct json_t *kinds; /* field names to kinds; NULL: the document has none */
    char **warnings;
    int32_t n_warnings;

    bool reads_rest; /* ops before a cache read fields of the source other than the first */

    mr_field *fields;        /* as delivered: type after the last op */
    int32_t *field_variable; /* variable */
    int32_t n_fields;
    mr_collation *collations; /* of a mix: its first child's */
    int32_t n_collations;

    mr_own_tables tables; /* those that the caller gave; a child's are the mix's */

    mr_stage *stages;
    char **stage_params;
    char *json;
    char fingerprint[33];
};

/* Whether a sample's fields behind the first need no bytes (labels and names of files): they are
 * then filled by the source again where the first comes from a store. Rows of a block need the
 * block. */
static inline bool mr_source_fills_rest(const mr_source_class *source) {
    return source->locate && !source->first_sample;
}

#endif
