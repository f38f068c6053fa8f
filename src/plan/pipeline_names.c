/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_names.c - calls in a document: {"name": {parameters}}, and whose name it is. */
#include "plan/compiler.h"

#include <string.h>

#include "core/error.h"
#include "core/letters.h"
#include "core/params.h"
#include "core/registry.h"

typedef struct name_cursor {
    mr_tables extra;
    int32_t i;
    bool sources;
} name_cursor;

static const char *next_name(void *user) {
    name_cursor *cursor = user;
    if (cursor->sources) {
        const mr_source_class *source = mr_source_at(cursor->i++);
        return source ? source->name : NULL;
    }
    const mr_op_class *op = mr_op_at(cursor->i++);
    if (op) {
        return op->name;
    }
    return cursor->extra.ops && *cursor->extra.ops ? (*cursor->extra.ops++)->name : NULL;
}

/* What tables call `also` is as good a name to find them by; so is another spelling. */
static bool is_same(const char *name, const char *word, size_t length) {
    size_t i = 0;
    for (; *name; name++) {
        if (*name == '_') {
            continue;
        }
        while (i < length && word[i] == '_') {
            i++;
        }
        if (i == length || mr_small_letter(*name) != mr_small_letter(word[i++])) {
            return false;
        }
    }
    return i == length;
}

static bool is_called(const char *name, const char *own, const char *also) {
    bool found = is_same(name, own, strlen(own));
    while (also && *also && !found) {
        size_t length = strcspn(also, " ");
        found = is_same(name, also, length);
        also += length + strspn(also + length, " ");
    }
    return found;
}

static const char *known_otherwise(bool source, const char *name) {
    for (int32_t i = 0; !source && i < mr_n_ops(); i++) {
        if (is_called(name, mr_op_at(i)->name, mr_op_at(i)->also)) {
            return mr_op_at(i)->name;
        }
    }
    for (int32_t i = 0; source && i < mr_n_sources(); i++) {
        if (is_called(name, mr_source_at(i)->name, mr_source_at(i)->also)) {
            return mr_source_at(i)->name;
        }
    }
    return NULL;
}

static const char *missing_library(const char *kind, const char *name) {
    for (int32_t i = 0; i < mr_n_missing(); i++) {
        const mr_missing *row = mr_missing_at(i);
        if (strcmp(row->kind, kind) == 0 && strcmp(row->name, name) == 0) {
            return row->needs;
        }
    }
    return NULL;
}

mr_status mr_unknown_name(const mr_compiler *c, bool source, const char *name, const char *where) {
    char shown[64];
    const char *kind = source ? "source" : "op";
    const char *library = missing_library(kind, name);
    name_cursor cursor = {c->tables, 0, source};
    const char *nearest = known_otherwise(source, name);
    nearest = nearest ? nearest : mr_nearest_name(name, next_name, &cursor);
    mr_text_escape(shown, sizeof shown, name);
    mr_error_at_json(c->err, where);
    mr_fail(c->err, MR_E_PARAM, "unknown %s \"%s\"", kind, shown);
    if (library) {
        mr_hint(c->err, "this build was made without %s, which it needs", library);
    } else if (nearest) {
        mr_hint(c->err, "did you mean \"%s\"?", nearest);
    } else {
        mr_hint(c->err, "`millrace ops` lists what there is");
    }
    return MR_E_PARAM;
}

const mr_op_class *mr_find_op(const mr_compiler *c, const char *name) {
    const mr_op_class *op = mr_op_find(name);
    for (const mr_op_class *const *extra = c->tables.ops; !op && extra && *extra; extra++) {
        op = strcmp((*extra)->name, name) == 0 ? *extra : NULL;
    }
    return op;
}

const mr_source_class *mr_find_source(const mr_compiler *c, const char *name) {
    const mr_source_class *source = mr_source_find(name);
    for (const mr_source_class *const *extra = c->tables.sources; !source && extra && *extra;
         extra++) {
        source = strcmp((*extra)->name, name) == 0 ? *extra : NULL;
    }
    return source;
}
