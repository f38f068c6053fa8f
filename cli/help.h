/* SPDX-License-Identifier: Apache-2.0 */
/* help.h - help made from the commands' rows. */
#ifndef MR_CLI_HELP_H
#define MR_CLI_HELP_H

#include <stdio.h>

#include "command.h"

void mr_help_overview(FILE *out);
void mr_help_command(FILE *out, const mr_command *command);

/* "millrace run PIPELINE.json [options]" */
void mr_help_usage(FILE *out, const mr_command *command);

/* " One of auto, uring, pread. Default: auto." or what of it applies. */
void mr_help_values(const mr_option_row *row, char *buffer, size_t size);

/* "unknown command", with the nearest name. */
mr_status mr_help_unknown(const char *name, mr_error *err);

#endif
