/* SPDX-License-Identifier: Apache-2.0 */
/* patterns.h - names of many files, written short: lists, braces, wildcards, folders. */
#ifndef MR_IO_PATTERNS_H
#define MR_IO_PATTERNS_H

#include <millrace/param.h>

#define MR_NAMES_MAX 1000000

typedef struct mr_names {
    char **v;
    int32_t n, capacity;
} mr_names;

/* The files that patterns name, in the order of the patterns. A pattern is the name of a file; or
 * has braces (braces.h), "train-{0000..0123}.tar" or "{a,b}.tar", which give names in the order
 * written; or wildcards (* ? [), which give the files there are, in bytewise order, ** standing for
 * any folders; or is a folder, also by wildcards, which gives the files below it with one of these
 * endings (NULL at the end), in bytewise order. A pattern that names nothing is an error, but what
 * braces name need not exist. Objects on servers (far_name.h) are named likewise, those of S3 also
 * by wildcards and folders, and come with the versions that they have now. Freed with
 * mr_patterns_free even on failure. */
mr_status mr_patterns_find(mr_names *paths, const mr_strings *patterns, const char *const *endings,
                           mr_error *err);
void mr_patterns_free(mr_names *paths);

/* Both exist, and what was made of a file was changed last. */
bool mr_path_is_newer(const char *made, const char *of);

#endif
