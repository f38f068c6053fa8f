/* SPDX-License-Identifier: Apache-2.0 */
/* servers_document.h - "servers" of a pipeline document: how long objects on servers are asked for,
 * and where their bytes are kept. Pure. What the environment says stands above it (docs/far.md), so
 * that who runs a document has the last word; which hosts may be reached no document says. */
#ifndef MR_PLAN_SERVERS_DOCUMENT_H
#define MR_PLAN_SERVERS_DOCUMENT_H

#include <jansson.h>
#include <millrace/param.h>

#include "core/far_limits.h"

typedef struct mr_servers_terms {
    bool given;
    int64_t attempts, seconds, stall; /* 0: not said; see mr_far_limits */
    const char *objects;              /* a store's folder, "auto" the user's own; "": none */
    int64_t objects_size;             /* bytes, where the store is new; 0: its own */
} mr_servers_terms;

/* value NULL: nothing is said. mr_servers_terms_free is due also where reading failed. */
mr_status mr_servers_terms_read(mr_servers_terms *out, json_t *value, mr_error *err);
void mr_servers_terms_free(mr_servers_terms *terms);
json_t *mr_servers_terms_json(const mr_servers_terms *terms);   /* NULL: out of memory */
mr_far_limits mr_servers_limits(const mr_servers_terms *terms); /* the document's alone */

#endif
