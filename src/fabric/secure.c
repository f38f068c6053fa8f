/* SPDX-License-Identifier: Apache-2.0 */
/* secure.c - see secure.h. MR_REQUIRES(openssl) The bytes go through functions of our own:
 * OpenSSL's write to sockets in a way that ends the process (SIGPIPE) when the server is gone. */
#include "fabric/secure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <millrace/millrace.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/error.h"
#include "core/memory.h"

struct mr_secure {
    SSL_CTX *context;
    BIO_METHOD *method;
    char host[256];
};

struct mr_secure_line {
    SSL *ssl;
    int fd;
    bool waits_to_hear;
    char why[160];
};

/* ---- Bytes to and from the socket ---- */
static bool would_wait(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN;
}

static int write_bytes(BIO *bio, const char *bytes, int size) {
    const mr_secure_line *line = BIO_get_data(bio);
    ssize_t n = send(line->fd, bytes, (size_t)size, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (n < 0 && would_wait()) {
        BIO_set_retry_write(bio);
    }
    return (int)n;
}

static int read_bytes(BIO *bio, char *bytes, int size) {
    const mr_secure_line *line = BIO_get_data(bio);
    ssize_t n = recv(line->fd, bytes, (size_t)size, 0);
    BIO_clear_retry_flags(bio);
    if (n < 0 && would_wait()) {
        BIO_set_retry_read(bio);
    }
    return (int)n;
}

static long control(BIO *bio, int what, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "millrace");
    if (method) {
        BIO_meth_set_write(method, write_bytes);
        BIO_meth_set_read(method, read_bytes);
        BIO_meth_set_ctrl(method, control);
    }
    return method;
}

/* ---- What connections share ---- */
static mr_status refuse_file(const char *variable, const char *path, mr_error *err) {
    char why[160];
    ERR_error_string_n(ERR_get_error(), why, sizeof why);
    ERR_clear_error();
    mr_fail(err, MR_E_PARAM, "%s names %s, which cannot be used: %s", variable, path, why);
    mr_hint(err, "it must be a readable file in PEM format");
    return MR_E_PARAM;
}

static mr_status trust(const mr_secure *secure, mr_error *err) {
    const char *path = getenv("MILLRACE_REDIS_CA");
    SSL_CTX_set_verify(secure->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_min_proto_version(secure->context, TLS1_2_VERSION);
    if (!path) {
        SSL_CTX_set_default_verify_paths(secure->context);
        return MR_OK;
    }
    return SSL_CTX_load_verify_locations(secure->context, path, NULL) == 1
               ? MR_OK
               : refuse_file("MILLRACE_REDIS_CA", path, err);
}

static mr_status show_ourselves(const mr_secure *secure, mr_error *err) {
    const char *own = getenv("MILLRACE_REDIS_CERT"), *key = getenv("MILLRACE_REDIS_KEY");
    if (own && SSL_CTX_use_certificate_chain_file(secure->context, own) != 1) {
        return refuse_file("MILLRACE_REDIS_CERT", own, err);
    }
    if (own && key && SSL_CTX_use_PrivateKey_file(secure->context, key, SSL_FILETYPE_PEM) != 1) {
        return refuse_file("MILLRACE_REDIS_KEY", key, err);
    }
    return MR_OK;
}

mr_status mr_secure_open(mr_secure **out, const char *host, mr_error *err) {
    mr_secure *secure = mr_zalloc(1, sizeof *secure);
    *out = secure;
    if (secure) {
        snprintf(secure->host, sizeof secure->host, "%s", host);
        secure->context = SSL_CTX_new(TLS_client_method());
        secure->method = make_method();
    }
    if (!secure || !secure->context || !secure->method) {
        return mr_fail_memory(err, sizeof *secure);
    }
    SSL_CTX_set_mode(secure->context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    MR_TRY(trust(secure, err));
    return show_ourselves(secure, err);
}

void mr_secure_close(mr_secure *secure) {
    if (secure) {
        SSL_CTX_free(secure->context);
        BIO_meth_free(secure->method);
        mr_free(secure);
    }
}

/* ---- One connection ---- */
static bool name_server(SSL *ssl, const char *host) {
    unsigned char address[16];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

mr_secure_line *mr_secure_start(mr_secure *secure, int fd) {
    mr_secure_line *line = mr_zalloc(1, sizeof *line);
    BIO *bio = line ? BIO_new(secure->method) : NULL;
    if (line) {
        line->fd = fd;
        line->ssl = SSL_new(secure->context);
    }
    if (!line || !bio || !line->ssl || !name_server(line->ssl, secure->host)) {
        BIO_free(bio);
        mr_secure_end(line);
        return NULL;
    }
    BIO_set_data(bio, line);
    BIO_set_init(bio, 1);
    SSL_set_bio(line->ssl, bio, bio);
    SSL_set_connect_state(line->ssl);
    return line;
}

void mr_secure_end(mr_secure_line *line) {
    if (line) {
        SSL_free(line->ssl);
        mr_free(line);
    }
}

static void say_why(mr_secure_line *line) {
    long verdict = SSL_get_verify_result(line->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    snprintf(line->why, sizeof line->why, "TLS: %s",
             verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
             : reason             ? reason
                                  : "the connection ended");
}

/* OpenSSL's answer as that of a system call. */
static ssize_t translate(mr_secure_line *line, int n, bool *waits_to_hear) {
    int sys = errno, what = n > 0 ? SSL_ERROR_NONE : SSL_get_error(line->ssl, n);
    *waits_to_hear = what == SSL_ERROR_WANT_READ;
    if (what == SSL_ERROR_NONE) {
        return n;
    }
    if (what == SSL_ERROR_ZERO_RETURN) {
        return 0;
    }
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    say_why(line);
    ERR_clear_error();
    errno = what == SSL_ERROR_SYSCALL && sys != 0 && sys != EAGAIN ? sys : EPROTO;
    return -1;
}

static int at_most(size_t size) {
    return size < (1u << 30) ? (int)size : 1 << 30;
}

ssize_t mr_secure_send(mr_secure_line *line, const void *bytes, size_t size) {
    ERR_clear_error();
    return translate(line, SSL_write(line->ssl, bytes, at_most(size)), &line->waits_to_hear);
}

ssize_t mr_secure_recv(mr_secure_line *line, void *bytes, size_t size) {
    bool ignored; /* whoever reads waits to hear; it does not keep anybody from sending */
    ERR_clear_error();
    return translate(line, SSL_read(line->ssl, bytes, at_most(size)), &ignored);
}

const char *mr_secure_why(const mr_secure_line *line) {
    return line->why;
}

bool mr_secure_waits_to_hear(const mr_secure_line *line) {
    return line->waits_to_hear;
}
