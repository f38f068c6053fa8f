/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - ops from a shared library that the caller names. */
#include <dlfcn.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/registry.h"

struct mr_plugin {
    void *handle;
    mr_own_tables tables;
};

static mr_status check_op(const char *path, const mr_op_class *op, mr_error *err) {
    if (mr_op_find(op->name)) {
        return mr_fail(err, MR_E_PARAM, "%s: op \"%s\" exists already", path, op->name);
    }
    bool on_a_field = op->plan && op->run, on_samples = op->plan_sample && op->run_sample;
    bool collates = op->plan_collate && op->measure && op->collate && (op->flags & MR_OP_BATCH);
    bool on_batches = (op->check_batch && op->run_batch) || collates;
    bool fuses = (!op->produce || op->peek) && ((!op->pass && !op->finish) || op->want);
    if ((!on_a_field && !on_samples && !on_batches && !op->arrange) || !fuses) {
        return mr_fail(err, MR_E_PARAM, "%s: op \"%s\" lacks a function that it needs", path,
                       op->name);
    }
    return MR_OK;
}

static mr_status load_ops(mr_plugin *plugin, const char *path, mr_error *err) {
    mr_plugin_entry_fn *entry = NULL;
    void *symbol = dlsym(plugin->handle, "mr_plugin_entry");
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from object to function pointer */
    const mr_op_class *const *ops = entry ? entry(MR_OP_ABI) : NULL;
    if (!ops) {
        return mr_fail(err, MR_E_UNSUPPORTED, "%s exports no mr_plugin_entry() for this version",
                       path);
    }
    mr_status status = mr_tables_own(&plugin->tables, ops, NULL, err);
    if (status < 0) {
        if (err) {
            mr_text_escape(err->source, sizeof err->source, path);
        }
        return status;
    }
    for (const mr_op_class *const *op = plugin->tables.ops; *op; op++) {
        MR_TRY(check_op(path, *op, err));
    }
    return MR_OK;
}

mr_status mr_plugin_open(mr_plugin **out, const char *path, mr_error *err) {
    mr_plugin *plugin = mr_zalloc(1, sizeof *plugin);
    if (!plugin) {
        return mr_fail_memory(err, sizeof *plugin);
    }
    plugin->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    mr_status status = plugin->handle
                           ? load_ops(plugin, path, err)
                           : mr_fail(err, MR_E_NOT_FOUND, "cannot load plug-in: %s", dlerror());
    if (status < 0) {
        mr_plugin_close(plugin);
        return status;
    }
    *out = plugin;
    return MR_OK;
}

const mr_op_class *const *mr_plugin_ops(const mr_plugin *plugin) {
    return plugin->tables.ops;
}

void mr_plugin_close(mr_plugin *plugin) {
    if (plugin) {
        if (plugin->handle) {
            dlclose(plugin->handle);
        }
        mr_tables_free(&plugin->tables);
        mr_free(plugin);
    }
}
