/* SPDX-License-Identifier: Apache-2.0 */
/* cache_parts.h - what the actions of millrace cache share. */
#ifndef MR_CLI_CACHE_PARTS_H
#define MR_CLI_CACHE_PARTS_H

#include <jansson.h>

#include "plugins.h"

typedef struct mr_cache_values {
    int32_t action;
    const char *document, *path;
    int64_t threads, world, rank;
    mr_files plugins;
    bool memory, json;
} mr_cache_values;

/* A cache of the pipeline, or the store that --path and --memory name. */
typedef struct mr_cache_target {
    int32_t stage; /* of the pipeline; 0: there is no pipeline */
    char *params;  /* as mr_store_stat takes them */
    bool again;    /* an earlier target has the same store */
    bool memory;   /* gone with the last process that uses it */
} mr_cache_target;

typedef struct mr_cache_targets {
    const mr_plugins *plugins;
    const mr_pipeline *pipeline; /* NULL: none was given */
    mr_cache_target *list;
    int32_t n;
    bool objects; /* there may be none: bytes of objects are what is kept */
} mr_cache_targets;

/* Each returns an exit code, having said what went wrong. */
int mr_cache_stat(const mr_cache_values *values, const mr_cache_targets *targets);
int mr_cache_verify(const mr_cache_values *values, const mr_cache_targets *targets);
int mr_cache_warm(const mr_cache_values *values, const mr_cache_targets *targets);

#endif
