/* SPDX-License-Identifier: Apache-2.0 */
/* far_name.c - see far_name.h. */
#include "io/far_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

static const char pin_begins[] = "#size=", tag_begins[] = "&tag=";

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

bool mr_is_s3(const char *path) {
    return begins(path, "s3://");
}

size_t mr_far_scheme(const char *path) {
    size_t n = 0;
    while ((path[n] >= 'a' && path[n] <= 'z') ||
           (n > 0 && ((path[n] >= '0' && path[n] <= '9') || path[n] == '+' || path[n] == '-'))) {
        n++;
    }
    return n > 1 && begins(path + n, "://") ? n : 0;
}

/* "file://" is no name of an object on a server, and a document must not come to files that way. */
bool mr_is_far(const char *path) {
    return mr_far_scheme(path) > 0 && !begins(path, "file:") && !begins(path, "local:");
}

bool mr_is_foreign(const char *path) {
    return mr_is_far(path) && !mr_is_s3(path) && !begins(path, "https:") && !begins(path, "http:");
}

bool mr_has_bucket(const char *path) {
    return mr_is_s3(path) || mr_is_foreign(path);
}

/* ---- Percent-encoding ---- */
static bool is_plain(char c, const char *also) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && (strchr("-._~", c) || strchr(also, c)));
}

bool mr_far_encode(char *out, size_t size, size_t *at, const char *text, size_t length,
                   const char *also) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (*at + 4 > size) {
            return false;
        }
        if (is_plain(text[i], also)) {
            out[(*at)++] = text[i];
        } else {
            out[(*at)++] = '%';
            out[(*at)++] = digits[c >> 4];
            out[(*at)++] = digits[c & 15];
        }
    }
    out[*at] = '\0';
    return true;
}

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

size_t mr_far_decode(char *text, size_t length) {
    size_t to = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%' && length - i > 2 && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            unsigned byte = (unsigned)digit(text[i + 1]) * 16 + (unsigned)digit(text[i + 2]);
            memcpy(&c, &(unsigned char){(unsigned char)byte}, 1);
            i += 2;
        }
        text[to++] = c;
    }
    return to;
}

/* ---- Pins ---- */
/* The pin at the end of a name, as far as it is written as one; NULL: there is none. */
static const char *find_pin(const char *path, int64_t *size, const char **tag) {
    const char *pin = mr_is_far(path) ? strrchr(path, '#') : NULL;
    int64_t n = 0;
    if (!pin || !begins(pin, pin_begins)) {
        return NULL;
    }
    const char *at = pin + strlen(pin_begins), *first = at;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (at - first >= 18) {
            return NULL;
        }
        n = n * 10 + (*at - '0');
    }
    if (at == first || !begins(at, tag_begins)) {
        return NULL;
    }
    *tag = at + strlen(tag_begins);
    *size = n;
    for (at = *tag; *at; at++) {
        if (!is_plain(*at, "%")) {
            return NULL;
        }
    }
    return pin;
}

size_t mr_far_bare(const char *path) {
    int64_t size;
    const char *tag, *pin = find_pin(path, &size, &tag);
    return pin ? (size_t)(pin - path) : strlen(path);
}

size_t mr_path_public(const char *path) {
    size_t bare = mr_far_bare(path);
    const char *query = mr_is_far(path) && !mr_has_bucket(path) ? memchr(path, '?', bare) : NULL;
    return query ? (size_t)(query - path) : bare;
}

/* What is written takes up to three times the room of what it stands for. */
void mr_far_pin_of(const char *path, mr_far_pin *out) {
    const char *tag = NULL;
    char text[3 * sizeof out->tag];
    out->tag[0] = '\0';
    size_t length = find_pin(path, &out->size, &tag) ? strlen(tag) : sizeof text;
    if (length < sizeof text) {
        memcpy(text, tag, length);
        length = mr_far_decode(text, length);
    }
    if (length >= sizeof out->tag) {
        out->size = -1;
        return;
    }
    memcpy(out->tag, text, length);
    out->tag[length] = '\0';
}

bool mr_far_same_version(const mr_far_pin *a, const mr_far_pin *b) {
    return a->size == b->size && strcmp(a->tag, b->tag) == 0;
}

char *mr_far_pinned(const char *path, size_t length, const mr_far_pin *pin) {
    char number[64];
    int digits =
        snprintf(number, sizeof number, "%s%lld%s", pin_begins, (long long)pin->size, tag_begins);
    size_t most = length + (size_t)digits + 3 * strlen(pin->tag) + 8, at = length + (size_t)digits;
    char *out = malloc(most);
    if (!out) {
        return NULL;
    }
    memcpy(out, path, length);
    memcpy(out + length, number, (size_t)digits + 1);
    mr_far_encode(out, most, &at, pin->tag, strlen(pin->tag), "");
    return out;
}

/* Weak ETags and times of a second's grain may be the same for other bytes. */
bool mr_far_identity(const char *path, uint64_t out[2]) {
    mr_far_pin pin;
    mr_far_pin_of(path, &pin);
    if (pin.size < 0 || pin.tag[0] != '"') {
        return false;
    }
    mr_hash128 hash = mr_hash(path, strlen(path));
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

/* ---- S3 ---- */
static bool is_bucket(const char *name, size_t length, const char *also) {
    for (size_t i = 0; i < length; i++) {
        if (!is_plain(name[i], also) || name[i] == '~') {
            return false;
        }
    }
    return length >= 1 && length < 64;
}

bool mr_s3_parts(const char *path, char bucket[64], const char **key, size_t *key_length) {
    const char *name = mr_has_bucket(path) ? path + mr_far_scheme(path) + strlen("://") : "";
    size_t length = strcspn(name, "/"), bare = mr_far_bare(path);
    if (!is_bucket(name, length, mr_is_s3(path) ? "" : "@:")) {
        return false;
    }
    memcpy(bucket, name, length);
    bucket[length] = '\0';
    *key = name[length] ? name + length + 1 : name + length;
    *key_length = (size_t)(path + bare - *key);
    return *key <= path + bare;
}
