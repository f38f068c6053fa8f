/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_document.h - "bucket" of a pipeline document: batches of samples of like length. Pure.
 *
 *     "bucket": "tokens" | {"field": "tokens", "size": 32, "groups": 100,
 *                          "lanes": false} */
#ifndef MR_PLAN_BUCKET_DOCUMENT_H
#define MR_PLAN_BUCKET_DOCUMENT_H

#include <jansson.h>
#include <millrace/param.h>

typedef struct mr_bucket_terms {
    bool given;   /* the document says it */
    char *field;  /* of the source; empty: its first */
    int64_t size; /* of a group; 0: the document's batch */
    int64_t groups;
    bool lanes; /* each is sorted by itself */
} mr_bucket_terms;

/* NULL: there is none. Errors have JSON paths from "$.bucket" on. */
mr_status mr_bucket_terms_read(mr_bucket_terms *out, json_t *value, mr_error *err);
void mr_bucket_terms_free(mr_bucket_terms *terms);          /* a zeroed one is allowed */
json_t *mr_bucket_terms_json(const mr_bucket_terms *terms); /* NULL: out of memory */

/* Positions that are sorted together, where a batch has so many; fails where they are too many. */
mr_status mr_bucket_stretch(const mr_bucket_terms *terms, int64_t batch, int64_t *group,
                            int64_t *stretch, mr_error *err);

#endif
