/* SPDX-License-Identifier: Apache-2.0 */
/* leaf.c - see leaf.h. */
#include "store/leaf.h"

#include <stdint.h>
#include <string.h>

/* A page: its number, a reserve, flags, two marks, then the places of its nodes up to the lower
 * mark. Nodes lie between the upper mark and the end, each at an even place. */
enum { FLAGS_AT = 10, LOWER_AT = 12, UPPER_AT = 14, HEADER = 16, PLACE = 2, LEAF = 2 };
enum { LARGEST = 32768 }; /* page that LMDB has */

/* A node: the size of its data in two halves, flags (data elsewhere, a table), the size of its
 * key. */
enum { LOW_AT = 0, HIGH_AT = 2, KIND_AT = 4, KEY_AT = 6, NODE_HEADER = 8 };

static size_t number_at(const unsigned char *bytes, size_t at) {
    uint16_t number;
    memcpy(&number, bytes + at, sizeof number);
    return number;
}

/* How long the node at a place is; 0: it cannot be one. */
static size_t node_size(const unsigned char *page, size_t at, size_t upper, size_t size) {
    if (at < upper || at + NODE_HEADER > size || at % 2 != 0) {
        return 0;
    }
    const unsigned char *node = page + at;
    size_t data = number_at(node, LOW_AT) | number_at(node, HIGH_AT) << 16;
    size_t whole = (NODE_HEADER + number_at(node, KEY_AT) + data + 1) & ~(size_t)1;
    return number_at(node, KIND_AT) == 0 && whole <= size - at ? whole : 0;
}

/* Takes the places of a node, of which nobody may have one yet. */
static bool take_places(unsigned char *taken, size_t at, size_t length) {
    bool free = memchr(taken + at / 2, 1, length / 2) == NULL;
    memset(taken + at / 2, 1, length / 2);
    return free;
}

/* Nodes that share nothing and are as long together as the part they lie in fill it. */
bool mr_leaf_is_sound(const void *page, size_t size) {
    const unsigned char *bytes = page;
    unsigned char taken[LARGEST / 2] = {0};
    size_t lower = number_at(bytes, LOWER_AT), upper = number_at(bytes, UPPER_AT), sum = 0;
    bool sound = size <= LARGEST && number_at(bytes, FLAGS_AT) == LEAF && lower >= HEADER &&
                 lower % PLACE == 0 && lower <= upper && upper <= size;
    for (size_t at = HEADER; sound && at < lower; at += PLACE) {
        size_t node = number_at(bytes, at), length = node_size(bytes, node, upper, size);
        sound = length > 0 && take_places(taken, node, length);
        sum += length;
    }
    return sound && sum == size - upper;
}
