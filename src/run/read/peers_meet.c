/* SPDX-License-Identifier: Apache-2.0 */
/* peers_meet.c - the beginning: what the URL says, and what ranks tell each other first. */
#include "core/number.h"
#include "run/read/peers_parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <millrace/millrace.h>
#include "core/error.h"
#include "core/memory.h"

static const double LINGER_SECONDS = 5;

/* ---- The URL ---- */
bool mr_peers_is_url(const char *url) {
    return strncmp(url, "mpi", 3) == 0 && (url[3] == '\0' || url[3] == '?');
}

/* Options that are bytes of something, until all of the URL is read. */
typedef struct amounts {
    double in_flight, push, piece, map;
} amounts;

static double *option_of(mr_peers *x, const char *name, size_t length, amounts *own) {
    return length == 9 && strncmp(name, "in_flight", 9) == 0 ? &own->in_flight
           : length == 4 && strncmp(name, "push", 4) == 0    ? &own->push
           : length == 5 && strncmp(name, "piece", 5) == 0   ? &own->piece
           : length == 3 && strncmp(name, "map", 3) == 0     ? &own->map
           : length == 4 && strncmp(name, "rate", 4) == 0    ? &x->rate
           : length == 6 && strncmp(name, "linger", 6) == 0  ? &x->patience_at_end
           : length == 7 && strncmp(name, "timeout", 7) == 0 ? &x->patience
                                                             : NULL;
}

/* mpi?in_flight=BYTES&push=BYTES&piece=BYTES&rate=BYTES&timeout=SECONDS&linger=SECONDS&map=0. Who
 * pushes lists all ranks' samples, which takes longer than it saves where there are many. */
mr_status mr_peers_read_url(mr_peers *x, mr_error *err) {
    enum { MOST_RANKS = 64 };
    amounts own = {.in_flight = 64e6, .push = x->config.world <= MOST_RANKS ? 32e6 : 0, .map = 1};
    const char *at = strchr(x->config.url, '?');
    x->patience = 60;
    x->patience_at_end = LINGER_SECONDS;
    while (at && at[1]) {
        const char *name = at + 1, *is = strchr(name, '=');
        double *option = is ? option_of(x, name, (size_t)(is - name), &own) : NULL;
        char *end = NULL;
        double value = option ? mr_number_parse(is + 1, &end) : -1;
        if (!option || end == is + 1 || (*end && *end != '&') || !(value >= 0)) {
            mr_fail(err, MR_E_PARAM, "the fabric \"%s\" cannot be understood", x->config.url);
            mr_hint(err,
                    "mpi?in_flight=64e6&push=32e6&piece=1e9&rate=500e6&timeout=60&linger=5&map=1: "
                    "bytes, bytes, bytes, bytes a second, seconds, seconds, 0 or 1");
            return MR_E_PARAM;
        }
        *option = value;
        at = *end ? end : NULL;
    }
    x->maps = own.map > 0;
    x->max_in_flight = (int64_t)own.in_flight;
    x->piece = own.piece < 1e9 ? (size_t)own.piece : 0;
    x->window = (int64_t)own.push / (x->config.world > 1 ? x->config.world - 1 : 1);
    return MR_OK;
}

/* ---- Meeting ---- */
static bool same_share(const mr_share_terms *a, const mr_share_terms *b) {
    return a->mode == b->mode && a->given == b->given && a->memory == b->memory &&
           a->sample_bytes == b->sample_bytes && a->ranks_per_node == b->ranks_per_node &&
           a->replicas == b->replicas && a->travel == b->travel;
}

static const char *difference_of(const mr_peers_terms *a, const mr_peers_terms *b) {
    return memcmp(a->pipeline, b->pipeline, sizeof a->pipeline) != 0 ? "pipeline"
           : memcmp(a->dataset, b->dataset, sizeof a->dataset) != 0  ? "dataset"
           : a->seed != b->seed                                      ? "seed"
           : a->batch != b->batch                                    ? "batch"
           : a->epochs != b->epochs                                  ? "number of epochs"
           : a->first_epoch != b->first_epoch || a->first_position != b->first_position
               ? "state to go on from"
           : a->shuffle != b->shuffle          ? "shuffle"
           : a->remainder != b->remainder      ? "remainder"
           : !same_share(&a->share, &b->share) ? "share"
                                               : NULL;
}

/* All ranks compare all, and so all refuse. */
static mr_status compare(const mr_peers_hello *all, int32_t world, mr_error *err) {
    for (int32_t r = 0; r < world; r++) {
        bool alien = all[r].magic != MAGIC || all[r].size != sizeof *all;
        const char *what =
            alien ? "version of millrace" : difference_of(&all[0].terms, &all[r].terms);
        if (what) {
            mr_fail(err, MR_E_PARAM, "rank %d has another %s than rank 0", (int)r, what);
            mr_hint(err, "start all ranks with the same document, seed and data");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

mr_status mr_peers_meet(mr_peers *x, mr_error *err) {
    char why[MR_LINK_WHY] = "no memory";
    mr_peers_hello own;
    memset(&own, 0, sizeof own); /* padding goes out too */
    own.magic = MAGIC;
    own.size = (uint32_t)sizeof own;
    memcpy(&own.terms, &x->config.terms, sizeof own.terms);
    mr_process_self(&own.process);
    mr_node_open(x, &own.common);
    gethostname(own.host, sizeof own.host - 1);
    mr_peers_hello *all = mr_zalloc((size_t)x->config.world, sizeof *all);
    bool met = all && x->module.class->collect(x->link, &own, sizeof own, all, why);
    mr_status status = met ? compare(all, x->config.world, err)
                           : mr_fail(err, MR_E_IO, "the ranks have not found each other: %s", why);
    for (int32_t r = 0; met && status == MR_OK && r < x->config.world; r++) {
        peer *p = &x->peers[r];
        p->process = all[r].process;
        memcpy(p->host, all[r].host, sizeof p->host - 1);
        p->is_here =
            mr_process_is_near(&p->process, &own.process) && strcmp(p->host, own.host) == 0;
        p->heard = mr_peers_now();
        if (r != x->config.rank) {
            mr_node_look(x, r, &all[r].common);
        }
    }
    mr_node_settle(x);
    mr_free(all);
    return status;
}
