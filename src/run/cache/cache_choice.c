/* SPDX-License-Identifier: Apache-2.0 */
/* cache_choice.c - see cache_choice.h: looks at a few samples, then asks plan/keep.h. */
#include "run/cache/cache_choice.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/machine.h"
#include "plan/keep.h"
#include "run/cache/memo.h"

enum { LOOKED_AT = 4 }; /* samples */

static bool is_choosable(const mr_cache *cache) {
    const mr_store_params *params = cache->node->params;
    return params->keep == MR_KEEP_AUTO;
}

/* Of those before the decoder the last, and of those behind it; or NULL. */
static mr_cache *find(const mr_caches *caches, int32_t from, int32_t to) {
    mr_cache *found = NULL;
    for (int32_t i = 0; i < caches->n; i++) {
        mr_cache *cache = &caches->list[i];
        bool inside = cache->op >= from && cache->op < to;
        found = inside && is_choosable(cache) ? cache : found;
    }
    return found;
}

/* ---- Facts ---- */
static int64_t sample_at(int64_t samples, int i) {
    return samples / LOOKED_AT * i;
}

/* What an op makes of bytes, by their header alone; 0: who knows. */
static int64_t bytes_made(const mr_op_node *op, const mr_view *bytes) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena};
    mr_type type;
    mr_status status = op->class->peek(op->params, &call, bytes, &type, NULL);
    int64_t made = status == MR_OK ? mr_type_bytes(&type) : 0;
    mr_arena_free(&arena);
    return made > 0 ? made : 0;
}

static int64_t bytes_of_sample(const mr_caches *caches, const mr_op_node *op, int64_t sample,
                               mr_view *fields) {
    const mr_dataset *dataset = caches->dataset;
    const mr_pipeline *p = caches->pipeline;
    mr_own_block own = {0};
    bool is_read = mr_dataset_is_read(dataset);
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        fields[f] = (mr_view){.type = p->variables[f].type, .size = f == 0 ? 0 : MR_UNWANTED};
    }
    if (is_read && mr_dataset_fetch(dataset, sample, &own, NULL) < 0) {
        return 0;
    }
    mr_status status = mr_dataset_fill(dataset, is_read ? &own.block : NULL, sample, fields, NULL);
    int64_t bytes = status == MR_OK ? bytes_made(op, &fields[0]) : 0;
    if (is_read) {
        mr_dataset_release(dataset, &own);
    }
    return bytes;
}

/* Blocks of many samples cost too much to look into. */
static int64_t mean_image(const mr_caches *caches, const mr_op_node *op, int64_t samples) {
    int64_t total = 0, n = 0;
    mr_view *fields = mr_zalloc((size_t)caches->pipeline->n_source_fields, sizeof *fields);
    bool can_look = fields && op->class->peek && !mr_dataset_has_blocks(caches->dataset);
    for (int i = 0; i < LOOKED_AT && can_look; i++) {
        int64_t bytes = bytes_of_sample(caches, op, sample_at(samples, i), fields);
        total += bytes;
        n += bytes > 0;
    }
    mr_free(fields);
    return n > 0 ? total / n : 0;
}

/* Does the store have all the samples that are looked at? */
static bool are_kept(const mr_caches *caches, const mr_cache *images, int64_t samples) {
    mr_store_reader *reader = mr_store_reader_new(images->store);
    bool kept = reader != NULL;
    for (int i = 0; i < LOOKED_AT && kept; i++) {
        mr_identity identity;
        mr_caches_identify(caches, sample_at(samples, i), &identity);
        mr_store_key key = mr_store_key_of(images->node->prefix, identity.words);
        kept = identity.known && mr_store_has(reader, &key);
    }
    mr_store_reader_free(reader);
    return kept;
}

/* What has no files is made by a function of somebody's, which may be as slow as any network. */
static bool is_far(const mr_caches *caches) {
    mr_extent own, *extents = &own;
    int32_t n = 0;
    if (!mr_dataset_has_files(caches->dataset) ||
        mr_dataset_locate(caches->dataset, 0, &own, 1, &extents, &n, NULL) < 0) {
        return true;
    }
    bool far = n > 0 && mr_path_is_far(extents[0].path);
    if (extents != &own) {
        mr_free(extents);
    }
    return far;
}

static mr_keep_facts find_facts(const mr_caches *caches, const mr_cache *images,
                                const mr_caches_config *config) {
    const mr_store_params *params = images->node->params;
    const mr_op_node *op = &caches->pipeline->ops[mr_memos_op(caches->pipeline)];
    int64_t samples = caches->dataset->shape.samples;
    return (mr_keep_facts){
        .samples = samples,
        .image_bytes = mean_image(caches, op, samples),
        .epochs = config->epochs,
        .room = params->size,
        .memory = mr_machine_memory(),
        .threads = config->threads,
        .is_far = is_far(caches),
        .is_kept = are_kept(caches, images, samples),
    };
}

/* ---- The choice ---- */
static void leave_out(mr_cache *cache) {
    cache->keeps = false;
    cache->is_left_out = true;
    mr_store_leave(cache->store, cache->plan, 0, 0);
    mr_store_close(cache->store);
    cache->store = NULL;
}

static void choose_between(mr_caches *caches, mr_cache *files, mr_cache *images,
                           const mr_caches_config *config) {
    const mr_keep_facts facts = find_facts(caches, images, config);
    mr_keep_choice choice = mr_keep_choose(&facts);
    images->keeps = choice == MR_KEEP_IMAGES;
    files->keeps = choice == MR_KEEP_FILES;
    leave_out(choice == MR_KEEP_IMAGES ? files : images);
}

/* A cache behind all ops is there to be filled: millrace cache warm does that. */
static bool is_asked_for(const mr_caches *caches, const mr_cache *images) {
    return images->op + 1 == caches->pipeline->n_ops;
}

void mr_caches_choose(mr_caches *caches, const mr_caches_config *config) {
    int32_t decoder = mr_memos_op(caches->pipeline);
    mr_cache *files = find(caches, 0, decoder), *images = find(caches, decoder, INT32_MAX);
    bool two = files && files->store && images && images->store;
    if (two && !is_asked_for(caches, images)) {
        choose_between(caches, files, images, config);
    } else if (images && images->store) {
        images->keeps = true;
        if (two) {
            leave_out(files);
        }
    } else if (files) {
        files->keeps = is_far(caches);
    }
}
