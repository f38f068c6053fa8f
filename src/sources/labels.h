/* SPDX-License-Identifier: Apache-2.0 */
/* labels.h - what is known about files, from a list or a table: typed columns, a row for each file.
 *
 * A column is all of one kind: whole numbers, numbers, names, several of these for each file, or
 * other files. What is not, is an error that names the line. */
#ifndef MR_SOURCES_LABELS_H
#define MR_SOURCES_LABELS_H

#include <millrace/param.h>
#include <stdbool.h>

/* A sample has the image, the path and the index beside the columns. */
enum { MR_LABEL_COLUMNS = MR_FIELDS_LIMIT - 3, MR_LABEL_NAME = 64 };

typedef struct mr_label_column {
    char name[MR_LABEL_NAME];
    mr_type type;    /* int64 or float32: one, n, or a number that varies, each a row of numbers
                        where the type has two dimensions; of files uint8[?] */
    bool is_file;    /* its values are paths; `texts` has them */
    bool beside;     /* paths are relative to the table's own folder, not to the root */
    int64_t *starts; /* row r has the values starts[r] to starts[r + 1] - 1 */
    int64_t *whole;  /* values: whole numbers, or numbers of classes */
    float *numbers;  /* values, where the type is float32 */
    char **texts;
    char **classes; /* names, sorted or as given; NULL where values are not names */
    int64_t n_classes;
} mr_label_column;

typedef struct mr_labels {
    int64_t n_rows;
    char **names;            /* of the files, by row */
    char key[MR_LABEL_NAME]; /* the header of their column */
    int64_t *lines;
    int64_t *by_name; /* rows, sorted by name; only of tables */
    int32_t n_columns;
    mr_label_column *columns;
    mr_label_column *unread; /* columns of files that nobody chose: they name files all the same */
    int32_t n_unread;
} mr_labels;

/* Where labels come from. A list has a path and a label on each line: one column, called label. A
 * table is CSV or TSV with a header, or JSON lines, as its ending says (.jsonl, .ndjson, .json).
 * The files' names are in its column file_name, filename, file, path, image or the like, else in
 * the first that names files of these extensions, else in the first one. A column without a name,
 * as pandas writes it, is left out. */
typedef struct mr_labels_origin {
    const char *path;
    bool is_list;
    mr_strings columns;    /* of a table, to take; none: all */
    mr_strings extensions; /* a column of names that all end so is one of files */
    const char *root;      /* so is one of names with any ending that are found below this folder or
                              beside the table; NULL: nothing is looked for */
    const char *classes; /* that names are to be (classes.h); NULL: those that are found, sorted */
} mr_labels_origin;

mr_status mr_labels_load(mr_labels **out, const mr_labels_origin *from, mr_error *err);

/* The same from text, which is changed. */
mr_status mr_labels_parse(mr_labels **out, const mr_labels_origin *from, char *text, mr_error *err);

/* The folder that a path lies in, with its slash; NULL: no memory. */
char *mr_labels_folder(const char *path);

/* The row of exactly this name; -1: none. */
int64_t mr_labels_find_exactly(const mr_labels *labels, const char *name);

/* The row of a file: its name, then without folders, then without its ending; -1: none. */
int64_t mr_labels_find(const mr_labels *labels, const char *name);

/* A row's value, as a source gives it. Not for columns of files. */
void mr_labels_fill(const mr_label_column *column, int64_t row, mr_view *out);

/* Changes when a value changes. */
uint64_t mr_labels_hash(const mr_labels *labels, int64_t row, uint64_t seed);

/* Changes when a class gets another name, though its number stays; seed where there are none. */
uint64_t mr_labels_hash_classes(const mr_labels *labels, uint64_t seed);

void mr_labels_free(mr_labels *labels); /* NULL allowed */

bool mr_has_ending(const mr_strings *endings, const char *path); /* any, where there are none */

#endif
