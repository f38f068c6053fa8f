/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - millrace version: which version this is and what it was built with. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "errors.h"

static void print_libraries(void) {
    char text[512], all[4096] = "";
    size_t used = 0;
    printf("libraries: ");
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        if (mr_op_at(i)->libraries) {
            mr_op_at(i)->libraries(text, sizeof text);
            if (text[0] && !strstr(all, text)) { /* several ops are of one library */
                printf("%s%s", used ? ", " : "", text);
                snprintf(all + used, sizeof all - used, "%s\n", text);
                used = strlen(all);
            }
        }
    }
    printf("%s\n", used ? "" : "none");
}

static int run_version(const void *values) {
    (void)values;
    printf("millrace %s\n", mr_version());
    printf("sources:");
    for (int32_t i = 0; i < mr_n_sources(); i++) {
        printf(" %s", mr_source_at(i)->name);
    }
    printf("\nops:");
    for (int32_t i = 0; i < mr_n_ops(); i++) {
        printf(" %s", mr_op_at(i)->name);
    }
    printf("\nleft out:");
    for (int32_t i = 0; i < mr_n_missing(); i++) {
        const mr_missing *part = mr_missing_at(i);
        printf("%s %s %s (needs %s)", i ? "," : "", part->kind, part->name, part->needs);
    }
    printf("%s\n", mr_n_missing() ? "" : " nothing");
    print_libraries();
    return MR_EXIT_OK;
}

const mr_command mr_command_version = {
    .name = "version",
    .summary = "Show the version and what it was built with.",
    .run = run_version,
};
