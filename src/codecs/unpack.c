/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - see unpack.h. Files may consist of several gzip members, zstd or lz4 frames. Memory
 * grows with what was unpacked, never with what a header promises. */
#include "codecs/unpack.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

#if defined(MR_HAVE_ZLIB)
#include <zlib.h>
#endif
#if defined(MR_HAVE_ZSTD)
#include <zstd.h>
#endif
#if defined(MR_HAVE_LZ4)
#include <lz4frame.h>
#endif

static bool ends_in(const char *path, const char *ending) {
    size_t length = strlen(path), n = strlen(ending);
    return length > n && strcmp(path + length - n, ending) == 0;
}

mr_packing mr_packing_of(const char *path) {
    if (ends_in(path, ".gz") || ends_in(path, ".tgz")) {
        return MR_GZIP;
    }
    if (ends_in(path, ".lz4")) {
        return MR_LZ4;
    }
    return ends_in(path, ".zst") || ends_in(path, ".zstd") ? MR_ZSTD : MR_NOT_PACKED;
}

/* What was unpacked so far: n bytes, of which the first up to `keep` are kept. One byte more than
 * `limit` shows that there is more. What is not kept is unpacked all the same, into `rest`: the
 * checksums of a file are at its end. */
typedef struct sink {
    unsigned char *data, *rest;
    size_t n, capacity, keep, limit;
    bool head;
    mr_unpack_take *take; /* (optional) gets what is not kept */
    void *user;
} sink;

/* Room for what comes next. */
typedef struct room {
    unsigned char *at;
    size_t n;
} room;

/* The byte is one of what the file unpacks to. */
static mr_status too_much(size_t limit, mr_error *err) {
    mr_fail(err, MR_E_LIMIT, "unpacks to more than %zu bytes", limit);
    mr_hint(err, "allow more with max_unpacked_bytes, if the file is not made to harm");
    if (err) {
        err->offset = (int64_t)limit;
    }
    return MR_E_LIMIT;
}

#if defined(MR_HAVE_ZLIB) || defined(MR_HAVE_ZSTD) || defined(MR_HAVE_LZ4)
static bool is_full(const sink *s) {
    return s->head && s->n >= s->limit;
}

enum { REST = 1 << 16 };

static mr_status grow(sink *s, mr_error *err) {
    enum { LEAST = 1 << 16 };
    size_t capacity = s->capacity < LEAST ? LEAST : s->capacity * 2;
    capacity = capacity > s->keep ? s->keep : capacity;
    unsigned char *data = realloc(s->data, capacity);
    if (!data) {
        return mr_fail_memory(err, capacity);
    }
    s->data = data;
    s->capacity = capacity;
    return MR_OK;
}

static mr_status make_room(sink *s, room *out, mr_error *err) {
    if (s->n > s->limit) {
        return too_much(s->limit, err);
    }
    if (s->n >= s->keep) {
        s->rest = s->rest ? s->rest : malloc(REST);
        *out = (room){s->rest, s->limit + 1 - s->n < REST ? s->limit + 1 - s->n : REST};
        return s->rest ? MR_OK : mr_fail_memory(err, REST);
    }
    if (s->n == s->capacity) {
        MR_TRY(grow(s, err));
    }
    *out = (room){s->data + s->n, s->capacity - s->n};
    return MR_OK;
}

/* So many bytes were put into the room. */
static mr_status advance(sink *s, size_t n, mr_error *err) {
    bool gives = s->take && n > 0 && s->n >= s->keep;
    s->n += n;
    return gives ? s->take(s->user, s->rest, n, err) : MR_OK;
}

static mr_status damaged(const char *what, size_t at, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "%s", what);
    if (err) {
        err->offset = (int64_t)at;
    }
    return MR_E_CORRUPT;
}
#endif

#if defined(MR_HAVE_ZLIB)
static mr_status inflate_all(z_stream *z, const unsigned char *data, size_t size, sink *s,
                             mr_error *err) {
    enum { PIECE = 1 << 30 };
    size_t at = 0;
    int result = Z_OK;
    while (!is_full(s) && (at < size || result != Z_STREAM_END)) {
        room to;
        MR_TRY(make_room(s, &to, err));
        if (result == Z_STREAM_END && (inflateReset(z) != Z_OK || data[at] != 0x1f)) {
            return damaged("something other than gzip follows", at, err);
        }
        z->next_in = (Bytef *)(uintptr_t)(data + at);
        z->avail_in = (uInt)(size - at < PIECE ? size - at : PIECE);
        z->next_out = to.at;
        z->avail_out = (uInt)(to.n < PIECE ? to.n : PIECE);
        uInt in = z->avail_in, out = z->avail_out;
        result = inflate(z, Z_NO_FLUSH);
        at += in - z->avail_in;
        MR_TRY(advance(s, out - z->avail_out, err));
        if (result != Z_OK && result != Z_STREAM_END) {
            return damaged(at < size ? "not valid gzip" : "the gzip file is cut off", at, err);
        }
    }
    return MR_OK;
}

static mr_status unpack_gzip(const void *data, size_t size, sink *s, mr_error *err) {
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK) {
        return mr_fail_memory(err, 0);
    }
    mr_status status = inflate_all(&z, data, size, s, err);
    inflateEnd(&z);
    return status;
}
#else
static mr_status unpack_gzip(const void *data, size_t size, sink *s, mr_error *err) {
    (void)data, (void)size, (void)s;
    return mr_fail(err, MR_E_UNSUPPORTED, "built without zlib: .gz cannot be read");
}
#endif

#if defined(MR_HAVE_ZSTD)
static mr_status unpack_frames(ZSTD_DCtx *context, const void *data, size_t size, sink *s,
                               mr_error *err) {
    ZSTD_inBuffer in = {data, size, 0};
    size_t left = 1; /* 0: a frame is complete */
    while (!is_full(s) && (in.pos < size || left != 0)) {
        room to;
        MR_TRY(make_room(s, &to, err));
        ZSTD_outBuffer out = {to.at, to.n, 0};
        size_t before = in.pos;
        left = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(left)) {
            return damaged("not valid zstd", in.pos, err);
        }
        if (in.pos == before && out.pos == 0) {
            return damaged("the zstd file is cut off", in.pos, err);
        }
        MR_TRY(advance(s, out.pos, err));
    }
    return MR_OK;
}

static mr_status unpack_zstd(const void *data, size_t size, sink *s, mr_error *err) {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context) {
        return mr_fail_memory(err, 0);
    }
    mr_status status = unpack_frames(context, data, size, s, err);
    ZSTD_freeDCtx(context);
    return status;
}
#else
static mr_status unpack_zstd(const void *data, size_t size, sink *s, mr_error *err) {
    (void)data, (void)size, (void)s;
    return mr_fail(err, MR_E_UNSUPPORTED, "built without libzstd: .zst cannot be read");
}
#endif

#if defined(MR_HAVE_LZ4)
static mr_status unpack_lz4_frames(LZ4F_dctx *context, const unsigned char *data, size_t size,
                                   sink *s, mr_error *err) {
    size_t at = 0, left = 1; /* 0: a frame is complete */
    while (!is_full(s) && (at < size || left != 0)) {
        room to;
        MR_TRY(make_room(s, &to, err));
        size_t in = size - at, out = to.n;
        left = LZ4F_decompress(context, to.at, &out, data + at, &in, NULL);
        if (LZ4F_isError(left)) {
            return damaged("not valid lz4", at, err);
        }
        if (in == 0 && out == 0) {
            return damaged("the lz4 file is cut off", at, err);
        }
        at += in;
        MR_TRY(advance(s, out, err));
    }
    return MR_OK;
}

static mr_status unpack_lz4(const void *data, size_t size, sink *s, mr_error *err) {
    LZ4F_dctx *context = NULL;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) {
        return mr_fail_memory(err, 0);
    }
    mr_status status = unpack_lz4_frames(context, data, size, s, err);
    LZ4F_freeDecompressionContext(context);
    return status;
}
#else
static mr_status unpack_lz4(const void *data, size_t size, sink *s, mr_error *err) {
    (void)data, (void)size, (void)s;
    return mr_fail(err, MR_E_UNSUPPORTED, "built without liblz4: .lz4 cannot be read");
}
#endif

static mr_status unpack(mr_packing packing, const void *data, size_t size, sink s,
                        unsigned char **out, size_t *n, mr_error *err) {
    mr_status status = packing == MR_GZIP  ? unpack_gzip(data, size, &s, err)
                       : packing == MR_LZ4 ? unpack_lz4(data, size, &s, err)
                                           : unpack_zstd(data, size, &s, err);
    if (status == MR_OK && s.n > s.limit && !s.head) {
        status = too_much(s.limit, err);
    }
    free(s.rest);
    if (status < 0) {
        free(s.data);
        s = (sink){0};
    }
    *out = s.data;
    *n = s.n < s.limit ? s.n : s.limit;
    *n = *n < s.keep ? *n : s.keep;
    return status;
}

mr_status mr_unpack_file(mr_packing packing, const void *data, size_t size, size_t limit, bool head,
                         unsigned char **out, size_t *n, mr_error *err) {
    const sink s = {.keep = limit + 1, .limit = limit, .head = head};
    return unpack(packing, data, size, s, out, n, err);
}

mr_status mr_unpack_beginning(mr_packing packing, const void *data, size_t size, size_t keep,
                              size_t limit, unsigned char **out, size_t *n, mr_error *err) {
    const sink s = {.keep = keep <= limit ? keep : limit + 1, .limit = limit};
    return unpack(packing, data, size, s, out, n, err);
}

mr_status mr_unpack_stream(mr_packing packing, const void *data, size_t size, size_t limit,
                           mr_unpack_take *take, void *user, mr_error *err) {
    const sink s = {.keep = 0, .limit = limit, .take = take, .user = user};
    unsigned char *none = NULL;
    size_t n = 0;
    return unpack(packing, data, size, s, &none, &n, err);
}
