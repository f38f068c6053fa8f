/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - see base64.h. */
#include "core/base64.h"

#include <stdint.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void mr_base64_encode(const unsigned char *bytes, size_t size, char *out) {
    size_t i = 0;
    for (; i + 3 <= size; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        *out++ = letters[bits >> 18];
        *out++ = letters[bits >> 12 & 63];
        *out++ = letters[bits >> 6 & 63];
        *out++ = letters[bits & 63];
    }
    if (i < size) { /* one or two are left */
        bool two = size - i == 2;
        uint32_t bits = (uint32_t)bytes[i] << 16 | (two ? (uint32_t)bytes[i + 1] << 8 : 0);
        *out++ = letters[bits >> 18];
        *out++ = letters[bits >> 12 & 63];
        *out = '=';
        if (two) {
            *out = letters[bits >> 6 & 63];
        }
        out++;
        *out++ = '=';
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
