/* SPDX-License-Identifier: Apache-2.0 */
/* share_document.h - "share" of a pipeline document: who keeps samples, and who makes them. Pure.
 *
 *     "share": "strict" | "local" | {"mode": "local", "memory": "64GB", "ranks_per_node": 4}
 *
 * All of it is the document's and nothing the machine's: who makes what follows from it, and every
 * rank must come to the same result. */
#ifndef MR_PLAN_SHARE_DOCUMENT_H
#define MR_PLAN_SHARE_DOCUMENT_H

#include <jansson.h>
#include <millrace/param.h>

typedef enum mr_share_mode {
    MR_SHARE_STRICT, /* a rank makes the slots that it always makes */
    MR_SHARE_LOCAL   /* a rank makes what its node keeps, balanced */
} mr_share_mode;

typedef enum mr_travel {
    MR_TRAVEL_SMALLER, /* of a sample: its files, or the sample as it is at the cache op */
    MR_TRAVEL_RAW,
    MR_TRAVEL_PREPARED
} mr_travel;

typedef struct mr_share_terms {
    int32_t mode;         /* mr_share_mode */
    bool given;           /* the document says it */
    int64_t memory;       /* bytes that a node keeps; 0: everything */
    int64_t sample_bytes; /* of a sample (a block) whose source does not say its size; 0: unknown */
    int64_t ranks_per_node;
    int64_t replicas;
    int32_t travel; /* mr_travel */
} mr_share_terms;

/* NULL: strict, everything is kept, one rank a node. */
void mr_share_terms_copy(mr_share_terms *to, const mr_share_terms *from); /* but for padding */
mr_status mr_share_terms_read(mr_share_terms *out, json_t *value, mr_error *err);
json_t *mr_share_terms_json(const mr_share_terms *terms); /* NULL: out of memory */

#endif
