/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h - a whole compressed file, unpacked into memory. */
#ifndef MR_CODECS_UNPACK_H
#define MR_CODECS_UNPACK_H

#include <millrace/types.h>

typedef enum mr_packing { MR_NOT_PACKED, MR_GZIP, MR_ZSTD, MR_LZ4 } mr_packing;

/* By the name's ending: .gz, .tgz, .zst, .zstd, .lz4. */
mr_packing mr_packing_of(const char *path);

/* *out has *n bytes and is freed with free. More than `limit` bytes are MR_E_LIMIT, and no more
 * memory than that (and what was unpacked before it) is ever taken; with `head` the first `limit`
 * bytes are all that is asked for. err->offset is the byte of the packed file. */
mr_status mr_unpack_file(mr_packing packing, const void *data, size_t size, size_t limit, bool head,
                         unsigned char **out, size_t *n, mr_error *err);

/* Likewise, but of what is unpacked only the first `keep` bytes are kept, and no memory is taken
 * for the rest. All of it is unpacked nevertheless, since checksums are at the end. */
mr_status mr_unpack_beginning(mr_packing packing, const void *data, size_t size, size_t keep,
                              size_t limit, unsigned char **out, size_t *n, mr_error *err);

/* Likewise, but gives what is unpacked away piece by piece, and keeps nothing. What take returns
 * below MR_OK ends it. */
typedef mr_status mr_unpack_take(void *user, const unsigned char *bytes, size_t n, mr_error *err);
mr_status mr_unpack_stream(mr_packing packing, const void *data, size_t size, size_t limit,
                           mr_unpack_take *take, void *user, mr_error *err);

#endif
