/* SPDX-License-Identifier: Apache-2.0 */
/* share_document.c - "share" of a pipeline document: a mode by itself, or an object. */
#include "plan/share_document.h"

#include <millrace/millrace.h>

#include "core/error.h"
#include "core/params.h"
#include "plan/placement.h"

static const char *const mode_names[] = {"strict", "local", NULL};
static const char *const travel_names[] = {"smaller", "raw", "prepared", NULL};

static const mr_param share_rows[] = {
    {.name = "mode",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_share_terms, mode),
     .fallback = "\"strict\"",
     .choices = mode_names,
     .doc = "strict: a rank makes the slots of a batch that it makes without sharing; local: a "
            "node's ranks make what the node keeps, and as many slots as before. The batch of "
            "all ranks together is the same."},
    {.name = "memory",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_share_terms, memory),
     .fallback = "0",
     .max = 0x1p60,
     .doc = "What a node keeps of the dataset, in bytes of its files; 0: all that it owns. What "
            "has no room is read from storage in every epoch."},
    {.name = "sample_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_share_terms, sample_bytes),
     .fallback = "0",
     .max = 0x1p60,
     .doc = "Size of a sample, or block, for reckoning with `memory`; needed where the source "
            "does not know it without looking at every file."},
    {.name = "ranks_per_node",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_share_terms, ranks_per_node),
     .fallback = "1",
     .min = 1,
     .max = 4096,
     .doc = "Ranks that share a node's memory: consecutive ones."},
    {.name = "replicas",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_share_terms, replicas),
     .fallback = "1",
     .min = 1,
     .max = MR_MAX_REPLICAS,
     .doc = "Nodes that keep a sample."},
    {.name = "travel",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_share_terms, travel),
     .fallback = "\"smaller\"",
     .choices = travel_names,
     .doc = "What ranks and servers give each other of a sample that is a file, in a pipeline with "
            "a cache: raw: the file; prepared: the sample as it is at the last cache, once "
            "somebody has made it; smaller: whichever has fewer bytes."},
    {.name = NULL},
};

const mr_param *mr_share_params(void) {
    return share_rows;
}

void mr_share_terms_copy(mr_share_terms *to, const mr_share_terms *from) {
    to->mode = from->mode;
    to->given = from->given;
    to->memory = from->memory;
    to->sample_bytes = from->sample_bytes;
    to->ranks_per_node = from->ranks_per_node;
    to->replicas = from->replicas;
    to->travel = from->travel;
}

static mr_status refuse(mr_error *err) {
    mr_error_at_json(err, "$.share");
    mr_fail(err, MR_E_TYPE, "share must be \"strict\", \"local\" or an object");
    mr_hint(err, "write \"share\": \"local\" or \"share\": {\"mode\": \"local\", \"memory\": "
                 "\"64GB\"}; see docs/fabric.md");
    return MR_E_TYPE;
}

mr_status mr_share_terms_read(mr_share_terms *out, json_t *value, mr_error *err) {
    mr_share_terms terms = {.given = value != NULL};
    if (value && !json_is_string(value) && !json_is_object(value)) {
        return refuse(err);
    }
    json_t *object = json_is_object(value) ? json_copy(value) : json_object();
    if (!object || (json_is_string(value) && json_object_set(object, "mode", value) != 0)) {
        json_decref(object);
        return mr_fail_memory(err, 64);
    }
    mr_status status = mr_params_fill(share_rows, object, "$.share", "share", NULL, &terms, err);
    json_decref(object);
    *out = terms;
    return status;
}

json_t *mr_share_terms_json(const mr_share_terms *terms) {
    return mr_params_json(share_rows, terms);
}
