/* SPDX-License-Identifier: Apache-2.0 */
/* man.c - millrace man: the manual page, made from the commands' rows. docs/millrace.1 is its
 * output. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "help.h"

/* Text in roff: backslashes and hyphens stand for themselves only when escaped, and so do dots
 * and quotes at the start of a line. An empty line becomes a paragraph. */
static void print_roff(const char *text) {
    bool line_start = true;
    for (; *text; text++) {
        if (text[0] == '\n' && text[1] == '\n') {
            printf("\n.PP\n");
            text++;
            line_start = true;
            continue;
        }
        if (line_start && (*text == '.' || *text == '\'')) {
            printf("\\&");
        }
        if (*text == '\\') {
            printf("\\e");
        } else if (*text == '-') {
            printf("\\-");
        } else {
            putchar(*text);
        }
        line_start = *text == '\n';
    }
}

static void print_option(const mr_option_row *row, bool option) {
    char values[256];
    printf(".TP\n.B ");
    print_roff(option ? "--" : "");
    print_roff(row->name);
    if (row->argument) {
        printf(" \\fI%s\\fR", row->argument);
    }
    printf("\n");
    print_roff(row->doc);
    mr_help_values(row, values, sizeof values);
    print_roff(values);
    printf("\n");
}

static void print_command(const mr_command *command) {
    printf(".SS millrace %s", command->name);
    for (const mr_option_row *row = command->operands; row && row->name; row++) {
        printf(row->fallback ? " [%s]" : " %s", row->name);
    }
    printf("%s\n", command->options ? " [options]" : "");
    print_roff(command->doc ? command->doc : command->summary);
    printf("\n");
    for (const mr_option_row *row = command->operands; row && row->name; row++) {
        print_option(row, false);
    }
    for (const mr_option_row *row = command->options; row && row->name; row++) {
        print_option(row, true);
    }
}

static void print_head(void) {
    printf(".\\\" Made by \"millrace man\" from the tables in the code; do not edit it.\n");
    printf(".TH MILLRACE 1 \"\" \"millrace %s\" \"User Commands\"\n", mr_version());
    printf(".SH NAME\nmillrace \\- exact, repeatable batches for training, fast\n");
    printf(".SH SYNOPSIS\n.B millrace\n.I COMMAND\n[arguments]\n");
    printf(".SH DESCRIPTION\n");
    print_roff("millrace turns a dataset into ready batches, as a pipeline document says. What a "
               "batch holds depends on dataset, pipeline, seed, epoch, step, world and rank, and "
               "on nothing else: not on threads, timing or the CPU.\n");
}

static void print_tail(void) {
    printf(".SH EXIT STATUS\n");
    for (const mr_exit_row *row = mr_exit_rows; row->doc; row++) {
        printf(".TP\n.B %d\n", row->code);
        print_roff(row->doc);
        printf("\n");
    }
    printf(".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nWhere set and not empty, errors have no colour.\n");
    printf(".SH EXAMPLES\n");
    printf(".nf\nmillrace check pipeline.json\nmillrace run pipeline.json \\-\\-epochs 3\n"
           "millrace ops random_resized_crop\nmillrace help run\n.fi\n");
}

static int run_man(const void *values) {
    (void)values;
    print_head();
    printf(".SH COMMANDS\nEvery command has \\-\\-help.\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        print_command(mr_command_at(i));
    }
    print_tail();
    return MR_EXIT_OK;
}

const mr_command mr_command_man = {
    .name = "man",
    .summary = "Print the manual page.",
    .doc = "Prints the manual page: millrace man | man -l -",
    .run = run_man,
};
