/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_stream.c - a source that is followed, and what of it is shown again. */
#include "plan/compiler.h"

#include <string.h>

#include "core/error.h"

static mr_status refuse(mr_compiler *c, const char *where, const char *why, const char *advice) {
    mr_error_at_json(c->err, where);
    mr_fail(c->err, MR_E_PARAM, "%s", why);
    mr_hint(c->err, "%s", advice);
    return MR_E_PARAM;
}

static mr_status check_stream(mr_compiler *c, json_t *document) {
    mr_pipeline *p = c->pipeline;
    if (c->is_child) {
        return refuse(c, "$.source",
                      "a stream that is followed cannot be a child of a mix: its end is not known",
                      "\"follow\": false reads the stream as it is now");
    }
    if (json_object_get(document, "shuffle") && p->shuffle.on) {
        return refuse(c, "$.shuffle", "a stream that is followed comes in its own order",
                      "leave shuffle out; \"rehearse\" mixes old samples into each batch");
    }
    if (p->view.n > 0) {
        return refuse(c, "$.view", "a stream that is followed has no view: its end is not known",
                      "leave view out, or read the stream as it is, with \"follow\": false");
    }
    if (p->settings.epochs > 1) {
        return refuse(c, "$.epochs", "a stream that is followed has one epoch",
                      "leave epochs out; \"rehearse\" shows samples again");
    }
    if (p->settings.remainder == MR_PAD || p->settings.remainder == MR_EVEN) {
        return refuse(c, "$.remainder", "a stream that is followed cannot be padded",
                      "use \"keep\" or \"drop\"");
    }
    p->settings.shuffle = p->shuffle.on = p->windowed = false;
    return MR_OK;
}

/* What tells old samples from new ones is wanted where there are any. */
static void offer_replay_fields(mr_compiler *c) {
    static const char *const names[] = {"is_replay", "weight"};
    for (int32_t i = 0; i < c->pipeline->n_source_fields; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(c->pipeline->variables[i].name, names[k]) == 0) {
                c->pipeline->variables[i].optional = false;
            }
        }
    }
}

mr_status mr_compile_stream(mr_compiler *c, json_t *document) {
    mr_pipeline *p = c->pipeline;
    p->is_stream = p->source->is_stream && p->source->is_stream(p->source_params);
    MR_TRY(mr_rehearse_read(&p->rehearse, json_object_get(document, "rehearse"), c->err));
    if (p->rehearse.on && !p->is_stream) {
        return refuse(c, "$.rehearse", "only a stream that is followed is rehearsed",
                      "add \"follow\": true to the source, or leave rehearse out");
    }
    MR_TRY(mr_pace_read(&p->pace, json_object_get(document, "pace"), c->err));
    if (p->pace.on && !p->is_stream) {
        return refuse(c, "$.pace", "only a stream that is followed has a pace",
                      "add \"follow\": true to the source, or leave pace out");
    }
    if (p->pace.late == MR_LATE_FILL && !p->rehearse.on) {
        return refuse(c, "$.pace.late", "fill takes old samples, and there is no rehearse",
                      "add \"rehearse\": {\"size\": 20000}, or use \"late\": \"wait\"");
    }
    if (p->rehearse.on) {
        offer_replay_fields(c);
    }
    return p->is_stream ? check_stream(c, document) : MR_OK;
}

mr_status mr_write_stream(const mr_pipeline *p, json_t *document) {
    bool whole = !p->rehearse.on ||
                 json_object_set_new(document, "rehearse", mr_rehearse_json(&p->rehearse)) == 0;
    whole = whole &&
            (!p->pace.on || json_object_set_new(document, "pace", mr_pace_json(&p->pace)) == 0);
    return whole ? MR_OK : MR_E_MEMORY;
}

/* How many bytes stay in memory changes nothing, and what a pace decided is the journal's. */
void mr_hash_stream(const mr_pipeline *p, mr_hasher *hasher) {
    const mr_rehearse *r = &p->rehearse;
    if (r->on) {
        mr_hasher_text(hasher, "rehearse");
        mr_hasher_number(hasher, r->size);
        mr_hasher_number(hasher, r->lag);
        mr_hasher_number(hasher, r->classes);
        mr_hasher_number(hasher, r->policy);
        mr_hasher_bytes(hasher, &r->share, sizeof r->share);
        mr_hasher_bytes(hasher, &r->rate, sizeof r->rate);
    }
    if (r->on && r->samples_per_insert > 0) {
        mr_hasher_bytes(hasher, &r->samples_per_insert, sizeof r->samples_per_insert);
        mr_hasher_bytes(hasher, &r->slack, sizeof r->slack);
        mr_hasher_number(hasher, r->least_size);
    }
}
