/* SPDX-License-Identifier: Apache-2.0 */
/* storage.h - the option --storage: files as if from slower storage, for tests and benchmarks. */
#ifndef MR_CLI_STORAGE_H
#define MR_CLI_STORAGE_H

#include "command.h"

typedef struct mr_storage {
    int64_t bytes_per_second, open_ns; /* 0: as fast as it is */
} mr_storage;

/* "910MB" or "910MB,4.7ms"; NULL: none. */
mr_status mr_storage_read(mr_storage *out, const char *text, mr_error *err);

#define MR_STORAGE_ROW(type)                                                                       \
    {                                                                                              \
        .name = "storage", .argument = "RATE,TIME", .kind = MR_OPTION_TEXT,                        \
        .offset = offsetof(type, storage),                                                         \
        .doc = "For tests: read files as if from storage that gives so many bytes a second and "   \
               "takes so long to open a file: 910MB,4.7ms. Stores and mapped files are not "       \
               "slowed down."                                                                      \
    }

#endif
