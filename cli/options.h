/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - fills a command's struct from its arguments, by the rows of its table. */
#ifndef MR_CLI_OPTIONS_H
#define MR_CLI_OPTIONS_H

#include "command.h"

/* `values` is zeroed by the caller. *help is set where --help or -h stands among the arguments;
 * then nothing else is checked. */
mr_status mr_options_fill(const mr_command *command, int n, char *const *arguments, void *values,
                          bool *help, mr_error *err);

/* A whole number in decimal digits, nothing before or after it. */
bool mr_number_read(const char *text, int64_t *out);

#endif
