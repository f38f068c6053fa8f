/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.c - opens plug-ins and joins their lists of ops. */
#include "plugins.h"

static mr_status add_ops(mr_plugins *plugins, const mr_plugin *plugin, mr_error *err) {
    for (const mr_op_class *const *op = mr_plugin_ops(plugin); *op; op++) {
        if (plugins->n_ops == MR_PLUGIN_OPS_MAX) {
            return mr_fail(err, MR_E_LIMIT, "the plug-ins have more than %d ops",
                           MR_PLUGIN_OPS_MAX);
        }
        plugins->ops[plugins->n_ops++] = *op;
    }
    return MR_OK;
}

mr_status mr_plugins_open(mr_plugins *plugins, const mr_files *files, mr_error *err) {
    mr_status status = MR_OK;
    for (int32_t i = 0; i < files->n && status == MR_OK; i++) {
        status = mr_plugin_open(&plugins->open[i], files->v[i], err);
        if (status == MR_OK) {
            plugins->n++;
            status = add_ops(plugins, plugins->open[i], err);
        }
    }
    return status;
}

void mr_plugins_close(mr_plugins *plugins) {
    while (plugins->n > 0) {
        mr_plugin_close(plugins->open[--plugins->n]);
    }
}
