/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_file.c - a pipeline from a file. Apart from parsing, which is pure. */
#include "core/error.h"
#include "io/file.h"

mr_status mr_pipeline_load(mr_pipeline **out, const char *path, const mr_op_class *const *extra_ops,
                           mr_error *err) {
    enum { MOST = 16 << 20 };
    char *text = NULL;
    size_t size = 0;
    MR_TRY(mr_file_load(path, MOST, &text, &size, err));
    mr_status status = mr_pipeline_parse(out, text, size, extra_ops, err);
    mr_free(text);
    if (status < 0 && err && err->source[0] == '\0') {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}
