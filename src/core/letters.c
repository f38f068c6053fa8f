/* SPDX-License-Identifier: Apache-2.0 */
/* letters.c - see letters.h. */
#include "core/letters.h"

#include <string.h>

char mr_small_letter(char c) {
    if (c < 'A' || c > 'Z') {
        return c;
    }
    return (char)(c - 'A' + 'a');
}

bool mr_same_letters(const char *a, const char *b, size_t n) {
    size_t i = 0;
    while (i < n && mr_small_letter(a[i]) == mr_small_letter(b[i])) {
        if (a[i++] == '\0') {
            return true;
        }
    }
    return i == n;
}

bool mr_same_word(const char *a, const char *b) {
    return mr_same_letters(a, b, strlen(a) + 1);
}

bool mr_ends_in_letters(const char *text, const char *ending) {
    const size_t length = strlen(text), n = strlen(ending);
    return n <= length && mr_same_letters(text + length - n, ending, n);
}

const char *mr_find_letters(const char *text, const char *part) {
    const size_t n = strlen(part);
    for (const char *at = text, *last = text + strlen(text); n <= (size_t)(last - at); at++) {
        if (mr_same_letters(at, part, n)) {
            return at;
        }
    }
    return NULL;
}
