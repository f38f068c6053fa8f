/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - millrace help: the overview and one command's page, made from the rows. */
#include "help.h"

#include <string.h>

#include "errors.h"
#include "nearest.h"
#include "text.h"

enum { COMMAND_COLUMN = 14, OPTION_COLUMN = 26 };

typedef struct help_values {
    const char *command;
} help_values;

void mr_help_usage(FILE *out, const mr_command *command) {
    fprintf(out, "millrace %s", command->name);
    for (const mr_option_row *row = command->operands; row && row->name; row++) {
        fprintf(out, row->fallback ? " [%s]" : " %s", row->name);
    }
    fprintf(out, command->options ? " [options]" : "");
}

void mr_help_values(const mr_option_row *row, char *buffer, size_t size) {
    bool fallback = row->fallback && *row->fallback && *row->fallback != '-';
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; row->choices && row->choices[i] && used < size; i++) {
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : " One of ",
                                 row->choices[i]);
    }
    if (used < size) {
        used += (size_t)snprintf(buffer + used, size - used, "%s", row->choices ? "." : "");
    }
    if (fallback && used < size) {
        snprintf(buffer + used, size - used, " Default: %s.", row->fallback);
    }
}

/* A row of two columns; a left side that is too long gets a line of its own. */
static void print_row(FILE *out, const char *left, int column, const char *doc) {
    int width = fprintf(out, "  %s", left);
    if (width > column - 2) {
        fprintf(out, "\n");
        width = 0;
    }
    fprintf(out, "%*s", column - width, "");
    mr_text_wrap(out, doc, column, column);
}

static void print_option(FILE *out, const mr_option_row *row, bool option) {
    char left[64], doc[512];
    snprintf(left, sizeof left, "%s%s%s%s", option ? "--" : "", row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
    snprintf(doc, sizeof doc, "%s", row->doc);
    mr_help_values(row, doc + strlen(doc), sizeof doc - strlen(doc));
    print_row(out, left, OPTION_COLUMN, doc);
}

void mr_help_command(FILE *out, const mr_command *command) {
    fprintf(out, "Usage: ");
    mr_help_usage(out, command);
    fprintf(out, "\n\n");
    mr_text_wrap(out, command->doc ? command->doc : command->summary, 0, 0);
    if (command->operands) {
        fprintf(out, "\nArguments:\n");
    }
    for (const mr_option_row *row = command->operands; row && row->name; row++) {
        print_option(out, row, false);
    }
    fprintf(out, "\nOptions:\n");
    for (const mr_option_row *row = command->options; row && row->name; row++) {
        print_option(out, row, true);
    }
    print_row(out, "--help", OPTION_COLUMN, "Show this help.");
}

void mr_help_overview(FILE *out) {
    fprintf(out, "millrace %s - exact, repeatable batches for training, fast\n\n", mr_version());
    fprintf(out, "Usage: millrace COMMAND [arguments]\n\nCommands:\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        print_row(out, mr_command_at(i)->name, COMMAND_COLUMN, mr_command_at(i)->summary);
    }
    fprintf(out, "\nExit codes:\n");
    for (const mr_exit_row *row = mr_exit_rows; row->doc; row++) {
        fprintf(out, "  %3d  %s\n", row->code, row->doc);
    }
    fprintf(out, "\nMore about one command: millrace help COMMAND\n");
}

static const char *next_command(void *user) {
    int32_t *i = user;
    return mr_command_at(*i) ? mr_command_at((*i)++)->name : NULL;
}

mr_status mr_help_unknown(const char *name, mr_error *err) {
    int32_t i = 0;
    const char *nearest = mr_nearest_word(name, next_command, &i);
    mr_fail(err, MR_E_PARAM, "unknown command \"%s\"", name);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"? All commands: millrace help", nearest);
    } else {
        mr_hint(err, "all commands: millrace help");
    }
    return MR_E_PARAM;
}

static int run_help(const void *values) {
    const help_values *v = values;
    if (!v->command) {
        mr_help_overview(stdout);
        return MR_EXIT_OK;
    }
    const mr_command *command = mr_command_find(v->command);
    if (!command) {
        mr_error err = MR_ERROR_INIT;
        mr_help_unknown(v->command, &err);
        return mr_error_print(&err);
    }
    mr_help_command(stdout, command);
    return MR_EXIT_OK;
}

static const mr_option_row operands[] = {
    {.name = "COMMAND",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(help_values, command),
     .fallback = "",
     .word = mr_command_word,
     .doc = "The command to explain; without it, all of them in a line each."},
    {.name = NULL},
};

const mr_command mr_command_help = {
    .name = "help",
    .summary = "Explain the command, or one of its commands.",
    .operands = operands,
    .values_size = sizeof(help_values),
    .run = run_help,
};
