/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - compression of stored values. Which libraries there are is decided by the build. */
#ifndef MR_STORE_PACK_H
#define MR_STORE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_PACK_NONE, MR_PACK_LZ4, MR_PACK_ZSTD }; /* stored: numbers never change */

bool mr_can_pack(int32_t packing);
size_t mr_pack_room(int32_t packing, size_t raw); /* the most that packing may need */

/* Packed size, or 0 on failure. */
size_t mr_pack(int32_t packing, const void *from, size_t raw, void *to, size_t room);

/* False unless exactly `raw` bytes come out. */
bool mr_unpack(int32_t packing, const void *from, size_t stored, void *to, size_t raw);

#endif
