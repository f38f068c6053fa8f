/* SPDX-License-Identifier: Apache-2.0 */
/* redis.c - a fabric of Redis servers. MR_REQUIRES(hiredis)
 *
 * A key belongs to one server, by rendezvous hashing over all servers that the URL names, whether
 * they are there or not: what a dead server would have is not here. All servers are talked to at
 * once, and one get or put ends when all have answered or when its time is over; who has not
 * answered by then is given up (redis_server.h). */
#include <errno.h>
#include <math.h>
#include <millrace/fabric.h>
#include <millrace/millrace.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "fabric/redis_server.h"
#include "fabric/seal.h"

enum { REPLY_OVERHEAD = 4096, PREFIX_SIZE = 160, TTL_SIZE = 24 };

typedef struct redis {
    double timeout;
    int64_t max_bytes;
    double ttl;               /* seconds; 0: as URLs say */
    char prefix[PREFIX_SIZE]; /* of keys */
    mr_redis_server *servers;
    int32_t n;
    struct pollfd *waits;
    unsigned char *scratch; /* for a key with its prefix, or a value with its seal */
    size_t scratch_capacity;
    mr_fabric_stats stats;
} redis;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Keys ---- */

static mr_redis_server *server_of(redis *r, const mr_parcel *parcel) {
    mr_redis_server *best = NULL;
    uint64_t most = 0, key = mr_hash64(parcel->key, parcel->key_size, 0);
    for (int32_t i = 0; i < r->n; i++) {
        const uint64_t pair[2] = {key, r->servers[i].id};
        uint64_t score = mr_hash64(pair, sizeof pair, 0);
        if (!best || score > most) {
            best = &r->servers[i];
            most = score;
        }
    }
    return best;
}

/* First one part, then the other, in scratch memory; NULL: none. */
static const void *join(redis *r, const void *a, size_t a_size, const void *b, size_t b_size) {
    if (a_size + b_size > r->scratch_capacity) {
        unsigned char *scratch = realloc(r->scratch, a_size + b_size);
        if (!scratch) {
            return NULL;
        }
        r->scratch = scratch;
        r->scratch_capacity = a_size + b_size;
    }
    memcpy(r->scratch, a, a_size);
    if (b_size > 0) {
        memcpy(r->scratch + a_size, b, b_size);
    }
    return r->scratch;
}

/* ---- Commands ---- */

static bool send_get(redis *r, mr_redis_server *s, mr_parcel *parcel) {
    size_t prefix = strlen(r->prefix);
    const void *words[] = {"GET", join(r, r->prefix, prefix, parcel->key, parcel->key_size)};
    const size_t sizes[] = {3, prefix + parcel->key_size};
    return words[1] && mr_redis_server_send(s, parcel, words, sizes, 2);
}

/* Milliseconds in digits, or "": without end. */
static void write_ttl(char text[TTL_SIZE], double seconds) {
    text[0] = '\0';
    if (seconds > 0) {
        snprintf(text, TTL_SIZE, "%.0f", ceil(seconds * 1e3));
    }
}

/* As the value says, or whoever opened the fabric, or the server's URL. */
static double seconds_kept(const redis *r, const mr_redis_server *s, const mr_parcel *parcel) {
    double opened = r->ttl > 0 ? r->ttl : s->url.ttl;
    return parcel->seconds > 0 ? parcel->seconds : opened;
}

static int add_word(const void **words, size_t *sizes, int n, const char *word) {
    words[n] = word;
    sizes[n] = strlen(word);
    return n + 1;
}

static bool send_put(redis *r, mr_redis_server *s, mr_parcel *parcel) {
    size_t prefix = strlen(r->prefix), key = prefix + parcel->key_size;
    unsigned char *head = malloc(key + MR_SEAL_SIZE);
    if (!head) {
        return false;
    }
    memcpy(head, r->prefix, prefix);
    memcpy(head + prefix, parcel->key, parcel->key_size);
    mr_seal_write(head + key, parcel->key, parcel->key_size, parcel->value, parcel->size);
    const void *value = join(r, head + key, MR_SEAL_SIZE, parcel->value, parcel->size);
    char ttl[TTL_SIZE];
    write_ttl(ttl, seconds_kept(r, s, parcel));
    const void *words[6] = {"SET", head, value};
    size_t sizes[6] = {3, key, MR_SEAL_SIZE + parcel->size};
    int n = 3;
    if (ttl[0]) {
        n = add_word(words, sizes, n, "PX");
        n = add_word(words, sizes, n, ttl);
    }
    if (parcel->only_new) {
        n = add_word(words, sizes, n, "NX");
    }
    bool ok = value && mr_redis_server_send(s, parcel, words, sizes, n);
    free(head);
    return ok;
}

/* ---- An exchange with all servers ---- */

/* Waits until a server can go on, or the time is over. False: nobody is busy any more. */
static bool wait_for_any(redis *r, double until) {
    nfds_t n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        mr_redis_server *s = &r->servers[i];
        if (mr_redis_server_busy(s) && !s->on_trial) {
            bool hears = !s->connecting && s->tls && mr_secure_waits_to_hear(s->tls);
            bool sends = !hears && (s->connecting || s->out_sent < s->out_size);
            r->waits[n++] =
                (struct pollfd){.fd = s->fd, .events = sends ? POLLIN | POLLOUT : POLLIN};
        }
    }
    double left = until - now();
    if (n == 0 || left <= 0) {
        return false;
    }
    poll(r->waits, n, (int)ceil(left * 1e3));
    return true;
}

static void exchange(redis *r, double until) {
    do {
        for (int32_t i = 0; i < r->n; i++) {
            if (mr_redis_server_busy(&r->servers[i]) && !r->servers[i].on_trial) {
                mr_redis_server_pump(&r->servers[i], now());
            }
        }
    } while (wait_for_any(r, until));
    for (int32_t i = 0; i < r->n; i++) {
        if (mr_redis_server_busy(&r->servers[i]) && !r->servers[i].on_trial) {
            mr_redis_server_fail(&r->servers[i], now(), "no answer in time");
        }
    }
}

/* Without memory the connections hold commands whose parcels are gone. */
static mr_status give_up(redis *r, mr_error *err) {
    for (int32_t i = 0; i < r->n; i++) {
        r->servers[i].memory = false;
        if (mr_redis_server_busy(&r->servers[i])) {
            mr_redis_server_fail(&r->servers[i], now(), "no memory here");
        }
    }
    return mr_fail(err, MR_E_MEMORY, "no memory for values of the fabric");
}

static mr_status check_memory(redis *r, mr_error *err) {
    bool memory = false;
    for (int32_t i = 0; i < r->n; i++) {
        memory |= r->servers[i].memory;
    }
    return memory ? give_up(r, err) : MR_OK;
}

static void make_ready(redis *r, bool getting, bool *ready) {
    double start = now();
    for (int32_t i = 0; i < r->n; i++) {
        r->servers[i].getting = getting;
        ready[i] = mr_redis_server_ready(&r->servers[i], start, r->timeout);
    }
}

static mr_status get(void *state, mr_parcel *parcels, int32_t n, mr_error *err) {
    redis *r = state;
    double until = now() + r->timeout;
    bool ready[MR_REDIS_SERVERS];
    make_ready(r, true, ready);
    r->stats.asked += n;
    for (int32_t i = 0; i < n; i++) {
        mr_redis_server *s = server_of(r, &parcels[i]);
        if (ready[s - r->servers] && !send_get(r, s, &parcels[i])) {
            return give_up(r, err);
        }
    }
    exchange(r, until);
    return check_memory(r, err);
}

static mr_status put(void *state, mr_parcel *parcels, int32_t n, mr_error *err) {
    redis *r = state;
    double start = now();
    bool ready[MR_REDIS_SERVERS];
    make_ready(r, false, ready);
    r->stats.offered += n;
    for (int32_t i = 0; i < n; i++) {
        mr_redis_server *s = server_of(r, &parcels[i]);
        bool fits = parcels[i].size <= (size_t)r->max_bytes && start >= s->full_until;
        if (ready[s - r->servers] && fits && !send_put(r, s, &parcels[i])) {
            return give_up(r, err);
        }
    }
    exchange(r, start + r->timeout);
    return check_memory(r, err);
}

/* ---- Opening ---- */

static int32_t count_servers(const char *url) {
    int32_t n = 1;
    for (const char *at = url; *at && n <= MR_REDIS_SERVERS; at++) {
        n += *at == ',';
    }
    return n;
}

static mr_status check_names(const redis *r, mr_error *err) {
    for (int32_t i = 0; i < r->n; i++) {
        for (int32_t k = 0; k < i; k++) {
            if (r->servers[i].id == r->servers[k].id) {
                return mr_fail(err, MR_E_PARAM, "the Redis server %s is named twice",
                               r->servers[i].url.name);
            }
        }
    }
    return MR_OK;
}

static mr_status open_servers(redis *r, const char *url, mr_error *err) {
    int32_t n = count_servers(url);
    const char *password = getenv("MILLRACE_REDIS_PASSWORD");
    if (n > MR_REDIS_SERVERS) {
        return mr_fail(err, MR_E_LIMIT, "at most %d Redis servers are possible", MR_REDIS_SERVERS);
    }
    r->servers = mr_zalloc((size_t)n, sizeof *r->servers);
    r->waits = mr_zalloc((size_t)n, sizeof *r->waits);
    if (!r->servers || !r->waits) {
        return mr_fail_memory(err, (size_t)n * sizeof *r->servers);
    }
    while (r->n < n) {
        mr_redis_url one;
        MR_TRY(mr_redis_url_read(&url, &one, err));
        if (!one.password[0] && password) {
            snprintf(one.password, sizeof one.password, "%s", password);
        }
        mr_redis_server *next = &r->servers[r->n++]; /* to be closed, whatever comes of it */
        MR_TRY(mr_redis_server_open(next, &one, r->max_bytes + REPLY_OVERHEAD, &r->stats, err));
    }
    return check_names(r, err);
}

static void close_redis(void *state) {
    redis *r = state;
    for (int32_t i = 0; i < r->n; i++) {
        mr_redis_server_close(&r->servers[i]);
    }
    mr_free(r->servers);
    mr_free(r->waits);
    mr_free(r->scratch);
    mr_free(r);
}

static mr_status check_config(const mr_fabric_config *c, mr_error *err) {
    if (strlen(c->space) + 8 > PREFIX_SIZE) {
        return mr_fail(err, MR_E_PARAM, "a fabric's namespace has at most %d bytes",
                       PREFIX_SIZE - 8);
    }
    if (!(c->timeout <= 3600) || !(c->ttl >= 0 && c->ttl <= 1e9)) {
        return mr_fail(err, MR_E_PARAM,
                       "a fabric's timeout is at most an hour, its ttl from 0 to 1e9 seconds");
    }
    return MR_OK;
}

static mr_status open_redis(void **state, const mr_fabric_config *config, mr_error *err) {
    MR_TRY(check_config(config, err));
    redis *r = mr_zalloc(1, sizeof *r);
    if (!r) {
        return mr_fail_memory(err, sizeof *r);
    }
    r->timeout = config->timeout;
    r->max_bytes = config->max_bytes;
    snprintf(r->prefix, sizeof r->prefix, "mr:%s:", config->space);
    r->ttl = config->ttl;
    mr_status status = open_servers(r, config->url, err);
    if (status < 0) {
        close_redis(r);
        return status;
    }
    *state = r;
    return MR_OK;
}

static mr_fabric_stats stats_now(const void *state) {
    const redis *r = state;
    mr_fabric_stats stats = r->stats;
    stats.servers = r->n;
    for (int32_t i = 0; i < r->n; i++) {
        stats.up += r->servers[i].fd >= 0 && !r->servers[i].on_trial;
    }
    return stats;
}

const mr_fabric_class mr_fabric_redis = {
    .name = "redis",
    .doc = "Values kept by Redis servers, each key by one of them.",
    .open = open_redis,
    .close = close_redis,
    .get = get,
    .put = put,
    .stats = stats_now,
};
