/* SPDX-License-Identifier: Apache-2.0 */
/* redis_url.h - the servers that a URL names. */
#ifndef MR_FABRIC_REDIS_URL_H
#define MR_FABRIC_REDIS_URL_H

#include <millrace/types.h>

#define MR_REDIS_SERVERS 1024

/* One server of "redis://[[USER]:PASSWORD@]HOST[:PORT][/DB][?ttl=SECONDS][#NAME]", likewise
 * "rediss://", or "redis+unix://[[USER]:PASSWORD@]/PATH[?db=DB&ttl=SECONDS][#NAME]"; several are
 * parted by commas. USER, PASSWORD and PATH may have %XX. NAME says which server of all it is, for
 * clients that reach it by different ways; without one that is HOST:PORT, or PATH. */
typedef struct mr_redis_url {
    char host[256]; /* or path */
    char port[8];   /* "": a UNIX socket */
    char user[128], password[256];
    char name[288];
    int32_t db;
    int32_t ttl; /* seconds that the server keeps values which say nothing else; 0: without end */
    bool secure; /* TLS: "rediss://" */
} mr_redis_url;

/* Reads the server at *text and moves it behind the comma, or to the end. Messages do not show the
 * URL, which may have a password. */
mr_status mr_redis_url_read(const char **text, mr_redis_url *out, mr_error *err);

#endif
