/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as text (RFC 4648): base64, and the digits of base16. */
#ifndef MR_CORE_BASE64_H
#define MR_CORE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Its value; -1: it is none. */
static inline int mr_hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Letters for so many bytes, with padding. */
static inline size_t mr_base64_length(size_t size) {
    return (size + 2) / 3 * 4;
}

/* Writes mr_base64_length(size) letters and no zero byte. */
void mr_base64_encode(const unsigned char *bytes, size_t size, char *out);

/* With or without padding; `out` has room for 3 bytes for every 4 letters begun. False: a letter
 * that is none. */
bool mr_base64_decode(const char *text, size_t length, unsigned char *out, size_t *size);

#endif
