/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the readers of lists and tables of labels; the first byte says which, and whether
 * classes are given. Columns that are accepted have a value for each row; what is refused says why.
 */
#include <stdlib.h>
#include <string.h>

#include "sources/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_column(const mr_label_column *c, int64_t n_rows) {
    for (int64_t row = 0; row < n_rows && !c->is_file; row++) {
        mr_view view = {.type = c->type};
        mr_labels_fill(c, row, &view);
        want(c->type.n_dims == 0 || c->type.dims[0] < 0 || view.type.dims[0] == c->type.dims[0]);
        for (int64_t i = c->starts[row]; c->classes && i < c->starts[row + 1]; i++) {
            want(c->whole[i] >= 0 && c->whole[i] < c->n_classes);
        }
    }
}

static void check_accepted(const mr_labels *l, bool is_list) {
    want(l->n_columns >= 0 && l->n_columns <= MR_LABEL_COLUMNS);
    for (int32_t i = 0; i < l->n_columns; i++) {
        check_column(&l->columns[i], l->n_rows);
    }
    for (int64_t row = 0; row < l->n_rows && !is_list; row++) {
        want(mr_labels_find(l, l->names[row]) == row);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"a.txt", "a.csv", "a.tsv", "a.jsonl"};
    static const char *endings[] = {".jpg", ".png"};
    if (size == 0) {
        return 0;
    }
    mr_error err = MR_ERROR_INIT;
    mr_labels *labels = NULL;
    mr_labels_origin from = {.path = paths[data[0] % 4], .is_list = data[0] % 4 == 0};
    from.extensions = (mr_strings){.v = endings, .n = 2};
    from.classes = data[0] % 8 < 4 ? NULL : "[\"b\", \"cat\", \"a\"]";
    char *text = strndup((const char *)data + 1, size - 1);
    mr_status status = text ? mr_labels_parse(&labels, &from, text, &err) : MR_E_MEMORY;
    if (status == MR_OK) {
        check_accepted(labels, from.is_list);
        mr_labels_free(labels);
    } else if (text) {
        want(err.code == status && err.text[0] != '\0');
    }
    free(text);
    return 0;
}
