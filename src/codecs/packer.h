/* SPDX-License-Identifier: Apache-2.0 */
/* packer.h - compresses bytes as they come into one zstd or lz4 frame, with a checksum in it; the
 * other end of unpack.h. */
#ifndef MR_CODECS_PACKER_H
#define MR_CODECS_PACKER_H

#include "codecs/unpack.h"

typedef struct mr_packer mr_packer;

/* Takes packed bytes. */
typedef mr_status mr_packed_sink(void *user, const void *data, size_t size, mr_error *err);

/* MR_E_UNSUPPORTED: this build has no library for it. */
mr_status mr_packer_open(mr_packer **out, mr_packing packing, mr_packed_sink *sink, void *user,
                         mr_error *err);
mr_status mr_packer_put(mr_packer *packer, const void *data, size_t size, mr_error *err);
mr_status mr_packer_end(mr_packer *packer, mr_error *err); /* the frame is whole */
void mr_packer_close(mr_packer *packer);                   /* NULL is allowed */

#endif
