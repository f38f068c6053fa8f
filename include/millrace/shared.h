/* SPDX-License-Identifier: Apache-2.0 */
/* shared.h - named values that are made once and used by many: by threads, by processes of this
 * machine, by nodes and by later runs. A layer of its own: loaders of others can use it without
 * this library's loader.
 *
 *     mr_shared *shared;
 *     const mr_shared_config config = {.size = sizeof config, .fabric = "redis://node1"};
 *     mr_shared_open(&shared, &config, &err);
 *     mr_shared_get_or_make(shared, key, key_size, make, user, &value, &value_size, &err);
 *
 * Values lie in a store of this machine (the op cache's, docs/cache.md), in a fabric
 * (fabric.h), or in both: then the store is asked first, and what the fabric has is put into it.
 * Whatever goes wrong there means that a value is made again. A key stands for one value: change
 * the key, or the namespace, when what it stands for changes. */
#ifndef MILLRACE_SHARED_H
#define MILLRACE_SHARED_H

#include <millrace/fabric.h>
#include <millrace/source.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_shared_config {
    uint32_t size;      /* sizeof(mr_shared_config) */
    const char *store;  /* JSON object of the op cache's parameters, "{}": the user's own store;
                           NULL: none, unless there is no fabric either */
    const char *fabric; /* URL; NULL: none */
    const char *space;  /* namespace; NULL: "default" */
    double ttl;      /* seconds that the fabric keeps values; 0: as its URL says, or without end */
    double timeout;  /* seconds that one exchange with the fabric takes at most; 0: 0.5 */
    double patience; /* seconds to wait for somebody who makes a value, before making it too;
                        0: 60. A node that died while it made one is waited for as long */
    mr_log log;      /* (optional) trouble, once */
} mr_shared_config;

typedef struct mr_shared_stats {
    uint32_t size;          /* sizeof(mr_shared_stats), set by the caller */
    int64_t from_store;     /* values */
    int64_t from_fabric;    /* likewise */
    int64_t made;           /* by this object */
    int64_t waits;          /* for somebody else who made it */
    int64_t kept;           /* given to the store or the fabric */
    mr_fabric_stats fabric; /* zeros where there is none */
} mr_shared_stats;

/* Used by any number of threads. In a forked child every call but close says MR_E_FORKED. */
typedef struct mr_shared mr_shared;
MR_API mr_status mr_shared_open(mr_shared **out, const mr_shared_config *config, mr_error *err);
MR_API void mr_shared_close(mr_shared *shared); /* writes what waits to be written; NULL allowed */

/* *value is the caller's, to be freed with mr_free. MR_LATER: nobody has it. */
MR_API mr_status mr_shared_get(mr_shared *shared, const void *key, size_t key_size, void **value,
                               size_t *size, mr_error *err);

/* Keeps a copy, as far as there is room. A value that is there already stays. */
MR_API mr_status mr_shared_put(mr_shared *shared, const void *key, size_t key_size,
                               const void *value, size_t size, mr_error *err);

/* Makes a value: *value is memory from malloc, given over. A failure is passed on to the caller,
 * and whoever waits makes it instead. */
typedef mr_status mr_shared_make_fn(void *user, void **value, size_t *size, mr_error *err);

/* The value, from wherever it is; where nobody has it, one among all threads, processes and nodes
 * makes it, and the others wait. */
MR_API mr_status mr_shared_get_or_make(mr_shared *shared, const void *key, size_t key_size,
                                       mr_shared_make_fn *make, void *user, void **value,
                                       size_t *size, mr_error *err);

MR_API void mr_shared_stats_now(mr_shared *shared, mr_shared_stats *out);

#ifdef __cplusplus
}
#endif
#endif
