/* SPDX-License-Identifier: Apache-2.0 */
/* raw_tier_absent.c - in place of raw_tier.c where there is no store. */
#include "run/cache/raw_tier.h"

mr_status mr_raw_tier_open(mr_raw_tier **out, const char *path, int64_t size, const mr_log *log,
                           mr_error *err) {
    (void)path;
    (void)size;
    (void)out;
    (void)log;
    (void)err;
    return MR_OK;
}

void mr_raw_tier_close(mr_raw_tier *tier) {
    (void)tier;
}

static mr_answer ask(void *state, struct mr_load *load) {
    (void)state;
    (void)load;
    return MR_ANSWER_NOT_HERE;
}

const mr_origin_class mr_raw_origin = {.name = "objects", .ask = ask};
