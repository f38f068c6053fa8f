/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - the list of commands, which the build makes from the files in this folder. */
#include "command.h"

#include <string.h>

#define X(stem) extern const mr_command mr_command_##stem;
#include "command_list.inc"
#undef X

static const mr_command *const commands[] = {
#define X(stem) &mr_command_##stem,
#include "command_list.inc"
#undef X
    NULL,
};

const mr_command *mr_command_at(int32_t i) {
    return commands[i];
}

const char *mr_command_word(int32_t i) {
    return commands[i] ? commands[i]->name : NULL;
}

const mr_command *mr_command_find(const char *name) {
    for (int32_t i = 0; commands[i]; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}
