/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the check of pages of a store's index. From a page that passes it all nodes are
 * deleted as LMDB deletes them, one by one and in any order: nothing may be moved beyond the page.
 * The first byte says in which order. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/leaf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOWER_AT = 12, UPPER_AT = 14, HEADER = 16, NODE_HEADER = 8 };

static size_t number_at(const uint8_t *page, size_t at) {
    return (size_t)page[at] | (size_t)page[at + 1] << 8;
}

static void put_number(uint8_t *page, size_t at, size_t number) {
    page[at] = (uint8_t)number;
    page[at + 1] = (uint8_t)(number >> 8);
}

static size_t node_bytes(const uint8_t *page, size_t node) {
    size_t data = number_at(page, node) | number_at(page, node + 2) << 16;
    return (NODE_HEADER + number_at(page, node + 6) + data + 1) & ~(size_t)1;
}

/* What lies before the node moves up by its length, and so do the places of that. */
static void delete_node(uint8_t *page, size_t index) {
    size_t lower = number_at(page, LOWER_AT), upper = number_at(page, UPPER_AT), to = HEADER;
    size_t node = number_at(page, HEADER + 2 * index), length = node_bytes(page, node);
    for (size_t at = HEADER; at < lower; at += 2) {
        size_t place = number_at(page, at);
        if (at != HEADER + 2 * index) {
            put_number(page, to, place < node ? place + length : place);
            to += 2;
        }
    }
    memmove(page + upper + length, page + upper, node - upper);
    put_number(page, LOWER_AT, lower - 2);
    put_number(page, UPPER_AT, upper + length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 + HEADER) {
        return 0;
    }
    size_t order = data[0], page_size = size - 1;
    uint8_t *page = malloc(page_size); /* its end is where memory ends */
    memcpy(page, data + 1, page_size);
    while (mr_leaf_is_sound(page, page_size) && number_at(page, LOWER_AT) > HEADER) {
        size_t nodes = (number_at(page, LOWER_AT) - HEADER) / 2;
        delete_node(page, order % nodes);
        if (!mr_leaf_is_sound(page, page_size)) {
            abort(); /* deleting keeps a sound page sound */
        }
    }
    free(page);
    return 0;
}
