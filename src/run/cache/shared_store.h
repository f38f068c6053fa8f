/* SPDX-License-Identifier: Apache-2.0 */
/* shared_store.h - shared values in a store of this machine: each is a record of one field of
 * bytes, under a prefix of its namespace. */
#ifndef MR_RUN_SHARED_STORE_H
#define MR_RUN_SHARED_STORE_H

#include "core/hash.h"
#include "run/cache/stores.h"

typedef struct mr_shared_store mr_shared_store;

mr_status mr_shared_store_open(mr_shared_store **out, const char *params, const char *space,
                               const mr_log *log, mr_error *err);
void mr_shared_store_close(mr_shared_store *shared); /* NULL allowed */

/* New memory with the value's bytes. MR_LATER: it is not there. */
mr_status mr_shared_store_find(mr_shared_store *shared, mr_hash128 name, void **value, size_t *size,
                               mr_error *err);

/* As for mr_store_claim; what is claimed is kept or abandoned. keep copies the bytes; where there
 * is no memory for that it abandons. */
mr_claim mr_shared_store_claim(mr_shared_store *shared, mr_hash128 name);
void mr_shared_store_abandon(mr_shared_store *shared, mr_hash128 name);
bool mr_shared_store_keep(mr_shared_store *shared, mr_hash128 name, const void *value, size_t size);

/* What went wrong first; false: nothing did. */
bool mr_shared_store_trouble(mr_shared_store *shared, char *text, size_t size);

#endif
