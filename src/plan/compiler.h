/* SPDX-License-Identifier: Apache-2.0 */
/* compiler.h - what the steps of compiling a pipeline share. Only the files pipeline*.c use it;
 * each has the functions that stand under its name here. */
#ifndef MR_PLAN_COMPILER_H
#define MR_PLAN_COMPILER_H

#include <jansson.h>

#include "plan/pipeline.h"

typedef struct mr_compiler {
    mr_pipeline *pipeline;
    mr_tables tables;
    bool is_child;    /* of a mix */
    int32_t ops_room; /* ops that there is memory for */
    int32_t room; /* variables that there is memory for: in the next five and in the pipeline's */
    const char **names; /* of each variable after the ops so far */
    mr_kind *kinds;
    mr_type *types; /* of each variable after the ops so far */
    bool *touched;  /* variables that are not as the source filled them */
    int32_t *now;   /* the sample after the ops so far: variables, in order */
    int32_t n_now;
    int32_t inserted[2]; /* where "cache" became ops that the document's list does not have */
    int32_t n_inserted;
    mr_error *err;
} mr_compiler;

/* ---- pipeline.c ---- */
mr_status mr_compile_document(mr_pipeline **out, json_t *document, const mr_tables *tables,
                              bool is_child, mr_error *err);

/* ---- pipeline_mix.c ---- */
bool mr_is_mix(const json_t *document);
mr_status mr_compile_mix(mr_compiler *c, json_t *document); /* after the settings */
const mr_param *mr_mix_params(void);

/* ---- pipeline_names.c ---- */
const mr_op_class *mr_find_op(const mr_compiler *c, const char *name);
const mr_source_class *mr_find_source(const mr_compiler *c, const char *name);
mr_status mr_unknown_name(const mr_compiler *c, bool source, const char *name, const char *where);

/* ---- pipeline_source.c ---- */
mr_status mr_compile_source(mr_compiler *c, json_t *document);

/* ---- pipeline_order.c ---- */
mr_status mr_compile_order(mr_compiler *c, json_t *document);
mr_status mr_write_order(const mr_pipeline *p, json_t *document);
mr_status mr_write_bucket(const mr_pipeline *p, json_t *document);
mr_status mr_write_share(const mr_pipeline *p, json_t *document);
mr_status mr_check_bucket(const mr_compiler *c);
mr_status mr_hash_order(const mr_pipeline *p, mr_hasher *hasher);

/* ---- pipeline_stream.c ---- */
mr_status mr_compile_stream(mr_compiler *c, json_t *document);
mr_status mr_write_stream(const mr_pipeline *p, json_t *document);
void mr_hash_stream(const mr_pipeline *p, mr_hasher *hasher);

/* ---- pipeline_fields.c ---- */
/* The fields that an op's parameters name, or the first; `variables` has room for all there are. */
typedef struct mr_choice {
    int32_t *variables;
    int32_t n;
    json_t *given; /* NULL: nothing is named */
    bool is_first; /* the first field alone is named, which goes without saying */
} mr_choice;

mr_status mr_choose_fields(const mr_compiler *c, json_t *params, const char *where, mr_choice *out);
/* Adds the fields that a name or a pattern (feature_*) stands for, those of a pattern in the
 * sample's order. */
mr_status mr_choose_by(const mr_compiler *c, const char *name, const char *where, mr_choice *out);
mr_status mr_compile_fields(mr_compiler *c); /* those that are delivered */
bool mr_is_delivered(const mr_pipeline *p, int32_t variable);
mr_status mr_find_wanted(mr_compiler *c); /* variables that somebody has a use for */

/* ---- pipeline_kinds.c ---- */
mr_status mr_compile_kinds(mr_compiler *c, json_t *document);
double mr_min_visible(const mr_compiler *c, const char *name);
mr_box_format mr_format_of_boxes(const mr_compiler *c, const char *name);
mr_kind mr_kind_of_name(const mr_compiler *c, const char *name);
mr_status mr_check_kinds(mr_compiler *c); /* refuses those of fields that there were not */

/* ---- pipeline_masks.c ---- */
/* The parameters as they are on a mask: a new reference, NULL where there is no memory. */
json_t *mr_params_on_mask(const mr_param *rows, json_t *params);

/* ---- pipeline_follow.c ---- */
/* Whether what is chosen has an image, or a mask, that others can follow. */
bool mr_has_image(const mr_compiler *c, const mr_choice *choice);
mr_status mr_plan_follow(mr_compiler *c, mr_op_node *node, const mr_choice *choice);

/* ---- pipeline_groups.c ---- */
/* Brings the ops of each field together where ops work on several, so that they can be fused. */
mr_status mr_order_ops(mr_compiler *c);
mr_status mr_add_warning(mr_compiler *c, const char *text);
/* Random ops that were probably meant to draw alike. */
mr_status mr_warn_of_twins(mr_compiler *c);
mr_status mr_warn_of_doubts(mr_compiler *c);
mr_status mr_warn_of_left_behind(mr_compiler *c); /* after mr_compile_fields */

/* ---- pipeline_unnamed.c ---- */
mr_status mr_warn_of_unnamed_masks(mr_compiler *c);
bool mr_is_called_mask(const char *field);

/* ---- pipeline_variables.c ---- */
/* Who says which fields there will be; asked again where there was too little room. */
typedef struct mr_field_maker {
    mr_status (*make)(void *user, mr_field *fields, int32_t capacity, int32_t *n, mr_error *err);
    void *user;
    bool touched; /* what they hold is made by an op */
} mr_field_maker;

/* Puts its fields into new variables, *n of them. */
mr_status mr_add_variables(mr_compiler *c, const mr_field_maker *maker, int32_t *n);
mr_status mr_find_twice(const mr_field *fields, int32_t n, const char **twice, mr_error *err);
mr_status mr_make_room(mr_compiler *c, int32_t n_variables);
void mr_compiler_free(mr_compiler *c); /* but for the pipeline */

/* ---- pipeline_ops.c ---- */
extern const char *const mr_common_op_keys[]; /* what every op may be given */
mr_status mr_compile_ops(mr_compiler *c, json_t *document);

/* ---- pipeline_samples.c ---- */
/* On these fields; without a choice, on all. */
mr_status mr_plan_sample(mr_compiler *c, mr_op_node *node, const mr_choice *choice);

/* ---- pipeline_batches.c ---- */
mr_status mr_plan_batch(mr_compiler *c, mr_op_node *node, const mr_choice *choice);
/* Refuses an op on samples behind one on batches. */
mr_status mr_check_after_batch(const mr_compiler *c, const mr_op_class *op);
mr_status mr_check_batch_fields(const mr_compiler *c); /* they are delivered */

/* ---- pipeline_collate.c ---- */
mr_status mr_plan_collate(mr_compiler *c, mr_op_node *node);
mr_status mr_compile_collations(mr_compiler *c); /* when it is known what is delivered */
/* Of a mix, where children's values may be of other sizes than those of the first. */
mr_status mr_unite_collations(const mr_compiler *c);
void mr_collations_free(mr_pipeline *pipeline);

/* ---- pipeline_arrange.c ---- */
mr_status mr_plan_arrange(mr_compiler *c, const mr_op_class *op, const void *params);

/* ---- pipeline_cache.c ---- */
mr_status mr_plan_cache(mr_compiler *c, mr_op_node *node);
/* "cache": "auto", or a cache's parameters: becomes an op like any other, or two. */
mr_status mr_insert_cache(mr_compiler *c, json_t *document, json_t *list);

/* ---- pipeline_fuse.c ---- */
mr_status mr_find_fused(mr_compiler *c);

/* ---- pipeline_text.c ---- */
json_t *mr_settings_json(const mr_settings *settings);    /* NULL: no memory */
char *mr_dump_json(json_t *value);                        /* freed with free; NULL: no memory */
mr_status mr_write_stages(mr_pipeline *p, mr_error *err); /* the others need them */
mr_status mr_write_json(mr_pipeline *p, mr_error *err);
mr_status mr_write_prefixes(mr_pipeline *p, mr_error *err); /* of caches */
mr_status mr_write_fingerprint(mr_pipeline *p, mr_error *err);

#endif
