/* SPDX-License-Identifier: Apache-2.0 */
/* errors.h - errors on the terminal, and exit codes. */
#ifndef MR_CLI_ERRORS_H
#define MR_CLI_ERRORS_H

#include <jansson.h>
#include <millrace/millrace.h>

enum {
    MR_EXIT_OK = 0,
    MR_EXIT_DIFFERENT = 1,
    MR_EXIT_USAGE = 2,
    MR_EXIT_DATA = 3,
    MR_EXIT_SYSTEM = 4,
    MR_EXIT_STATE = 5,
    MR_EXIT_PIPE = 128 + 13
};

typedef struct mr_exit_row {
    int code;
    const char *doc;
} mr_exit_row;

extern const mr_exit_row mr_exit_rows[]; /* ended by a row whose doc is NULL */

/* Prints an error on stderr, in colour on a terminal, and returns the exit code for it. */
int mr_error_print(const mr_error *err);

/* Likewise, for an error in a file of JSON: shows the line and the column it names. */
int mr_error_print_document(const mr_error *err, const char *path);

/* "warning: TEXT" on stderr. */
void mr_warning_print(const char *text);

json_t *mr_error_json(const mr_error *err);

#endif
