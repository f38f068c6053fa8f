/* SPDX-License-Identifier: Apache-2.0 */
/* tar.c - see tar.h. Numbers that a header gives are checked against the bytes there are before
 * they are used. */
#include "codecs/tar.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* Where things lie in a header. */
enum {
    NAME = 0,
    NAME_SIZE = 100,
    SIZE = 124,
    SIZE_SIZE = 12,
    SUM = 148,
    SUM_SIZE = 8,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_SIZE = 155
};

static mr_status damaged(mr_error *err, int64_t offset, mr_status code, const char *what) {
    mr_fail(err, code, "%s", what);
    if (err) {
        err->offset = offset;
    }
    return code;
}

/* ---- Numbers ---- */
/* Bytes, big-endian, after one of 0x80. */
static bool parse_binary(const unsigned char *text, size_t n, int64_t *out) {
    uint64_t value = text[0] & 0x7fu;
    for (size_t i = 1; i < n; i++) {
        if (value >> 55) {
            return false;
        }
        value = value << 8 | text[i];
    }
    *out = (int64_t)value;
    return true;
}

static bool parse_octal(const unsigned char *text, size_t n, int64_t *out) {
    size_t i = 0;
    int64_t value = 0;
    while (i < n && text[i] == ' ') {
        i++;
    }
    for (; i < n && text[i] >= '0' && text[i] <= '7'; i++) {
        value = value * 8 + (text[i] - '0');
    }
    *out = value;
    return i == n || text[i] == ' ' || text[i] == '\0';
}

static bool parse_number(const unsigned char *text, size_t n, int64_t *out) {
    return text[0] & 0x80 ? text[0] == 0x80 && parse_binary(text, n, out)
                          : parse_octal(text, n, out);
}

/* The sum of the header's bytes, its own field counted as spaces; some writers summed signed. */
static bool sum_fits(const unsigned char *header) {
    int64_t stated = 0, plain = 0, sign = 0;
    for (int i = 0; i < MR_TAR_BLOCK; i++) {
        bool own = i >= SUM && i < SUM + SUM_SIZE;
        plain += own ? ' ' : header[i];
        sign += !own && header[i] > 127;
    }
    return parse_octal(header + SUM, SUM_SIZE, &stated) &&
           (stated == plain || stated == plain - 256 * sign);
}

static bool is_zero(const unsigned char *block) {
    static const unsigned char zeros[MR_TAR_BLOCK];
    return memcmp(block, zeros, MR_TAR_BLOCK) == 0;
}

/* ---- Names ---- */
static size_t length_within(const unsigned char *text, size_t most) {
    const unsigned char *end = memchr(text, '\0', most);
    return end ? (size_t)(end - text) : most;
}

static mr_status set_name(mr_tar_entry *out, const void *name, size_t n, int64_t offset,
                          mr_error *err) {
    if (n >= MR_TAR_NAME) {
        return damaged(err, offset, MR_E_LIMIT, "a name of more than 4095 bytes");
    }
    memcpy(out->name, name, n);
    out->name[n] = '\0';
    out->name_length = n;
    return MR_OK;
}

static void name_from_header(mr_tar_entry *out, const unsigned char *header) {
    bool ustar = memcmp(header + MAGIC, "ustar\0", 6) == 0;
    size_t n = ustar ? length_within(header + PREFIX, PREFIX_SIZE) : 0;
    memcpy(out->name, header + PREFIX, n);
    if (n > 0) {
        out->name[n++] = '/';
    }
    size_t length = length_within(header + NAME, NAME_SIZE);
    memcpy(out->name + n, header + NAME, length);
    out->name_length = n + length;
    out->name[out->name_length] = '\0';
}

static bool leads_up(const char *name) {
    for (const char *part = name; *part; part += *part == '/') {
        size_t n = strcspn(part, "/");
        if (n == 2 && part[0] == '.' && part[1] == '.') {
            return true;
        }
        part += n;
    }
    return false;
}

/* ---- Headers that say something about the next one ---- */
typedef struct extras {
    bool has_name, has_size;
    int64_t size;
} extras;

typedef struct span {
    const unsigned char *data;
    int64_t offset, size;
} span;

static bool parse_decimal(const unsigned char *text, size_t n, int64_t *out) {
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value)) {
            return false;
        }
    }
    *out = value;
    return n > 0;
}

static mr_status take_record(const unsigned char *text, size_t n, int64_t offset, extras *more,
                             mr_tar_entry *out, mr_error *err) {
    if (n > 5 && memcmp(text, "path=", 5) == 0) {
        more->has_name = true;
        return set_name(out, text + 5, length_within(text + 5, n - 5), offset, err);
    }
    if (n > 5 && memcmp(text, "size=", 5) == 0) {
        more->has_size = true;
        return parse_decimal(text + 5, n - 5, &more->size)
                   ? MR_OK
                   : damaged(err, offset, MR_E_CORRUPT, "a pax size that is not a number");
    }
    if (n > 11 && memcmp(text, "GNU.sparse.", 11) == 0) {
        return damaged(err, offset, MR_E_UNSUPPORTED, "a sparse file");
    }
    return MR_OK;
}

/* Records "LENGTH KEY=VALUE\n", where the length counts all of it. */
static mr_status take_pax(const span *pax, extras *more, mr_tar_entry *out, mr_error *err) {
    int64_t at = 0;
    while (at < pax->size && pax->data[at] != '\0') {
        const unsigned char *record = pax->data + at;
        size_t left = (size_t)(pax->size - at), digits = 0;
        int64_t length = 0;
        while (digits < left && digits < 10 && record[digits] != ' ') {
            digits++;
        }
        if (digits == left || !parse_decimal(record, digits, &length) || length > (int64_t)left ||
            length < (int64_t)digits + 2 || record[length - 1] != '\n') {
            return damaged(err, pax->offset + at, MR_E_CORRUPT, "a damaged pax record");
        }
        MR_TRY(take_record(record + digits + 1, (size_t)length - digits - 2, pax->offset + at, more,
                           out, err));
        at += length;
    }
    return MR_OK;
}

/* ---- Entries ---- */
static bool has_bytes(unsigned char type) {
    return type < '1' || type > '6';
}

/* The bytes that belong to a header. */
static mr_status find_bytes(size_t size, int64_t header, int64_t bytes, span *out, int64_t *next,
                            mr_error *err) {
    int64_t room = (int64_t)size - header - MR_TAR_BLOCK;
    if (bytes < 0 || bytes > room) {
        return damaged(err, header, MR_E_CORRUPT,
                       "the entry is longer than what is left of the archive");
    }
    int64_t padded = (bytes + MR_TAR_BLOCK - 1) / MR_TAR_BLOCK * MR_TAR_BLOCK;
    if (padded > room) {
        return damaged(err, header, MR_E_CORRUPT, "the archive is cut off after an entry's bytes");
    }
    out->offset = header + MR_TAR_BLOCK;
    out->size = bytes;
    *next = out->offset + padded;
    return MR_OK;
}

static mr_status check_header(const unsigned char *data, size_t size, int64_t at, int64_t *bytes,
                              mr_error *err) {
    const unsigned char *header = data + at;
    if ((int64_t)size - at < MR_TAR_BLOCK) {
        return damaged(err, at, MR_E_CORRUPT, "the archive is cut off inside a header");
    }
    if (!sum_fits(header)) {
        return damaged(err, at, MR_E_CORRUPT, "the header's checksum is wrong");
    }
    if (!parse_number(header + SIZE, SIZE_SIZE, bytes)) {
        return damaged(err, at, MR_E_CORRUPT, "the header's size is not a number below 2^63");
    }
    return MR_OK;
}

static bool is_about_the_next(unsigned char type) {
    return type == 'L' || type == 'K' || type == 'x' || type == 'g';
}

static mr_status take_extra(unsigned char type, const span *bytes, extras *more, mr_tar_entry *out,
                            mr_error *err) {
    if (type == 'L') {
        more->has_name = true;
        return set_name(out, bytes->data, length_within(bytes->data, (size_t)bytes->size),
                        bytes->offset, err);
    }
    return type == 'x' ? take_pax(bytes, more, out, err) : MR_OK;
}

static mr_status finish(const unsigned char *header, size_t size, int64_t at, int64_t bytes,
                        const extras *more, mr_tar_entry *out, mr_error *err) {
    unsigned char type = header[TYPE];
    span own;
    if (type == 'S') {
        return damaged(err, at, MR_E_UNSUPPORTED, "a sparse file");
    }
    bytes = !has_bytes(type) ? 0 : more->has_size ? more->size : bytes;
    MR_TRY(find_bytes(size, at, bytes, &own, &out->next, err));
    if (!more->has_name) {
        name_from_header(out, header);
    }
    if (leads_up(out->name)) {
        return damaged(err, at, MR_E_CORRUPT, "a name that leads out of the archive (..)");
    }
    bool folder = out->name_length > 0 && out->name[out->name_length - 1] == '/';
    out->is_file = (type == '0' || type == '\0' || type == '7') && !folder;
    out->data = own.offset;
    out->size = own.size;
    return MR_OK;
}

mr_status mr_tar_next(const unsigned char *data, size_t size, int64_t at, mr_tar_entry *out,
                      mr_error *err) {
    extras more = {.has_name = false};
    out->offset = at;
    while (at < (int64_t)size) {
        int64_t bytes = 0;
        if ((int64_t)size - at >= MR_TAR_BLOCK && is_zero(data + at)) {
            break;
        }
        MR_TRY(check_header(data, size, at, &bytes, err));
        if (!is_about_the_next(data[at + TYPE])) {
            return finish(data + at, size, at, bytes, &more, out, err);
        }
        span own = {.data = data + at + MR_TAR_BLOCK};
        int64_t next = 0;
        MR_TRY(find_bytes(size, at, bytes, &own, &next, err));
        MR_TRY(take_extra(data[at + TYPE], &own, &more, out, err));
        at = next;
    }
    return out->offset == at ? MR_END
                             : damaged(err, at, MR_E_CORRUPT, "the archive ends after a long name");
}

/* ---- Entries of a stream ---- */
/* The header that was waited for is there: it carries something for the next, and its bytes are
 * waited for; or it is the last of an entry, whose bytes are passed over. */
static mr_status take_header(mr_tar_stream *s, mr_tar_visit *visit, void *user, mr_error *err) {
    enum { MOST = 4 << 20 };
    const unsigned char *header = s->pending + s->header;
    int64_t bytes = 0;
    if (s->header == 0 && is_zero(header)) {
        s->is_over = true;
        return MR_OK;
    }
    MR_TRY(check_header(s->pending, s->n, (int64_t)s->header, &bytes, err));
    if (is_about_the_next(header[TYPE])) {
        if (bytes > MOST - (int64_t)s->need) {
            return damaged(err, s->at, MR_E_LIMIT, "headers of more than 4 MB");
        }
        s->in_extra = true;
        s->need += (size_t)(bytes + MR_TAR_BLOCK - 1) / MR_TAR_BLOCK * MR_TAR_BLOCK;
        return MR_OK;
    }
    MR_TRY(mr_tar_next(s->pending, SIZE_MAX / 4, 0, &s->entry, err));
    s->skip = s->entry.next - (int64_t)s->n;
    s->entry.offset += s->at;
    s->entry.data += s->at;
    s->entry.next += s->at;
    s->at += (int64_t)s->n;
    s->n = s->header = 0;
    s->need = MR_TAR_BLOCK;
    return visit(user, &s->entry, err);
}

static mr_status take_pending(mr_tar_stream *s, mr_tar_visit *visit, void *user, mr_error *err) {
    while (s->n == s->need && !s->is_over) {
        if (s->in_extra) {
            s->in_extra = false;
            s->header = s->need;
            s->need += MR_TAR_BLOCK;
        } else {
            MR_TRY(take_header(s, visit, user, err));
        }
    }
    return MR_OK;
}

/* As many of the bytes as are waited for; how many these are. */
static mr_status put_pending(mr_tar_stream *s, const unsigned char *bytes, size_t n, size_t *taken,
                             mr_error *err) {
    s->need = s->need ? s->need : MR_TAR_BLOCK;
    if (s->need > s->capacity) {
        unsigned char *grown = realloc(s->pending, s->need);
        if (!grown) {
            return mr_fail_memory(err, s->need);
        }
        s->pending = grown;
        s->capacity = s->need;
    }
    *taken = s->need - s->n < n ? s->need - s->n : n;
    memcpy(s->pending + s->n, bytes, *taken);
    s->n += *taken;
    return MR_OK;
}

mr_status mr_tar_stream_feed(mr_tar_stream *s, const unsigned char *bytes, size_t n,
                             mr_tar_visit *visit, void *user, mr_error *err) {
    while (n > 0 && !s->is_over) {
        size_t taken = s->skip < (int64_t)n ? (size_t)s->skip : n;
        s->skip -= (int64_t)taken;
        s->at += (int64_t)taken;
        if (taken == 0) {
            MR_TRY(put_pending(s, bytes, n, &taken, err));
            MR_TRY(take_pending(s, visit, user, err));
        }
        bytes += taken;
        n -= taken;
    }
    return MR_OK;
}

bool mr_tar_stream_is_whole(const mr_tar_stream *s) {
    return s->is_over || (s->n == 0 && s->skip == 0);
}

void mr_tar_stream_free(mr_tar_stream *s) {
    free(s->pending);
    s->pending = NULL;
}

/* ---- Samples ---- */
static bool is_about_the_shard(const char *name, size_t n) {
    const char *slash = memchr(name, '/', n);
    size_t first = slash ? (size_t)(slash - name) : n;
    return first >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + first - 2, "__", 2) == 0;
}

bool mr_tar_name_part(const char *name, size_t n, mr_tar_part *out) {
    const char *slash = memrchr(name, '/', n);
    const char *base = slash ? slash + 1 : name, *end = name + n;
    const char *dot = memchr(base, '.', (size_t)(end - base));
    if (!dot || dot == base || dot + 1 == end || is_about_the_shard(name, n)) {
        return false;
    }
    out->key_length = (size_t)(dot - name);
    out->extension = dot + 1;
    return true;
}

bool mr_tar_part_of(const mr_tar_entry *entry, mr_tar_part *out) {
    return entry->is_file && mr_tar_name_part(entry->name, entry->name_length, out);
}
