/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - decompression of pages, and their checksums. Each library is optional. */
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

#if MR_HAVE_SNAPPY
#include <snappy-c.h>
#endif
#if MR_HAVE_DEFLATE
#include <libdeflate.h>
#endif
#if MR_HAVE_BROTLI
#include <brotli/decode.h>
#endif
#if MR_HAVE_LZ4
#include <lz4.h>
#endif
#if MR_HAVE_ZSTD
#include <zstd.h>
#endif

struct mr_pq_codecs {
#if MR_HAVE_DEFLATE
    struct libdeflate_decompressor *deflate;
#endif
#if MR_HAVE_ZSTD
    ZSTD_DCtx *zstd;
#endif
    int unused; /* a struct has a member */
};

mr_pq_codecs *mr_pq_codecs_new(void) {
    mr_pq_codecs *codecs = mr_zalloc(1, sizeof *codecs);
    bool whole = codecs;
#if MR_HAVE_DEFLATE
    whole = whole && (codecs->deflate = libdeflate_alloc_decompressor());
#endif
#if MR_HAVE_ZSTD
    whole = whole && (codecs->zstd = ZSTD_createDCtx());
#endif
    if (!whole) {
        mr_pq_codecs_free(codecs);
        return NULL;
    }
    return codecs;
}

void mr_pq_codecs_free(mr_pq_codecs *codecs) {
    if (codecs) {
#if MR_HAVE_DEFLATE
        libdeflate_free_decompressor(codecs->deflate);
#endif
#if MR_HAVE_ZSTD
        ZSTD_freeDCtx(codecs->zstd);
#endif
        free(codecs);
    }
}

typedef bool unpack_function(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size);

#if MR_HAVE_SNAPPY
static bool unpack_snappy(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    size_t told = 0;
    (void)codecs;
    if (snappy_uncompressed_length((const char *)in.data, in.size, &told) != SNAPPY_OK ||
        told != out_size) {
        return false;
    }
    return snappy_uncompress((const char *)in.data, in.size, (char *)out, &told) == SNAPPY_OK;
}
#else
#define unpack_snappy NULL
#endif

#if MR_HAVE_DEFLATE
/* A page may be several gzip members one after the other. */
static bool unpack_gzip(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    while (in.size > 0) {
        size_t used = 0, made = 0;
        enum libdeflate_result result = libdeflate_gzip_decompress_ex(
            codecs->deflate, in.data, in.size, out, out_size, &used, &made);
        if (result != LIBDEFLATE_SUCCESS || used == 0) {
            return false;
        }
        in.data += used;
        in.size -= used;
        out += made;
        out_size -= made;
    }
    return out_size == 0;
}
#else
#define unpack_gzip NULL
#endif

#if MR_HAVE_BROTLI
static bool unpack_brotli(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    size_t made = out_size;
    (void)codecs;
    return BrotliDecoderDecompress(in.size, in.data, &made, out) == BROTLI_DECODER_RESULT_SUCCESS &&
           made == out_size;
}
#else
#define unpack_brotli NULL
#endif

#if MR_HAVE_ZSTD
static bool unpack_zstd(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    return ZSTD_decompressDCtx(codecs->zstd, out, out_size, in.data, in.size) == out_size;
}
#else
#define unpack_zstd NULL
#endif

#if MR_HAVE_LZ4
static bool unpack_lz4_raw(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    (void)codecs;
    return in.size <= INT32_MAX && out_size <= INT32_MAX &&
           LZ4_decompress_safe((const char *)in.data, (char *)out, (int)in.size, (int)out_size) ==
               (int)out_size;
}

static uint32_t load_be32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Hadoop's frames: both lengths, big-endian, before each block. */
static bool unpack_lz4_hadoop(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    while (in.size > 0) {
        if (in.size < 8) {
            return false;
        }
        uint32_t unpacked = load_be32(in.data), packed = load_be32(in.data + 4);
        if (packed > in.size - 8 || unpacked > out_size ||
            !unpack_lz4_raw(codecs, (mr_pq_bytes){in.data + 8, packed}, out, unpacked)) {
            return false;
        }
        in.data += 8 + packed;
        in.size -= 8 + packed;
        out += unpacked;
        out_size -= unpacked;
    }
    return out_size == 0;
}

/* The codec that was called LZ4 before the format said what it is: Hadoop's frames, or none. */
static bool unpack_lz4(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    return unpack_lz4_hadoop(codecs, in, out, out_size) ||
           unpack_lz4_raw(codecs, in, out, out_size);
}
#else
#define unpack_lz4_raw NULL
#define unpack_lz4 NULL
#endif

static bool unpack_nothing(mr_pq_codecs *codecs, mr_pq_bytes in, uint8_t *out, size_t out_size) {
    (void)codecs;
    if (in.size != out_size) {
        return false;
    }
    if (out_size > 0) {
        memcpy(out, in.data, out_size);
    }
    return true;
}

static unpack_function *const unpackers[] = {
    [MR_PQ_UNCOMPRESSED] = unpack_nothing,
    [MR_PQ_SNAPPY] = unpack_snappy,
    [MR_PQ_GZIP] = unpack_gzip,
    [MR_PQ_LZO] = NULL,
    [MR_PQ_BROTLI] = unpack_brotli,
    [MR_PQ_LZ4] = unpack_lz4,
    [MR_PQ_ZSTD] = unpack_zstd,
    [MR_PQ_LZ4_RAW] = unpack_lz4_raw,
};

bool mr_pq_codec_here(int32_t codec) {
    return codec >= 0 && codec <= MR_PQ_LZ4_RAW && unpackers[codec];
}

mr_status mr_pq_unpack(mr_pq_codecs *codecs, int32_t codec, mr_pq_bytes in, uint8_t *out,
                       size_t out_size, mr_error *err) {
    if (!mr_pq_codec_here(codec)) {
        return mr_fail(err, MR_E_UNSUPPORTED, "this build has no %s", mr_pq_codec_name(codec));
    }
    if (out_size == 0 && in.size == 0) {
        return MR_OK;
    }
    if (!unpackers[codec](codecs, in, out, out_size)) {
        return mr_fail(err, MR_E_CORRUPT, "%s of a page does not unpack to %zu bytes",
                       mr_pq_codec_name(codec), out_size);
    }
    return MR_OK;
}

#if MR_HAVE_DEFLATE
uint32_t mr_pq_crc32(const uint8_t *data, size_t size) {
    return libdeflate_crc32(0, data, size);
}
#else
uint32_t mr_pq_crc32(const uint8_t *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0xEDB88320u & (0 - (crc & 1)));
        }
    }
    return ~crc;
}
#endif

/* ---- Zip archives, as numpy's savez_compressed writes them ---- */
typedef struct zip_entry {
    uint32_t method, packed, unpacked, local;
} zip_entry;

/* The directory stands at the end, and tells sizes also where the file's own header does not. */
static bool first_entry(mr_pq_bytes zip, zip_entry *out) {
    if (zip.size < 22) {
        return false;
    }
    const uint8_t *end = zip.data + zip.size - 22;
    uint32_t at = memcmp(end, "PK\5\6", 4) == 0 ? mr_pq_load_u32(end + 16) : UINT32_MAX;
    if (at >= zip.size || zip.size - at < 46 || memcmp(zip.data + at, "PK\1\2", 4) != 0) {
        return false;
    }
    const uint8_t *entry = zip.data + at;
    *out = (zip_entry){mr_pq_load_u32(entry + 10) & 0xFFFF, mr_pq_load_u32(entry + 20),
                       mr_pq_load_u32(entry + 24), mr_pq_load_u32(entry + 42)};
    return out->packed != UINT32_MAX && out->unpacked != UINT32_MAX;
}

static bool entry_bytes(mr_pq_bytes zip, const zip_entry *entry, mr_pq_bytes *out) {
    if (entry->local >= zip.size || zip.size - entry->local < 30 ||
        memcmp(zip.data + entry->local, "PK\3\4", 4) != 0) {
        return false;
    }
    uint32_t names = mr_pq_load_u32(zip.data + entry->local + 26);
    size_t begin = entry->local + 30 + (size_t)(names & 0xFFFF) + (names >> 16);
    if (begin > zip.size || entry->packed > zip.size - begin) {
        return false;
    }
    *out = (mr_pq_bytes){zip.data + begin, entry->packed};
    return true;
}

static bool inflate_entry(mr_pq_codecs *codecs, uint32_t method, mr_pq_bytes in, uint8_t *out,
                          size_t size) {
    if (method == 0) {
        return unpack_nothing(codecs, in, out, size);
    }
#if MR_HAVE_DEFLATE
    return method == 8 && libdeflate_deflate_decompress(codecs->deflate, in.data, in.size, out,
                                                        size, NULL) == LIBDEFLATE_SUCCESS;
#else
    return false;
#endif
}

mr_status mr_pq_unzip(mr_pq_decoder *decoder, mr_pq_bytes zip, mr_pq_bytes *out, mr_error *err) {
    zip_entry entry;
    mr_pq_bytes in;
    if (!first_entry(zip, &entry) || !entry_bytes(zip, &entry, &in)) {
        return mr_fail(err, MR_E_CORRUPT, "not an .npz file, or a damaged one");
    }
    if (entry.unpacked > decoder->limit) {
        return mr_fail(err, MR_E_LIMIT, "an array takes %u bytes", entry.unpacked);
    }
    uint8_t *memory = mr_pq_scratch_take(&decoder->page, entry.unpacked);
    if (!memory) {
        return mr_fail_memory(err, entry.unpacked);
    }
    *out = (mr_pq_bytes){memory, entry.unpacked};
    return inflate_entry(decoder->codecs, entry.method, in, memory, entry.unpacked)
               ? MR_OK
               : mr_fail(err, MR_E_CORRUPT, "an .npz file does not unpack");
}
