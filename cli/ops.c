/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c - millrace ops: what this build can do, from the tables. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "nearest.h"
#include "plugins.h"
#include "rows.h"
#include "text.h"

enum { NAME_WIDTH = 22, PARAM_WIDTH = 18 };

typedef struct ops_values {
    const char *name;
    mr_files plugins;
    bool missing, json;
} ops_values;

/* What a source and an op have in common for a reader. */
typedef struct entry {
    const char *kind, *name, *summary, *doc;
    uint32_t version;
    const mr_param *params;
    const mr_op_class *op; /* NULL: a source */
} entry;

static entry source_entry(const mr_source_class *s) {
    return (entry){"source", s->name, s->summary, s->doc, s->version, s->params, NULL};
}

static entry op_entry(const mr_op_class *op) {
    return (entry){"op", op->name, op->summary, op->doc, op->version, op->params, op};
}

/* All entries in turn: sources, ops, ops of plug-ins. False past the last. */
static bool entry_at(const mr_plugins *plugins, int32_t i, entry *out) {
    int32_t sources = mr_n_sources(), ops = mr_n_ops();
    if (i < sources) {
        *out = source_entry(mr_source_at(i));
    } else if (i < sources + ops) {
        *out = op_entry(mr_op_at(i - sources));
    } else if (i < sources + ops + plugins->n_ops) {
        *out = op_entry(plugins->ops[i - sources - ops]);
    } else {
        return false;
    }
    return true;
}

static const char *word_at(int32_t i) {
    static const mr_plugins none;
    entry e;
    return entry_at(&none, i, &e) ? e.name : NULL;
}

/* ---- The list ------------------------------------------------------------------------------ */

static void print_entries(const mr_plugins *plugins, const char *kind) {
    entry e;
    for (int32_t i = 0; entry_at(plugins, i, &e); i++) {
        if (strcmp(e.kind, kind) == 0) {
            printf("  %-*s", NAME_WIDTH, e.name);
            mr_text_wrap(stdout, e.summary, NAME_WIDTH + 2, NAME_WIDTH + 2);
        }
    }
}

static void print_list(const mr_plugins *plugins) {
    printf("Sources:\n");
    print_entries(plugins, "source");
    printf("\nOps:\n");
    print_entries(plugins, "op");
    printf("\nMore about one: millrace ops NAME\n");
    if (mr_n_missing() > 0) {
        printf("Left out of this build: %d (millrace ops --missing)\n", (int)mr_n_missing());
    }
}

static void print_missing(void) {
    if (mr_n_missing() == 0) {
        printf("Nothing is left out of this build.\n");
    }
    for (int32_t i = 0; i < mr_n_missing(); i++) {
        const mr_missing *part = mr_missing_at(i);
        printf("%s %s: this build was made without %s. Install its development package and build "
               "again.\n",
               part->kind, part->name, part->needs);
    }
}

/* ---- One entry ----------------------------------------------------------------------------- */

static void print_param(const mr_param *row) {
    char kind[160], range[64];
    printf("  %-*s%s", PARAM_WIDTH, row->name, mr_row_kind(row, kind, sizeof kind));
    if (*mr_row_range(row, range, sizeof range)) {
        printf(", %s", range);
    }
    if (row->fallback) {
        printf(" (default: %s)\n", row->fallback);
    } else {
        printf(" (required)\n");
    }
    printf("%*s", PARAM_WIDTH + 2, "");
    mr_text_wrap(stdout, row->doc, PARAM_WIDTH + 2, PARAM_WIDTH + 2);
}

/* Returns whether the op still gives what its table says. */
static bool print_example(const mr_op_class *op, const mr_example *example) {
    mr_error err = MR_ERROR_INIT;
    char digest[33] = "";
    printf("  {\"%s\": %s} on %.60s%s\n", op->name, example->params, example->input,
           strlen(example->input) > 60 ? "..." : "");
    if (mr_op_example_digest(op, example, digest, &err) != MR_OK) {
        printf("    fails: %s\n", err.text);
        return false;
    }
    bool same = strcmp(digest, example->digest) == 0;
    printf("    digest %s%s%s\n", digest, same ? "" : ", but the table says ",
           same ? "" : example->digest);
    return same;
}

static int print_entry(const entry *e) {
    bool same = true;
    printf("%s (%s, version %u)\n  ", e->name, e->kind, e->version);
    mr_text_wrap(stdout, e->summary, 2, 2);
    if (e->doc) {
        printf("\n  ");
        mr_text_wrap(stdout, e->doc, 2, 2);
    }
    if (e->op && mr_beside_text(e->op)) {
        printf("\n  ");
        mr_text_wrap(stdout, mr_beside_text(e->op), 2, 2);
    }
    printf("\nParameters:%s\n", e->params && e->params->name ? "" : " none");
    for (const mr_param *row = e->params; row && row->name; row++) {
        print_param(row);
    }
    if (e->op) {
        printf("\nExamples:\n");
    }
    for (const mr_example *x = e->op ? e->op->examples : NULL; x && x->params; x++) {
        same = print_example(e->op, x) && same;
    }
    return same ? MR_EXIT_OK : MR_EXIT_DIFFERENT;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *examples_json(const mr_op_class *op) {
    json_t *array = json_array();
    for (const mr_example *x = op->examples; x && x->params; x++) {
        char digest[33] = "";
        json_t *object = json_object();
        bool ok = mr_op_example_digest(op, x, digest, NULL) == MR_OK;
        json_object_set_new(object, "params", json_loads(x->params, 0, NULL));
        json_object_set_new(object, "input", mr_json_text(x->input));
        json_object_set_new(object, "digest", mr_json_text(x->digest));
        json_object_set_new(object, "actual_digest", mr_json_text(ok ? digest : NULL));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *entry_json(const entry *e) {
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(e->kind));
    json_object_set_new(object, "name", mr_json_text(e->name));
    json_object_set_new(object, "summary", mr_json_text(e->summary));
    json_object_set_new(object, "doc", mr_json_text(e->doc));
    json_object_set_new(object, "version", json_integer(e->version));
    if (e->op) {
        json_object_set_new(object, "random", json_boolean(e->op->flags & MR_OP_RANDOM));
        json_object_set_new(object, "examples", examples_json(e->op));
    }
    json_object_set_new(object, "params", mr_rows_json(e->params));
    return object;
}

static json_t *missing_json(void) {
    json_t *array = json_array();
    for (int32_t i = 0; i < mr_n_missing(); i++) {
        const mr_missing *part = mr_missing_at(i);
        json_t *object = json_object();
        json_object_set_new(object, "kind", mr_json_text(part->kind));
        json_object_set_new(object, "name", mr_json_text(part->name));
        json_object_set_new(object, "needs", mr_json_text(part->needs));
        json_array_append_new(array, object);
    }
    return array;
}

static void print_json(const mr_plugins *plugins) {
    entry e;
    json_t *object = json_object(), *sources = json_array(), *ops = json_array();
    for (int32_t i = 0; entry_at(plugins, i, &e); i++) {
        json_array_append_new(e.op ? ops : sources, entry_json(&e));
    }
    json_object_set_new(object, "sources", sources);
    json_object_set_new(object, "ops", ops);
    json_object_set_new(object, "missing", missing_json());
    mr_json_print(object, MR_DIGITS_EXACT);
}

/* ---- The command --------------------------------------------------------------------------- */

typedef struct cursor {
    const mr_plugins *plugins;
    int32_t i;
} cursor;

static const char *next_name(void *user) {
    cursor *c = user;
    entry e;
    return entry_at(c->plugins, c->i++, &e) ? e.name : NULL;
}

static int unknown_name(const mr_plugins *plugins, const char *name) {
    mr_error err = MR_ERROR_INIT;
    cursor c = {plugins, 0};
    const char *nearest = mr_nearest_word(name, next_name, &c);
    mr_fail(&err, MR_E_PARAM, "there is no op or source \"%s\"", name);
    mr_hint(&err, "all names: millrace ops");
    for (int32_t i = 0; i < mr_n_missing(); i++) {
        const mr_missing *part = mr_missing_at(i);
        if (strcmp(part->name, name) == 0) {
            mr_hint(&err, "this build was made without %s, which it needs", part->needs);
            return mr_error_print(&err);
        }
    }
    if (nearest) {
        mr_hint(&err, "did you mean \"%s\"? All names: millrace ops", nearest);
    }
    return mr_error_print(&err);
}

static int show_one(const mr_plugins *plugins, const char *name, bool json) {
    entry e;
    for (int32_t i = 0; entry_at(plugins, i, &e); i++) {
        if (strcmp(e.name, name) == 0) {
            if (!json) {
                return print_entry(&e);
            }
            mr_json_print(entry_json(&e), MR_DIGITS_EXACT);
            return MR_EXIT_OK;
        }
    }
    return unknown_name(plugins, name);
}

static int show(const ops_values *v, const mr_plugins *plugins) {
    if (v->name) {
        return show_one(plugins, v->name, v->json);
    }
    if (v->json) {
        print_json(plugins);
    } else if (v->missing) {
        print_missing();
    } else {
        print_list(plugins);
    }
    return MR_EXIT_OK;
}

static int run_ops(const void *values) {
    const ops_values *v = values;
    mr_error err = MR_ERROR_INIT;
    mr_plugins plugins = {0};
    int code = mr_plugins_open(&plugins, &v->plugins, &err) == MR_OK ? show(v, &plugins)
                                                                     : mr_error_print(&err);
    mr_plugins_close(&plugins);
    return code;
}

static const mr_option_row operands[] = {
    {.name = "NAME",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(ops_values, name),
     .fallback = "",
     .word = word_at,
     .doc = "An op or a source to show in full; without it all are listed."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "missing",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(ops_values, missing),
     .doc = "List the parts left out of this build, and which library would bring each."},
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(ops_values, json),
     .doc = "Print one line of JSON instead of text."},
    MR_PLUGIN_ROW(ops_values),
    {.name = NULL},
};

const mr_command mr_command_ops = {
    .name = "ops",
    .summary = "List ops and sources, or show one with its parameters and examples.",
    .doc = "Lists the sources and ops of this build, or shows one in full: parameters with "
           "kind, range and default, and examples with the digest of what the op makes of them "
           "on this machine. Exit code 1 says that such a digest is not the one in the op's "
           "table.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(ops_values),
    .run = run_ops,
};
