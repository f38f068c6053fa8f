/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - see pack.h. */
#include "store/pack.h"

#include <limits.h>

#ifdef MR_HAVE_LZ4
#include <lz4.h>

static size_t lz4_room(size_t raw) {
    return raw <= LZ4_MAX_INPUT_SIZE ? (size_t)LZ4_compressBound((int)raw) : 0;
}

static size_t lz4_pack(const void *from, size_t raw, void *to, size_t room) {
    int size = raw <= LZ4_MAX_INPUT_SIZE && room <= INT_MAX
                   ? LZ4_compress_default(from, to, (int)raw, (int)room)
                   : 0;
    return size > 0 ? (size_t)size : 0;
}

static bool lz4_unpack(const void *from, size_t stored, void *to, size_t raw) {
    return stored <= INT_MAX && raw <= INT_MAX &&
           LZ4_decompress_safe(from, to, (int)stored, (int)raw) == (int)raw;
}
#endif

#ifdef MR_HAVE_ZSTD
#include <zstd.h>

enum {
    ZSTD_LEVEL = 1
}; /* what is packed once is unpacked every epoch; higher levels gain little */

static size_t zstd_pack(const void *from, size_t raw, void *to, size_t room) {
    size_t size = ZSTD_compress(to, room, from, raw, ZSTD_LEVEL);
    return ZSTD_isError(size) ? 0 : size;
}

static bool zstd_unpack(const void *from, size_t stored, void *to, size_t raw) {
    return ZSTD_decompress(to, raw, from, stored) == raw;
}
#endif

typedef struct packer {
    size_t (*room)(size_t raw);
    size_t (*pack)(const void *from, size_t raw, void *to, size_t room);
    bool (*unpack)(const void *from, size_t stored, void *to, size_t raw);
} packer;

static const packer packers[] = {
#ifdef MR_HAVE_LZ4
    [MR_PACK_LZ4] = {lz4_room, lz4_pack, lz4_unpack},
#endif
#ifdef MR_HAVE_ZSTD
    [MR_PACK_ZSTD] = {ZSTD_compressBound, zstd_pack, zstd_unpack},
#endif
    {NULL, NULL, NULL},
};

static const packer *find(int32_t packing) {
    bool known = packing > MR_PACK_NONE && (size_t)packing < sizeof packers / sizeof *packers;
    return known && packers[packing].pack ? &packers[packing] : NULL;
}

bool mr_can_pack(int32_t packing) {
    return packing == MR_PACK_NONE || find(packing) != NULL;
}

size_t mr_pack_room(int32_t packing, size_t raw) {
    const packer *p = find(packing);
    return p ? p->room(raw) : 0;
}

size_t mr_pack(int32_t packing, const void *from, size_t raw, void *to, size_t room) {
    const packer *p = find(packing);
    return p ? p->pack(from, raw, to, room) : 0;
}

bool mr_unpack(int32_t packing, const void *from, size_t stored, void *to, size_t raw) {
    const packer *p = find(packing);
    return p && p->unpack(from, stored, to, raw);
}
