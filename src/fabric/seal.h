/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h - what stands before a value in a fabric: a mark, a hash of its key and one of its bytes.
 * What comes back under another key, cut, or changed, is told from what was put. */
#ifndef MR_FABRIC_SEAL_H
#define MR_FABRIC_SEAL_H

#include <millrace/types.h>

enum { MR_SEAL_SIZE = 24 };

void mr_seal_write(unsigned char seal[MR_SEAL_SIZE], const void *key, size_t key_size,
                   const void *value, size_t size);

/* The value of sealed bytes, as new memory; NULL: damaged, or (*memory) there is no memory. */
void *mr_seal_open(const void *sealed, size_t size, const void *key, size_t key_size,
                   size_t *value_size, bool *memory);

#endif
