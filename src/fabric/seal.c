/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - see seal.h. */
#include "fabric/seal.h"

#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

static const unsigned char MARK[8] = {'m', 'r', 's', 'e', 'a', 'l', '0', '1'};

static void write_number(unsigned char *to, uint64_t number) {
    for (int i = 0; i < 8; i++) {
        to[i] = (unsigned char)(number >> 8 * i);
    }
}

void mr_seal_write(unsigned char seal[MR_SEAL_SIZE], const void *key, size_t key_size,
                   const void *value, size_t size) {
    memcpy(seal, MARK, sizeof MARK);
    write_number(seal + 8, mr_hash64(key, key_size, 0));
    write_number(seal + 16, mr_hash64(value, size, 0));
}

void *mr_seal_open(const void *sealed, size_t size, const void *key, size_t key_size,
                   size_t *value_size, bool *memory) {
    const unsigned char *from = sealed;
    unsigned char wanted[8];
    write_number(wanted, mr_hash64(key, key_size, 0));
    if (size < MR_SEAL_SIZE || memcmp(from, MARK, sizeof MARK) != 0 ||
        memcmp(from + 8, wanted, sizeof wanted) != 0) {
        return NULL;
    }
    *value_size = size - MR_SEAL_SIZE;
    void *value = malloc(*value_size > 0 ? *value_size : 1);
    if (!value) {
        *memory = true;
        return NULL;
    }
    write_number(wanted, mr_hash64_copy(value, from + MR_SEAL_SIZE, *value_size));
    if (memcmp(from + 16, wanted, sizeof wanted) != 0) {
        free(value);
        return NULL;
    }
    return value;
}
