/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_filters.c - the bytes of a chunk as they were before they were filtered: deflate, shuffle,
 * lzf, zstd and the fletcher32 checksum. Every filter but the checksum gives as many bytes as the
 * chunk has, so nothing grows beyond what the dataset's shape says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/hdf5.h"
#include "core/error.h"

#if defined(MR_HAVE_DEFLATE)
#include <libdeflate.h>
#elif defined(MR_HAVE_ZLIB)
#include <zlib.h>
#endif
#if defined(MR_HAVE_ZSTD)
#include <zstd.h>
#endif

enum { DEFLATE = 1, SHUFFLE, FLETCHER32, SZIP, NBIT, SCALE_OFFSET, LZF = 32000, ZSTD = 32015 };

/* ---- Deflate ---- */
#if defined(MR_HAVE_DEFLATE)
static bool inflate_all(const unsigned char *in, size_t n, unsigned char *out, size_t size) {
    struct libdeflate_decompressor *own = libdeflate_alloc_decompressor();
    size_t made = 0;
    bool well = own && libdeflate_zlib_decompress(own, in, n, out, size, &made) == 0;
    libdeflate_free_decompressor(own);
    return well && made == size;
}
#elif defined(MR_HAVE_ZLIB)
static bool inflate_all(const unsigned char *in, size_t n, unsigned char *out, size_t size) {
    uLongf made = size;
    return uncompress(out, &made, in, n) == Z_OK && made == size;
}
#endif

#if defined(MR_HAVE_DEFLATE) || defined(MR_HAVE_ZLIB)
#define HAS_DEFLATE 1
#else
#define HAS_DEFLATE 0
static bool inflate_all(const unsigned char *in, size_t n, unsigned char *out, size_t size) {
    (void)in, (void)n, (void)out, (void)size;
    return false;
}
#endif

#if defined(MR_HAVE_ZSTD)
#define HAS_ZSTD 1
static bool unpack_zstd(const unsigned char *in, size_t n, unsigned char *out, size_t size) {
    return ZSTD_decompress(out, size, in, n) == size;
}
#else
#define HAS_ZSTD 0
static bool unpack_zstd(const unsigned char *in, size_t n, unsigned char *out, size_t size) {
    (void)in, (void)n, (void)out, (void)size;
    return false;
}
#endif

/* ---- LZF: literals, and copies of what is already there ---- */
static bool unpack_lzf(const unsigned char *in, size_t n, unsigned char *out, size_t size) {
    const unsigned char *end = in + n;
    size_t at = 0;
    while (in < end) {
        size_t control = *in++;
        if (control < 32) {
            size_t length = control + 1;
            if (length > (size_t)(end - in) || length > size - at) {
                return false;
            }
            memcpy(out + at, in, length);
            in += length;
            at += length;
            continue;
        }
        size_t length = control >> 5, back = (control & 31) << 8;
        if (end - in < 1 + (length == 7)) {
            return false;
        }
        length += length == 7 ? *in++ : 0u;
        back += *in++ + 1u;
        length += 2;
        if (back > at || length > size - at) {
            return false;
        }
        for (size_t i = 0; i < length; i++, at++) {
            out[at] = out[at - back];
        }
    }
    return at == size;
}

/* ---- Shuffle: first bytes of all elements, then second ones ---- */
static void unshuffle_4(const unsigned char *in, size_t n, unsigned char *out) {
    const unsigned char *a = in, *b = in + n, *c = in + 2 * n, *d = in + 3 * n;
    for (size_t i = 0; i < n; i++) {
        out[4 * i] = a[i];
        out[4 * i + 1] = b[i];
        out[4 * i + 2] = c[i];
        out[4 * i + 3] = d[i];
    }
}

static void unshuffle(const unsigned char *in, size_t size, size_t element, unsigned char *out) {
    size_t n = size / element;
    if (element == 4) {
        unshuffle_4(in, n, out);
    } else {
        for (size_t k = 0; k < element; k++) {
            for (size_t i = 0; i < n; i++) {
                out[i * element + k] = in[k * n + i];
            }
        }
    }
    memcpy(out + n * element, in + n * element, size - n * element);
}

/* ---- Fletcher32, as the format has it: 16-bit words, the first byte high ---- */
static uint32_t fletcher32(const unsigned char *data, size_t n) {
    uint32_t a = 0, b = 0;
    size_t words = n / 2;
    while (words > 0) {
        size_t run = words < 360 ? words : 360;
        words -= run;
        for (; run > 0; run--, data += 2) {
            a += (uint32_t)data[0] << 8 | data[1];
            b += a;
        }
        a = (a & 0xffff) + (a >> 16);
        b = (b & 0xffff) + (b >> 16);
    }
    if (n % 2) {
        a += (uint32_t)data[0] << 8;
        b += a;
    }
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
    return b << 16 | a;
}

static bool checks(const unsigned char *data, size_t *n) {
    if (*n < 4) {
        return false;
    }
    *n -= 4;
    const unsigned char *at = data + *n;
    uint32_t stored =
        (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return fletcher32(data, *n) == stored;
}

/* ---- The way back through the filters ---- */
static bool is_known(int32_t id) {
    return (id == DEFLATE && HAS_DEFLATE) || id == SHUFFLE || id == FLETCHER32 || id == LZF ||
           (id == ZSTD && HAS_ZSTD);
}

bool mr_h5_filters_known(const mr_h5_dataset *d, char why[MR_H5_WHY]) {
    static const struct {
        int32_t id;
        const char *name;
    } names[] = {
        {DEFLATE, "gzip"}, {SZIP, "szip"}, {NBIT, "nbit"},        {SCALE_OFFSET, "scale-offset"},
        {32001, "blosc"},  {32004, "lz4"}, {32008, "bitshuffle"}, {ZSTD, "zstd"},
        {32026, "blosc2"}};
    const char *name = "unknown";
    for (int32_t i = 0; i < d->n_filters; i++) {
        if (is_known(d->filters[i].id)) {
            continue;
        }
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            name = names[k].id == d->filters[i].id ? names[k].name : name;
        }
        snprintf(why, MR_H5_WHY, "this build cannot undo its filter %d (%s)", d->filters[i].id,
                 name);
        return false;
    }
    return true;
}

void mr_h5_fill(const mr_h5_dataset *d, void *out, size_t bytes) {
    unsigned char *at = out;
    bool zeros = d->is_text || d->element > sizeof d->fill;
    for (size_t i = 0; !zeros && i < bytes; i += d->element) {
        memcpy(at + i, d->fill, d->element);
    }
    if (zeros) {
        memset(out, 0, bytes);
    }
}

/* A filter from `in` of *n bytes to `out` of `size`; true: what comes next is in `out`. */
typedef struct step {
    const unsigned char *in;
    size_t n;
    unsigned char *out;
    size_t size, element;
} step;

static bool undo(int32_t id, step *s) {
    bool well;
    switch (id) {
    case DEFLATE:
        well = inflate_all(s->in, s->n, s->out, s->size);
        break;
    case LZF:
        well = unpack_lzf(s->in, s->n, s->out, s->size);
        break;
    case ZSTD:
        well = unpack_zstd(s->in, s->n, s->out, s->size);
        break;
    default:
        well = s->n == s->size;
        if (well) {
            unshuffle(s->in, s->n, s->element, s->out);
        }
    }
    s->in = s->out;
    s->n = s->size;
    return well;
}

static mr_status damaged(const mr_h5_chunk *chunk, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT,
            "a chunk is damaged: it does not unpack to its size, or its "
            "checksum is wrong");
    if (err) {
        err->offset = chunk->address;
    }
    return MR_E_CORRUPT;
}

/* How many of the chunk's filters write bytes elsewhere. */
static int32_t count_steps(const mr_h5_dataset *d, const mr_h5_chunk *chunk) {
    int32_t n = 0;
    for (int32_t i = 0; i < d->n_filters; i++) {
        n += !(chunk->mask >> i & 1) && d->filters[i].id != FLETCHER32;
    }
    return n;
}

static mr_status run_filters(const mr_h5_dataset *d, const mr_h5_chunk *chunk, step *s,
                             unsigned char *out, unsigned char *other, int32_t left,
                             mr_error *err) {
    unsigned char *const turns[2] = {other ? other : out, out};
    for (int32_t i = d->n_filters - 1; i >= 0; i--) {
        if (chunk->mask >> i & 1) {
            continue;
        }
        bool check = d->filters[i].id == FLETCHER32;
        s->out = turns[left & 1]; /* the last one writes to out */
        left -= !check;
        if (check ? !checks(s->in, &s->n) : !undo(d->filters[i].id, s)) {
            return damaged(chunk, err);
        }
    }
    if (s->n != s->size) {
        return damaged(chunk, err);
    }
    if (s->in != out) {
        memcpy(out, s->in, s->size);
    }
    return MR_OK;
}

mr_status mr_h5_unpack(const mr_h5_dataset *d, const mr_h5_chunk *chunk, const void *data,
                       size_t size, void *out, mr_error *err) {
    step s = {.in = data, .n = size, .element = d->element};
    s.size = (size_t)mr_h5_chunk_bytes(d);
    int32_t steps = count_steps(d, chunk);
    unsigned char *other = steps > 1 ? malloc(s.size) : NULL;
    if (steps > 1 && !other) {
        return mr_fail_memory(err, s.size);
    }
    mr_status status = run_filters(d, chunk, &s, out, other, steps, err);
    free(other);
    return status;
}
