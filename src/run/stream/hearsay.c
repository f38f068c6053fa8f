/* SPDX-License-Identifier: Apache-2.0 */
/* hearsay.c - see hearsay.h. */
#include "run/stream/hearsay.h"

#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

mr_status mr_hearsay_add(mr_hearsay *h, mr_said *said, mr_error *err) {
    if (h->n == h->room) {
        int64_t room = h->room ? 2 * h->room : 64;
        mr_said **grown = realloc(h->list, (size_t)room * sizeof(mr_said *));
        if (!grown) {
            mr_said_free(said);
            return mr_fail_memory(err, (size_t)room * sizeof(mr_said *));
        }
        h->list = grown;
        h->room = room;
    }
    h->list[h->n++] = said;
    return MR_OK;
}

const mr_said *mr_hearsay_next(const mr_hearsay *h, int64_t step, int64_t *at) {
    int64_t i = *at - h->gone;
    if (i >= h->n || h->list[i]->step > step) {
        return NULL;
    }
    ++*at;
    return h->list[i];
}

/* Not one by one: what is left moves up. */
void mr_hearsay_forget(mr_hearsay *h, int64_t before) {
    enum { AT_LEAST = 32 };
    int64_t n = before - h->gone < h->n - 1 ? before - h->gone : h->n - 1;
    if (n < AT_LEAST || 2 * n < h->n) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        mr_said_free(h->list[i]);
    }
    memmove(h->list, h->list + n, (size_t)(h->n - n) * sizeof(mr_said *));
    h->n -= n;
    h->gone += n;
}

void mr_hearsay_free(mr_hearsay *h) {
    for (int64_t i = 0; i < h->n; i++) {
        mr_said_free(h->list[i]);
    }
    free(h->list);
    *h = (mr_hearsay){.list = NULL};
}
