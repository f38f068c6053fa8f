/* SPDX-License-Identifier: Apache-2.0 */
/* redis_server.h - the connection to one Redis server: commands out, replies in, never waiting.
 *
 * hiredis parses the replies. Sockets are our own: hiredis writes to them in a way that ends the
 * process (SIGPIPE) when the server is gone, and its waits have no common end.
 *
 * A server that failed is left alone for a while (0.05 s, doubled up to 5 s), then tried beside the
 * work: a connection is made and a PING sent, and nothing else is asked before the answer came. So
 * a dead or stopped server costs one wait, not one for each attempt. */
#ifndef MR_FABRIC_REDIS_SERVER_H
#define MR_FABRIC_REDIS_SERVER_H

#include <hiredis/read.h>
#include <millrace/fabric.h>
#include <sys/socket.h>

#include "fabric/redis_url.h"
#include "fabric/secure.h"

typedef struct mr_redis_server {
    mr_redis_url url;
    uint64_t id; /* hash of its name */
    struct sockaddr_storage address;
    socklen_t address_size;
    int64_t max_reply;

    mr_secure *secure; /* NULL: without TLS */
    int fd;            /* -1: none */
    mr_secure_line *tls;
    bool connecting;
    bool failed;   /* the last connection: PING comes first on the next */
    bool on_trial; /* not usable before all that is expected has come */
    double pause;  /* seconds until the next attempt, when it fails once more */
    double not_before, trial_end, full_until;

    char *out; /* commands */
    size_t out_size, out_sent, out_capacity;
    mr_parcel **expected; /* of each reply to come; NULL: of the greeting */
    size_t n_expected, first_expected, expected_capacity;
    redisReader *reader;
    size_t unread; /* bytes since the last whole reply */

    bool getting;  /* replies are values */
    bool full;     /* a value was refused for want of memory there */
    bool memory;   /* there was no memory for a reply */
    bool rejected; /* the greeting was refused, or a reply makes no sense */
    char why[160]; /* the connection ended */
    mr_fabric_stats *stats;
} mr_redis_server;

/* Finds the address; the server need not be there. */
mr_status mr_redis_server_open(mr_redis_server *server, const mr_redis_url *url, int64_t max_reply,
                               mr_fabric_stats *stats, mr_error *err);
void mr_redis_server_close(mr_redis_server *server);

/* Whether commands may be sent now; connects where it is time to. */
bool mr_redis_server_ready(mr_redis_server *server, double now, double timeout);

/* Adds a command of n words; its reply will go to the parcel. False: no memory. */
bool mr_redis_server_send(mr_redis_server *server, mr_parcel *parcel, const void *const *words,
                          const size_t *sizes, int n);

bool mr_redis_server_busy(const mr_redis_server *server); /* replies are missing */

/* Sends and receives what can be without waiting. */
void mr_redis_server_pump(mr_redis_server *server, double now);

/* Gives the connection up. */
void mr_redis_server_fail(mr_redis_server *server, double now, const char *why);

#endif
