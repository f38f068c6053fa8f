/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.h - the ops of the files that --plugin names, as one list. */
#ifndef MR_CLI_PLUGINS_H
#define MR_CLI_PLUGINS_H

#include "command.h"

#define MR_PLUGIN_OPS_MAX 256

typedef struct mr_plugins {
    mr_plugin *open[MR_FILES_MAX];
    int32_t n;
    const mr_op_class *ops[MR_PLUGIN_OPS_MAX + 1]; /* NULL-terminated */
    int32_t n_ops;
} mr_plugins;

/* `plugins` is zeroed by the caller and closed also after a failure. */
mr_status mr_plugins_open(mr_plugins *plugins, const mr_files *files, mr_error *err);
void mr_plugins_close(mr_plugins *plugins);

#define MR_PLUGIN_ROW(type)                                                                        \
    {                                                                                              \
        .name = "plugin", .argument = "FILE", .kind = MR_OPTION_FILES,                             \
        .offset = offsetof(type, plugins),                                                         \
        .doc = "A shared library with more ops. May be given several times."                       \
    }

#endif
