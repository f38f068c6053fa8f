/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - see base64.h. */
#include "core/base64.h"

#include <stdint.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void mr_base64_encode(const unsigned char *bytes, size_t size, char *out) {
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        bits |= n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= n > 2 ? bytes[i + 2] : 0;
        for (size_t k = 0; k < 4; k++) {
            *out++ = '=';
            if (k <= n) {
                out[-1] = letters[bits >> (18 - 6 * k) & 63];
            }
        }
    }
}

/* -1: it is none. */
static int sextet(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool mr_base64_decode(const char *text, size_t length, unsigned char *out, size_t *size) {
    uint32_t bits = 0;
    int n_bits = 0;
    *size = 0;
    while (length > 0 && text[length - 1] == '=') {
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        int value = sextet(text[i]);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[(*size)++] = (unsigned char)(bits >> n_bits);
        }
    }
    return true;
}
