/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - rows and cells of text in memory: lines, and lines whose cells may be quoted. */
#ifndef MR_CODECS_CSV_H
#define MR_CODECS_CSV_H

#include <millrace/types.h>

typedef struct mr_text {
    const char *at, *end;
} mr_text;

/* The next line that is not empty (keep_empty: any), without its end (\n or \r\n). False: the text
 * ends. */
bool mr_text_line(mr_text *text, bool keep_empty, mr_text *line);

typedef struct mr_cell {
    const char *data; /* between the quotes */
    size_t size;
    bool is_quoted;
    bool has_quotes; /* quotes written twice, that stand for one */
    bool is_bad;     /* a quote is not closed, or something follows the one that closes */
} mr_cell;

/* The next cell of a row; true: it is the row's last, and the text stands after its end. */
bool mr_csv_cell(mr_text *text, char delimiter, mr_cell *cell);

/* The next row: its text, with its end; empty lines are stepped over. False: the text ends. *is_bad
 * where a cell is. */
bool mr_csv_row(mr_text *text, char delimiter, mr_text *row, bool *is_bad);

/* Writes what the cell means, which has no more bytes than the cell; returns how many. */
size_t mr_cell_copy(const mr_cell *cell, char *out);

#endif
