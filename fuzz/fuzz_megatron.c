/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of Megatron's .idx. The documents of what it accepts have all tokens.
 */
#include <stdlib.h>

#include "codecs/megatron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    mr_megatron index;
    int64_t sequence = 0, tokens = 0;
    mr_status status = mr_megatron_parse(data, size, &index, &err);
    if (status < 0) {
        want(err.code == status && err.text[0] != '\0');
        return 0;
    }
    for (int64_t i = 0; i < index.n_documents; i++) {
        int64_t n = mr_megatron_next(&index, i, &sequence);
        want(n >= 0);
        tokens += n;
    }
    want(tokens == index.n_tokens && sequence == index.n_sequences);
    return 0;
}
