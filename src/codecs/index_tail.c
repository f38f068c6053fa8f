/* SPDX-License-Identifier: Apache-2.0 */
/* index_tail.c - see index_tail.h. */
#include "codecs/index_tail.h"

#include <string.h>

enum { WORD = 8 };
static const char mark[WORD + 1] = "MRINDEX1";

mr_index mr_index_tail_split(const uint8_t *bytes, size_t *size) {
    uint64_t length = 0;
    if (*size < MR_INDEX_TAIL || memcmp(bytes + *size - WORD, mark, WORD) != 0) {
        return (mr_index){NULL, 0};
    }
    const uint8_t *at = bytes + *size - MR_INDEX_TAIL;
    for (int i = 0; i < WORD; i++) {
        length |= (uint64_t)at[i] << (8 * i);
    }
    if (length == 0 || length > *size - MR_INDEX_TAIL) {
        return (mr_index){NULL, 0};
    }
    *size -= MR_INDEX_TAIL + (size_t)length;
    return (mr_index){bytes + *size, (size_t)length};
}

void mr_index_tail_end(uint8_t *out, size_t index_size) {
    for (int i = 0; i < WORD; i++) {
        out[i] = (uint8_t)((uint64_t)index_size >> (8 * i));
    }
    memcpy(out + WORD, mark, WORD);
}
