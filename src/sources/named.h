/* SPDX-License-Identifier: Apache-2.0 */
/* named.h - files below a folder that a table of labels names beside its samples: masks, second
 * images. They belong to samples and are none themselves.
 *
 * Paths are compared as they are written, made whole: links are not followed. */
#ifndef MR_SOURCES_NAMED_H
#define MR_SOURCES_NAMED_H

#include "sources/labels.h"

typedef struct mr_named {
    char **v; /* names below the root, sorted */
    int64_t n, capacity;
} mr_named;

/* Files that columns of `labels`, read from `table`, name below root. mr_named_free is due even on
 * failure. */
mr_status mr_named_make(mr_named *named, const mr_labels *labels, const char *root,
                        const char *table, mr_error *err);
bool mr_named_has(const mr_named *named, const char *name);
void mr_named_free(mr_named *named);

#endif
