/* SPDX-License-Identifier: Apache-2.0 */
/* document.h - the pipeline document that a command is given: a file, or standard input. */
#ifndef MR_CLI_DOCUMENT_H
#define MR_CLI_DOCUMENT_H

#include "command.h"

/* "-" reads it from a pipe, to its end. */
mr_status mr_document_load(mr_pipeline **out, const char *path, const mr_op_class *const *ops,
                           mr_error *err);

#define MR_DOCUMENT_ROW(type)                                                                      \
    {                                                                                              \
        .name = "PIPELINE.json", .kind = MR_OPTION_FILE, .offset = offsetof(type, path),           \
        .doc = "The pipeline document; - reads it from standard input."                            \
    }

#endif
