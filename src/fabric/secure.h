/* SPDX-License-Identifier: Apache-2.0 */
/* secure.h - TLS over a socket that never waits, for rediss:// (OpenSSL; a build without it
 * refuses).
 *
 * A server is believed if its certificate is signed by an authority that is known (those of the
 * system, or the file MILLRACE_REDIS_CA) and is for the host of the URL. A certificate of our own
 * is shown where MILLRACE_REDIS_CERT and MILLRACE_REDIS_KEY name its files. */
#ifndef MR_FABRIC_SECURE_H
#define MR_FABRIC_SECURE_H

#include <millrace/types.h>
#include <sys/types.h>

/* What all connections to a server share. */
typedef struct mr_secure mr_secure;
mr_status mr_secure_open(mr_secure **out, const char *host, mr_error *err);
void mr_secure_close(mr_secure *secure); /* NULL allowed */

/* One connection: of a socket that is, or will be, connected. NULL: no memory. */
typedef struct mr_secure_line mr_secure_line;
mr_secure_line *mr_secure_start(mr_secure *secure, int fd);
void mr_secure_end(mr_secure_line *line); /* NULL allowed; the socket stays open */

/* As send and recv are: -1 with errno, EAGAIN where it would wait. EPROTO: mr_secure_why says what
 * is wrong with the server. */
ssize_t mr_secure_send(mr_secure_line *line, const void *bytes, size_t size);
ssize_t mr_secure_recv(mr_secure_line *line, void *bytes, size_t size);
const char *mr_secure_why(const mr_secure_line *line); /* "": nothing */

/* What came last must be waited for before anything can be sent. */
bool mr_secure_waits_to_hear(const mr_secure_line *line);

#endif
