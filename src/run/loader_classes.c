/* SPDX-License-Identifier: Apache-2.0 */
/* loader_classes.c - the names of classes, for those who read them elsewhere: traces and states. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "plan/state_classes.h"
#include "run/loader.h"

/* Bytes; with more names a state has the dataset's fingerprint alone. */
enum { MOST = 64 * 1024 };

json_t *mr_loader_classes_of(const mr_loader *loader, const char *field, bool *lost) {
    json_t *array = json_array();
    const char *name = NULL;
    for (int64_t i = 0; (name = mr_loader_class(loader, field, i)) != NULL; i++) {
        char safe[1024];
        mr_json_append(array, json_string(mr_text_escape(safe, sizeof safe, name)), lost);
    }
    return array;
}

static bool are_few(const mr_loader *loader, const char *field) {
    size_t bytes = 0;
    const char *name = NULL;
    for (int64_t i = 0; bytes < MOST && (name = mr_loader_class(loader, field, i)) != NULL; i++) {
        bytes += strlen(name) + 3;
    }
    return bytes > 0 && bytes < MOST;
}

static void add_child(const mr_loader *loader, const mr_child *child, json_t *all, bool *lost) {
    const mr_pipeline *pipeline = child->pipeline;
    for (int32_t k = 0; k < pipeline->n_source_fields; k++) {
        const char *field = pipeline->variables[k].name;
        if (!json_object_get(all, field) && are_few(loader, field)) {
            mr_json_set(all, field, mr_loader_classes_of(loader, field, lost), lost);
        }
    }
}

mr_status mr_loader_name_classes(mr_loader *loader, mr_error *err) {
    bool lost = false;
    json_t *all = json_object();
    for (int32_t c = 0; all && c < loader->children.n; c++) {
        add_child(loader, &loader->children.list[c], all, &lost);
    }
    bool none = all && !lost && json_object_size(all) == 0;
    all = mr_json_whole(all, lost);
    loader->classes = all && !none ? mr_state_classes_text(all) : NULL;
    json_decref(all);
    if (loader->classes && strlen(loader->classes) >= MOST) {
        free(loader->classes);
        loader->classes = NULL;
        none = true;
    }
    return none || loader->classes ? MR_OK : mr_fail_memory(err, MOST);
}
