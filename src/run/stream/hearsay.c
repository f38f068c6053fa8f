/* SPDX-License-Identifier: Apache-2.0 */
/* hearsay.c - see hearsay.h. */
#include "run/stream/hearsay.h"

#include <millrace/millrace.h>
#include <stdlib.h>

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
    return *at < h->n && h->list[*at]->step <= step ? h->list[(*at)++] : NULL;
}

void mr_hearsay_free(mr_hearsay *h) {
    for (int64_t i = 0; i < h->n; i++) {
        mr_said_free(h->list[i]);
    }
    free(h->list);
    *h = (mr_hearsay){.list = NULL};
}
