/* SPDX-License-Identifier: Apache-2.0 */
/* completion.c - millrace completion: a script that teaches a shell the commands, options and
 * names, made from the rows. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "errors.h"

typedef struct completion_values {
    int32_t shell;
} completion_values;

static bool takes_file(const mr_option_row *row) {
    return row->kind == MR_OPTION_FILE || row->kind == MR_OPTION_FILES;
}

/* Words that a row's value may be, each with a space before it. */
static void print_words(const mr_option_row *row) {
    for (int32_t i = 0; row->choices && row->choices[i]; i++) {
        printf(" %s", row->choices[i]);
    }
    for (int32_t i = 0; row->word && row->word(i); i++) {
        printf(" %s", row->word(i));
    }
}

/* Text inside single quotes, for sh and its kin. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'') {
            printf("'\\''");
        } else {
            putchar(*text);
        }
    }
    putchar('\'');
}

/* ---- bash ---------------------------------------------------------------------------------- */

static void bash_option_values(const mr_command *command) {
    for (const mr_option_row *row = command->options; row && row->name; row++) {
        if (row->kind == MR_OPTION_FLAG) {
            continue;
        }
        printf("    %s:--%s) ", command->name, row->name);
        if (takes_file(row)) {
            printf("COMPREPLY=($(compgen -f -- \"$word\")); compopt -o filenames");
        } else {
            printf("COMPREPLY=($(compgen -W '");
            print_words(row);
            printf("' -- \"$word\"))");
        }
        printf("; return ;;\n");
    }
}

static void bash_command(const mr_command *command) {
    bool files = false;
    printf("    %s) words='--help", command->name);
    for (const mr_option_row *row = command->options; row && row->name; row++) {
        printf(" --%s", row->name);
    }
    for (const mr_option_row *row = command->operands; row && row->name; row++) {
        files = files || takes_file(row);
        print_words(row);
    }
    printf("'; files=%d ;;\n", files);
}

static void print_bash(void) {
    printf("# bash completion for millrace: source <(millrace completion bash)\n");
    printf("_millrace() {\n  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
           "  local before=${COMP_WORDS[COMP_CWORD-1]} words='' files=0\n"
           "  COMPREPLY=()\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='--help --version");
    for (int32_t i = 0; mr_command_at(i); i++) {
        printf(" %s", mr_command_at(i)->name);
    }
    printf("'\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n    return\n  fi\n"
           "  case \"$command:$before\" in\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        bash_option_values(mr_command_at(i));
    }
    printf("  esac\n  case \"$command\" in\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        bash_command(mr_command_at(i));
    }
    printf("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "  if [ $files -eq 1 ] && [ \"${word#-}\" = \"$word\" ]; then\n"
           "    COMPREPLY+=($(compgen -f -- \"$word\"))\n    compopt -o filenames\n  fi\n}\n"
           "complete -F _millrace millrace\n");
}

/* ---- zsh ----------------------------------------------------------------------------------- */

/* A description inside an _arguments spec: brackets and colons have a meaning there. */
static void zsh_description(const char *text) {
    for (; *text; text++) {
        if (strchr("[]:\\", *text)) {
            putchar('\\');
        }
        printf(*text == '\'' ? "'\\''" : "%c", *text);
    }
}

static void zsh_action(const mr_option_row *row) {
    if (takes_file(row)) {
        printf("_files");
    } else if (row->choices || row->word) {
        printf("(");
        print_words(row);
        printf(")");
    } else {
        printf(" ");
    }
}

static void zsh_option(const mr_option_row *row) {
    printf(" \\\n        '%s--%s[", row->kind == MR_OPTION_FILES ? "*" : "", row->name);
    zsh_description(row->doc);
    printf("]");
    if (row->argument) {
        printf(":%s:", row->argument);
        zsh_action(row);
    }
    printf("'");
}

static void zsh_command(const mr_command *command) {
    printf("    %s)\n      _arguments '--help[Show help.]'", command->name);
    for (const mr_option_row *row = command->options; row && row->name; row++) {
        zsh_option(row);
    }
    for (const mr_option_row *row = command->operands; row && row->name; row++) {
        printf(" \\\n        ':%s", row->fallback ? ":" : "");
        zsh_description(row->name);
        printf(":");
        zsh_action(row);
        printf("'");
    }
    printf(" ;;\n");
}

static void print_zsh(void) {
    printf("#compdef millrace\n# zsh completion for millrace: source <(millrace completion zsh)\n"
           "_millrace() {\n  local -a commands\n  commands=(\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        printf("    '%s:", mr_command_at(i)->name);
        zsh_description(mr_command_at(i)->summary);
        printf("'\n");
    }
    printf("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
           "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        zsh_command(mr_command_at(i));
    }
    printf("  esac\n}\n"
           "if [[ $funcstack[1] = _millrace ]]; then _millrace; else compdef _millrace millrace; "
           "fi\n");
}

/* ---- fish ---------------------------------------------------------------------------------- */

static void fish_row(const mr_command *command, const mr_option_row *row, bool option) {
    printf("complete -c millrace -n '__fish_seen_subcommand_from %s'", command->name);
    if (option) {
        printf(" -l %s -d ", row->name);
        print_quoted(row->doc);
    }
    if (takes_file(row)) {
        printf(option ? " -r -F" : " -F");
    } else if (row->choices || row->word) {
        printf(option ? " -x -a '" : " -a '");
        print_words(row);
        printf("'");
    } else if (row->argument) {
        printf(" -x");
    }
    printf("\n");
}

static void print_fish(void) {
    printf("# fish completion for millrace: millrace completion fish | source\n"
           "complete -c millrace -f\n");
    for (int32_t i = 0; mr_command_at(i); i++) {
        const mr_command *command = mr_command_at(i);
        printf("complete -c millrace -n __fish_use_subcommand -a %s -d ", command->name);
        print_quoted(command->summary);
        printf("\n");
        for (const mr_option_row *row = command->options; row && row->name; row++) {
            fish_row(command, row, true);
        }
        for (const mr_option_row *row = command->operands; row && row->name; row++) {
            fish_row(command, row, false);
        }
    }
}

/* ---- The command --------------------------------------------------------------------------- */

static const char *const shells[] = {"bash", "zsh", "fish", NULL};
static void (*const printers[])(void) = {print_bash, print_zsh, print_fish};

static int run_completion(const void *values) {
    const completion_values *v = values;
    printers[v->shell]();
    return MR_EXIT_OK;
}

static const mr_option_row operands[] = {
    {.name = "SHELL",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(completion_values, shell),
     .choices = shells,
     .doc = "The shell that the script is for."},
    {.name = NULL},
};

const mr_command mr_command_completion = {
    .name = "completion",
    .summary = "Print a script that teaches a shell the commands and options.",
    .doc = "Prints a completion script. In bash: source <(millrace completion bash)",
    .operands = operands,
    .values_size = sizeof(completion_values),
    .run = run_completion,
};
