/* SPDX-License-Identifier: Apache-2.0 */
/* index_tail.h - a file and what a codec found out about it, one behind the other.
 *
 *     the file | its index | 8 bytes: how long the index is | "MRINDEX1"
 *
 * Image files end where their format says, so that other readers do not see what follows. */
#ifndef MR_CODECS_INDEX_TAIL_H
#define MR_CODECS_INDEX_TAIL_H

#include "codecs/codec.h"

enum { MR_INDEX_TAIL = 16 }; /* bytes beside the index */

/* The index behind a file, whose own size *size becomes; nothing where there is none. */
mr_index mr_index_tail_split(const uint8_t *bytes, size_t *size);

/* Writes the last MR_INDEX_TAIL bytes. */
void mr_index_tail_end(uint8_t *out, size_t index_size);

#endif
