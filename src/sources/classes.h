/* SPDX-License-Identifier: Apache-2.0 */
/* classes.h - the names of classes that a user gives, in the order of their numbers, so that two
 * sets have the same numbers though one of them lacks a class.
 *
 * The parameter is JSON: a list of names, the path of a file with a name on each line, or an object
 * of these by field. Without it each set numbers the names that it has. */
#ifndef MR_SOURCES_CLASSES_H
#define MR_SOURCES_CLASSES_H

#include <millrace/types.h>
#include <stdbool.h>

typedef struct mr_classes {
    char **names;
    int64_t n;
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

/* numbers[i] becomes the number of found[i], sorted names; -1: it is none of the classes. */
mr_status mr_classes_number(const mr_classes *classes, char *const *found, int64_t n,
                            int64_t *numbers, mr_error *err);

/* What to do about a name that is none of the classes: take the nearest, if one is near, else add
 * it or `otherwise`. */
void mr_classes_hint(const mr_classes *classes, const char *name, const char *otherwise, char *out,
                     size_t size);

void mr_classes_free(mr_classes *classes);

#endif
