/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizer.c - the reader of tokenizer.json. The first half of the input is the
 * pre-tokenizer, post-processor and the like; a vocabulary that is good is put in for "MODEL",
 * since hardly any input would have all 256 bytes. The second half, behind a zero byte, is encoded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MODEL_ROOM 8192

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static size_t put_character(char *out, unsigned character) {
    if (character < 0x80) {
        bool escaped = character == '"' || character == '\\';
        return (size_t)sprintf(out, "%s%c", escaped ? "\\" : "", (char)character);
    }
    return (size_t)sprintf(out, "%c%c", (char)(0xC0 | character >> 6),
                           (char)(0x80 | (character & 0x3F)));
}

/* All bytes as tokens, and three merges. */
static size_t put_model(char *out) {
    size_t n =
        (size_t)sprintf(out, "{\"type\":\"BPE\",\"vocab\":{\"ab\":256,\"abc\":257,\"aa\":258");
    unsigned place = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool own = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        n += (size_t)sprintf(out + n, ",\"");
        n += put_character(out + n, own ? byte : place++);
        n += (size_t)sprintf(out + n, "\":%u", byte);
    }
    return n + (size_t)sprintf(out + n, "},\"merges\":[\"a b\",[\"ab\",\"c\"],\"a a\"]}");
}

/* The document with every "MODEL" (quotes included) replaced; at most one, for the size. */
static char *fill_in(const uint8_t *data, size_t size, size_t *out_size) {
    static const char mark[] = "\"MODEL\"";
    char *out = malloc(size + MODEL_ROOM);
    const uint8_t *at = size ? memmem(data, size, mark, sizeof mark - 1) : NULL;
    size_t before = at ? (size_t)(at - data) : size;
    memcpy(out, data, before);
    *out_size = before;
    if (at) {
        size_t after = size - before - (sizeof mark - 1);
        *out_size += put_model(out + before);
        memcpy(out + *out_size, at + sizeof mark - 1, after);
        *out_size += after;
    }
    return out;
}

static void encode(const mr_tokenizer *tokenizer, const uint8_t *text, size_t size) {
    mr_error err = MR_ERROR_INIT;
    const int32_t *ids = NULL;
    size_t n = 0;
    mr_bpe *bpe = mr_bpe_new(tokenizer);
    want(bpe != NULL);
    for (int time = 0; time < 2; time++) { /* the second with a table of words */
        mr_status status = mr_bpe_encode(bpe, text, size, true, &ids, &n, &err);
        want(status == MR_OK || (status == err.code && err.text[0]));
        want(status != MR_OK || n <= 2 * size + 32);
    }
    mr_bpe_free(bpe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t head = zero ? (size_t)(zero - data) : size, length = 0;
    mr_error err = MR_ERROR_INIT;
    mr_tokenizer *tokenizer = NULL;
    char *json = fill_in(data, head, &length);
    mr_status status = mr_tokenizer_make(&tokenizer, json, length, &err);
    if (status == MR_OK && zero) {
        encode(tokenizer, zero + 1, size - head - 1);
    }
    want(status == MR_OK || (status == err.code && err.text[0]));
    mr_tokenizer_free(tokenizer);
    free(json);
    return 0;
}
