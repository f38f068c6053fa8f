/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h: opening, ending and figures; the work is done in peers_*.c. */
#include "run/read/peers_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <millrace/millrace.h>
#include "core/error.h"
#include "core/memory.h"

enum { READERS = 8 };

double mr_peers_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Opening ---- */
static mr_status open_link(mr_peers *x, mr_error *err) {
    char why[MR_LINK_WHY] = "";
    const mr_link_config config = {.rank = x->config.rank,
                                   .world = x->config.world,
                                   .room = ROOM,
                                   .max_body = (size_t)1 << 40,
                                   .piece = x->piece,
                                   .timeout = x->patience};
    x->module.class = x->config.link;
    if (!x->config.link) {
        MR_TRY(mr_link_load(&x->module, x->config.url, err));
    }
    return x->module.class->open(&x->link, &config, why) ? MR_OK
                                                         : mr_fail(err, MR_E_PARAM, "%s", why);
}

static mr_status open_parts(mr_peers *x, mr_error *err) {
    MR_TRY(mr_peers_read_url(x, err));
    x->peers = mr_zalloc((size_t)x->config.world, sizeof *x->peers);
    if (!x->peers) {
        return mr_fail_memory(err, (size_t)x->config.world * sizeof *x->peers);
    }
    MR_TRY(open_link(x, err));
    mr_status status = mr_peers_meet(x, err);
    if (status == MR_OK) {
        status =
            mr_threads_start(&x->readers, READERS, "mr-share", mr_peers_reader_main, x, 0, err);
    }
    if (status == MR_OK) {
        status = mr_threads_start(&x->speaker, 1, "mr-peers", mr_peers_speaker_main, x, 0, err);
    }
    if (status < 0) {
        x->module.class->close(x->link, status == MR_E_IO);
        x->link = NULL;
    }
    return status;
}

static void init_locks(mr_peers *x) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_init(&x->common_lock, NULL);
    pthread_cond_init(&x->mail, &monotonic);
    pthread_cond_init(&x->jobs, NULL);
    pthread_cond_init(&x->calm, NULL);
    pthread_condattr_destroy(&monotonic);
}

mr_status mr_peers_open(mr_peers **out, const mr_peers_config *config, mr_error *err) {
    mr_peers *x = mr_zalloc(1, sizeof *x);
    if (!x) {
        return mr_fail_memory(err, sizeof *x);
    }
    x->config = *config;
    x->last_job = &x->first_job;
    x->warned = WARN_SECONDS;
    x->maps = true;
    x->common.fd = -1;
    init_locks(x);
    mr_status status = open_parts(x, err);
    if (status < 0) {
        mr_peers_close(x);
        return status;
    }
    *out = x;
    return MR_OK;
}

/* ---- Ending ---- */
void mr_peers_end(mr_peers *x, bool delivered) {
    pthread_mutex_lock(&x->lock);
    x->lingers = delivered;
    x->stopping = x->closing = true;
    pthread_cond_signal(&x->mail);
    pthread_mutex_unlock(&x->lock);
    mr_threads_join(&x->speaker);
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    pthread_cond_broadcast(&x->jobs);
    pthread_mutex_unlock(&x->lock);
    mr_threads_join(&x->readers);
}

void mr_peers_close(mr_peers *x) {
    if (!x) {
        return;
    }
    mr_peers_end(x, false); /* unless it was ended before */
    mr_letters_free(x);
    mr_items_free(&x->here);
    mr_items_free(&x->wanted);
    mr_items_free(&x->came);
    mr_pushes_free(x);
    mr_node_close(x);
    for (int32_t r = 0; x->peers && r < x->config.world; r++) {
        free(x->peers[r].asks);
    }
    mr_free(x->peers);
    pthread_mutex_destroy(&x->lock);
    pthread_mutex_destroy(&x->common_lock);
    pthread_cond_destroy(&x->mail);
    pthread_cond_destroy(&x->jobs);
    pthread_cond_destroy(&x->calm);
    mr_free(x);
}

/* ---- Figures ---- */
mr_status mr_peers_failure(mr_peers *x, mr_error *err) {
    pthread_mutex_lock(&x->lock);
    mr_status status = x->failed ? x->failure.code : MR_OK;
    if (x->failed && err) {
        *err = x->failure;
    }
    pthread_mutex_unlock(&x->lock);
    return status;
}

void mr_peers_counts_get(mr_peers *x, mr_peers_counts *out) {
    pthread_mutex_lock(&x->lock);
    *out = x->counts;
    out->world = x->config.world;
    out->here = 1;
    for (int32_t r = 0; r < x->config.world; r++) {
        out->here += r != x->config.rank && !x->peers[r].left;
    }
    pthread_mutex_unlock(&x->lock);
}

/* The rank that was waited for longest, and how much is wanted of it. With the lock held. */
static const mr_peer_entry *oldest_wanted(const mr_peers *x) {
    const mr_peer_entry *oldest = NULL;
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (const mr_peer_entry *e = x->wanted.cells[i]; e; e = e->next) {
            oldest = !oldest || e->since < oldest->since ? e : oldest;
        }
    }
    return oldest;
}

static int64_t count_wanted(const mr_peers *x, int32_t owner) {
    int64_t n = 0;
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (const mr_peer_entry *e = x->wanted.cells[i]; e; e = e->next) {
            n += e->owner == owner;
        }
    }
    return n;
}

bool mr_peers_trouble(mr_peers *x, char *text, size_t size) {
    pthread_mutex_lock(&x->lock);
    const mr_peer_entry *e = oldest_wanted(x);
    double waits = e ? mr_peers_now() - e->since : 0;
    bool tell = e && waits > x->warned;
    if (tell) {
        x->warned *= 2;
        snprintf(text, size,
                 "rank %d has waited %.0f s for %lld items of rank %d (process %lld on %s), which "
                 "was last heard of %.1f s ago",
                 (int)x->config.rank, waits, (long long)count_wanted(x, e->owner), (int)e->owner,
                 (long long)x->peers[e->owner].process.pid, x->peers[e->owner].host,
                 mr_peers_now() - x->peers[e->owner].heard);
    } else if (!e) {
        x->warned = WARN_SECONDS;
    }
    pthread_mutex_unlock(&x->lock);
    return tell;
}
