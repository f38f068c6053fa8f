/* SPDX-License-Identifier: Apache-2.0 */
/* megatron.h - the .idx file beside Megatron's .bin: which tokens belong to which document. */
#ifndef MR_CODECS_MEGATRON_H
#define MR_CODECS_MEGATRON_H

#include <millrace/types.h>

typedef struct mr_megatron {
    mr_dtype dtype;
    int64_t n_tokens, n_documents;
    int64_t n_sequences;
    const unsigned char *lengths, *documents; /* in the file: int32 each, int64 each */
} mr_megatron;

/* Sequences must lie one behind the other, and documents must take them in their order. */
mr_status mr_megatron_parse(const unsigned char *file, size_t size, mr_megatron *out,
                            mr_error *err);

/* The tokens of a document; documents are asked for in their order, *sequence starts at 0. */
int64_t mr_megatron_next(const mr_megatron *index, int64_t document, int64_t *sequence);

#endif
