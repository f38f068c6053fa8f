/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - millrace cache: looks after the stores of prepared samples. Here is which stores are
 * meant, and clear; the other actions have files of their own. */
/* MR_REQUIRES(lmdb) */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_parts.h"
#include "command.h"
#include "errors.h"
#include "ranks.h"
#include "text.h"

enum { STAT, VERIFY, CLEAR, WARM };

/* ---- Which stores -------------------------------------------------------------------------- */

/* Where a store is, so that two spellings of one folder are one. */
static void place_of(const char *params, char *out, size_t size) {
    char real[PATH_MAX];
    const char *path = "", *tier = "disk";
    json_t *object = json_loads(params, 0, NULL);
    json_unpack(object, "{s?s, s?s}", "path", &path, "tier", &tier);
    snprintf(out, size, "%s:%s", tier, *path && realpath(path, real) ? real : path);
    json_decref(object);
}

static bool is_in_memory(const char *params) {
    const char *tier = "disk";
    json_t *object = json_loads(params, 0, NULL);
    json_unpack(object, "{s?s}", "tier", &tier);
    bool memory = strcmp(tier, "memory") == 0;
    json_decref(object);
    return memory;
}

static bool same_store(const char *a, const char *b) {
    char first[PATH_MAX + 16], second[PATH_MAX + 16];
    place_of(a, first, sizeof first);
    place_of(b, second, sizeof second);
    return strcmp(first, second) == 0;
}

static mr_status add_target(mr_cache_targets *t, int32_t stage, char *params, mr_error *err) {
    if (!params) {
        return mr_fail(err, MR_E_MEMORY, "out of memory");
    }
    mr_cache_target *target = &t->list[t->n];
    *target = (mr_cache_target){.stage = stage, .params = params, .memory = is_in_memory(params)};
    for (int32_t i = 0; i < t->n && !target->again; i++) {
        target->again = same_store(t->list[i].params, params);
    }
    t->n++;
    return MR_OK;
}

static mr_status add_named(mr_cache_targets *t, const mr_cache_values *v, mr_error *err) {
    json_t *object = json_pack("{s:s}", "tier", v->memory ? "memory" : "disk");
    if (v->path) {
        json_object_set_new(object, "path", mr_json_text(v->path));
    }
    char *text = json_dumps(object, 0);
    json_decref(object);
    return add_target(t, 0, text, err);
}

static mr_status add_caches(mr_cache_targets *t, mr_error *err) {
    mr_status status = MR_OK;
    char key[17];
    for (int32_t i = 1; status == MR_OK && i < mr_pipeline_n_stages(t->pipeline); i++) {
        if (mr_pipeline_cache_prefix(t->pipeline, i, key) == MR_OK) {
            status = add_target(t, i, strdup(mr_pipeline_stage(t->pipeline, i)->params), err);
        }
    }
    if (status == MR_OK && t->n == 0 && !t->objects) {
        mr_fail(err, MR_E_PARAM, "the pipeline has no cache");
        mr_hint(err, "add {\"cache\": {}} to its ops, or \"cache\": \"auto\" to the document");
        return err->code;
    }
    return status;
}

static mr_status find_targets(mr_cache_targets *t, const mr_cache_values *v, mr_error *err) {
    /* The bytes of objects may be kept as well: a pipeline without a cache can be warmed then. */
    t->objects = v->action == WARM && t->pipeline && mr_pipeline_objects(t->pipeline)[0];
    size_t most = t->pipeline ? (size_t)mr_pipeline_n_stages(t->pipeline) : 1;
    t->list = calloc(most, sizeof *t->list);
    if (!t->list) {
        return mr_fail(err, MR_E_MEMORY, "out of memory");
    }
    return t->pipeline ? add_caches(t, err) : add_named(t, v, err);
}

static void free_targets(mr_cache_targets *t) {
    for (int32_t i = 0; i < t->n; i++) {
        free(t->list[i].params);
    }
    free(t->list);
}

/* ---- Clear --------------------------------------------------------------------------------- */

/* What is not there need not be cleared; but a folder that is named is meant to be a store. */
static mr_status clear_one(const mr_cache_values *v, const mr_cache_targets *t,
                           const mr_cache_target *target, int64_t *deleted, mr_error *err) {
    char key[17];
    bool named = t->pipeline && mr_pipeline_cache_prefix(t->pipeline, target->stage, key) == MR_OK;
    mr_status status = mr_store_clear(target->params, named ? key : NULL, deleted, err);
    return status == MR_E_NOT_FOUND && !v->path ? MR_OK : status;
}

static int clear(const mr_cache_values *v, const mr_cache_targets *t) {
    mr_error err = MR_ERROR_INIT;
    int64_t all = 0;
    mr_status status = MR_OK;
    char number[32];
    for (int32_t i = 0; status == MR_OK && i < t->n; i++) {
        int64_t deleted = 0;
        status = clear_one(v, t, &t->list[i], &deleted, &err);
        all += deleted;
    }
    if (status != MR_OK) {
        return mr_error_print(&err);
    }
    if (v->json) {
        mr_json_print(json_pack("{s:I}", "deleted", (json_int_t)all), MR_DIGITS_SHORT);
    } else {
        printf("%s %s deleted\n", mr_text_count(number, sizeof number, all),
               mr_text_plural(all, "entry", "entries"));
    }
    return MR_EXIT_OK;
}

/* ---- The command --------------------------------------------------------------------------- */

static mr_status check_values(const mr_cache_values *v, mr_error *err) {
    if (v->document && (v->path || v->memory)) {
        mr_fail(err, MR_E_PARAM, "a pipeline and --%s exclude each other",
                v->path ? "path" : "memory");
        mr_hint(err, "the pipeline's caches say where their stores are");
        return err->code;
    }
    if (v->action == WARM && !v->document) {
        mr_fail(err, MR_E_PARAM, "PIPELINE.json is missing");
        mr_hint(err, "millrace cache warm PIPELINE.json");
        return err->code;
    }
    return mr_ranks_check(v->world, v->rank, err);
}

static int act(const mr_cache_values *v, const mr_cache_targets *t) {
    switch (v->action) {
    case STAT:
        return mr_cache_stat(v, t);
    case VERIFY:
        return mr_cache_verify(v, t);
    case CLEAR:
        return clear(v, t);
    default:
        return mr_cache_warm(v, t);
    }
}

static int run_pipeline(const mr_cache_values *v, mr_cache_targets *t) {
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    int code = MR_EXIT_OK;
    if (v->document && mr_pipeline_load(&pipeline, v->document, t->plugins->ops, &err) != MR_OK) {
        return mr_error_print_document(&err, v->document);
    }
    t->pipeline = pipeline;
    code = find_targets(t, v, &err) == MR_OK ? act(v, t) : mr_error_print(&err);
    free_targets(t);
    mr_pipeline_free(pipeline);
    return code;
}

static int run_cache(const void *values) {
    const mr_cache_values *v = values;
    mr_error err = MR_ERROR_INIT;
    mr_plugins plugins = {0};
    mr_cache_targets targets = {.plugins = &plugins};
    mr_status status = check_values(v, &err);
    if (status == MR_OK) {
        status = mr_plugins_open(&plugins, &v->plugins, &err);
    }
    int code = status == MR_OK ? run_pipeline(v, &targets) : mr_error_print(&err);
    mr_plugins_close(&plugins);
    return code;
}

static const char *const actions[] = {"stat", "verify", "clear", "warm", NULL};

static const mr_option_row operands[] = {
    {.name = "ACTION",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(mr_cache_values, action),
     .choices = actions,
     .doc = "stat: what is in the store. verify: read everything and look for damage. "
            "clear: delete it. warm: fill it."},
    {.name = "PIPELINE.json",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(mr_cache_values, document),
     .fallback = "",
     .doc = "Whose caches are meant; otherwise the user's own store. clear then deletes the "
            "entries of these caches alone, also while the store is in use, but those of every "
            "dataset that went through the same ops; warm needs it."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "path",
     .argument = "DIR",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(mr_cache_values, path),
     .doc = "The store in this folder."},
    {.name = "memory",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(mr_cache_values, memory),
     .doc = "The user's store in memory, if a process is using it now."},
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(mr_cache_values, json),
     .doc = "Print one line of JSON instead of text."},
    MR_THREADS_ROW(mr_cache_values),
    MR_WORLD_ROW(mr_cache_values),
    MR_RANK_ROW(mr_cache_values),
    MR_PLUGIN_ROW(mr_cache_values),
    {.name = NULL},
};

const mr_command mr_command_cache = {
    .name = "cache",
    .summary = "Look at, check, clear or fill the store of prepared samples.",
    .doc = "The op cache keeps samples in a store. stat shows its size and what it holds of which "
           "pipeline. verify reads every value and checks it; a part of the store in which "
           "something is damaged starts anew, and its samples are made again when next needed. "
           "clear deletes a store that nobody is using, or the entries of one pipeline, for which "
           "the store may be in use; these are told by the ops before the cache, not by the "
           "dataset, so other datasets that went through the same ops lose theirs too. warm runs a "
           "pipeline up to its last cache on disk, once over "
           "the dataset; stopped and started again it goes on where it was. Where "
           "MILLRACE_OBJECTS names a store for the bytes of objects on servers, a pipeline without "
           "a cache is run whole, which fills that store. See docs/cache.md and docs/far.md.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(mr_cache_values),
    .run = run_cache,
};
