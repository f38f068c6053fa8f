/* SPDX-License-Identifier: Apache-2.0 */
/* cache_choice.h - which of the caches that say "keep": "auto" works. No byte depends on it. */
#ifndef MR_RUN_CACHE_CHOICE_H
#define MR_RUN_CACHE_CHOICE_H

#include "run/cache/cache.h"

/* Sets `keeps` of those caches, whose stores are open; a store that is not used is closed. */
void mr_caches_choose(mr_caches *caches, const mr_caches_config *config);

#endif
