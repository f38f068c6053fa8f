/* SPDX-License-Identifier: Apache-2.0 */
/* raw_tier.h - bytes of objects on servers, kept in a store of this machine as they came: an origin
 * that is asked before the server is. What is kept is named by the object's version and the place
 * of the bytes in it, so it is never stale, and serves whichever pipelines and processes want those
 * bytes. The store checks what it gives; what is damaged is fetched again. */
#ifndef MR_RUN_RAW_TIER_H
#define MR_RUN_RAW_TIER_H

#include "run/read/origin.h"

#include <millrace/millrace.h>

typedef struct mr_raw_tier mr_raw_tier;

/* path: the store's folder, or "auto" for the user's own; "": *out stays NULL. size: in bytes,
 * where it is new; 0: a store's own. */
mr_status mr_raw_tier_open(mr_raw_tier **out, const char *path, int64_t size, const mr_log *log,
                           mr_error *err);
void mr_raw_tier_close(mr_raw_tier *tier); /* with everything written; NULL is allowed */

extern const mr_origin_class mr_raw_origin;

#endif
