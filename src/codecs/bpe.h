/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.h - text to token ids, for one worker. */
#ifndef MR_CODECS_BPE_H
#define MR_CODECS_BPE_H

#include "codecs/tokenizer.h"

typedef struct mr_bpe mr_bpe;

/* NULL: no memory. The tokenizer must outlive it. */
mr_bpe *mr_bpe_new(const mr_tokenizer *tokenizer);
void mr_bpe_free(mr_bpe *bpe); /* NULL allowed */

/* The ids of a text, valid until the next call. Text that is not UTF-8 is MR_E_CORRUPT. */
mr_status mr_bpe_encode(mr_bpe *bpe, const uint8_t *text, size_t size, bool add_special_tokens,
                        const int32_t **ids, size_t *n, mr_error *err);

#endif
