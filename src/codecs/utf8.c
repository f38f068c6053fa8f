/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - whether bytes are UTF-8, and classes of characters. */
#include "codecs/unicode.h"

#include <string.h>

/* Bytes of the sequence that a lead byte begins, and the range of the byte behind it: what is too
 * long for its value, a surrogate or beyond the last character shows there. */
typedef struct sequence {
    uint32_t length;
    uint8_t low, high;
} sequence;

static sequence sequence_of(uint8_t lead) {
    if (lead >= 0xC2 && lead <= 0xDF) {
        return (sequence){2, 0x80, 0xBF};
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        return (sequence){3, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF};
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        return (sequence){4, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF};
    }
    return (sequence){lead < 0x80 ? 1 : 0, 0, 0};
}

static bool is_sequence(const uint8_t *at, size_t left, uint32_t *length) {
    sequence s = sequence_of(at[0]);
    *length = s.length;
    if (s.length == 0 || s.length > left) {
        return false;
    }
    bool good = s.length == 1 || (at[1] >= s.low && at[1] <= s.high);
    for (uint32_t i = 2; i < s.length; i++) {
        good = good && (at[i] & 0xC0) == 0x80;
    }
    return good;
}

size_t mr_utf8_check(const uint8_t *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        uint64_t eight = 0x80;
        uint32_t length = 0;
        if (size - at >= 8) {
            memcpy(&eight, text + at, sizeof eight);
        }
        if ((eight & 0x8080808080808080u) == 0) {
            at += 8;
        } else if (is_sequence(text + at, size - at, &length)) {
            at += length;
        } else {
            return at;
        }
    }
    return size;
}

void mr_classes_make(mr_classes *classes) {
    memset(classes->table, MR_OTHER, sizeof classes->table);
    for (int32_t i = 0; i < mr_n_class_ranges; i++) {
        const mr_class_range *range = &mr_class_ranges[i];
        for (uint32_t c = range->first; c <= range->last && c < 65536; c++) {
            classes->table[c] = (uint8_t)range->class;
        }
    }
}

mr_class mr_class_search(uint32_t character) {
    int32_t from = 0, to = mr_n_class_ranges;
    while (from < to) {
        int32_t middle = (from + to) / 2;
        const mr_class_range *range = &mr_class_ranges[middle];
        if (character < range->first) {
            to = middle;
        } else if (character > range->last) {
            from = middle + 1;
        } else {
            return range->class;
        }
    }
    return MR_OTHER;
}
