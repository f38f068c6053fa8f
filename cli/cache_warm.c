/* SPDX-License-Identifier: Apache-2.0 */
/* cache_warm.c - millrace cache warm: the pipeline up to its last cache on disk, once over the
 * dataset.
 * What the store has already is only read, so that a second run goes on where the first ended.
 * A pipeline without a cache is run whole, for the bytes of objects on servers: which of them a run
 * asks for depends on its order and its fields, so neither may be changed here. */
/* MR_REQUIRES(lmdb) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_parts.h"
#include "clock.h"
#include "errors.h"
#include "progress.h"
#include "outcome.h"
#include "stop.h"
#include "text.h"

enum { BATCH = 16 }; /* of a rank: whole images may be large */

typedef struct warm {
    const mr_cache_values *values;
    int32_t stage;         /* of the last cache that is filled; 0: objects are kept, no samples */
    mr_pipeline *pipeline; /* the part that is run */
    mr_loader *loader;
    mr_progress progress;
    mr_progress_point point;
    int signal;
    mr_error err;
} warm;

/* ---- The part up to the last cache --------------------------------------------------------- */

/* A store in memory would be gone with this process. */
static mr_status find_last(warm *w, const mr_cache_targets *t) {
    for (int32_t i = 0; i < t->n; i++) {
        w->stage = t->list[i].memory ? w->stage : t->list[i].stage;
    }
    if (w->stage == 0 && t->n > 0) {
        mr_fail(&w->err, MR_E_PARAM, "a store in memory would be gone when this command ends");
        mr_hint(&w->err, "the first epoch of a run fills it; \"tier\": \"disk\" can be warmed");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static mr_status parse(warm *w, const mr_cache_targets *t, json_t *document) {
    mr_pipeline_free(w->pipeline);
    w->pipeline = NULL;
    char *text = json_dumps(document, JSON_REAL_PRECISION(MR_DIGITS_EXACT));
    if (!text) {
        return mr_fail(&w->err, MR_E_MEMORY, "out of memory");
    }
    mr_status status =
        mr_pipeline_parse(&w->pipeline, text, strlen(text), t->plugins->ops, &w->err);
    free(text);
    return status;
}

static json_t *cut_document(const warm *w, const mr_cache_targets *t) {
    int64_t world = w->values->world;
    json_t *document = json_loads(mr_pipeline_json(t->pipeline), 0, NULL);
    json_t *ops = json_object_get(document, "ops");
    size_t kept = (size_t)w->stage;
    while (json_array_size(ops) > kept) {
        json_array_remove(ops, kept);
    }
    json_object_set_new(document, "shuffle", json_false());
    json_object_set_new(document, "epochs", json_integer(1));
    json_object_set_new(document, "remainder", json_string("keep"));
    json_object_set_new(document, "batch", json_integer(BATCH * (world > 0 ? world : 1)));
    json_object_set_new(document, "fields", json_array());
    return document;
}

/* As it is, once over the dataset. */
static mr_status take_whole(warm *w, const mr_cache_targets *t) {
    json_t *document = json_loads(mr_pipeline_json(t->pipeline), 0, NULL);
    json_object_set_new(document, "epochs", json_integer(1));
    json_object_set_new(document, "remainder", json_string("keep"));
    mr_status status = parse(w, t, document);
    json_decref(document);
    return status;
}

/* Whatever is delivered is thrown away, so one field is enough; its name is known once the part has
 * been parsed. */
static mr_status refuse_mix(warm *w) {
    mr_fail(&w->err, MR_E_UNSUPPORTED, "the caches of a mix cannot be filled beforehand");
    mr_hint(&w->err, "fill those of its children, each by itself");
    return MR_E_UNSUPPORTED;
}

static mr_status cut_at_cache(warm *w, const mr_cache_targets *t) {
    json_t *document = cut_document(w, t);
    bool is_mix = json_object_get(json_object_get(document, "source"), "mix") != NULL;
    mr_status status = is_mix ? refuse_mix(w) : parse(w, t, document);
    if (status == MR_OK) {
        const char *name = mr_pipeline_field(w->pipeline, 0)->name;
        json_object_set_new(document, "fields", json_pack("[s]", name));
        status = parse(w, t, document);
    }
    json_decref(document);
    return status;
}

static mr_status check_key(warm *w, const mr_cache_targets *t) {
    char meant[17] = "", made[17] = "-";
    mr_pipeline_cache_prefix(t->pipeline, w->stage, meant);
    mr_pipeline_cache_prefix(w->pipeline, w->stage, made);
    return strcmp(meant, made) == 0
               ? MR_OK
               : mr_fail(&w->err, MR_E_INTERNAL, "the part of the pipeline has another key");
}

static mr_status cut_pipeline(warm *w, const mr_cache_targets *t) {
    if (w->stage == 0) {
        return take_whole(w, t);
    }
    mr_status status = cut_at_cache(w, t);
    return status == MR_OK ? check_key(w, t) : status;
}

/* ---- Filling ------------------------------------------------------------------------------- */

static void write_log(void *user, const char *text) {
    mr_progress_warn(user, text);
}

/* A run goes on without a store; this one has nothing to do without. Of two caches that say
 * "keep": "auto" one is left out, and its store closed on purpose. */
static mr_status check_stores(warm *w) {
    mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
    for (int32_t i = 0; mr_loader_cache(w->loader, i, &stats) == MR_OK; i++) {
        bool left_out = stats.kept && strcmp(stats.kept, "nothing") == 0;
        if (!stats.path && !left_out) {
            return mr_fail(&w->err, MR_E_IO, "the store could not be opened");
        }
    }
    return MR_OK;
}

/* Blocks that were kept already, and those that a server gave. */
static void objects_of(const warm *w, mr_origin_stats *kept, mr_origin_stats *fetched) {
    mr_origin_stats origin = {.size = (uint32_t)sizeof origin};
    *kept = *fetched = (mr_origin_stats){.size = (uint32_t)sizeof origin};
    for (int32_t i = 0; mr_loader_origin(w->loader, i, &origin) == MR_OK; i++) {
        if (strcmp(origin.name, "objects") == 0) {
            *kept = origin;
        } else if (strcmp(origin.name, "object") == 0) {
            *fetched = origin;
        }
    }
}

static mr_status check_objects(warm *w) {
    mr_origin_stats kept, fetched;
    objects_of(w, &kept, &fetched);
    if (w->stage > 0 || kept.name) {
        return MR_OK;
    }
    mr_fail(&w->err, MR_E_PARAM, "the pipeline has no cache, and reads no objects from servers");
    mr_hint(&w->err, "add {\"cache\": {}} to its ops, or \"cache\": \"auto\" to the document");
    return MR_E_PARAM;
}

static mr_status open_loader(warm *w) {
    const mr_cache_values *v = w->values;
    mr_options options = MR_OPTIONS_INIT;
    options.threads = (uint32_t)v->threads;
    options.world = (uint32_t)v->world;
    options.rank = v->rank < 0 ? 0 : (uint32_t)v->rank;
    options.log = (mr_log){write_log, &w->progress};
    mr_status status = mr_loader_open(&w->loader, w->pipeline, &options, &w->err);
    w->progress.loader = w->loader;
    if (status == MR_OK) {
        status = check_stores(w);
    }
    return status == MR_OK ? check_objects(w) : status;
}

/* The last cache's: there already, and made. */
static mr_cache_stats last_cache(const warm *w) {
    mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_cache(w->loader, mr_loader_n_caches(w->loader) - 1, &stats);
    return stats;
}

static void count_batch(warm *w, const mr_batch *batch) {
    mr_cache_stats cache = last_cache(w);
    w->point.step = mr_batch_step(batch);
    w->point.steps++;
    w->point.samples += mr_batch_size(batch);
    w->point.asked = cache.hits + cache.misses;
    w->point.hits = cache.hits;
    mr_progress_update(&w->progress, &w->point);
}

static mr_status take_batches(warm *w) {
    mr_batch *batch = NULL;
    mr_status status;
    while ((status = mr_loader_next(w->loader, &batch, &w->err)) == MR_OK) {
        count_batch(w, batch);
        mr_batch_unref(batch);
    }
    return status == MR_END ? MR_OK : status;
}

static mr_status fill(warm *w) {
    mr_stop stop;
    mr_status status = mr_stop_begin(&stop, w->loader, &w->err);
    if (status != MR_OK) {
        return status;
    }
    w->progress.epoch_steps = mr_loader_n_steps(w->loader);
    w->progress.run_steps = mr_loader_steps_left(w->loader);
    status = take_batches(w);
    mr_progress_end(&w->progress);
    mr_loader_flush(w->loader);
    w->signal = mr_stop_end(&stop);
    return w->signal && status == MR_E_CANCELLED ? MR_OK : status;
}

/* ---- After --------------------------------------------------------------------------------- */

static void print_objects(const warm *w) {
    mr_origin_stats kept, fetched;
    char here[32], came[32], here_bytes[32], came_bytes[32];
    objects_of(w, &kept, &fetched);
    if (kept.name) {
        printf("  objects      %s %s fetched (%s), %s kept before (%s)\n",
               mr_text_count(came, sizeof came, fetched.found),
               mr_text_plural(fetched.found, "block", "blocks"),
               mr_text_bytes(came_bytes, sizeof came_bytes, fetched.bytes),
               mr_text_count(here, sizeof here, kept.found),
               mr_text_bytes(here_bytes, sizeof here_bytes, kept.bytes));
    }
}

static json_t *objects_json(const warm *w) {
    mr_origin_stats kept, fetched;
    objects_of(w, &kept, &fetched);
    return kept.name ? json_pack("{s:I, s:I, s:I, s:I}", "fetched", (json_int_t)fetched.found,
                                 "fetched_bytes", (json_int_t)fetched.bytes, "kept",
                                 (json_int_t)kept.found, "kept_bytes", (json_int_t)kept.bytes)
                     : NULL;
}

static void print_text(const warm *w, const mr_outcome *report) {
    char samples[32];
    printf("%s %s%s\n", mr_text_count(samples, sizeof samples, w->point.samples),
           mr_text_plural(w->point.samples, "sample", "samples"),
           w->signal       ? ", then stopped"
           : report->error ? ", then failed"
                           : "");
    mr_outcome_caches(report);
    print_objects(w);
}

static void print_json(const warm *w, const mr_outcome *report) {
    json_t *object = json_object();
    json_object_set_new(object, "samples", json_integer(w->point.samples));
    json_object_set_new(object, "caches", mr_outcome_caches_json(report));
    json_t *objects = objects_json(w);
    if (objects) {
        json_object_set_new(object, "objects", objects);
    }
    json_object_set_new(object, "signal", json_integer(w->signal));
    json_object_set_new(object, "error",
                        report->error ? mr_error_json(report->error) : json_null());
    mr_json_print(object, MR_DIGITS_SHORT);
}

/* Samples that found no room in a store; stores that caches share are counted once. */
static int64_t count_refused(const warm *w, const mr_cache_targets *t) {
    int64_t refused = 0;
    for (int32_t i = 0; i < t->n; i++) {
        mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
        if (!t->list[i].again && mr_loader_cache(w->loader, i, &stats) == MR_OK) {
            refused += stats.refused;
        }
    }
    return refused;
}

static int finish(const warm *w, const mr_cache_targets *t, mr_status status) {
    const mr_outcome report = {
        .pipeline = w->pipeline, .loader = w->loader, .error = status == MR_OK ? NULL : &w->err};
    if (w->values->json) {
        print_json(w, &report);
    } else {
        print_text(w, &report);
    }
    if (status != MR_OK) {
        return mr_error_print(&w->err);
    }
    if (w->signal) {
        return 128 + w->signal;
    }
    return count_refused(w, t) > 0 ? MR_EXIT_DIFFERENT : MR_EXIT_OK;
}

int mr_cache_warm(const mr_cache_values *v, const mr_cache_targets *t) {
    warm w = {.values = v, .err = MR_ERROR_INIT};
    mr_progress_begin(&w.progress, true);
    mr_status status = find_last(&w, t);
    if (status == MR_OK) {
        status = cut_pipeline(&w, t);
    }
    if (status == MR_OK) {
        status = open_loader(&w);
    }
    int code = status == MR_OK ? finish(&w, t, fill(&w)) : mr_error_print(&w.err);
    mr_loader_close(w.loader);
    mr_pipeline_free(w.pipeline);
    return code;
}
