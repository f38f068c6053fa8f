/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_decode_png.c - the png codec on arbitrary bytes. Chunks are given right CRCs first, else
 * hardly anything would get past them; how wrong ones are refused is tests/unit/test_codecs.c's. */
#include "decode.h"

static uint32_t read_32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc_32(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    return ~crc;
}

static void mend(uint8_t *png, size_t size) {
    size_t at = 8;
    while (at <= size && size - at >= 12 && read_32(png + at) <= size - at - 12) {
        size_t length = read_32(png + at);
        uint32_t crc = crc_32(png + at + 4, length + 4);
        for (int i = 0; i < 4; i++) {
            png[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        }
        at += 12 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *png = malloc(size ? size : 1);
    memcpy(png, data, size);
    mend(png, size);
    fuzz_decode("png", png, size);
    free(png);
    return 0;
}
