/* SPDX-License-Identifier: Apache-2.0 */
/* relay_lend.c - memory that ranks lend each other: chunks of bytes by the number that their owner
 * gave them, kept until they are asked back (lent.h). */
#include "run/stream/relay_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* ---- The list ---- */
static relay_loan *take_loan(relay_loan **list, int32_t rank, int64_t id) {
    while (*list && ((*list)->rank != rank || (*list)->id != id)) {
        list = &(*list)->next;
    }
    relay_loan *loan = *list;
    if (loan) {
        *list = loan->next;
    }
    return loan;
}

static bool add_loan(relay_loan **list, int32_t rank, int64_t id, const void *bytes, size_t size) {
    relay_loan *loan = mr_zalloc(1, sizeof *loan);
    char *own = loan && size > 0 ? malloc(size) : NULL;
    if (!loan || (size > 0 && !own)) {
        mr_free(loan);
        return false;
    }
    if (own) {
        memcpy(own, bytes, size);
    }
    *loan = (relay_loan){.next = *list, .rank = rank, .id = id, .bytes = {own, size, size}};
    *list = loan;
    return true;
}

void mr_relay_free_loans(mr_relay *x, int32_t rank) {
    relay_loan **lists[] = {&x->kept, &x->back, &x->asked};
    for (int i = 0; i < 3; i++) {
        for (relay_loan **at = lists[i]; *at;) {
            relay_loan *loan = *at;
            if ((rank >= 0 && loan->rank != rank) || (rank >= 0 && i == 1)) {
                at = &loan->next; /* what came back before its lender left is there */
                continue;
            }
            *at = loan->next;
            x->kept_bytes -= i == 0 ? (int64_t)loan->bytes.size : 0;
            free(loan->bytes.bytes);
            mr_free(loan);
        }
    }
}

/* ---- The lender: with the lock held ---- */
/* A stranger gets no more than was agreed on. What is not kept is not there when it is asked for,
 * and read from the stream again. */
void mr_relay_take_loan(mr_relay *x, int32_t from, int64_t id, const void *bytes, size_t size) {
    if (size > 0 && x->kept_bytes + (int64_t)size <= x->config.lends &&
        add_loan(&x->kept, from, id, bytes, size)) {
        x->kept_bytes += (int64_t)size;
    }
}

void mr_relay_return_loan(mr_relay *x, int32_t to, int64_t id) {
    relay_loan *loan = take_loan(&x->kept, to, id);
    mr_relay_bytes bytes = loan ? loan->bytes : (mr_relay_bytes){.bytes = NULL};
    x->kept_bytes -= (int64_t)bytes.size;
    if (!mr_relay_post_bytes(x, to, BACK, id, &bytes)) {
        free(bytes.bytes);
    }
    mr_free(loan);
}

/* ---- The owner ---- */
/* What was not asked for is nobody's. */
void mr_relay_take_back(mr_relay *x, int32_t from, int64_t id, const void *bytes, size_t size) {
    relay_loan *asked = take_loan(&x->asked, from, id);
    if (!asked) {
        return;
    }
    mr_free(asked);
    if (!add_loan(&x->back, from, id, bytes, size)) {
        x->failed = mr_fail_memory(&x->failure, size);
    }
    if (x->wake) {
        x->wake(x->wake_user);
    }
}

bool mr_relay_lend(mr_relay *x, int32_t rank, int64_t id, mr_relay_bytes *bytes) {
    pthread_mutex_lock(&x->lock);
    bool posted = !x->peers[rank].left && mr_relay_post_bytes(x, rank, KEEP, id, bytes);
    pthread_mutex_unlock(&x->lock);
    if (posted) {
        *bytes = (mr_relay_bytes){.bytes = NULL};
    }
    return posted;
}

void mr_relay_ask_back(mr_relay *x, int32_t rank, int64_t id) {
    mr_relay_bytes none = {.bytes = NULL};
    pthread_mutex_lock(&x->lock);
    if (!x->peers[rank].left &&
        !(add_loan(&x->asked, rank, id, NULL, 0) && mr_relay_post_bytes(x, rank, ASK, id, &none))) {
        x->failed = mr_fail_memory(&x->failure, sizeof(relay_letter));
    }
    pthread_mutex_unlock(&x->lock);
}

mr_status mr_relay_back(mr_relay *x, int32_t rank, int64_t id, mr_relay_bytes *out) {
    pthread_mutex_lock(&x->lock);
    relay_loan *loan = take_loan(&x->back, rank, id);
    bool has_left = x->peers[rank].left;
    pthread_mutex_unlock(&x->lock);
    if (!loan) {
        return has_left ? MR_E_NOT_FOUND : MR_LATER;
    }
    *out = loan->bytes;
    mr_free(loan);
    return out->size > 0 ? MR_OK : MR_E_NOT_FOUND;
}
