/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.h - UTF-8, and the classes of characters that tokenizers tell apart. */
#ifndef MR_CODECS_UNICODE_H
#define MR_CODECS_UNICODE_H

#include <millrace/types.h>

#include "codecs/utf8.h"

typedef enum mr_class { MR_OTHER, MR_LETTER, MR_NUMBER, MR_SPACE } mr_class;

typedef struct mr_class_range {
    uint32_t first, last;
    mr_class class;
} mr_class_range;

extern const mr_class_range mr_class_ranges[]; /* in rising order */
extern const int32_t mr_n_class_ranges;

/* Classes by character: a table up to 0xFFFF, a search above. */
typedef struct mr_classes {
    uint8_t table[65536];
} mr_classes;

void mr_classes_make(mr_classes *classes);
mr_class mr_class_search(uint32_t character);

/* The character at `at` of valid text, and its length. */
static inline uint32_t mr_utf8_get(const uint8_t *at, uint32_t *length) {
    uint32_t lead = at[0];
    if (lead < 0x80) {
        *length = 1;
        return lead;
    }
    if (lead < 0xE0) {
        *length = 2;
        return (lead & 0x1F) << 6 | (at[1] & 0x3Fu);
    }
    if (lead < 0xF0) {
        *length = 3;
        return (lead & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    }
    *length = 4;
    return (lead & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
}

static inline mr_class mr_class_of(const mr_classes *classes, uint32_t character) {
    return character < 65536 ? (mr_class)classes->table[character] : mr_class_search(character);
}

#endif
