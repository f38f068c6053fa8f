/* SPDX-License-Identifier: Apache-2.0 */
/* far_limits.c - see far_limits.h. */
#include "core/far_limits.h"

#include <stdlib.h>

static _Thread_local const mr_far_limits *held;

const mr_far_limits *mr_far_limits_hold(const mr_far_limits *limits) {
    const mr_far_limits *before = held;
    held = limits;
    return before;
}

static int64_t number_of(const char *name, int64_t fallback, int64_t least, int64_t most) {
    const char *text = getenv(name);
    char *end = NULL;
    long long value = text ? strtoll(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && value >= least && value <= most ? value
                                                                                  : fallback;
}

mr_far_limits mr_far_limits_settle(const mr_far_limits *given) {
    const mr_far_limits none = {0}, *l = given ? given : held ? held : &none;
    return (mr_far_limits){
        .attempts = number_of("MILLRACE_FAR_ATTEMPTS", l->attempts > 0 ? l->attempts : 8, 1, 100),
        .seconds = number_of("MILLRACE_FAR_SECONDS", l->seconds > 0 ? l->seconds : 600, 1, 86400),
        .stall = number_of("MILLRACE_FAR_STALL", l->stall > 0 ? l->stall : 20, 1, 3600)};
}
