/* SPDX-License-Identifier: Apache-2.0 */
/* letters.h - text that is the same in capitals, whatever the host program's locale says.
 * strcasecmp, strcasestr and tolower ask it, and in Turkish I is not the capital of i. Here A to Z
 * have small letters, and every other byte is what it is. */
#ifndef MR_CORE_LETTERS_H
#define MR_CORE_LETTERS_H

#include <stdbool.h>
#include <stddef.h>

/* A to Z as small letters. */
char mr_small_letter(char c);

/* Whether the first n bytes are the same, or all up to a zero that both have there. */
bool mr_same_letters(const char *a, const char *b, size_t n);

/* Whether two texts are the same. */
bool mr_same_word(const char *a, const char *b);

/* Whether a text ends so. */
bool mr_ends_in_letters(const char *text, const char *ending);

/* Where the first `part` begins in a text, or NULL. */
const char *mr_find_letters(const char *text, const char *part);

#endif
