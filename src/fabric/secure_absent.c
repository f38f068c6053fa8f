/* SPDX-License-Identifier: Apache-2.0 */
/* secure_absent.c - a build without OpenSSL: see secure.h. */
#include <errno.h>
#include <millrace/millrace.h>

#include "core/error.h"
#include "fabric/secure.h"

mr_status mr_secure_open(mr_secure **out, const char *host, mr_error *err) {
    (void)host;
    *out = NULL;
    mr_fail(err, MR_E_UNSUPPORTED, "this build has no TLS, which rediss:// needs");
    mr_hint(err, "build millrace with OpenSSL (libssl-dev), or use redis:// through a tunnel");
    return MR_E_UNSUPPORTED;
}

void mr_secure_close(mr_secure *secure) {
    (void)secure;
}

mr_secure_line *mr_secure_start(mr_secure *secure, int fd) {
    (void)secure;
    (void)fd;
    return NULL;
}

void mr_secure_end(mr_secure_line *line) {
    (void)line;
}

ssize_t mr_secure_send(mr_secure_line *line, const void *bytes, size_t size) {
    (void)line;
    (void)bytes;
    (void)size;
    errno = EPROTO;
    return -1;
}

ssize_t mr_secure_recv(mr_secure_line *line, void *bytes, size_t size) {
    (void)line;
    (void)bytes;
    (void)size;
    errno = EPROTO;
    return -1;
}

const char *mr_secure_why(const mr_secure_line *line) {
    (void)line;
    return "";
}

bool mr_secure_waits_to_hear(const mr_secure_line *line) {
    (void)line;
    return false;
}
