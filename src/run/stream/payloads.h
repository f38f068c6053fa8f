/* SPDX-License-Identifier: Apache-2.0 */
/* payloads.h - entries by their samples' numbers: what a rehearsal buffer may show again, as far as
 * it fits into memory. */
#ifndef MR_RUN_PAYLOADS_H
#define MR_RUN_PAYLOADS_H

#include "run/stream/feed.h"

typedef struct mr_payload {
    uint64_t id;
    mr_held *held; /* NULL: a free place */
} mr_payload;

/* A zeroed one is empty. */
typedef struct mr_payloads {
    mr_payload *table; /* open addressing */
    size_t room, n;    /* room is a power of two, or 0 */
    int64_t bytes, most_bytes;
} mr_payloads;

/* Keeps an entry, unless it does not fit or there is no memory for it. */
void mr_payloads_add(mr_payloads *payloads, uint64_t id, mr_held *held);
mr_held *mr_payloads_find(const mr_payloads *payloads, uint64_t id); /* NULL: it is not there */
void mr_payloads_remove(mr_payloads *payloads, uint64_t id);
void mr_payloads_free(mr_payloads *payloads);

#endif
