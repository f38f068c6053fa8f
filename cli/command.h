/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - what a command is: one file in this folder with one const table mr_command_NAME at
 * its end. The build finds it; parsing, --help, the man page and shell completion come from its
 * rows. Nobody edits a list to add a command or an option. */
#ifndef MR_CLI_COMMAND_H
#define MR_CLI_COMMAND_H

#include <millrace/millrace.h>

typedef enum mr_option_kind {
    MR_OPTION_FLAG,  /* bool */
    MR_OPTION_INT,   /* int64_t within min and max */
    MR_OPTION_TEXT,  /* const char *, NULL where not given */
    MR_OPTION_FILE,  /* const char *, likewise */
    MR_OPTION_FILES, /* mr_files: may be given several times; of operands the last one */
    MR_OPTION_CHOICE /* int32_t: position in `choices` */
} mr_option_kind;

#define MR_FILES_MAX 1024

typedef struct mr_files {
    int32_t n;
    const char *v[MR_FILES_MAX];
} mr_files;

/* One option, or one operand: a value that is told by its place. */
typedef struct mr_option_row {
    const char *name;     /* "threads" is given as --threads; for an operand what help shows */
    const char *argument; /* what help calls the value, "N"; NULL for flags and operands */
    char letter;          /* 'o' also allows -o; 0: none */
    mr_option_kind kind;
    size_t offset;                  /* of the value in the command's struct */
    const char *fallback;           /* value where not given; an operand without one is required */
    int64_t min, max;               /* for numbers; bounds included */
    bool or_auto;                   /* for numbers: "auto" is one too, and stands for -1 */
    const char *const *choices;     /* NULL-terminated, for MR_OPTION_CHOICE */
    const char *(*word)(int32_t i); /* (optional) what completion offers, ended by NULL */
    const char *doc;                /* one sentence */
} mr_option_row;

typedef struct mr_command {
    const char *name;
    const char *summary;            /* a line */
    const char *doc;                /* (optional) paragraphs parted by an empty line */
    const mr_option_row *operands;  /* (optional) in order, ended by a row whose name is NULL */
    const mr_option_row *options;   /* (optional) likewise; every command has --help besides */
    size_t values_size;             /* of the struct that the rows fill; 0 without rows */
    int (*run)(const void *values); /* returns an exit code */
} mr_command;

/* The commands of this build, by name; NULL past the last. */
const mr_command *mr_command_at(int32_t i);
const mr_command *mr_command_find(const char *name);
const char *mr_command_word(int32_t i); /* names, for completion */

#endif
