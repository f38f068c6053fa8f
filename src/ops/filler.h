/* SPDX-License-Identifier: Apache-2.0 */
/* filler.h - a number as an element of any type, and memory full of it: what stands where values
 * that lie side by side have nothing. */
#ifndef MR_OPS_FILLER_H
#define MR_OPS_FILLER_H

#include <millrace/op.h>

typedef struct mr_filler {
    unsigned char bytes[8];
    size_t size; /* of an element */
} mr_filler;

/* A number that the type does not have is refused. */
mr_status mr_filler_make(mr_filler *out, mr_dtype dtype, double value, mr_error *err);
void mr_filler_fill(const mr_filler *filler, void *to, size_t elements);

#endif
