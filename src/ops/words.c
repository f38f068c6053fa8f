/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - tensors that hold words. */
#include "ops/words.h"

mr_status mr_words_plan(const mr_type *in, mr_type *out, mr_error *err) {
    if (in->dtype != MR_U8 || in->n_dims < 1 || in->layout != MR_PLAIN) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs words, uint8[?], not %s",
                       mr_type_text(in, text, sizeof text));
    }
    *out = *in;
    out->dtype = MR_I64;
    out->n_dims--;
    return MR_OK;
}

size_t mr_words_count(const mr_view *in) {
    size_t n = 1;
    for (int32_t i = 0; i + 1 < in->type.n_dims; i++) {
        n *= (size_t)in->type.dims[i];
    }
    return n;
}

mr_word mr_word_at(const mr_view *in, size_t i) {
    size_t width = (size_t)in->type.dims[in->type.n_dims - 1];
    mr_word word = {(const uint8_t *)in->data + i * width, width};
    while (in->type.n_dims > 1 && word.size > 0 && word.bytes[word.size - 1] == 0) {
        word.size--;
    }
    return word;
}
