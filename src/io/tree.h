/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - walking a folder tree. */
#ifndef MR_IO_TREE_H
#define MR_IO_TREE_H

#include <millrace/source.h>
#include <sys/stat.h>

typedef struct mr_tree_visitor {
    /* A file, by its path below the root ("cat/17.jpg"). Not a folder; anything else may be. */
    mr_status (*file)(void *user, const char *path, mr_error *err);
    /* (optional) A folder, by its path below the root ("" for the root itself), as it was before it
     * was read. */
    mr_status (*folder)(void *user, const char *path, const struct stat *info, mr_error *err);
    void *user;
} mr_tree_visitor;

/* Visits every file below root in no particular order. Links are followed; one that leads back to a
 * folder it lies in is reported to the log and not followed; a folder that links lead to by more
 * than 64 ways is an error. Names that start with a dot are left
 * out. A folder that cannot be read is an error: the dataset would silently be another one. */
mr_status mr_tree_walk(const char *root, const mr_tree_visitor *visitor, const mr_log *log,
                       mr_error *err);

#endif
