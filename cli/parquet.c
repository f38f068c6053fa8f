/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.c - millrace parquet: what is in a Parquet file. */
#include <millrace/parquet.h>
#include <stdio.h>

#include "command.h"
#include "errors.h"

typedef struct parquet_values {
    const char *file;
    bool json;
} parquet_values;

static int run_parquet(const void *values) {
    const parquet_values *v = values;
    mr_error err = MR_ERROR_INIT;
    char *text = NULL;
    if (mr_parquet_describe(v->file, v->json, &text, &err) < 0) {
        return mr_error_print(&err);
    }
    fputs(text, stdout);
    if (v->json) {
        putchar('\n');
    }
    mr_free(text);
    return MR_EXIT_OK;
}

static const mr_option_row operands[] = {
    {.name = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(parquet_values, file),
     .doc = "A Parquet file."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(parquet_values, json),
     .doc = "Print JSON."},
    {.name = NULL},
};

const mr_command mr_command_parquet = {
    .name = "parquet",
    .summary = "Show what is in a Parquet file.",
    .doc =
        "Shows each column: how it is stored (type, encodings, compression, bytes in the file and "
        "unpacked), and what a loader makes of it (type, dense or ragged, nulls), then the row "
        "groups. Only the footer is read.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(parquet_values),
    .run = run_parquet,
};
