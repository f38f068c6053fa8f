/* SPDX-License-Identifier: Apache-2.0 */
/* loader_choices.c - the numbers of a run that follow from its options, its pipeline and the
 * machine. None of them changes a byte of what is delivered. */
#include <string.h>

#include "core/cpu.h"
#include "core/error.h"
#include "io/far_pace.h"
#include "run/loader.h"

enum { MOST_BORROWED = 16 << 20 }; /* bytes of a batch that is made by one thread */

static mr_options own_options(const mr_options *given) {
    mr_options options = MR_OPTIONS_INIT;
    if (given) {
        size_t known = given->size < sizeof options ? given->size : sizeof options;
        memcpy(&options, given, known);
    }
    return options;
}

mr_options mr_loader_options(const mr_options *given) {
    mr_options options = own_options(given);
    bool chosen = options.threads && options.threads != MR_THREADS_AUTO;
    options.threads = chosen ? options.threads : mr_cpu_count();
    options.world = options.world ? options.world : 1;
    options.reads_in_flight = options.reads_in_flight ? options.reads_in_flight : 32;
    options.read_ahead_bytes = options.read_ahead_bytes > 0 ? options.read_ahead_bytes : 64000000;
    return options;
}

/* What may be adapted while it runs, and how far: what the caller states is kept to. The batches
 * follow when their size is known, see open_ring in loader.c. */
void mr_loader_limit_adapter(mr_adapter *adapter, const mr_options *given, const mr_options *whole,
                             const mr_settings *settings) {
    enum { READS_MOST = 256, BYTES_TIMES = 4 };
    mr_options own = own_options(given);
    adapter->is_on = own.threads == MR_THREADS_AUTO ||
                     (own.threads == 0 && settings->threads == MR_THREADS_ADAPT);
    adapter->start = (mr_setting){.threads = whole->threads,
                                  .reads = whole->reads_in_flight,
                                  .bytes = whole->read_ahead_bytes};
    adapter->most = adapter->start;
    if (adapter->is_on) {
        adapter->most.reads = own.reads_in_flight ? own.reads_in_flight : READS_MOST;
        adapter->most.bytes *= own.read_ahead_bytes > 0 ? 1 : BYTES_TIMES;
    }
}

mr_status mr_loader_check_options(const mr_options *options, mr_error *err) {
    if (options->threads > 4096) {
        return mr_fail(err, MR_E_PARAM, "%u threads are too many: at most 4096", options->threads);
    }
    if (options->reads_in_flight > 4096) {
        return mr_fail(err, MR_E_PARAM, "%u reads in flight are too many: at most 4096",
                       options->reads_in_flight);
    }
    if (options->batches_ahead > MR_AHEAD_MAX) {
        return mr_fail(err, MR_E_PARAM, "%u batches ahead are too many: at most %d",
                       options->batches_ahead, MR_AHEAD_MAX);
    }
    if (options->storage_bytes_per_second < 0 || options->storage_open_ns < 0) {
        return mr_fail(err, MR_E_PARAM, "storage cannot be slower than nothing");
    }
    if (options->seed > MR_SEED_MAX) {
        return mr_fail(err, MR_E_PARAM, "seed is %lld, must be at most %lld",
                       (long long)options->seed, (long long)MR_SEED_MAX);
    }
    return MR_OK;
}

/* Whether batches may lie in memory of the source's: every sample is delivered once, as the source
 * has it, and rows are asked for in order. Padding would deliver some a second time, when whoever
 * has the batch with the first may have written to it; so would a view. */
bool mr_loader_may_borrow(const mr_loader *loader) {
    const mr_child *child = &loader->children.list[0];
    bool once = loader->children.n == 1 && !child->selection && !child->lengths &&
                loader->schedule.remainder != MR_PAD && loader->schedule.remainder != MR_EVEN;
    return once && !loader->live && !mr_loader_is_local(loader) && mr_pool_borrows(loader->pool) &&
           mr_loader_share(loader) <= MR_SPAN_MOST_ROWS &&
           mr_pool_batch_bytes(loader->pool) <= MOST_BORROWED &&
           mr_chain_may_borrow(child->pipeline, &child->dataset);
}

/* Samples per ticket: up to 256 KB of output for cheap samples, in equal parts, so that neither
 * tickets nor the batch's cache lines go back and forth between CPUs; one for samples that cost
 * more than handing out a ticket does. A batch that lies in memory of the source's is one. */
int64_t mr_loader_choose_morsel(const mr_loader *loader) {
    enum { MORSEL_BYTES = 1 << 18, RAGGED_BYTES = 1 << 10 }; /* a guess for what varies */
    const mr_pipeline *p = loader->pipeline;
    int64_t bytes = 1;
    bool heavy = false;
    for (int32_t i = 0; i < loader->children.n; i++) {
        const mr_dataset *dataset = &loader->children.list[i].dataset;
        heavy = heavy || (mr_dataset_is_read(dataset) && !mr_dataset_has_blocks(dataset));
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        heavy = heavy || (p->ops[i].flags & MR_OP_HEAVY);
    }
    for (int32_t i = 0; i < p->n_fields && !heavy; i++) {
        int64_t field = mr_type_bytes(&p->fields[i].type);
        bytes += field < 0 ? RAGGED_BYTES : field;
    }
    int64_t morsel = heavy ? 1 : MORSEL_BYTES / bytes;
    int64_t share = mr_loader_share(loader);
    morsel = morsel < share && !loader->borrows ? morsel : share;
    morsel = morsel > 1 ? morsel : 1;
    int64_t tickets = (share + morsel - 1) / morsel;
    return (share + tickets - 1) / tickets;
}

/* Samples that are read ahead. Answers of servers come in any order, and one of a hundred late: so
 * many more are asked for that those after it keep the workers busy meanwhile. */
static int64_t reads_ahead(const mr_loader *loader, uint32_t reads_in_flight) {
    enum { FAR_AHEAD = 2 * MR_FAR_MOST_REQUESTS };
    int64_t reads = 2 * (int64_t)reads_in_flight;
    return mr_children_are_far(&loader->children) && reads < FAR_AHEAD ? FAR_AHEAD : reads;
}

/* Never less than two batches: one can fill while the other ends. Of small ones more, since a
 * worker that is woken for each of them does little else: as many as take 16 MB, up to 32. Of a
 * stream up to 16: those ahead do not know yet what the program reports of its samples. */
static int64_t least_depth(const mr_loader *loader, int64_t batch_bytes) {
    enum { SMALL_BATCH = 1 << 20, SMALL_BATCHES = 16 << 20, MOST = 32, MOST_OF_STREAM = 16 };
    if (batch_bytes <= 0 || batch_bytes > SMALL_BATCH) {
        return 2;
    }
    int64_t most = loader->pipeline->is_stream ? MOST_OF_STREAM : MOST,
            whole = SMALL_BATCHES / batch_bytes;
    return whole < most ? whole : most;
}

/* Enough samples in the making to keep every worker and every read busy, and by default within a
 * gigabyte beyond the least. */
int64_t mr_loader_choose_depth(const mr_loader *loader, const mr_options *options) {
    int64_t share = mr_loader_share(loader);
    int64_t wanted = 2 * (int64_t)options->threads * loader->morsel;
    int64_t reads =
        mr_children_are_read(&loader->children) ? reads_ahead(loader, options->reads_in_flight) : 0;
    wanted = wanted > reads ? wanted : reads;
    int64_t depth = (wanted + share - 1) / share;
    int64_t bytes = mr_pool_batch_bytes(loader->pool);
    int64_t affordable = bytes > 0 ? 1000000000 / bytes : depth;
    depth = depth < affordable ? depth : affordable;
    int64_t least = least_depth(loader, bytes);
    depth = depth > least ? depth : least;
    return options->batches_ahead ? options->batches_ahead : depth;
}

/* Where the number adapts: four times as many, within the same gigabyte. */
int64_t mr_loader_most_ahead(const mr_loader *loader, const mr_options *options, int64_t depth) {
    int64_t bytes = mr_pool_batch_bytes(loader->pool), most = 4 * depth;
    int64_t affordable = bytes > 0 ? 1000000000 / bytes : most;
    if (!loader->adapter.is_on || options->batches_ahead) {
        return depth;
    }
    most = most < affordable ? most : affordable;
    most = most < MR_AHEAD_MAX ? most : MR_AHEAD_MAX;
    return most > depth ? most : depth;
}

/* Four times the workers at least: see leave() in intake.c. */
int64_t mr_loader_most_held(const mr_loader *loader, uint32_t reads, uint32_t threads) {
    int64_t held = reads_ahead(loader, reads), least = 4 * (int64_t)threads;
    return held > least ? held : least;
}
