/* SPDX-License-Identifier: Apache-2.0 */
/* exif.c - the orientation of a picture. Reads one tag of the first directory and nothing else. */
#include "codecs/exif.h"

#include <stdbool.h>
#include <string.h>

enum { ABSENT = -1, TAG_ORIENTATION = 0x0112, ENTRY_SIZE = 12 };

typedef struct tiff {
    const uint8_t *bytes;
    size_t size;
    bool big_endian;
} tiff;

static uint32_t read_16(const tiff *t, size_t at) {
    const uint8_t *p = t->bytes + at;
    return t->big_endian ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t read_32(const tiff *t, size_t at) {
    uint32_t first = read_16(t, at), second = read_16(t, at + 2);
    return t->big_endian ? first << 16 | second : second << 16 | first;
}

static bool tiff_open(tiff *t, const uint8_t *bytes, size_t size) {
    static const char prefix[6] = "Exif\0";
    for (int i = 0; i < 2 && size >= 6 && memcmp(bytes, prefix, 6) == 0; i++) {
        bytes += 6;
        size -= 6;
    }
    if (size < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0)) {
        return false;
    }
    *t = (tiff){bytes, size, bytes[0] == 'M'};
    return true;
}

/* The first value of an entry: a whole number of 16 or 32 bits, else ABSENT. Up to four bytes of
 * values stand in the entry itself, more stand elsewhere. */
static int64_t entry_value(const tiff *t, size_t at) {
    enum { SHORT = 3, LONG = 4, SIGNED_SHORT = 8, SIGNED_LONG = 9 };
    uint32_t type = read_16(t, at + 2), count = read_32(t, at + 4);
    bool is_short = type == SHORT || type == SIGNED_SHORT;
    if ((!is_short && type != LONG && type != SIGNED_LONG) || count == 0) {
        return ABSENT;
    }
    size_t value_at = at + 8;
    if (count > (is_short ? 2 : 1)) {
        value_at = read_32(t, at + 8);
    }
    if (value_at > t->size - 4) {
        return ABSENT;
    }
    return is_short ? read_16(t, value_at) : read_32(t, value_at);
}

static int64_t exif_orientation(const uint8_t *bytes, size_t size) {
    tiff t;
    if (!tiff_open(&t, bytes, size)) {
        return ABSENT;
    }
    size_t at = read_32(&t, 4);
    if (at > t.size - 2) {
        return ABSENT;
    }
    uint32_t count = read_16(&t, at);
    at += 2;
    for (uint32_t i = 0; i < count && t.size - at >= ENTRY_SIZE; i++, at += ENTRY_SIZE) {
        if (read_16(&t, at) == TAG_ORIENTATION) {
            return entry_value(&t, at);
        }
    }
    return ABSENT;
}

/* XMP says tiff:Orientation="6" or <tiff:Orientation>6</...>. */
static int64_t xmp_orientation(const uint8_t *bytes, size_t size) {
    static const char name[] = "tiff:Orientation";
    const uint8_t *end = bytes + size;
    const uint8_t *at = bytes;
    while ((at = memmem(at, (size_t)(end - at), name, sizeof name - 1)) != NULL) {
        at += sizeof name - 1;
        size_t left = (size_t)(end - at);
        size_t mark = left >= 2 && memcmp(at, "=\"", 2) == 0 ? 2 : left >= 1 && at[0] == '>';
        if (mark > 0 && left > mark && at[mark] >= '0' && at[mark] <= '9') {
            return at[mark] - '0';
        }
    }
    return ABSENT;
}

int32_t mr_orientation(const mr_metadata *metadata) {
    int64_t value = ABSENT;
    if (metadata->exif_size > 0) {
        value = exif_orientation(metadata->exif, metadata->exif_size);
    }
    if (value == ABSENT && metadata->xmp_size > 0) {
        value = xmp_orientation(metadata->xmp, metadata->xmp_size);
    }
    return value >= 1 && value <= 8 ? (int32_t)value : 1;
}
