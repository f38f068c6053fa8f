/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - a pipeline at work: opening, delivering in order, ending. */
#include "run/loader.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/philox.h"
#include "kernels/kernels.h"
#include "plan/state.h"

/* ---- Options ---- */
static mr_options complete_options(const mr_options *given) {
    mr_options options = MR_OPTIONS_INIT;
    if (given) {
        size_t known = given->size < sizeof options ? given->size : sizeof options;
        memcpy(&options, given, known);
    }
    options.threads = options.threads ? options.threads : mr_cpu_count();
    options.world = options.world ? options.world : 1;
    options.reads_in_flight = options.reads_in_flight ? options.reads_in_flight : 32;
    options.read_ahead_bytes = options.read_ahead_bytes > 0 ? options.read_ahead_bytes : 64000000;
    return options;
}

static mr_status check_options(const mr_options *options, mr_error *err) {
    if (options->threads > 4096) {
        return mr_fail(err, MR_E_PARAM, "%u threads are too many", options->threads);
    }
    if (options->reads_in_flight > 4096) {
        return mr_fail(err, MR_E_PARAM, "%u reads in flight are too many",
                       options->reads_in_flight);
    }
    if (options->batches_ahead > 1024) {
        return mr_fail(err, MR_E_PARAM, "%u batches ahead are too many", options->batches_ahead);
    }
    return MR_OK;
}

/* ---- Opening, part by part ---- */
static mr_status open_source(mr_loader *loader, mr_error *err) {
    const mr_source_class *source = loader->pipeline->source;
    MR_TRY(source->open(loader->pipeline->source_params, &loader->log, &loader->source_state, err));
    uint64_t words[2];
    source->fingerprint(loader->source_state, words);
    mr_hash_hex((mr_hash128){words[0], words[1]}, loader->dataset_fingerprint);
    loader->schedule.n = source->count(loader->source_state);
    if (loader->schedule.n < 1 || loader->schedule.n > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_NOT_FOUND, "the dataset has %lld samples",
                       (long long)loader->schedule.n);
    }
    return MR_OK;
}

static mr_state current_state(const mr_loader *loader) {
    mr_state state = {
        .seed = (int64_t)loader->seed,
        .samples = loader->schedule.n,
        .shuffle = loader->pipeline->settings.shuffle,
        .epoch = loader->epoch,
        .position = loader->position,
    };
    memcpy(state.pipeline, loader->pipeline->fingerprint, sizeof state.pipeline);
    memcpy(state.dataset, loader->dataset_fingerprint, sizeof state.dataset);
    return state;
}

static mr_status restore(mr_loader *loader, const mr_options *options, mr_error *err) {
    mr_state saved, current = current_state(loader);
    if (!options->state) {
        loader->epoch = options->first_epoch > 0 ? options->first_epoch : 0;
        return MR_OK;
    }
    MR_TRY(mr_state_read(&saved, options->state, options->state_size, err));
    MR_TRY(mr_state_match(&saved, &current, err));
    loader->epoch = saved.epoch;
    loader->position = saved.position;
    return MR_OK;
}

static mr_status make_schedule(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_settings *settings = &loader->pipeline->settings;
    MR_TRY(restore(loader, options, err));
    loader->schedule.batch = options->batch > 0 ? options->batch : settings->batch;
    loader->schedule.world = options->world;
    loader->schedule.rank = options->rank;
    loader->schedule.remainder = settings->remainder;
    loader->schedule.epochs = options->epochs > 0 ? options->epochs : settings->epochs;
    loader->schedule.first_epoch = loader->epoch;
    loader->schedule.first_position = loader->position;
    MR_TRY(mr_schedule_check(&loader->schedule, err));
    loader->n_steps = mr_schedule_run_steps(&loader->schedule);
    return MR_OK;
}

static int64_t share_of_batch(const mr_loader *loader) {
    return loader->schedule.batch / loader->schedule.world;
}

/* Samples per ticket: up to 256 KB of output for cheap samples, in equal parts, so that neither
 * tickets nor the batch's cache lines go back and forth between CPUs; one for samples that cost
 * more than handing out a ticket does. */
static int64_t choose_morsel(const mr_loader *loader) {
    enum { MORSEL_BYTES = 1 << 18 };
    const mr_pipeline *p = loader->pipeline;
    int64_t bytes = 1;
    bool heavy = p->source->locate != NULL;
    for (int32_t i = 0; i < p->n_ops; i++) {
        heavy = heavy || (p->ops[i].flags & MR_OP_HEAVY);
    }
    for (int32_t i = 0; i < p->n_fields && !heavy; i++) {
        int64_t field = mr_type_bytes(&p->fields[i].type);
        heavy = field < 0;
        bytes += field;
    }
    int64_t morsel = heavy ? 1 : MORSEL_BYTES / bytes;
    int64_t share = share_of_batch(loader);
    morsel = morsel < share ? morsel : share;
    morsel = morsel > 1 ? morsel : 1;
    int64_t tickets = (share + morsel - 1) / morsel;
    return (share + tickets - 1) / tickets;
}

/* Enough samples in the making to keep every worker and every read busy, but never less than two
 * batches (one can fill while the other ends) and, by default, within a gigabyte beyond that. */
static int64_t choose_depth(const mr_loader *loader, const mr_options *options) {
    enum { SMALL_BATCH = 1 << 20 };
    int64_t share = share_of_batch(loader);
    int64_t wanted = 2 * (int64_t)options->threads * loader->morsel;
    int64_t reads = loader->pipeline->source->locate ? 2 * (int64_t)options->reads_in_flight : 0;
    wanted = wanted > reads ? wanted : reads;
    int64_t depth = (wanted + share - 1) / share;
    int64_t bytes = mr_pool_batch_bytes(loader->pool);
    int64_t affordable = bytes > 0 ? 1000000000 / bytes : depth;
    depth = depth < affordable ? depth : affordable;
    int64_t least = bytes > 0 && bytes <= SMALL_BATCH ? 16 : 2; /* see mr_ring_open */
    depth = depth > least ? depth : least;
    return options->batches_ahead ? options->batches_ahead : depth;
}

static mr_status open_pool(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_pool_config config = {
        .pipeline = loader->pipeline,
        .capacity = share_of_batch(loader),
        .digest = options->digest,
        .poison = options->poison,
        .keep = 4,
        .allocator = options->allocator ? *options->allocator : mr_default_allocator,
    };
    return mr_pool_new(&loader->pool, &config, err);
}

static mr_status open_ring(mr_loader *loader, const mr_options *options, mr_error *err) {
    loader->morsel = choose_morsel(loader);
    int64_t depth = choose_depth(loader, options);
    int64_t tickets = (share_of_batch(loader) + loader->morsel - 1) / loader->morsel;
    loader->making = mr_zalloc((size_t)depth, sizeof *loader->making);
    loader->ring_ready = true;
    if (!mr_ring_init(&loader->ring, depth, tickets, loader->n_steps) || !loader->making) {
        return mr_fail_memory(err, (size_t)depth * sizeof *loader->making);
    }
    return MR_OK;
}

/* The window is four times the workers at least: see mr_window_release. */
static mr_status open_readahead(mr_loader *loader, const mr_options *options, mr_error *err) {
    int64_t entries = 2 * (int64_t)options->reads_in_flight, least = 4 * (int64_t)options->threads;
    const mr_readahead_config config = {
        .window = {.source = loader->pipeline->source,
                   .source_state = loader->source_state,
                   .caches = &loader->caches,
                   .n_entries = entries > least ? entries : least,
                   .plan_size = loader->ring.depth * share_of_batch(loader),
                   .bytes = options->read_ahead_bytes},
        .in_flight = options->reads_in_flight,
        .io = options->io,
        .tracks = &loader->tracks,
    };
    if (!loader->pipeline->source->locate) {
        return MR_OK;
    }
    loader->in_flight = options->reads_in_flight;
    loader->read_ahead_bytes = options->read_ahead_bytes;
    return mr_readahead_open(&loader->readahead, &config, err);
}

static mr_status open_workers(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_kernels *kernels = mr_kernels_for(loader->cpu);
    loader->n_workers = options->threads;
    loader->workers = mr_zalloc(options->threads, sizeof *loader->workers);
    if (!loader->workers) {
        return mr_fail_memory(err, options->threads * sizeof *loader->workers);
    }
    for (uint32_t i = 0; i < options->threads; i++) {
        mr_worker *worker = &loader->workers[i];
        worker->loader = loader;
        worker->track = mr_tracks_add(&loader->tracks, MR_TRACK_WORKER);
        if (!worker->track) {
            return mr_fail_memory(err, sizeof *worker->track);
        }
        MR_TRY(mr_chain_open(&worker->chain, loader->pipeline, loader->source_state, kernels,
                             loader->seed, &loader->caches, worker->track, err));
    }
    return mr_threads_start(&loader->threads, options->threads, "mr-work", mr_worker_main,
                            loader->workers, sizeof *loader->workers, err);
}

/* ---- Opening batches ---- */
static mr_status order_for(mr_loader *loader, int64_t epoch, mr_error *err) {
    if (loader->order_epoch == epoch) {
        return MR_OK;
    }
    mr_order_free(&loader->order);
    loader->order_epoch = -1;
    MR_TRY(mr_order_init(&loader->order, loader->schedule.n, loader->pipeline->settings.shuffle,
                         loader->seed, (uint32_t)epoch, err));
    loader->order_epoch = epoch;
    mr_caches_epoch(&loader->caches);
    return MR_OK;
}

static mr_status fill_making(mr_loader *loader, mr_making *making, mr_error *err) {
    mr_slice *slice = &making->slice;
    *slice = mr_schedule_at(&loader->schedule, loader->n_opened);
    MR_TRY(order_for(loader, slice->epoch, err));
    MR_TRY(mr_pool_take(loader->pool, slice->count, &making->batch, err));
    mr_batch_place(making->batch, slice->epoch, slice->step, slice->valid);
    mr_order_list(&loader->order, slice->first % loader->schedule.n, slice->count,
                  mr_batch_samples_mutable(making->batch));
    making->failed_slot = -1;
    making->first_read = loader->n_reads;
    return MR_OK;
}

static mr_status open_next_batch(mr_loader *loader, mr_error *err) {
    mr_making *making = &loader->making[loader->n_opened % loader->ring.depth];
    MR_TRY(fill_making(loader, making, err));
    loader->n_reads += making->slice.count;
    if (loader->readahead) {
        mr_window_plan(mr_readahead_window(loader->readahead), mr_batch_samples(making->batch),
                       making->slice.count);
    }
    mr_ring_open(&loader->ring, loader->n_opened++);
    return MR_OK;
}

/* Opens what may be open. Running out of memory is an error only when nothing is in the making;
 * otherwise it is tried again at the next step. */
static mr_status open_batches(mr_loader *loader, mr_error *err) {
    while (loader->n_opened < loader->n_steps &&
           loader->n_opened < loader->n_taken + loader->ring.depth) {
        mr_error failure = MR_ERROR_INIT;
        if (open_next_batch(loader, &failure) == MR_OK) {
            continue;
        }
        if (loader->n_opened > loader->n_taken) {
            return MR_OK;
        }
        if (err) {
            *err = failure;
        }
        return failure.code;
    }
    return MR_OK;
}

/* ---- Public: open ---- */
static mr_status start_threads(mr_loader *loader, const mr_options *options, mr_error *err) {
    MR_TRY(mr_tracing_open(loader, options, err));
    MR_TRY(open_readahead(loader, options, err));
    MR_TRY(open_batches(loader, err));
    MR_TRY(open_workers(loader, options, err));
    return mr_tracing_begin(loader, options, err);
}

static mr_status open_parts(mr_loader *loader, const mr_options *options, mr_error *err) {
    MR_TRY(check_options(options, err));
    MR_TRY(mr_cpu_features(options->disable_cpu, &loader->cpu, err));
    MR_TRY(open_source(loader, err));
    MR_TRY(make_schedule(loader, options, err));
    MR_TRY(open_pool(loader, options, err));
    MR_TRY(open_ring(loader, options, err));
    MR_TRY(mr_caches_open(&loader->caches, loader->pipeline, loader->source_state, options->world,
                          &loader->log, err));
    return start_threads(loader, options, err);
}

mr_status mr_loader_open(mr_loader **out, const mr_pipeline *pipeline, const mr_options *given,
                         mr_error *err) {
    if (!pipeline) {
        return mr_fail(err, MR_E_PARAM, "there is no pipeline to open");
    }
    if (given && given->size < sizeof given->size) {
        return mr_fail(err, MR_E_PARAM, "the options lack their size: start from MR_OPTIONS_INIT");
    }
    const mr_options options = complete_options(given);
    mr_error failure = MR_ERROR_INIT;
    mr_loader *loader = mr_zalloc(1, sizeof *loader);
    if (!loader) {
        return mr_fail_memory(err, sizeof *loader);
    }
    loader->pipeline = pipeline;
    loader->owner = getpid();
    loader->seed = (uint64_t)(options.seed >= 0 ? options.seed : pipeline->settings.seed);
    loader->on_error = pipeline->settings.on_error;
    loader->digest = options.digest;
    loader->log = options.log;
    loader->order_epoch = -1;
    pthread_mutex_init(&loader->notes_lock, NULL);
    mr_status status = open_parts(loader, &options, &failure);
    if (status < 0) {
        mr_loader_close(loader);
        if (err) {
            *err = failure;
        }
        return status;
    }
    *out = loader;
    return MR_OK;
}

/* ---- Public: next ---- */
static mr_status end_with(mr_loader *loader, const mr_error *failure) {
    loader->final = failure->code;
    loader->final_error = *failure;
    mr_ring_stop(&loader->ring);
    return failure->code;
}

/* One wait for one batch, however many calls it took. What happened between them is not in it, so
 * it seems to have begun later than it did. */
static void note_wait(mr_loader *loader) {
    mr_track_since(loader->track, MR_SPAN_WAIT_BATCH, mr_track_now(loader->track) - loader->waited,
                   loader->n_taken, loader->n_taken, 0);
    loader->waited = 0;
}

/* within: nanoseconds, or -1 for ever. */
static mr_status wait_for_batch(mr_loader *loader, int64_t within) {
    int64_t start = mr_monotonic_ns(), end = start;
    uint64_t begun = mr_track_now(loader->track);
    if (within > 0 && __builtin_add_overflow(start, within, &end)) {
        end = INT64_MAX;
    }
    const struct timespec moment = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    mr_status status =
        mr_ring_wait_until(&loader->ring, loader->n_taken, within < 0 ? NULL : &moment);
    atomic_fetch_add(&loader->wait_ns, mr_monotonic_ns() - start);
    loader->waited += mr_track_now(loader->track) - begun;
    if (status != MR_LATER) {
        note_wait(loader);
    }
    if (status < 0) {
        mr_error failure = MR_ERROR_INIT;
        mr_fail(&failure, MR_E_CANCELLED, "the loader was cancelled");
        return end_with(loader, &failure);
    }
    return status;
}

/* Keeps a batch's notes in the order of its slots; they were made in any order. */
static void keep_skips(mr_loader *loader, mr_making *making) {
    atomic_fetch_add(&loader->skipped, making->n_skips);
    while (making->skips) {
        mr_skip_note **lowest = &making->skips;
        for (mr_skip_note **at = lowest; *at; at = &(*at)->next) {
            lowest = (*at)->slot < (*lowest)->slot ? at : lowest;
        }
        mr_skip_note *note = *lowest;
        *lowest = note->next;
        bool keep = loader->skips && loader->n_skips_kept < MR_SKIPS_KEPT;
        if (keep) {
            note->skip.error = &note->error;
            loader->skips[loader->n_skips_kept++] = note;
        } else {
            mr_free(note);
        }
    }
    making->n_skips = 0;
}

static void extend_digest(mr_loader *loader, const mr_batch *batch) {
    uint64_t words[4] = {loader->stream_digest.low, loader->stream_digest.high, 0, 0};
    mr_batch_digest_words(batch, words + 2);
    loader->stream_digest = mr_hash(words, sizeof words);
}

static mr_batch *take_batch(mr_loader *loader, mr_making *making) {
    mr_batch *batch = making->batch;
    making->batch = NULL;
    if (making->n_skips > 0 && !loader->skips) {
        loader->skips = mr_zalloc(MR_SKIPS_KEPT, sizeof(mr_skip_note *));
    }
    keep_skips(loader, making);
    loader->n_taken++;
    loader->epoch = making->slice.epoch;
    loader->position = making->slice.position;
    if (loader->digest) {
        extend_digest(loader, batch);
    }
    atomic_fetch_add(&loader->delivered_samples, mr_batch_size(batch));
    atomic_fetch_add(&loader->delivered_batches, 1);
    return batch;
}

static mr_status check_usable(const mr_loader *loader, mr_error *err) {
    if (loader->owner != getpid()) {
        mr_fail(err, MR_E_FORKED, "this loader belongs to the parent process");
        mr_hint(err, "open the loader after fork, in the process that uses it");
        return MR_E_FORKED;
    }
    if (loader->final < 0 && err) {
        *err = loader->final_error;
    }
    return loader->final;
}

static mr_status deliver(mr_loader *loader, int64_t within, mr_batch **out) {
    mr_error failure = MR_ERROR_INIT;
    mr_making *making = &loader->making[loader->n_taken % loader->ring.depth];
    if (open_batches(loader, &failure) < 0) {
        return end_with(loader, &failure);
    }
    mr_status status = wait_for_batch(loader, within);
    if (status != MR_OK) {
        return status;
    }
    if (making->failed_slot >= 0) {
        return end_with(loader, &making->failure);
    }
    uint64_t begun = mr_track_now(loader->track);
    *out = take_batch(loader, making);
    (void)open_batches(loader, NULL); /* keep the workers busy meanwhile; next() tries again */
    mr_track_since(loader->track, MR_SPAN_DELIVER, begun, loader->n_taken - 1, loader->n_taken - 1,
                   0);
    loader->delivered_at = mr_track_now(loader->track);
    return MR_OK;
}

static mr_status next(mr_loader *loader, int64_t within, mr_batch **out, mr_error *err) {
    if (!loader) {
        return mr_fail(err, MR_E_PARAM, "there is no loader");
    }
    MR_TRY(check_usable(loader, err));
    if (loader->delivered_at) {
        mr_track_since(loader->track, MR_SPAN_CONSUME, loader->delivered_at, loader->n_taken - 1,
                       loader->n_taken - 1, 0);
        loader->delivered_at = 0;
    }
    if (atomic_load(&loader->cancelled)) {
        mr_error failure = MR_ERROR_INIT;
        mr_fail(&failure, MR_E_CANCELLED, "the loader was cancelled");
        end_with(loader, &failure);
    } else if (loader->n_taken == loader->n_steps) {
        return MR_END;
    } else {
        mr_status status = deliver(loader, within, out);
        mr_caches_report(&loader->caches, &loader->log);
        if (status >= 0) {
            return status;
        }
    }
    if (err) {
        *err = loader->final_error;
    }
    return loader->final;
}

mr_status mr_loader_next(mr_loader *loader, mr_batch **out, mr_error *err) {
    return next(loader, -1, out, err);
}

mr_status mr_loader_next_within(mr_loader *loader, int64_t nanoseconds, mr_batch **out,
                                mr_error *err) {
    return next(loader, nanoseconds < 0 ? 0 : nanoseconds, out, err);
}

/* ---- Public: end ---- */
void mr_loader_cancel(mr_loader *loader) {
    if (loader->owner == getpid()) {
        atomic_store(&loader->cancelled, true);
        mr_ring_stop(&loader->ring);
        if (loader->readahead) {
            mr_readahead_stop(loader->readahead);
        }
    }
}

static void free_making(mr_making *making) {
    mr_batch_unref(making->batch);
    while (making->skips) {
        mr_skip_note *next = making->skips->next;
        mr_free(making->skips);
        making->skips = next;
    }
}

static void stop_threads(mr_loader *loader) {
    if (loader->ring_ready) {
        mr_ring_stop(&loader->ring);
    }
    if (loader->readahead) {
        mr_readahead_stop(loader->readahead);
    }
    mr_threads_join(&loader->threads);
    if (loader->readahead) {
        mr_readahead_end(loader->readahead);
    }
    if (loader->waited) {
        note_wait(loader); /* for a batch that nobody waits for any more */
    }
    mr_tracing_close(loader); /* while the source can still name samples, and reads are counted */
    mr_readahead_close(loader->readahead);
}

static void free_parts(mr_loader *loader) {
    for (uint32_t i = 0; loader->workers && i < loader->n_workers; i++) {
        if (loader->workers[i].loader) {
            mr_chain_close(&loader->workers[i].chain);
        }
    }
    for (int64_t i = 0; loader->making && i < loader->ring.depth; i++) {
        free_making(&loader->making[i]);
    }
    for (int64_t i = 0; i < loader->n_skips_kept; i++) {
        mr_free(loader->skips[i]);
    }
    if (loader->ring_ready) {
        mr_ring_free(&loader->ring);
    }
    mr_caches_close(&loader->caches);
    mr_tracks_free(&loader->tracks);
    mr_order_free(&loader->order);
    mr_pool_unref(loader->pool);
    loader->pipeline->source->close(loader->source_state);
    pthread_mutex_destroy(&loader->notes_lock);
}

void mr_loader_close(mr_loader *loader) {
    if (!loader || loader->owner != getpid()) {
        return;
    }
    stop_threads(loader);
    free_parts(loader);
    mr_free(loader->workers);
    mr_free(loader->making);
    mr_free(loader->skips);
    mr_free(loader);
}

/* ---- Public: questions ---- */
int64_t mr_loader_n_samples(const mr_loader *loader) {
    return loader->schedule.n;
}

int64_t mr_loader_n_steps(const mr_loader *loader) {
    return mr_schedule_epoch_steps(&loader->schedule);
}

int64_t mr_loader_steps_left(const mr_loader *loader) {
    return loader->n_steps - loader->n_taken;
}

const char *mr_loader_fingerprint(const mr_loader *loader) {
    return loader->dataset_fingerprint;
}

void mr_loader_digest(const mr_loader *loader, char out[33]) {
    mr_hash_hex(loader->stream_digest, out);
}

mr_status mr_loader_save(const mr_loader *loader, char *buffer, size_t size, mr_error *err) {
    const mr_state state = current_state(loader);
    return mr_state_write(&state, buffer, size, err);
}

void mr_loader_stats(const mr_loader *loader, mr_stats *out) {
    int64_t batch_bytes = mr_pool_batch_bytes(loader->pool);
    mr_readahead *readahead = loader->readahead;
    const mr_stats stats = {
        .size = (uint32_t)sizeof stats,
        .threads = loader->n_workers,
        .samples = atomic_load(&loader->delivered_samples),
        .batches = atomic_load(&loader->delivered_batches),
        .skipped = atomic_load(&loader->skipped),
        .bytes_read = readahead ? atomic_load(&mr_readahead_window(readahead)->bytes_read) : 0,
        .wait_ns = atomic_load(&loader->wait_ns),
        .memory_bound = (loader->ring.depth + 1) * batch_bytes + loader->read_ahead_bytes,
        .batch_bytes = batch_bytes,
        .batches_ahead = (uint32_t)loader->ring.depth,
        .reads_in_flight = loader->in_flight,
        .morsel = (uint32_t)loader->morsel,
        .io = readahead ? mr_readahead_kind(readahead) : "none",
        .cpu = mr_cpu_text(loader->cpu),
    };
    size_t known = out->size < sizeof stats ? out->size : sizeof stats;
    uint32_t size = out->size;
    memcpy(out, &stats, known);
    out->size = size;
}

void mr_loader_flush(mr_loader *loader) {
    if (loader->owner == getpid()) {
        mr_caches_flush(&loader->caches);
        mr_caches_report(&loader->caches, &loader->log);
    }
}

int32_t mr_loader_n_caches(const mr_loader *loader) {
    return loader->caches.n;
}

mr_status mr_loader_cache(const mr_loader *loader, int32_t i, mr_cache_stats *out) {
    if (i < 0 || i >= loader->caches.n) {
        return MR_E_PARAM;
    }
    mr_caches_stats(&loader->caches, i, out);
    return MR_OK;
}

int64_t mr_loader_n_skips(const mr_loader *loader) {
    return loader->n_skips_kept;
}

mr_status mr_loader_skip(const mr_loader *loader, int64_t i, mr_skip *out) {
    if (i < 0 || i >= loader->n_skips_kept) {
        return MR_E_PARAM;
    }
    *out = loader->skips[i]->skip;
    return MR_OK;
}
