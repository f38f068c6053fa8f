/* SPDX-License-Identifier: Apache-2.0 */
/* redis_memory.h - memory of replies: hiredis takes and frees a piece for every element, which
 * costs more than reading them; here all of a reply lies in a few pieces that are used again. */
#ifndef MR_FABRIC_REDIS_MEMORY_H
#define MR_FABRIC_REDIS_MEMORY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

typedef struct mr_redis_chunk mr_redis_chunk;

/* For one reader; a zeroed one is ready. */
typedef struct mr_redis_memory {
    bool reuses;            /* one thread alone frees replies */
    mr_redis_chunk *unused; /* where it does: what is kept for the next ones */
    size_t n_unused;
    mr_redis_chunk *open; /* of the reply that is being read; the newest first */
} mr_redis_memory;

/* Replies of this reader come from the memory, which is its privdata, and are freed by
 * mr_redis_reply_free alone. */
extern const redisReplyObjectFunctions mr_redis_memory_functions;

void mr_redis_reply_free(redisReply *reply);        /* NULL allowed */
void mr_redis_memory_free(mr_redis_memory *memory); /* after the last reply */

#endif
