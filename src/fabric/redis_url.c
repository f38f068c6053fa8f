/* SPDX-License-Identifier: Apache-2.0 */
/* redis_url.c - see redis_url.h. */
#include "fabric/redis_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "core/error.h"

/* A part of the text, not terminated. */
typedef struct span {
    const char *v;
    size_t n;
} span;

static mr_status refuse(mr_error *err, const char *what) {
    mr_status status = mr_fail(err, MR_E_PARAM, "not a URL of a Redis server: %s", what);
    mr_hint(err, "write redis://:PASSWORD@HOST:PORT/DB or redis+unix:///PATH, several with commas");
    return status;
}

/* Cuts off what stands before a byte; false, and nothing is cut, where there is none. */
static bool cut_before(span *text, char byte, span *before) {
    const char *at = text->n > 0 ? memchr(text->v, byte, text->n) : NULL;
    if (at) {
        *before = (span){text->v, (size_t)(at - text->v)};
        *text = (span){at + 1, text->n - before->n - 1};
    }
    return at;
}

/* Likewise what stands behind the last such byte. */
static bool cut_behind(span *text, char byte, span *behind) {
    const char *at = text->n > 0 ? memrchr(text->v, byte, text->n) : NULL;
    if (at) {
        *behind = (span){at + 1, text->n - (size_t)(at - text->v) - 1};
        text->n = (size_t)(at - text->v);
    }
    return at;
}

/* Copies with %XX resolved; false: it does not fit, or a % stands alone, or a zero byte. */
static bool decode(char *to, size_t size, span text) {
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++, n++) {
        int byte = (unsigned char)text.v[i];
        if (byte == '%') {
            int high = i + 2 < text.n ? mr_hex_digit(text.v[i + 1]) : -1;
            int low = i + 2 < text.n ? mr_hex_digit(text.v[i + 2]) : -1;
            byte = high < 0 || low < 0 ? 0 : high * 16 + low;
            i += 2;
        }
        if (byte == 0 || n + 1 >= size) {
            return false;
        }
        to[n] = (char)byte;
    }
    to[n] = '\0';
    return true;
}

static bool read_number(span text, int64_t max, int64_t *out) {
    char digits[8];
    *out = 0;
    if (text.n == 0 || text.n > 7 || !decode(digits, sizeof digits, text) ||
        strspn(digits, "0123456789") != text.n) {
        return false;
    }
    *out = strtol(digits, NULL, 10);
    return *out <= max;
}

static mr_status read_db(span text, mr_redis_url *out, mr_error *err) {
    int64_t db = 0;
    if (text.n > 0 && !read_number(text, 65535, &db)) {
        return refuse(err, "its database is not a number");
    }
    out->db = (int32_t)db;
    return MR_OK;
}

static mr_status read_login(span login, mr_redis_url *out, mr_error *err) {
    span user = {0};
    if (!cut_before(&login, ':', &user)) {
        return refuse(err, "there is no ':' before the password");
    }
    bool fits = decode(out->user, sizeof out->user, user) &&
                decode(out->password, sizeof out->password, login);
    return fits ? MR_OK : refuse(err, "user or password are too long, or have a wrong %XX");
}

/* HOST, HOST:PORT or [HOST]:PORT. */
static mr_status read_host(span text, mr_redis_url *out, mr_error *err) {
    span port = {"6379", 4}, ignored;
    int64_t number = 0;
    if (text.n > 0 && text.v[0] == '[') {
        span host = {text.v + 1, text.n - 1};
        text = host;
        if (!cut_before(&text, ']', &host)) {
            return refuse(err, "there is no ']' behind the address");
        }
        if (text.n > 0 && !(cut_before(&text, ':', &ignored) && ignored.n == 0)) {
            return refuse(err, "only a port may follow the address");
        }
        port = text.n > 0 ? text : port;
        text = host;
    } else {
        cut_behind(&text, ':', &port);
    }
    if (!read_number(port, 65535, &number) || number == 0) {
        return refuse(err, "its port is not a number from 1 to 65535");
    }
    snprintf(out->port, sizeof out->port, "%d", (int)number);
    bool fits = text.n > 0 && decode(out->host, sizeof out->host, text);
    return fits ? MR_OK : refuse(err, "its host is missing or too long");
}

static mr_status read_ttl(span text, mr_redis_url *out, mr_error *err) {
    int64_t seconds = 0;
    if (!read_number(text, 9999999, &seconds) || seconds == 0) {
        return refuse(err, "its ttl is not a number of seconds from 1 to 9999999");
    }
    out->ttl = (int32_t)seconds;
    return MR_OK;
}

/* "ttl=SECONDS", of a UNIX socket also "db=NUMBER"; several are parted by '&'. */
static mr_status read_settings(span text, bool unix_socket, mr_redis_url *out, mr_error *err) {
    for (bool more = true; more;) {
        span one = text, name;
        more = cut_before(&text, '&', &one);
        bool named = cut_before(&one, '=', &name);
        if (named && name.n == 3 && memcmp(name.v, "ttl", 3) == 0) {
            MR_TRY(read_ttl(one, out, err));
        } else if (named && unix_socket && name.n == 2 && memcmp(name.v, "db", 2) == 0) {
            MR_TRY(read_db(one, out, err));
        } else {
            return refuse(err, unix_socket ? "only db=NUMBER and ttl=SECONDS may follow the '?'"
                                           : "only ttl=SECONDS may follow the '?'");
        }
    }
    return MR_OK;
}

static mr_status read_tcp(span text, mr_redis_url *out, mr_error *err) {
    span host = text;
    if (cut_before(&text, '?', &host)) {
        MR_TRY(read_settings(text, false, out, err));
        text = host;
    }
    host = text;
    if (cut_before(&text, '/', &host)) {
        MR_TRY(read_db(text, out, err));
    }
    return read_host(host, out, err);
}

static mr_status read_unix(span text, mr_redis_url *out, mr_error *err) {
    span path = text;
    if (cut_before(&text, '?', &path)) {
        MR_TRY(read_settings(text, true, out, err));
    }
    if (path.n < 2 || path.v[0] != '/' || !decode(out->host, sizeof out->host, path)) {
        return refuse(err, "it has no path, or one that is too long");
    }
    return MR_OK;
}

static bool cut_scheme(span *text, const char *scheme) {
    size_t n = strlen(scheme);
    bool same = text->n >= n && memcmp(text->v, scheme, n) == 0;
    *text = same ? (span){text->v + n, text->n - n} : *text;
    return same;
}

static void default_name(mr_redis_url *url) {
    if (!url->name[0]) {
        snprintf(url->name, sizeof url->name, "%s%s%s", url->host, url->port[0] ? ":" : "",
                 url->port);
    }
}

static mr_status read_one(span text, mr_redis_url *out, mr_error *err) {
    span name = {0}, login = {0};
    bool unix_socket = cut_scheme(&text, "redis+unix://");
    out->secure = !unix_socket && cut_scheme(&text, "rediss://");
    if (!unix_socket && !out->secure && !cut_scheme(&text, "redis://")) {
        return refuse(err, "it begins neither with redis:// or rediss:// nor with redis+unix://");
    }
    if (cut_behind(&text, '#', &name) && !decode(out->name, sizeof out->name, name)) {
        return refuse(err, "its name is too long");
    }
    if (cut_before(&text, '@', &login)) {
        MR_TRY(read_login(login, out, err));
    }
    MR_TRY(unix_socket ? read_unix(text, out, err) : read_tcp(text, out, err));
    default_name(out);
    return MR_OK;
}

mr_status mr_redis_url_read(const char **text, mr_redis_url *out, mr_error *err) {
    size_t n = strcspn(*text, ",");
    span one = {*text, n};
    *out = (mr_redis_url){.db = 0};
    *text += n + ((*text)[n] == ',');
    return read_one(one, out, err);
}
