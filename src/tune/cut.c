/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c - where a pipeline can be cut into what is done once and what is done in every epoch, and
 * the documents of both parts. */
#include "tune/cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "plan/pipeline.h"

enum { BATCH = 16 }; /* whole images may be large */

/* ---- Places ---- */
/* Flags of an op of the document, over all fields it works on. */
static uint32_t flags_of(const mr_pipeline *pipeline, int32_t call) {
    uint32_t flags = 0;
    for (int32_t i = 0; i < pipeline->n_ops; i++) {
        flags |= pipeline->ops[i].call == call ? pipeline->ops[i].flags : 0;
    }
    return flags;
}

static bool can_be_kept(const mr_pipeline *pipeline, int32_t call) {
    return (flags_of(pipeline, call) & (MR_OP_RANDOM | MR_OP_OPAQUE)) == 0;
}

int32_t mr_cut_last(const mr_pipeline *pipeline) {
    int32_t n = 0;
    while (n < pipeline->n_calls && can_be_kept(pipeline, n)) {
        n++;
    }
    return n;
}

static const mr_op_node *node_of(const mr_pipeline *pipeline, int32_t call) {
    int32_t node = call < pipeline->n_calls ? pipeline->calls[call].node : -1;
    return node >= 0 ? &pipeline->ops[node] : NULL;
}

/* A decoder that makes images smaller for the op behind it gives other pixels without it. */
static bool are_one(const mr_pipeline *pipeline, int32_t cut) {
    const mr_op_node *before = cut > 0 ? node_of(pipeline, cut - 1) : NULL;
    const mr_op_node *behind = node_of(pipeline, cut);
    return before && behind && before->class->shrink && behind->class->tolerate &&
           before->class->shrink(before->params, NULL, 8) > 1;
}

static mr_status check_cut(const mr_pipeline *pipeline, int32_t cut, mr_error *err) {
    if (pipeline->n_children > 0) {
        mr_fail(err, MR_E_UNSUPPORTED, "a mix cannot be cut");
        mr_hint(err, "cut its children, each by itself");
        return MR_E_UNSUPPORTED;
    }
    int32_t last = mr_cut_last(pipeline);
    if (cut > last) {
        const char *name = pipeline->calls[last].class->name;
        bool random = (flags_of(pipeline, last) & MR_OP_RANDOM) != 0;
        mr_fail(err, MR_E_PARAM, "%s is %s: what it makes cannot be kept", name,
                random ? "random, other in every epoch" : "a function that no name tells apart");
        mr_hint(err, "cut before it: at most %d ops can be done once", last);
        return MR_E_PARAM;
    }
    if (are_one(pipeline, cut)) {
        const char *name = pipeline->calls[cut - 1].class->name;
        mr_fail(err, MR_E_PARAM, "%s decodes at a smaller size for %s behind it: they are one step",
                name, pipeline->calls[cut].class->name);
        mr_hint(err, "cut elsewhere, or leave out dct_scale");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static bool is_number(const char *text) {
    return text[0] != '\0' && strlen(text) < 6 && strspn(text, "0123456789") == strlen(text);
}

/* Behind the last op of that name that can be kept, else behind the first at all; -1: none. */
static int32_t find_name(const mr_pipeline *pipeline, const char *name) {
    int32_t last = mr_cut_last(pipeline), found = -1;
    for (int32_t i = 0; i < pipeline->n_calls; i++) {
        bool same = strcmp(pipeline->calls[i].class->name, name) == 0;
        found = same && (i < last || found < 0) ? i + 1 : found;
    }
    return found;
}

mr_status mr_cut_find(const mr_pipeline *pipeline, const char *upto, int32_t *out, mr_error *err) {
    int32_t cut = mr_cut_last(pipeline);
    while (!upto && cut > 0 && are_one(pipeline, cut)) {
        cut--;
    }
    if (upto && strcmp(upto, "source") == 0) {
        cut = 0;
    } else if (upto) {
        cut = is_number(upto) ? atoi(upto) : find_name(pipeline, upto);
    }
    if (cut < 0 || cut > pipeline->n_calls) {
        mr_fail(err, MR_E_PARAM, "the pipeline has no op '%.64s' to cut behind", upto);
        mr_hint(err, "name one of its ops, a number of ops up to %d, or source",
                mr_cut_last(pipeline));
        return MR_E_PARAM;
    }
    MR_TRY(check_cut(pipeline, cut, err));
    *out = cut;
    return MR_OK;
}

/* ---- Documents ---- */
json_t *mr_document_of(const mr_pipeline *pipeline) {
    json_t *document = NULL;
    const char *text = mr_pipeline_json(pipeline);
    return mr_json_load(&document, text, strlen(text), 0, &(json_error_t){0}) == MR_OK ? document
                                                                                       : NULL;
}

static void keep_first(json_t *ops, int32_t n) {
    while (json_array_size(ops) > (size_t)n) {
        json_array_remove(ops, (size_t)n);
    }
}

json_t *mr_cut_ops(const mr_pipeline *pipeline, int32_t cut) {
    json_t *document = mr_document_of(pipeline);
    json_t *ops = json_incref(json_object_get(document, "ops"));
    keep_first(ops, cut);
    json_decref(document);
    return ops;
}

static json_t *head_document(const mr_pipeline *pipeline, int32_t cut) {
    bool lost = false;
    json_t *document = mr_document_of(pipeline);
    if (!document) {
        return NULL;
    }
    keep_first(json_object_get(document, "ops"), cut);
    json_object_del(document, "view"); /* a pack has all samples: the rest chooses among them */
    mr_json_set(document, "shuffle", json_false(), &lost);
    mr_json_set(document, "epochs", json_integer(1), &lost);
    mr_json_set(document, "remainder", json_string("keep"), &lost);
    mr_json_set(document, "on_error", json_string("fail"), &lost);
    mr_json_set(document, "batch", json_integer(BATCH), &lost);
    mr_json_set(document, "fields", json_array(), &lost);
    return mr_json_whole(document, lost);
}

static mr_status parse(json_t *document, const mr_op_class *const *extra_ops, mr_pipeline **out,
                       mr_error *err) {
    char *text = json_dumps(document, JSON_REAL_PRECISION(17));
    if (!text) {
        return mr_fail_memory(err, 0);
    }
    mr_status status = mr_pipeline_parse(out, text, strlen(text), extra_ops, err);
    free(text);
    return status;
}

static bool has_field(const mr_pipeline *pipeline, const char *name) {
    bool has = false;
    for (int32_t i = 0; i < mr_pipeline_n_fields(pipeline); i++) {
        has = has || strcmp(mr_pipeline_field(pipeline, i)->name, name) == 0;
    }
    return has;
}

/* Field names that ops behind the cut and the batch ask for; patterns ask for none that is
 * delivered on request only. */
static json_t *asked_for(const mr_pipeline *pipeline, int32_t cut) {
    bool lost = false;
    json_t *names = json_array(), *document = mr_document_of(pipeline);
    json_t *ops = json_object_get(document, "ops"), *op, *value;
    size_t i;
    json_array_foreach(ops, i, op) {
        json_t *params = json_object_iter_value(json_object_iter(op));
        value = json_object_get(params, "field");
        if ((int32_t)i >= cut && json_is_string(value)) {
            mr_json_append(names, json_incref(value), &lost);
        } else if ((int32_t)i >= cut && json_is_array(value)) {
            lost = json_array_extend(names, value) != 0 || lost;
        }
    }
    value = json_object_get(document, "fields");
    lost = lost || (json_is_array(value) && json_array_extend(names, value) != 0);
    json_decref(document);
    return mr_json_whole(names, lost || !document);
}

/* One of these may be made behind the cut only: then the part before it cannot deliver it, and need
 * not. */
static mr_status add_fields(json_t *document, json_t *names, const mr_op_class *const *extra_ops,
                            mr_pipeline **head, mr_error *err) {
    size_t i;
    json_t *name, *fields = json_array();
    bool lost = false;
    for (int32_t f = 0; f < mr_pipeline_n_fields(*head); f++) {
        mr_json_append(fields, json_string(mr_pipeline_field(*head, f)->name), &lost);
    }
    mr_json_set(document, "fields", fields, &lost);
    json_array_foreach(names, i, name) {
        mr_pipeline *more = NULL;
        if (lost || has_field(*head, json_string_value(name))) {
            continue;
        }
        mr_json_append(fields, json_incref(name), &lost);
        if (parse(document, extra_ops, &more, NULL) == MR_OK) {
            mr_pipeline_free(*head);
            *head = more;
        } else {
            json_array_remove(fields, json_array_size(fields) - 1);
        }
    }
    return lost ? mr_fail_memory(err, 0) : MR_OK;
}

mr_status mr_cut_head(const mr_pipeline *pipeline, int32_t cut, const mr_op_class *const *extra_ops,
                      mr_pipeline **out, mr_error *err) {
    mr_pipeline *head = NULL;
    json_t *document = head_document(pipeline, cut), *names = asked_for(pipeline, cut);
    mr_status status = document && names ? MR_OK : mr_fail_memory(err, 0);
    if (status == MR_OK) {
        status = parse(document, extra_ops, &head, err);
    }
    if (status == MR_OK) {
        status = add_fields(document, names, extra_ops, &head, err);
    }
    json_decref(document);
    json_decref(names);
    if (status == MR_OK) {
        *out = head;
    } else {
        mr_pipeline_free(head);
    }
    return status;
}

/* What a source gives on request only, a pack has for everybody: so the fields are named. */
static json_t *delivered(const mr_pipeline *pipeline) {
    bool lost = false;
    json_t *names = json_array();
    for (int32_t i = 0; i < mr_pipeline_n_fields(pipeline); i++) {
        mr_json_append(names, json_string(mr_pipeline_field(pipeline, i)->name), &lost);
    }
    return mr_json_whole(names, lost);
}

json_t *mr_cut_tail(const mr_pipeline *pipeline, int32_t cut, json_t *source, json_t *ops) {
    bool lost = false;
    json_t *document = mr_document_of(pipeline);
    json_t *own = json_object_get(document, "ops");
    for (int32_t i = 0; own && i < cut; i++) {
        json_array_remove(own, 0);
    }
    lost = !own || !ops || json_array_extend(ops, own) != 0;
    mr_json_set(document, "ops", ops, &lost);
    mr_json_set(document, "source", source, &lost);
    mr_json_set(document, "fields", delivered(pipeline), &lost);
    return mr_json_whole(document, lost);
}
