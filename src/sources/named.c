/* SPDX-License-Identifier: Apache-2.0 */
/* named.c - see named.h. */
#include "sources/named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/far_name.h"

/* Takes "." and ".." and doubled slashes out of a path that begins with a slash. */
static void tidy(char *path) {
    char *to = path;
    for (const char *from = path; *from;) {
        from += strspn(from, "/");
        size_t length = strcspn(from, "/");
        if (length == 2 && memcmp(from, "..", 2) == 0) {
            while (to > path && *--to != '/') {
            }
        } else if (length > 0 && !(length == 1 && *from == '.')) {
            *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length;
    }
    *to = '\0';
}

/* folder/name from the top; of a server as it is. NULL: no memory. */
static char *whole_path(const char *folder, const char *name) {
    char *path = NULL, *here = NULL;
    if (name[0] == '/' || mr_is_far(name)) {
        path = strdup(name);
    } else if (folder[0] == '/' || mr_is_far(folder)) {
        path = asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
    } else {
        here = getcwd(NULL, 0);
        path = !here || asprintf(&path, "%s/%s/%s", here, folder, name) < 0 ? NULL : path;
        free(here);
    }
    char *from = path && mr_is_far(path) ? strstr(path, "://") + 2 : path;
    if (from) {
        tidy(from);
    }
    return path;
}

/* NULL: the path does not lie below root. */
static const char *below(const char *root, const char *path) {
    size_t n = strlen(root);
    return strncmp(path, root, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static mr_status add(mr_named *named, const char *name, mr_error *err) {
    if (named->n == named->capacity) {
        int64_t capacity = named->capacity ? 2 * named->capacity : 256;
        char **grown = realloc(named->v, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        named->v = grown;
        named->capacity = capacity;
    }
    named->v[named->n] = strdup(name);
    return named->v[named->n++] ? MR_OK : mr_fail_memory(err, strlen(name));
}

static mr_status add_column(mr_named *named, const mr_label_column *column, int64_t n_rows,
                            const char *root, const char *folder, mr_error *err) {
    mr_status status = MR_OK;
    for (int64_t row = 0; status == MR_OK && column->is_file && row < n_rows; row++) {
        char *path = whole_path(folder, column->texts[row]);
        const char *name = path ? below(root, path) : NULL;
        status = !path  ? mr_fail_memory(err, strlen(column->texts[row]))
                 : name ? add(named, name, err)
                        : MR_OK;
        free(path);
    }
    return status;
}

static mr_status add_columns(mr_named *named, const mr_labels *l, const char *root,
                             const char *beside, mr_error *err) {
    for (int32_t i = 0; i < l->n_columns + l->n_unread; i++) {
        const mr_label_column *c = i < l->n_columns ? &l->columns[i] : &l->unread[i - l->n_columns];
        MR_TRY(add_column(named, c, l->n_rows, root, c->beside ? beside : root, err));
    }
    return MR_OK;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

mr_status mr_named_make(mr_named *named, const mr_labels *labels, const char *root,
                        const char *table, mr_error *err) {
    char *whole = whole_path(root, ""), *beside = mr_labels_folder(table);
    mr_status status = whole && beside ? add_columns(named, labels, whole, beside, err)
                                       : mr_fail_memory(err, strlen(root));
    if (status == MR_OK && named->n > 0) {
        qsort(named->v, (size_t)named->n, sizeof *named->v, compare_texts);
    }
    free(whole);
    free(beside);
    return status;
}

bool mr_named_has(const mr_named *named, const char *name) {
    return named->n > 0 &&
           bsearch(&name, named->v, (size_t)named->n, sizeof *named->v, compare_texts) != NULL;
}

void mr_named_free(mr_named *named) {
    for (int64_t i = 0; i < named->n; i++) {
        free(named->v[i]);
    }
    free(named->v);
    *named = (mr_named){NULL, 0, 0};
}
