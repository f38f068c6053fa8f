/* SPDX-License-Identifier: Apache-2.0 */
/* loader_facts.c - what can be asked of a loader. */
#include <string.h>
#include <unistd.h>

#include "core/cpu.h"
#include "plan/course_measure.h"
#include "run/loader.h"

int64_t mr_loader_n_samples(const mr_loader *loader) {
    return loader->live ? -1 : loader->schedule.n;
}

int64_t mr_loader_n_steps(const mr_loader *loader) {
    return loader->live ? -1 : mr_schedule_epoch_steps(&loader->schedule);
}

/* Of a stream, once its last step is known. */
int64_t mr_loader_steps_left(const mr_loader *loader) {
    return loader->live && loader->n_steps == INT64_MAX ? -1 : loader->n_steps - loader->n_taken;
}

const char *mr_loader_fingerprint(const mr_loader *loader) {
    return loader->children.fingerprint;
}

static int32_t find_field(const mr_pipeline *pipeline, const char *name) {
    for (int32_t k = 0; k < pipeline->n_source_fields; k++) {
        if (strcmp(pipeline->variables[k].name, name) == 0) {
            return k;
        }
    }
    return -1;
}

/* "label", else the only field that has classes; -1: there is none, or there are several. */
static int32_t find_label(const mr_child *child) {
    int32_t found = find_field(child->pipeline, "label"), n = 0;
    for (int32_t k = 0; found < 0 && k < child->pipeline->n_source_fields; k++) {
        n += mr_dataset_class_name(&child->dataset, k, 0) != NULL;
    }
    for (int32_t k = 0; found < 0 && n == 1 && k < child->pipeline->n_source_fields; k++) {
        found = mr_dataset_class_name(&child->dataset, k, 0) ? k : -1;
    }
    return found;
}

static const char *class_of(const mr_child *child, const char *field, int64_t i) {
    int32_t k = field[0] ? find_field(child->pipeline, field) : find_label(child);
    return k >= 0 ? mr_dataset_class_name(&child->dataset, k, i) : NULL;
}

/* In a mix, the first child's that has any. */
const char *mr_loader_class(const mr_loader *loader, const char *field, int64_t i) {
    const char *name = NULL;
    for (int32_t c = 0; c < loader->children.n && !name; c++) {
        name = class_of(&loader->children.list[c], field, i);
    }
    return name;
}

static mr_peers_counts counts_of_peers(const mr_loader *loader) {
    mr_peers_counts counts = {0};
    if (loader->peers) {
        mr_peers_counts_get(loader->peers, &counts);
    }
    return counts;
}

/* Which samples stand in the batches that are open, and in the one that was taken. */
static int64_t memory_of_lists(const mr_loader *loader) {
    int64_t each = (int64_t)(sizeof(mr_pick) + sizeof(int64_t));
    return (loader->ring.depth + 1) * mr_loader_share(loader) * each;
}

static int64_t memory_bound(const mr_loader *loader) {
    return (loader->ring.depth + 1) * mr_pool_batch_bytes(loader->pool) + memory_of_lists(loader) +
           loader->read_ahead_bytes + loader->block_memory + loader->entry_bytes +
           (loader->exchange ? MR_EXCHANGE_BYTES + MR_EXCHANGE_BYTES / 2 : 0);
}

/* Copies what the caller's struct has room for. */
static void give(void *out, uint32_t size, const void *from, size_t from_size) {
    memcpy(out, from, size < from_size ? size : from_size);
    memcpy(out, &size, sizeof size);
}

/* Of one source; sources that are mixed have batches of their own sizes. */
static void measure_shuffle(const mr_loader *loader, mr_outlook *outlook) {
    mr_shuffle_measure measure;
    const mr_child *child = &loader->children.list[0];
    if (outlook->shuffled > 0 && loader->children.n == 1 &&
        mr_course_measure(child->course, 0, loader->schedule.batch, &measure, NULL) == MR_OK) {
        outlook->blocks_met = measure.blocks_met;
        outlook->blocks_met_full = measure.blocks_met_full;
    }
}

void mr_loader_outlook(const mr_loader *loader, mr_outlook *out) {
    mr_outlook outlook = {
        .samples = loader->pipeline->is_stream ? -1 : loader->schedule.n,
        .steps = loader->pipeline->is_stream ? -1 : mr_schedule_epoch_steps(&loader->schedule),
        .memory_bound = memory_bound(loader),
        .blocks_bound = loader->blocks_bound,
        .lanes = mr_route_lanes(&loader->children.route),
    };
    for (int32_t i = 0; i < loader->children.n; i++) {
        const mr_child *child = &loader->children.list[i];
        outlook.blocks += mr_child_blocks(child);
        outlook.shuffled += mr_child_shuffled(child);
    }
    measure_shuffle(loader, &outlook);
    give(out, out->size, &outlook, sizeof outlook);
}

void mr_loader_stats(const mr_loader *loader, mr_stats *out) {
    int64_t batch_bytes = mr_pool_batch_bytes(loader->pool);
    mr_readahead *readahead = loader->readahead;
    uint32_t working = atomic_load(&loader->ring.admitted);
    const mr_stats stats = {
        .threads = loader->n_workers,
        .samples = atomic_load(&loader->delivered_samples),
        .batches = atomic_load(&loader->delivered_batches),
        .skipped = atomic_load(&loader->skipped),
        .bytes_read = (readahead ? atomic_load(&mr_readahead_intake(readahead)->bytes_read) : 0) +
                      counts_of_peers(loader).bytes_read,
        .wait_ns = atomic_load(&loader->wait_ns),
        .memory_bound = memory_bound(loader),
        .batch_bytes = batch_bytes,
        .batches_ahead = (uint32_t)atomic_load(&loader->ring.ahead),
        .reads_in_flight = readahead ? mr_readahead_in_flight(readahead) : 0,
        .morsel = (uint32_t)loader->morsel,
        .io = readahead ? mr_readahead_kind(readahead) : "none",
        .cpu = mr_cpu_text(loader->cpu),
        .threads_working = working < loader->n_workers ? working : loader->n_workers,
        .adapts = loader->adapter.is_on,
        .changes = atomic_load(&loader->adapter.changes),
        .blocks_bound = loader->blocks_bound,
        .blocks_alive = readahead ? atomic_load(&mr_readahead_intake(readahead)->blocks_alive) : 0,
        .blocks_most = readahead ? atomic_load(&mr_readahead_intake(readahead)->most_alive) : 0,
    };
    give(out, out->size, &stats, sizeof stats);
}

mr_status mr_loader_stream(const mr_loader *loader, mr_stream_stats *out) {
    mr_stream_stats stats;
    if (!loader->live) {
        return MR_E_PARAM;
    }
    mr_live_stats(loader->live, &stats);
    give(out, out->size, &stats, sizeof stats);
    return MR_OK;
}

mr_status mr_loader_feed_back(mr_loader *loader, const mr_feedback *feedback, mr_error *err) {
    mr_feedback own = {.size = (uint32_t)sizeof own};
    memcpy(&own, feedback, feedback->size < sizeof own ? feedback->size : sizeof own);
    if (!loader->live) {
        return mr_fail(err, MR_E_PARAM,
                       "only of a stream that is followed samples are shown again");
    }
    if (own.n < 0 || own.width < 0 || (own.n > 0 && !own.samples)) {
        return mr_fail(err, MR_E_PARAM, "feedback names samples");
    }
    return mr_live_hear(loader->live, &own, err);
}

void mr_loader_flush(mr_loader *loader) {
    if (loader->owner == getpid()) {
        for (int32_t i = 0; i < loader->children.n; i++) {
            mr_caches_flush(&loader->children.list[i].caches);
        }
        if (loader->exchange) {
            mr_exchange_flush(loader->exchange);
        }
        mr_loader_report_trouble(loader);
    }
}

int32_t mr_loader_n_origins(const mr_loader *loader) {
    return loader->readahead ? loader->n_origins + 1 : 0;
}

static mr_origin_stats origin_at(const mr_loader *loader, int32_t i) {
    if (i == loader->n_origins) {
        const mr_intake *intake = mr_readahead_intake(loader->readahead);
        mr_peers_counts beside = counts_of_peers(loader);
        int64_t n = atomic_load(&intake->loads_read) + beside.reads;
        return (mr_origin_stats){.name = "files",
                                 .asked = n,
                                 .found = n,
                                 .bytes = atomic_load(&intake->bytes_read) + beside.bytes_read};
    }
    const mr_origin *origin = &loader->origins[i];
    mr_far_figures far = {.requests = 0};
    if (origin->class == &mr_object_origin) {
        mr_far_origin_figures(loader->far, &far);
    }
    return (mr_origin_stats){.name = origin->class->name,
                             .asked = atomic_load(&origin->asked),
                             .found = atomic_load(&origin->found),
                             .bytes = atomic_load(&origin->bytes),
                             .requests = far.requests,
                             .retries = far.retries,
                             .hedges = far.hedges,
                             .in_flight = far.in_flight,
                             .width = far.width,
                             .first_byte = far.first_byte,
                             .received = far.bytes,
                             .busy = far.busy,
                             .narrowed = far.narrowed};
}

mr_status mr_loader_origin(const mr_loader *loader, int32_t i, mr_origin_stats *out) {
    if (i < 0 || i >= mr_loader_n_origins(loader)) {
        return MR_E_PARAM;
    }
    mr_origin_stats stats = origin_at(loader, i);
    stats.size = out->size;
    memcpy(out, &stats, out->size < sizeof stats ? out->size : sizeof stats);
    return MR_OK;
}

static mr_status traffic_of_peers(const mr_loader *loader, mr_traffic *out) {
    mr_peers_counts counts = counts_of_peers(loader);
    const mr_traffic stats = {.size = out->size,
                              .asked = counts.asked,
                              .found = counts.found,
                              .bytes_in = counts.bytes_in,
                              .samples = counts.samples,
                              .messages = counts.letters,
                              .pushed = counts.pushed,
                              .damaged = counts.damaged,
                              .offered = counts.sent,
                              .kept = counts.kept,
                              .bytes_out = counts.bytes_out,
                              .servers = counts.world,
                              .up = counts.here};
    memcpy(out, &stats, out->size < sizeof stats ? out->size : sizeof stats);
    return MR_OK;
}

mr_status mr_loader_traffic(const mr_loader *loader, mr_traffic *out) {
    mr_exchange_counts counts;
    if (loader->peers) {
        return traffic_of_peers(loader, out);
    }
    if (!loader->exchange) {
        return MR_LATER;
    }
    mr_exchange_counts_get(loader->exchange, &counts);
    const mr_fabric_stats *in = &counts.asking, *sent = &counts.offering;
    const mr_traffic stats = {
        .size = out->size,
        .asked = in->asked,
        .found = in->found,
        .bytes_in = in->bytes_in,
        .samples = counts.samples,
        .damaged = in->damaged,
        .offered = sent->offered,
        .kept = sent->kept,
        .bytes_out = sent->bytes_out,
        .full = sent->full,
        .dropped = counts.dropped,
        .failures = in->failures + sent->failures,
        .servers = in->servers,
        .up = in->up,
    };
    memcpy(out, &stats, out->size < sizeof stats ? out->size : sizeof stats);
    return MR_OK;
}

int32_t mr_loader_n_caches(const mr_loader *loader) {
    return mr_children_n_caches(&loader->children);
}

mr_status mr_loader_cache(const mr_loader *loader, int32_t i, mr_cache_stats *out) {
    if (i < 0 || i >= mr_loader_n_caches(loader)) {
        return MR_E_PARAM;
    }
    const mr_child *child = mr_child_of_cache(&loader->children, &i);
    mr_caches_stats(&child->caches, i, out);
    if (out->size >= offsetof(mr_cache_stats, op) + sizeof out->op) {
        out->op += child->pipeline->first_op;
    }
    return MR_OK;
}

int64_t mr_loader_n_skips(const mr_loader *loader) {
    return loader->n_skips_kept;
}

mr_status mr_loader_skip(const mr_loader *loader, int64_t i, mr_skip *out) {
    if (i < 0 || i >= loader->n_skips_kept) {
        return MR_E_PARAM;
    }
    mr_give_sized(out, &loader->skips[i]->skip, sizeof *out);
    return MR_OK;
}
