/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - see dataset.h. */
#include "run/read/dataset.h"

#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "io/far_name.h"
#include "io/file.h"
#include "run/cache/keep.h"

/* ---- Opening ---- */
/* What a source says of its blocks, written down once: it is looked at for every sample. */
static mr_status list_blocks(mr_dataset *dataset, mr_error *err) {
    int64_t n = dataset->shape.blocks;
    if (n <= 0) {
        return MR_OK;
    }
    dataset->first = mr_zalloc((size_t)n + 1, sizeof *dataset->first);
    if (!dataset->first) {
        return mr_fail_memory(err, ((size_t)n + 1) * sizeof *dataset->first);
    }
    for (int64_t b = 0; b < n; b++) {
        dataset->first[b] = dataset->class->first_sample(dataset->state, b);
        if (b > 0 ? dataset->first[b] < dataset->first[b - 1] : dataset->first[b] != 0) {
            return mr_fail(err, MR_E_INTERNAL, "block %lld begins before the one before it",
                           (long long)b);
        }
    }
    dataset->first[n] = dataset->shape.samples;
    return dataset->first[n] >= dataset->first[n - 1]
               ? MR_OK
               : mr_fail(err, MR_E_INTERNAL, "the blocks have more samples than the dataset");
}

/* What a stream says after it was opened is kept: see news.h. */
static mr_status choose_log(mr_dataset *dataset, const mr_pipeline *pipeline, const mr_log **log,
                            mr_error *err) {
    const mr_source_class *class = pipeline->source;
    if (!class->is_stream || !class->is_stream(pipeline->source_params)) {
        return MR_OK;
    }
    dataset->news = mr_zalloc(1, sizeof *dataset->news);
    if (!dataset->news) {
        return mr_fail_memory(err, sizeof *dataset->news);
    }
    dataset->noting = (mr_log){mr_news_note, dataset->news};
    *log = &dataset->noting;
    return MR_OK;
}

static mr_status open_source(mr_dataset *dataset, const mr_pipeline *pipeline, const bool *fields,
                             bool single, const mr_dataset_terms *terms, const mr_log *log,
                             mr_error *err) {
    mr_keep *keep = mr_keep_new(pipeline->source->name, log);
    const mr_log *given = log;
    mr_status status = choose_log(dataset, pipeline, &given, err);
    const mr_wanted wanted = {
        .size = (uint32_t)sizeof wanted,
        .n_fields = pipeline->n_source_fields,
        .fields = fields,
        .single = single,
        .in_order = !pipeline->settings.shuffle,
        .log = given,
        .keeper = mr_keep_keeper(keep),
        .mapper = dataset->mapping ? &dataset->mapping->mapper : NULL,
        .objects = terms->objects,
        .cpu = terms->cpu,
    };
    dataset->class = pipeline->source;
    if (status == MR_OK) {
        status = dataset->class->open(pipeline->source_params, &wanted, &dataset->state, err);
    }
    mr_keep_free(keep);
    if (dataset->news) {
        mr_news_tell(dataset->news, log);
    }
    return status;
}

/* ---- Servers ---- */
static bool block_is_far(const mr_dataset *dataset, int64_t block) {
    mr_extent own[4], *extents = own;
    mr_error ignored = MR_ERROR_INIT;
    int32_t n = 0;
    bool found = mr_dataset_locate(dataset, block, own, 4, &extents, &n, &ignored) == MR_OK;
    bool far = false;
    for (int32_t i = 0; found && !far && i < n; i++) {
        far = mr_is_far(extents[i].path);
    }
    if (extents != own) {
        mr_free(extents);
    }
    return far;
}

/* A source that does not say is asked for all of its blocks: one address among names of files is
 * enough. */
static bool lies_on_servers(const mr_dataset *dataset) {
    if (!mr_dataset_is_read(dataset) || dataset->shape.servers == MR_SERVERS_NONE) {
        return false;
    }
    bool far = dataset->shape.servers == MR_SERVERS_SOME;
    int64_t n = mr_dataset_has_blocks(dataset) ? dataset->shape.blocks : dataset->shape.samples;
    for (int64_t block = 0; !far && block < n; block++) {
        far = block_is_far(dataset, block);
    }
    return far;
}

bool mr_dataset_may_map(const mr_pipeline *pipeline) {
    return pipeline->source && pipeline->source->maps;
}

bool mr_dataset_maps(const mr_pipeline *pipeline, int32_t field) {
    return pipeline->source->maps(pipeline->source_params, field);
}

mr_status mr_dataset_open(mr_dataset *dataset, const mr_pipeline *pipeline,
                          const mr_dataset_terms *terms, const mr_log *log, mr_error *err) {
    MR_TRY(mr_mapping_new(&dataset->mapping, pipeline, err));
    return mr_dataset_open_for(dataset, pipeline, pipeline->wanted,
                               mr_pipeline_wants_single(pipeline), terms, log, err);
}

mr_status mr_dataset_open_for(mr_dataset *dataset, const mr_pipeline *pipeline, const bool *wanted,
                              bool single, const mr_dataset_terms *terms, const mr_log *log,
                              mr_error *err) {
    dataset->terms = *terms;
    dataset->limits = mr_servers_limits(&pipeline->servers);
    MR_TRY(open_source(dataset, pipeline, wanted, single, terms, log, err));
    dataset->shape.size = (uint32_t)sizeof dataset->shape;
    dataset->class->shape(dataset->state, &dataset->shape);
    const uint64_t *words = dataset->shape.fingerprint;
    mr_hash_hex((mr_hash128){words[0], words[1]}, dataset->fingerprint);
    dataset->shape.parts = dataset->shape.parts > 0 ? dataset->shape.parts : 1;
    if (dataset->shape.partitions > 0 && dataset->shape.samples < 0) {
        dataset->shape.samples = MR_MAX_SAMPLES;
    }
    if (dataset->shape.samples < 1 || dataset->shape.samples > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_NOT_FOUND, "the dataset has %lld samples",
                       (long long)dataset->shape.samples);
    }
    MR_TRY(list_blocks(dataset, err));
    dataset->is_far = lies_on_servers(dataset);
    return MR_OK;
}

void mr_dataset_close(mr_dataset *dataset) {
    if (dataset->class) {
        dataset->class->close(dataset->state);
    }
    mr_mapping_free(dataset->mapping);
    mr_free(dataset->news);
    mr_free(dataset->first);
    *dataset = (mr_dataset){0};
}

/* ---- Blocks ---- */
int64_t mr_dataset_block_of(const mr_dataset *dataset, int64_t sample) {
    if (!dataset->first) {
        return sample;
    }
    int64_t low = 0, high = dataset->shape.blocks; /* first[low] <= sample < first[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (dataset->first[middle] <= sample) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t mr_dataset_first_of(const mr_dataset *dataset, int64_t block) {
    return dataset->first ? dataset->first[block] : block;
}

int64_t mr_dataset_end_of(const mr_dataset *dataset, int64_t block) {
    return mr_dataset_first_of(dataset, block + 1);
}

int64_t mr_dataset_block_bytes(const mr_dataset *dataset, int64_t block) {
    return dataset->class->block_bytes ? dataset->class->block_bytes(dataset->state, block) : -1;
}

bool mr_dataset_has_files(const mr_dataset *dataset) {
    return dataset->class->locate != NULL;
}

bool mr_dataset_may_have_blocks(const mr_dataset *dataset) {
    return dataset->class->first_sample != NULL;
}

/* ---- Streams ---- */
mr_status mr_dataset_advance(const mr_dataset *dataset, int32_t partition, int64_t number,
                             const mr_entry_sink *sink, mr_error *err) {
    return dataset->class->advance(dataset->state, partition, number, sink, err);
}

mr_status mr_dataset_recall(const mr_dataset *dataset, int32_t partition, int64_t number,
                            const mr_entry_sink *sink, mr_error *err) {
    return dataset->class->recall(dataset->state, partition, number, sink, err);
}

mr_status mr_dataset_oldest(const mr_dataset *dataset, int32_t partition, int64_t *out,
                            mr_error *err) {
    return dataset->class->oldest(dataset->state, partition, out, err);
}

bool mr_dataset_tells_newest(const mr_dataset *dataset) {
    return dataset->class->newest != NULL;
}

mr_status mr_dataset_newest(const mr_dataset *dataset, int32_t partition, int64_t *out,
                            mr_error *err) {
    return dataset->class->newest(dataset->state, partition, out, err);
}

/* ---- Samples ---- */
const char *mr_dataset_class_name(const mr_dataset *dataset, int32_t field, int64_t i) {
    return dataset->class->class_name ? dataset->class->class_name(dataset->state, field, i) : NULL;
}

bool mr_dataset_gathers(const mr_dataset *dataset) {
    return dataset->class->gather != NULL;
}

bool mr_dataset_lends(const mr_dataset *dataset) {
    return dataset->class->lend && mr_dataset_is_read(dataset) && mr_dataset_has_blocks(dataset);
}

bool mr_is_samples_fault(const mr_error *err) {
    bool files_own = err->sys == 0 || err->sys == ENOENT || err->sys == ENOTDIR ||
                     err->sys == EACCES || err->sys == EPERM || err->sys == ELOOP ||
                     err->sys == EISDIR || err->sys == ENAMETOOLONG;
    bool servers = err->code == MR_E_IO && err->sys == 0;
    return files_own && !servers && err->code != MR_E_MEMORY && err->code != MR_E_INTERNAL &&
           err->code != MR_E_CANCELLED;
}

void mr_dataset_name(const mr_dataset *dataset, int64_t sample, char *buffer, size_t size) {
    dataset->class->sample_name(dataset->state, sample, buffer, size);
}

bool mr_dataset_identify(const mr_dataset *dataset, int64_t sample, uint64_t out[2]) {
    return dataset->class->identify && dataset->class->identify(dataset->state, sample, out);
}

mr_status mr_dataset_lengths(const mr_dataset *dataset, int32_t field, int64_t first, int64_t count,
                             int64_t *out, mr_error *err) {
    return dataset->class->lengths
               ? dataset->class->lengths(dataset->state, field, first, count, out, err)
               : MR_E_UNSUPPORTED;
}

void mr_dataset_prefetch(const mr_dataset *dataset, int64_t sample) {
    if (dataset->class->prefetch) {
        dataset->class->prefetch(dataset->state, sample);
    }
}

mr_status mr_dataset_fill(const mr_dataset *dataset, const mr_block *block, int64_t sample,
                          mr_view *fields, mr_error *err) {
    return dataset->class->fill(dataset->state, block, sample, fields, err);
}

mr_status mr_dataset_gather(const mr_dataset *dataset, const mr_block *const *blocks,
                            const int64_t *samples, int64_t n, const mr_column *columns,
                            mr_error *err) {
    return dataset->class->gather(dataset->state, blocks, samples, n, columns, err);
}

bool mr_dataset_lend(const mr_dataset *dataset, const mr_block *block, int32_t field,
                     int64_t sample, int64_t n, mr_loan *out) {
    return dataset->class->lend(dataset->state, block, field, sample, n, out);
}

/* ---- Reading ---- */
/* Each source counts its files from 1 on, and several sources share the table of open ones. What
 * has no number in it is opened for itself. */
static void number_objects(const mr_dataset *dataset, mr_extent *extents, int32_t n) {
    for (int32_t i = 0; dataset->of > 1 && i < n; i++) {
        int32_t *object = &extents[i].object;
        if (*object > 0 && (__builtin_mul_overflow(*object, dataset->of, object) ||
                            __builtin_add_overflow(*object, dataset->number, object))) {
            *object = 0;
        }
    }
}

mr_status mr_dataset_locate(const mr_dataset *dataset, int64_t block, mr_extent *own,
                            int32_t capacity, mr_extent **out, int32_t *n, mr_error *err) {
    *out = own;
    MR_TRY(dataset->class->locate(dataset->state, block, own, capacity, n, err));
    if (*n <= capacity) {
        number_objects(dataset, own, *n);
        return MR_OK;
    }
    int32_t room = *n;
    *out = mr_zalloc((size_t)room, sizeof **out);
    if (!*out) {
        *out = own;
        return mr_fail_memory(err, (size_t)room * sizeof **out);
    }
    mr_status status = dataset->class->locate(dataset->state, block, *out, room, n, err);
    if (status < 0) {
        mr_free(*out);
        *out = own;
        return status;
    }
    number_objects(dataset, *out, *n);
    return MR_OK;
}

mr_status mr_dataset_unpack(const mr_dataset *dataset, const mr_block *block, int32_t part,
                            void **out, mr_error *err) {
    return dataset->class->unpack(dataset->state, block, part, out, err);
}

void mr_dataset_drop(const mr_dataset *dataset, int32_t part, void *unpacked) {
    if (unpacked && dataset->class->drop) {
        dataset->class->drop(dataset->state, part, unpacked);
    }
}

/* ---- A block at once ---- */
static mr_status measure(const mr_dataset *dataset, const mr_extent *extents, int32_t n,
                         mr_bytes *bytes, size_t *total, mr_error *err) {
    *total = 0;
    for (int32_t i = 0; i < n; i++) {
        mr_open_extent open;
        MR_TRY(mr_extent_open_within(&extents[i], &dataset->limits, &open, err));
        mr_extent_close(&open);
        bytes[i].size = open.size;
        if (__builtin_add_overflow(*total, open.size, total)) {
            return mr_fail(err, MR_E_LIMIT, "a block of more bytes than there are numbers for");
        }
    }
    return MR_OK;
}

static mr_status read_all(const mr_dataset *dataset, const mr_extent *extents, int32_t n,
                          mr_own_block *out, mr_error *err) {
    char *at = out->memory;
    for (int32_t i = 0; i < n; i++) {
        mr_extent exactly = extents[i];
        mr_open_extent open;
        exactly.length = (int64_t)out->bytes[i].size;
        MR_TRY(mr_extent_open_within(&exactly, &dataset->limits, &open, err));
        mr_status status = mr_extent_read(&open, at, err);
        mr_extent_close(&open);
        MR_TRY(status);
        out->bytes[i].data = at;
        at += out->bytes[i].size;
    }
    return MR_OK;
}

static mr_status read_block(const mr_dataset *dataset, const mr_extent *extents, int32_t n,
                            mr_own_block *out, mr_error *err) {
    size_t total = 0;
    out->bytes = mr_zalloc((size_t)n, sizeof *out->bytes);
    if (!out->bytes) {
        return mr_fail_memory(err, (size_t)n * sizeof *out->bytes);
    }
    MR_TRY(measure(dataset, extents, n, out->bytes, &total, err));
    out->memory = malloc(total ? total : 1);
    return out->memory ? read_all(dataset, extents, n, out, err) : mr_fail_memory(err, total);
}

static mr_status unpack_block(const mr_dataset *dataset, mr_own_block *out, mr_error *err) {
    if (!mr_dataset_is_unpacked(dataset)) {
        return MR_OK;
    }
    out->parts = mr_zalloc((size_t)dataset->shape.parts, sizeof *out->parts);
    if (!out->parts) {
        return mr_fail_memory(err, (size_t)dataset->shape.parts * sizeof *out->parts);
    }
    for (int32_t part = 0; part < dataset->shape.parts; part++) {
        MR_TRY(mr_dataset_unpack(dataset, &out->block, part, &out->parts[part], err));
    }
    out->block.parts = out->parts;
    out->block.n_parts = dataset->shape.parts;
    return MR_OK;
}

static mr_status fetch(const mr_dataset *dataset, int64_t block, mr_own_block *out, mr_error *err) {
    mr_extent own[4], *extents;
    int32_t n = 0;
    MR_TRY(mr_dataset_locate(dataset, block, own, 4, &extents, &n, err));
    mr_status status = read_block(dataset, extents, n, out, err);
    if (extents != own) {
        mr_free(extents);
    }
    MR_TRY(status);
    out->block = (mr_block){.number = block,
                            .first = mr_dataset_first_of(dataset, block),
                            .bytes = out->bytes,
                            .n_bytes = n};
    return unpack_block(dataset, out, err);
}

mr_status mr_dataset_fetch(const mr_dataset *dataset, int64_t block, mr_own_block *out,
                           mr_error *err) {
    *out = (mr_own_block){.memory = NULL};
    mr_status status = fetch(dataset, block, out, err);
    if (status < 0) {
        mr_dataset_release(dataset, out);
    }
    return status;
}

void mr_dataset_release(const mr_dataset *dataset, mr_own_block *block) {
    for (int32_t part = 0; block->parts && part < dataset->shape.parts; part++) {
        mr_dataset_drop(dataset, part, block->parts[part]);
    }
    mr_free(block->parts);
    mr_free(block->bytes);
    free(block->memory);
    *block = (mr_own_block){.memory = NULL};
}
