/* SPDX-License-Identifier: Apache-2.0 */
/* span.c - the names of spans. */
#include "span/span.h"

const char *const mr_span_names[] = {
#define SPAN_NAME(name, text, about, doc) text,
    MR_SPAN_MAP(SPAN_NAME)
#undef SPAN_NAME
};

bool mr_span_is_about_batch(mr_span_kind kind) {
    static const char about_of[] = {
#define SPAN_ABOUT(name, text, about, doc) about,
        MR_SPAN_MAP(SPAN_ABOUT)
#undef SPAN_ABOUT
    };
    return about_of[kind] == 'b';
}

bool mr_span_is_wait(mr_span_kind kind) {
    return kind == MR_SPAN_WAIT_READ || kind == MR_SPAN_WAIT_WORK || kind == MR_SPAN_WAIT_BATCH ||
           kind == MR_SPAN_WAIT_HOST || kind == MR_SPAN_STORE_WAIT;
}
