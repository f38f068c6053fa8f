/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - tries the links of a fabric: how long a short message takes, how fast long ones go.
 *
 * Over MPI rank 0 tells each pair in turn to measure; who has nothing to measure answers. So only
 * one pair is at it at a time. Of Redis servers every one is measured by who asks. */
#include <millrace/fabric.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/memory.h"
#include "fabric/link.h"

enum { ROUNDS = 64, PARTS = 16, EVENTS = 16 };

typedef enum kind { PING = 1, PONG, GO, RESULT, END } kind;

typedef struct head {
    uint32_t kind;
    int32_t with; /* GO: whom to measure with */
    double latency, bandwidth;
} head;

typedef struct checker {
    const mr_link_class *class;
    void *link;
    int32_t rank, world;
    size_t part; /* bytes of a long message */
    char *bytes;
    double deadline;

    int64_t pongs;
    head result;
    bool has_result, over;
    char why[MR_LINK_WHY];
    bool failed;
} checker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void tell(checker *c, int32_t to, const head *what, void *body, size_t size) {
    mr_link_message message = {.peer = to, .body = body, .size = size};
    memcpy(message.head, what, sizeof *what);
    c->failed = c->failed || !c->class->send(c->link, &message, c->why);
}

static void measure(checker *c, int32_t with);

static void take(checker *c, const mr_link_message *m) {
    const head pong = {.kind = PONG};
    head h;
    memcpy(&h, m->head, sizeof h);
    if (h.kind == PING) {
        tell(c, m->peer, &pong, NULL, 0);
    }
    c->pongs += h.kind == PONG;
    c->over = c->over || h.kind == END;
    if (h.kind == RESULT) {
        c->result = h;
        c->has_result = true;
    }
    free(m->body);
    if (h.kind == GO && h.with >= 0 && h.with < c->world && h.with != c->rank) {
        measure(c, h.with);
        c->result.kind = RESULT;
        tell(c, 0, &c->result, NULL, 0);
    }
}

static void poll(checker *c) {
    mr_link_event events[EVENTS];
    int32_t n = c->class->poll(c->link, events, EVENTS, c->why);
    for (int32_t i = 0; i < n; i++) {
        if (events[i].kind == MR_LINK_CAME) {
            take(c, &events[i].message);
        }
        c->failed = c->failed || events[i].kind == MR_LINK_LOST;
    }
    if (now() > c->deadline && !c->failed) {
        c->failed = true;
        snprintf(c->why, sizeof c->why, "the other ranks have not answered in time");
    }
    if (n == 0 && c->rank != 0) {
        const struct timespec moment = {0, 5000};
        nanosleep(&moment, NULL);
    }
}

static void await_pongs(checker *c, int64_t wanted) {
    while (!c->failed && c->pongs < wanted) {
        poll(c);
    }
}

/* The shortest of the round trips, halved; and what all parts took together. */
static void measure(checker *c, int32_t with) {
    const head ping = {.kind = PING};
    double shortest = 1e9;
    c->pongs = 0;
    for (int64_t i = 0; i < ROUNDS && !c->failed; i++) {
        double start = now();
        tell(c, with, &ping, NULL, 0);
        await_pongs(c, i + 1);
        double took = now() - start;
        shortest = took < shortest ? took : shortest;
    }
    double start = now();
    for (int64_t i = 0; i < PARTS; i++) {
        tell(c, with, &ping, c->bytes, c->part);
    }
    await_pongs(c, ROUNDS + PARTS);
    c->result = (head){.with = with,
                       .latency = shortest / 2,
                       .bandwidth = (double)PARTS * (double)c->part / (now() - start)};
}

static void lead(checker *c, mr_fabric_checked *each, void *context) {
    for (int32_t from = 0; from < c->world && !c->failed; from++) {
        for (int32_t to = from + 1; to < c->world && !c->failed; to++) {
            const head go = {.kind = GO, .with = to};
            c->has_result = from == 0;
            if (from == 0) {
                measure(c, to);
            } else {
                tell(c, from, &go, NULL, 0);
            }
            while (!c->has_result && !c->failed) {
                poll(c);
            }
            if (!c->failed) {
                each(context, &(mr_fabric_figures){.from = from,
                                                   .to = to,
                                                   .latency = c->result.latency,
                                                   .bandwidth = c->result.bandwidth});
            }
        }
    }
    for (int32_t r = 1; r < c->world; r++) {
        tell(c, r, &(head){.kind = END}, NULL, 0);
    }
}

static void settle(checker *c) {
    double end = now() + 2;
    while (!c->failed && !c->class->is_quiet(c->link) && now() < end) {
        poll(c);
    }
}

static mr_status check_link(checker *c, const char *url, mr_fabric_checked *each, void *context,
                            mr_error *err) {
    mr_link_module module = {0};
    const mr_link_config config = {
        .rank = c->rank, .world = c->world, .max_body = c->part, .timeout = 60};
    int32_t own = c->rank;
    MR_TRY(mr_link_load(&module, url, err));
    c->class = module.class;
    int32_t *all = mr_zalloc((size_t)c->world, sizeof *all);
    c->bytes = mr_zalloc(1, c->part);
    if (!all || !c->bytes) {
        mr_free(all);
        return mr_fail_memory(err, c->part);
    }
    c->failed = !c->class->open(&c->link, &config, c->why);
    bool opened = !c->failed;
    c->failed = c->failed || !c->class->collect(c->link, &own, sizeof own, all, c->why);
    mr_free(all);
    c->deadline = now() + 60;
    if (c->rank == 0 && !c->failed) {
        lead(c, each, context);
    }
    while (c->rank != 0 && !c->failed && !c->over) {
        poll(c);
    }
    if (opened) {
        settle(c);
        c->class->close(c->link, c->failed);
    }
    return c->failed ? mr_fail(err, MR_E_IO, "%s", c->why) : MR_OK;
}

/* ---- Servers ---- */
static mr_status check_servers(const char *url, size_t part, mr_fabric_checked *each, void *context,
                               mr_error *err) {
    static const char key[] = "check";
    const mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = url, .space = "check", .timeout = 2, .ttl = 5};
    char *bytes = mr_zalloc(1, part);
    mr_fabric *fabric = NULL;
    double shortest = 1e9, took[2] = {0, 0};
    mr_status status = bytes ? mr_fabric_open(&fabric, &config, err) : mr_fail_memory(err, part);
    bool well = status == MR_OK;
    for (int i = 0; well && i < ROUNDS + PARTS; i++) {
        mr_parcel parcel = {
            .key = key, .key_size = sizeof key, .value = bytes, .size = i < ROUNDS ? 1 : part};
        well = mr_fabric_put(fabric, &parcel, 1, err) == MR_OK && parcel.done;
        double start = now();
        well = well && mr_fabric_get(fabric, &parcel, 1, err) == MR_OK && parcel.done;
        took[1] = now() - start;
        took[0] += i < ROUNDS ? 0 : took[1];
        shortest = took[1] < shortest ? took[1] : shortest;
        mr_free(well ? parcel.value : NULL);
    }
    if (status == MR_OK && !well) {
        mr_fabric_stats stats = {.size = (uint32_t)sizeof stats};
        mr_fabric_stats_now(fabric, &stats);
        status = mr_fail(err, MR_E_IO, "the fabric does not give back what it was given: %s",
                         stats.trouble[0] ? stats.trouble : "it is full, or slow");
    }
    if (status == MR_OK) {
        each(context, &(mr_fabric_figures){.from = -1,
                                           .to = -1,
                                           .latency = shortest,
                                           .bandwidth = PARTS * (double)part / took[0]});
    }
    mr_fabric_close(fabric);
    mr_free(bytes);
    return status;
}

mr_status mr_fabric_check(const char *url, uint32_t rank, uint32_t world, int64_t bytes,
                          mr_fabric_checked *each, void *context, mr_error *err) {
    size_t part = (size_t)(bytes > 0 ? bytes : 1 << 20);
    if (strncmp(url, "mpi", 3) != 0) {
        return check_servers(url, part, each, context, err);
    }
    if (world < 2) {
        mr_fail(err, MR_E_PARAM, "there is one rank alone, so there are no links");
        mr_hint(err, "start several: mpirun -n 4 millrace fabric check mpi");
        return MR_E_PARAM;
    }
    checker c = {.rank = (int32_t)rank, .world = (int32_t)world, .part = part};
    mr_status status = check_link(&c, url, each, context, err);
    mr_free(c.bytes);
    return status;
}
