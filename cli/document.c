/* SPDX-License-Identifier: Apache-2.0 */
/* document.c - see document.h. */
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

static mr_status read_input(mr_pipeline **out, const mr_op_class *const *ops, mr_error *err) {
    enum { MOST = 16 << 20 };
    char *text = malloc(MOST);
    if (!text) {
        return mr_fail(err, MR_E_MEMORY, "cannot allocate %d bytes", (int)MOST);
    }
    size_t size = fread(text, 1, MOST, stdin);
    mr_status status = size < MOST ? mr_pipeline_parse(out, text, size, ops, err)
                                   : mr_fail(err, MR_E_LIMIT, "the document is larger than 16 MiB");
    free(text);
    return status;
}

mr_status mr_document_load(mr_pipeline **out, const char *path, const mr_op_class *const *ops,
                           mr_error *err) {
    return strcmp(path, "-") == 0 ? read_input(out, ops, err)
                                  : mr_pipeline_load(out, path, ops, err);
}
