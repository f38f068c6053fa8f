/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c - see npz.h. Also zip64, which numpy writes for large arrays. */
#include "codecs/npz.h"

#include <string.h>

#include "core/error.h"

enum { END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30, COMMENT = 65535 };

static uint64_t number(const unsigned char *data, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        value = value << 8 | data[i];
    }
    return value;
}

static mr_status damaged(mr_error *err, size_t offset, const char *what) {
    mr_fail(err, MR_E_CORRUPT, "%s", what);
    if (err) {
        err->offset = (int64_t)offset;
    }
    return MR_E_CORRUPT;
}

/* Where the directory's end is written down: the last bytes, but for a comment. */
static bool find_end(const unsigned char *file, size_t size, size_t *out) {
    for (size_t back = END; back <= size && back <= END + COMMENT; back++) {
        if (memcmp(file + size - back, "PK\5\6", 4) == 0) {
            *out = size - back;
            return true;
        }
    }
    return false;
}

static mr_status find_directory(const unsigned char *file, size_t size, size_t *start, size_t *end,
                                mr_error *err) {
    if (!find_end(file, size, end)) {
        return damaged(err, 0, "not a zip file, or it is cut off");
    }
    uint64_t at = number(file + *end + 16, 4);
    if (at == UINT32_MAX && *end >= LOCATOR && memcmp(file + *end - LOCATOR, "PK\6\7", 4) == 0) {
        uint64_t end64 = number(file + *end - LOCATOR + 8, 8);
        if (size < END64 || end64 > size - END64 || memcmp(file + end64, "PK\6\6", 4) != 0) {
            return damaged(err, *end, "the zip's directory is damaged");
        }
        *end = (size_t)end64;
        at = number(file + end64 + 48, 8);
    }
    if (at > *end) {
        return damaged(err, *end, "the zip's directory is damaged");
    }
    *start = (size_t)at;
    return MR_OK;
}

typedef struct entry {
    const unsigned char *name;
    size_t name_size, length;
    uint64_t packed, size, local;
} entry;

/* Numbers that do not fit into 32 bits are in an extra field, those of them that do not. */
static void read_large(const unsigned char *extra, size_t n, entry *e) {
    uint64_t *const wide[] = {&e->size, &e->packed, &e->local};
    while (n >= 4) {
        size_t length = (size_t)number(extra + 2, 2), at = 4;
        if (length > n - 4) {
            return;
        }
        for (int i = 0; number(extra, 2) == 1 && i < 3; i++) {
            if (*wide[i] == UINT32_MAX && at + 8 <= length + 4) {
                *wide[i] = number(extra + at, 8);
                at += 8;
            }
        }
        extra += 4 + length;
        n -= 4 + length;
    }
}

static bool read_entry(const unsigned char *at, size_t left, entry *e) {
    if (left < ENTRY || memcmp(at, "PK\1\2", 4) != 0) {
        return false;
    }
    size_t extra = (size_t)number(at + 30, 2);
    e->name_size = (size_t)number(at + 28, 2);
    e->length = ENTRY + e->name_size + extra + (size_t)number(at + 32, 2);
    if (e->length > left) {
        return false;
    }
    e->name = at + ENTRY;
    e->packed = number(at + 20, 4);
    e->size = number(at + 24, 4);
    e->local = number(at + 42, 4);
    read_large(at + ENTRY + e->name_size, extra, e);
    return true;
}

static mr_status find_data(const unsigned char *file, size_t size, const entry *e,
                           mr_npz_member *out, mr_error *err) {
    if (size < LOCAL || e->local > size - LOCAL || memcmp(file + e->local, "PK\3\4", 4) != 0) {
        return damaged(err, (size_t)(e->name - file), "the zip's directory is damaged");
    }
    size_t skip =
        LOCAL + (size_t)number(file + e->local + 26, 2) + (size_t)number(file + e->local + 28, 2);
    if (skip > size - e->local || e->size > size - e->local - skip) {
        return damaged(err, (size_t)e->local, "a member is longer than the file");
    }
    out->data = (size_t)e->local + skip;
    out->size = (size_t)e->size;
    return MR_OK;
}

static mr_status set_name(const entry *e, mr_npz_member *out, mr_error *err) {
    size_t n = e->name_size;
    n -= n > 4 && memcmp(e->name + n - 4, ".npy", 4) == 0 ? 4 : 0;
    if (n == 0 || n >= sizeof out->name || memchr(e->name, '\0', n)) {
        return mr_fail(err, MR_E_LIMIT, "a member with no name, or one of more than 63 bytes");
    }
    memcpy(out->name, e->name, n);
    out->name[n] = '\0';
    return MR_OK;
}

mr_status mr_npz_next(const unsigned char *file, size_t size, size_t *at, mr_npz_member *out,
                      mr_error *err) {
    size_t start, end;
    entry e;
    MR_TRY(find_directory(file, size, &start, &end, err));
    *at = *at == 0 ? start : *at;
    if (*at >= end) {
        return MR_END;
    }
    if (!read_entry(file + *at, end - *at, &e)) {
        return damaged(err, *at, "the zip's directory is damaged");
    }
    MR_TRY(set_name(&e, out, err));
    if (number(file + *at + 10, 2) != 0 || e.packed != e.size || (file[*at + 8] & 1)) {
        mr_fail(err, MR_E_UNSUPPORTED, "member %s is compressed", out->name);
        mr_hint(err, "save it with np.savez instead of np.savez_compressed");
        return MR_E_UNSUPPORTED;
    }
    *at += e.length;
    return find_data(file, size, &e, out, err);
}
