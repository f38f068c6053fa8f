/* SPDX-License-Identifier: Apache-2.0 */
/* loader_classes.c - the names of classes, for those who read them elsewhere: traces and states. */
#include <jansson.h>
#include <stdio.h>
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

/* ---- Children that number otherwise ---- */
static const char *class_of(const mr_child *child, const char *field, int64_t i) {
    for (int32_t k = 0; k < child->pipeline->n_source_fields; k++) {
        if (strcmp(child->pipeline->variables[k].name, field) == 0) {
            return mr_dataset_class_name(&child->dataset, k, i);
        }
    }
    return NULL;
}

/* The first number that is another class there; -1: there is none. */
static int64_t find_unlike(const mr_child *a, const mr_child *b, const char *field) {
    const char *one = NULL, *other = NULL;
    for (int64_t i = 0; (one = class_of(a, field, i)) && (other = class_of(b, field, i)); i++) {
        if (strcmp(one, other) != 0) {
            return i;
        }
    }
    return -1;
}

static void warn_of_child(const mr_loader *loader, int32_t c, const char *field) {
    const mr_child *first = &loader->children.list[0], *child = &loader->children.list[c];
    char text[640], names[2][160], shown[96];
    int64_t i = find_unlike(first, child, field);
    if (i >= 0) {
        mr_text_escape(names[0], sizeof names[0], class_of(first, field, i));
        mr_text_escape(names[1], sizeof names[1], class_of(child, field, i));
        snprintf(
            text, sizeof text,
            "class %lld of %s is %s in the first part of the mix and %s in part %d: each numbers "
            "the names that it has. Give both the same `classes`",
            (long long)i, mr_text_escape(shown, sizeof shown, field), names[0], names[1],
            (int)c + 1);
        loader->log.write(loader->log.user, text);
    }
}

/* One number that means two classes is nothing a model can learn. */
static void warn_of_children(const mr_loader *loader) {
    for (int32_t f = 0; loader->log.write && f < loader->pipeline->n_fields; f++) {
        for (int32_t c = 1; c < loader->children.n; c++) {
            warn_of_child(loader, c, loader->pipeline->fields[f].name);
        }
    }
}

mr_status mr_loader_name_classes(mr_loader *loader, mr_error *err) {
    warn_of_children(loader);
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
