/* SPDX-License-Identifier: Apache-2.0 */
/* npz.h - the members of an .npz file, which is a zip of .npy files: those that are stored, not
 * compressed, lie in it as they are. */
#ifndef MR_CODECS_NPZ_H
#define MR_CODECS_NPZ_H

#include <millrace/types.h>

typedef struct mr_npz_member {
    char name[64]; /* without .npy */
    size_t data, size;
} mr_npz_member;

/* Members in the order of the zip's directory; *at starts at 0. MR_END: there are no more. */
mr_status mr_npz_next(const unsigned char *file, size_t size, size_t *at, mr_npz_member *out,
                      mr_error *err);

#endif
