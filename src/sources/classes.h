/* SPDX-License-Identifier: Apache-2.0 */
/* classes.h - the names of classes that a user gives, in the order of their numbers, so that two
 * sets have the same numbers though one of them lacks a class.
 *
 * The parameter is JSON: a list of names, the path of a file with a name on each line, or an object
 * of these by field. Without it each set numbers the names that it has. */
#ifndef MR_SOURCES_CLASSES_H
#define MR_SOURCES_CLASSES_H

#include <stdbool.h>

#include "sources/sorted.h"

typedef struct mr_classes {
    char **names;
    int64_t n;
    mr_sorted sorted;
    bool given;
} mr_classes;

/* What can be told of the parameter before files are read. */
mr_status mr_classes_check(const char *param, mr_error *err);

/* Those of a field; of a list or a file, which name none, those of every field. An empty list gives
 * nothing: it is what loader.classes has where labels are no names. mr_classes_free is due even on
 * failure. */
mr_status mr_classes_load(mr_classes *out, const char *param, const char *field, mr_error *err);

/* A field that the parameter names and that is none of these; *name is freed by the caller (free),
 * NULL: there is none. */
mr_status mr_classes_stranger(const char *param, const char *const *fields, int32_t n, char **name,
                              mr_error *err);

/* Whether the parameter is a list or a file, which is not read. */
mr_status mr_classes_name_no_field(const char *param, bool *out, mr_error *err);

/* -1: it is none of the classes. */
int64_t mr_classes_number(const mr_classes *classes, const char *name);

/* Gives the names away for others, which are freed in their place. */
void mr_classes_swap(mr_classes *classes, char ***names, int64_t *n);

/* What to do about a name that is none of the classes: take the nearest, if one is near, else add
 * it or `otherwise`. */
void mr_classes_hint(const mr_classes *classes, const char *name, const char *otherwise, char *out,
                     size_t size);

void mr_classes_free(mr_classes *classes);

#endif
