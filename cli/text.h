/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - words and figures for people and for JSON. */
#ifndef MR_CLI_TEXT_H
#define MR_CLI_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Copies text, writing what mr_text_visible does not count as \xNN. Cuts what does not fit. Returns
 * buffer. */
char *mr_text_safe(char *buffer, size_t size, const char *text);

/* Writes text as a part of a page or of one of its attributes. */
void mr_text_html(FILE *out, const char *text);

/* A JSON string of any bytes, made safe likewise; NULL gives null. */
json_t *mr_json_text(const char *text);

/* Prints the object on one line and frees it. Numbers with a fraction get so many digits. */
enum { MR_DIGITS_SHORT = 9, MR_DIGITS_EXACT = 17 };
void mr_json_print(json_t *object, size_t digits);

char *mr_text_bytes(char *buffer, size_t size, int64_t bytes);  /* "77.1 MB" */
char *mr_text_count(char *buffer, size_t size, int64_t number); /* "1,234,567" */
char *mr_text_rate(char *buffer, size_t size, double rate);     /* "1,234" or "3.21" */
char *mr_text_time(char *buffer, size_t size, double seconds);  /* "0:12" or "1:02:03" */
const char *mr_text_plural(int64_t n, const char *one, const char *many);

/* Prints paragraphs broken into lines of at most 80 columns. The first line starts at column
 * `at`, the others are indented by `indent`. Ends with a newline. */
void mr_text_wrap(FILE *out, const char *text, int at, int indent);

bool mr_terminal(FILE *stream); /* and not a dumb one */

/* Of the terminal that standard error is, now; 80 by 24 where it does not tell. */
typedef struct mr_terminal_size {
    int columns, rows;
} mr_terminal_size;
mr_terminal_size mr_terminal_size_now(void);

bool mr_colour(FILE *stream); /* a terminal, and NO_COLOR is not set */

#endif
