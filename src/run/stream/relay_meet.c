/* SPDX-License-Identifier: Apache-2.0 */
/* relay_meet.c - the beginning: which link there is, and what ranks tell each other first. */
#include "core/number.h"
#include "run/stream/relay_parts.h"

#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "fabric/mail.h"
#include "run/read/peers.h"

static const double MEET_SECONDS = 60, SILENT_SERVERS = 5;

typedef struct hello {
    uint32_t magic, size;
    mr_relay_terms terms;
    mr_process process;
    char host[64];
} hello;

/* mpi?timeout=SECONDS; other words of it are for files (see peers.h). */
static double seconds_of(const char *url) {
    const char *at = strstr(url, "timeout=");
    double seconds = at ? mr_number_parse(at + strlen("timeout="), NULL) : 0;
    return seconds > 0 ? seconds : MEET_SECONDS;
}

/* Ranks of one run have these in common; what they start from is compared, so that they can be told
 * what differs. */
static void name_run(const mr_relay *x, char *out, size_t size) {
    const mr_relay_terms *t = &x->config.terms;
    snprintf(out, size, "stream %s %lld %d", t->dataset, (long long)t->seed, (int)x->config.world);
}

static mr_status open_link(mr_relay *x, mr_error *err) {
    char why[MR_LINK_WHY] = "", name[128];
    const mr_relay_config *c = &x->config;
    mr_link_module module = {.class = c->link};
    name_run(x, name, sizeof name);
    x->is_vital = mr_peers_is_url(c->url);
    x->patience = x->is_vital ? seconds_of(c->url) : SILENT_SERVERS;
    if (!c->link && x->is_vital) {
        MR_TRY(mr_link_load(&module, c->url, err));
    }
    x->class = module.class ? module.class : &mr_mail_link;
    const mr_link_config config = {.rank = c->rank,
                                   .world = c->world,
                                   .max_body = (size_t)1 << 32,
                                   .timeout = x->is_vital ? x->patience : MEET_SECONDS,
                                   .url = c->url,
                                   .name = name};
    return x->class->open(&x->link, &config, why) ? MR_OK : mr_fail(err, MR_E_PARAM, "%s", why);
}

static const char *difference_of(const mr_relay_terms *a, const mr_relay_terms *b) {
    return memcmp(a->pipeline, b->pipeline, sizeof a->pipeline) != 0 ? "pipeline"
           : memcmp(a->dataset, b->dataset, sizeof a->dataset) != 0  ? "dataset"
           : a->seed != b->seed                                      ? "seed"
           : a->batch != b->batch                                    ? "batch"
           : a->remainder != b->remainder                            ? "remainder"
           : a->step != b->step || a->position != b->position        ? "state to go on from"
                                                                     : NULL;
}

/* All ranks compare all, and so all refuse. */
static mr_status compare(const hello *all, int32_t world, mr_error *err) {
    for (int32_t r = 0; r < world; r++) {
        bool alien = all[r].magic != RELAY_MAGIC || all[r].size != sizeof *all;
        const char *what =
            alien ? "version of millrace" : difference_of(&all[0].terms, &all[r].terms);
        if (what) {
            mr_fail(err, MR_E_PARAM, "rank %d has another %s than rank 0", (int)r, what);
            mr_hint(err, "start all ranks with the same document, seed, stream and state");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

static void know(mr_relay *x, const hello *all, const hello *own) {
    for (int32_t r = 0; r < x->config.world; r++) {
        relay_peer *p = &x->peers[r];
        p->process = all[r].process;
        memcpy(p->host, all[r].host, sizeof p->host - 1);
        p->is_near =
            mr_process_is_near(&p->process, &own->process) && strcmp(p->host, own->host) == 0;
        p->heard = mr_relay_now();
    }
}

mr_status mr_relay_meet(mr_relay *x, mr_error *err) {
    char why[MR_LINK_WHY] = "no memory";
    hello own;
    MR_TRY(open_link(x, err));
    memset(&own, 0, sizeof own); /* padding goes out too */
    own.magic = RELAY_MAGIC;
    own.size = (uint32_t)sizeof own;
    memcpy(&own.terms, &x->config.terms, sizeof own.terms);
    mr_process_self(&own.process);
    gethostname(own.host, sizeof own.host - 1);
    hello *all = mr_zalloc((size_t)x->config.world, sizeof *all);
    bool met = all && x->class->collect(x->link, &own, sizeof own, all, why);
    mr_status status = met ? compare(all, x->config.world, err)
                           : mr_fail(err, MR_E_IO, "the ranks have not found each other: %s", why);
    if (met && status == MR_OK) {
        know(x, all, &own);
    }
    mr_free(all);
    return status;
}
