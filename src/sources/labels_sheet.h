/* SPDX-License-Identifier: Apache-2.0 */
/* labels_sheet.h - a list or a table of labels as text: all cells, row by row. What they mean is
 * for labels_survey.h to find out. */
#ifndef MR_SOURCES_LABELS_SHEET_H
#define MR_SOURCES_LABELS_SHEET_H

#include "sources/labels.h"

enum { MR_CELL_PART = 0x1F }; /* between the parts of a JSON array */

typedef struct mr_label_cell {
    char *text;
    bool is_text;   /* JSON says so: it is between quotes there */
    bool is_nested; /* JSON has lists or objects in it, which no label has, but for: */
    int64_t width;  /* lists of so many numbers each, one behind the other; 0: no lists */
    char split;     /* what separates its parts; 0: it has one */
} mr_label_cell;

/* All cells, row by row. */
typedef struct mr_label_sheet {
    const char *path;
    const char *unit; /* what `lines` counts; NULL: lines */
    char **headers;
    int32_t n_columns;
    mr_label_cell *cells;
    int64_t *lines;
    int64_t n_rows, capacity;
} mr_label_sheet;

/* Words an error: "line 3 of FILE" and what is wrong with it. */
mr_status mr_label_sheet_fail(const mr_label_sheet *s, int64_t line, const char *what,
                              const char *hint, mr_error *err);

/* The same for text that is to become a name (a class, a field) and is not UTF-8; where it is, OK.
 * Names of files may be any bytes. `of`: the column, or NULL for a column's own name. */
mr_status mr_label_sheet_check_text(const mr_label_sheet *s, int64_t line, const char *text,
                                    size_t length, const char *of, mr_error *err);

/* Fills an empty sheet, which is freed also where it fails. The text is changed. */
mr_status mr_label_sheet_read(mr_label_sheet *s, const mr_labels_origin *from, char *text,
                              mr_error *err);
mr_status mr_label_sheet_read_json(mr_label_sheet *s, char *text, mr_error *err);
void mr_label_sheet_free(mr_label_sheet *s);

/* ---- For who reads one ---- */
mr_status mr_label_sheet_set_headers(mr_label_sheet *s, int32_t n, mr_error *err);
/* Of empty cells. */
mr_status mr_label_sheet_add_row(mr_label_sheet *s, int64_t line, mr_error *err);
/* Of the last row; takes the text. */
mr_status mr_label_sheet_set_cell(mr_label_sheet *s, int32_t column, mr_label_cell value,
                                  mr_error *err);
/* Its text is NULL: no memory. */
mr_label_cell mr_label_cell_of_text(const char *text, size_t length);

/* The next part of a cell: *at moves behind it; NULL: there is none. */
const char *mr_label_cell_next(const mr_label_cell *c, const char **at, size_t *length);

bool mr_text_is_whole(const char *text, size_t length);
bool mr_text_is_number(const char *text, size_t length);

#endif
