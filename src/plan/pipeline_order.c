/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_order.c - what of the source takes part, and in which order: "view", "shuffle" and
 * "bucket"; and "share" and "servers", which change none of them. */
#include "plan/compiler.h"

#include <stdlib.h>

#include "core/error.h"

/* Before the settings are read, for which a shuffle is on or off. */
mr_status mr_compile_order(mr_compiler *c, json_t *document) {
    mr_pipeline *p = c->pipeline;
    json_t *shuffle = json_object_get(document, "shuffle");
    MR_TRY(mr_view_read(&p->view, json_object_get(document, "view"), c->err));
    MR_TRY(mr_shuffle_read(&p->shuffle, shuffle, c->err));
    MR_TRY(mr_share_terms_read(&p->share, json_object_get(document, "share"), c->err));
    MR_TRY(mr_bucket_terms_read(&p->bucket, json_object_get(document, "bucket"), c->err));
    MR_TRY(mr_servers_terms_read(&p->servers, json_object_get(document, "servers"), c->err));
    p->windowed = json_is_object(shuffle);
    if (p->windowed && json_object_set_new(document, "shuffle", json_true()) != 0) {
        return mr_fail_memory(c->err, 64);
    }
    return MR_OK;
}

/* Both as they may be written again; what the document did not say is not said. */
mr_status mr_write_order(const mr_pipeline *p, json_t *document) {
    json_t *shuffle = p->windowed ? mr_shuffle_json(&p->shuffle) : json_boolean(p->shuffle.on);
    bool whole = json_object_set_new(document, "shuffle", shuffle) == 0;
    if (p->view.n > 0) {
        whole = whole && json_object_set_new(document, "view", mr_view_json(&p->view)) == 0;
    }
    return whole ? MR_OK : MR_E_MEMORY;
}

static bool write_terms(json_t *document, const char *name, bool given, json_t *terms) {
    bool written = !given || json_object_set(document, name, terms) == 0;
    json_decref(terms);
    return written;
}

mr_status mr_write_bucket(const mr_pipeline *p, json_t *document) {
    return write_terms(document, "bucket", p->bucket.given, mr_bucket_terms_json(&p->bucket))
               ? MR_OK
               : MR_E_MEMORY;
}

mr_status mr_write_share(const mr_pipeline *p, json_t *document) {
    return write_terms(document, "share", p->share.given, mr_share_terms_json(&p->share)) &&
                   write_terms(document, "servers", p->servers.given,
                               mr_servers_terms_json(&p->servers))
               ? MR_OK
               : MR_E_MEMORY;
}

/* Orders that the state's "shuffle" does not tell apart. */
mr_status mr_hash_order(const mr_pipeline *p, mr_hasher *hasher) {
    if (p->bucket.given) {
        mr_hasher_text(hasher, "bucket");
        mr_hasher_text(hasher, p->bucket.field);
        mr_hasher_number(hasher, p->bucket.size > 0 ? p->bucket.size : p->settings.batch);
        mr_hasher_number(hasher, p->bucket.groups);
        mr_hasher_number(hasher, p->bucket.lanes);
    }
    if (!p->windowed && p->view.n == 0) {
        return MR_OK;
    }
    json_t *order = json_object();
    char *text = order && mr_write_order(p, order) == MR_OK
                     ? json_dumps(order, JSON_COMPACT | JSON_SORT_KEYS)
                     : NULL;
    json_decref(order);
    if (!text) {
        return MR_E_MEMORY;
    }
    mr_hasher_text(hasher, text);
    free(text);
    return MR_OK;
}

/* Once it is known whether the source is followed. */
mr_status mr_check_bucket(const mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    int64_t group, stretch;
    if (!p->bucket.given) {
        return MR_OK;
    }
    if (p->is_stream) {
        mr_error_at_json(c->err, "$.bucket");
        return mr_fail(
            c->err, MR_E_UNSUPPORTED,
            "a stream that is followed has no order, so nothing can be sorted by length");
    }
    return mr_bucket_stretch(&p->bucket, p->settings.batch, &group, &stretch, c->err);
}

bool mr_pipeline_wants_single(const mr_pipeline *p) {
    return p->shuffle.on && !p->windowed;
}
