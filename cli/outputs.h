/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h - the files that a command reads and writes are to be different ones. */
#ifndef MR_CLI_OUTPUTS_H
#define MR_CLI_OUTPUTS_H

#include <millrace/millrace.h>

typedef struct mr_named_file {
    const char *name; /* of the option or operand: "--trace" */
    const char *path; /* NULL or "": not given */
    bool is_read;     /* else it is written */
} mr_named_file;

/* Fails where one that is written is another of them, under whatever name, or is called "-". Pipes
 * and devices may be used twice: nothing in them is replaced. */
mr_status mr_outputs_check(const mr_named_file *files, int32_t n, mr_error *err);

#endif
