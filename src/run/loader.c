/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - a pipeline at work: opening it part by part, and ending it. The files loader_*.c
 * beside this one have the rest: what is chosen, the state, opening batches, delivering them,
 * questions. */
#include "run/loader.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/error.h"
#include "kernels/kernels.h"
#include "run/read/facts.h"
#include "run/read/servers.h"

/* ---- Opening, part by part ---- */
static mr_status open_data(mr_loader *loader, mr_error *err) {
    MR_TRY(mr_children_open(&loader->children, loader->pipeline, loader->seed, loader->cpu,
                            &loader->log, err));
    loader->schedule.n = mr_route_length(&loader->children.route);
    MR_TRY(mr_loader_name_classes(loader, err));
    return mr_route_cursor_open(&loader->cursor, &loader->children.route, err);
}

static mr_status make_schedule(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_settings *settings = &loader->pipeline->settings;
    MR_TRY(mr_loader_restore(loader, options, err));
    loader->schedule.batch = options->batch > 0 ? options->batch : settings->batch;
    loader->schedule.world = options->world;
    loader->schedule.rank = options->rank;
    loader->schedule.remainder = settings->remainder;
    loader->schedule.epochs = options->epochs > 0 ? options->epochs : settings->epochs;
    loader->schedule.first_epoch = loader->epoch;
    loader->schedule.first_position = loader->position;
    MR_TRY(mr_schedule_check(&loader->schedule, err));
    bool local = loader->pipeline->share.mode == MR_SHARE_LOCAL && options->world > 1;
    loader->share = (mr_share){.schedule = loader->schedule,
                               .lanes = local ? 1 : mr_route_lanes(&loader->children.route)};
    loader->n_steps = loader->pipeline->is_stream
                          ? INT64_MAX
                          : mr_share_rank_steps(&loader->share, loader->schedule.rank);
    return MR_OK;
}

/* ---- Sharing with other ranks ---- */
static int64_t n_items(const mr_dataset *dataset) {
    return mr_dataset_has_blocks(dataset) ? dataset->shape.blocks : dataset->shape.samples;
}

static int64_t item_bytes(void *context, int32_t child, int64_t item) {
    const mr_loader *loader = context;
    const mr_dataset *dataset = &loader->children.list[child].dataset;
    return mr_dataset_has_blocks(dataset) ? mr_dataset_block_bytes(dataset, item) : -1;
}

/* Who keeps and makes what: where the document says that ranks share. */
static mr_status open_locality(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_children *children = &loader->children;
    bool wanted =
        loader->pipeline->share.given || (options->fabric && mr_peers_is_url(options->fabric));
    if (!wanted || loader->schedule.world < 2 || loader->pipeline->is_stream) {
        return MR_OK;
    }
    int64_t *items = mr_zalloc((size_t)children->n, sizeof *items);
    if (!items) {
        return mr_fail_memory(err, (size_t)children->n * sizeof *items);
    }
    for (int32_t i = 0; i < children->n; i++) {
        items[i] = n_items(&children->list[i].dataset);
    }
    const mr_locality_config config = {.terms = loader->pipeline->share,
                                       .share = loader->share,
                                       .items = items,
                                       .n_children = children->n,
                                       .size = item_bytes,
                                       .context = loader};
    mr_status status = mr_locality_open(&loader->locality, &config, err);
    mr_free(items);
    return status;
}

static mr_status open_pool(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_pool_config config = {
        .pipeline = loader->pipeline,
        .capacity = mr_loader_share(loader),
        .digest = options->digest,
        .poison = options->poison,
        .keep = 4,
        .allocator = options->allocator ? *options->allocator : mr_default_allocator,
    };
    return mr_pool_new(&loader->pool, &config, err);
}

static mr_status open_ring(mr_loader *loader, const mr_options *options, mr_error *err) {
    loader->borrows = mr_loader_may_borrow(loader);
    loader->morsel = mr_loader_choose_morsel(loader);
    loader->adapter.start.ahead = mr_loader_choose_depth(loader, options);
    int64_t depth = mr_loader_most_ahead(loader, options, loader->adapter.start.ahead);
    loader->adapter.most.ahead = depth;
    int64_t tickets = (mr_loader_share(loader) + loader->morsel - 1) / loader->morsel;
    loader->making = mr_zalloc((size_t)depth, sizeof *loader->making);
    loader->ring_ready = true;
    if (!mr_ring_init(&loader->ring, depth, tickets, loader->n_steps) || !loader->making) {
        return mr_fail_memory(err, (size_t)depth * sizeof *loader->making);
    }
    atomic_store(&loader->ring.ahead, loader->adapter.start.ahead);
    return MR_OK;
}

/* No more blocks than the run visits. */
static int64_t most_of_run(const mr_loader *loader, int64_t blocks) {
    const mr_schedule *s = &loader->schedule;
    int64_t visits = mr_course_max_visits(loader->children.list[0].course);
    int64_t epochs = s->epochs - s->first_epoch;
    return visits > 0 && epochs < blocks / visits ? epochs * visits : blocks;
}

/* What reading may hold at any moment. Of the memory of blocks that are no longer needed some is
 * kept for the next: new memory costs a page fault for every 4 KB. */
static mr_status measure_reading(mr_loader *loader, const mr_options *options, mr_error *err) {
    enum { IDLE_BLOCKS = 2 };
    const mr_children *children = &loader->children;
    const mr_schedule *s = &loader->schedule;
    int64_t open = (loader->ring.depth + 1) * s->batch;
    int64_t padded = s->remainder == MR_PAD || s->remainder == MR_EVEN ? s->batch : 0;
    loader->read_ahead_bytes = mr_children_are_read(children) ? loader->adapter.most.bytes : 0;
    loader->idle_bytes = loader->read_ahead_bytes / 2;
    loader->entry_bytes = loader->pipeline->is_stream ? mr_live_memory(loader->pipeline, s->batch,
                                                                       options->read_ahead_bytes)
                                                      : 0;
    for (int32_t i = 0; i < children->n; i++) {
        const mr_child *child = &children->list[i];
        int64_t ahead = mr_child_blocks_ahead(child, options->threads, loader->read_ahead_bytes);
        int64_t blocks = 0;
        MR_TRY(mr_child_blocks_bound(child, ahead, open, padded, &blocks, err));
        blocks = children->n == 1 && padded == 0 ? most_of_run(loader, blocks) : blocks;
        loader->blocks_ahead += ahead;
        loader->blocks_bound += blocks;
        /* A batch that is held keeps what it borrowed, of two blocks with the one before it. */
        loader->block_memory += mr_child_block_memory(child, blocks + loader->borrows);
        int64_t few = mr_child_block_memory(child, blocks < IDLE_BLOCKS ? blocks : IDLE_BLOCKS);
        loader->idle_bytes = few > loader->idle_bytes ? few : loader->idle_bytes;
    }
    return MR_OK;
}

static void add_origin(mr_loader *loader, const mr_origin_class *class, void *state) {
    mr_origin *origin = &loader->origins[loader->n_origins++];
    origin->class = class;
    origin->state = state;
}

/* The cheapest first: see origin.h. */
static void list_origins(mr_loader *loader) {
    if (mr_children_keep_samples(&loader->children)) {
        add_origin(loader, &mr_stores_origin, &loader->children);
    }
    if (loader->peers) {
        add_origin(loader, &mr_memory_origin, loader->peers);
        add_origin(loader, &mr_peer_origin, loader->peers);
        add_origin(loader, &mr_node_origin, loader->peers);
    }
    if (loader->exchange) {
        add_origin(loader, &mr_fabric_origin, loader->exchange);
    }
    if (loader->raw) {
        add_origin(loader, &mr_raw_origin, loader->raw);
    }
    if (loader->far) {
        add_origin(loader, &mr_object_origin, loader->far);
    }
}

static mr_status open_readahead(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_readahead_config config = {
        .intake = {.origins = loader->origins,
                   .n_origins = loader->n_origins,
                   .most_held =
                       mr_loader_most_held(loader, options->reads_in_flight, options->threads),
                   .bytes = options->read_ahead_bytes,
                   .idle_bytes = loader->idle_bytes,
                   .threads = options->threads},
        .in_flight = options->reads_in_flight,
        .most_in_flight = loader->adapter.most.reads,
        .io = options->io,
        .bytes_per_second = options->storage_bytes_per_second,
        .open_ns = options->storage_open_ns,
        .tracks = &loader->tracks,
    };
    if (!mr_children_are_read(&loader->children)) {
        return MR_OK;
    }
    return mr_readahead_open(&loader->readahead, &config, err);
}

/* The lanes that this rank takes rows of: its own where every step is shared by lane. */
static void choose_lanes(mr_loader *loader) {
    const mr_schedule *s = &loader->schedule;
    int32_t lanes = mr_route_lanes(&loader->children.route);
    bool own = !mr_loader_is_local(loader) && lanes % s->world == 0 && s->batch % lanes == 0 &&
               s->first_position % lanes == 0;
    int32_t each = own ? lanes / (int32_t)s->world : lanes;
    loader->first_lane = own ? each * (int32_t)s->rank : 0;
    loader->end_lane = loader->first_lane + each;
}

/* Blocks of other nodes are planned for the rows that this rank makes of them. */
static bool is_near(void *context, int32_t child, int64_t block) {
    const mr_loader *loader = context;
    return mr_locality_is_near(loader->locality, mr_locality_item(loader->locality, child, block),
                               loader->schedule.rank);
}

static mr_status open_ahead(mr_loader *loader, mr_error *err) {
    const mr_schedule *s = &loader->schedule;
    if (!mr_children_have_blocks(&loader->children)) {
        return MR_OK;
    }
    choose_lanes(loader);
    const mr_ahead_config config = {
        .intake = mr_readahead_intake(loader->readahead),
        .children = &loader->children,
        .first_lane = loader->first_lane,
        .end_lane = loader->end_lane,
        .epoch = s->first_epoch,
        .position = s->first_position,
        .is_over = s->first_epoch >= s->epochs,
        .end_of_run = mr_route_run(&loader->children.route, s->epochs, 0),
        .positions_open = loader->ring.depth * s->batch,
        .bound = loader->blocks_ahead,
        .wants = mr_loader_is_local(loader) ? is_near : NULL,
        .context = loader,
    };
    return mr_ahead_open(&loader->ahead, &config, err);
}

static mr_status open_live(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_schedule *s = &loader->schedule;
    const mr_live_config config = {
        .pipeline = loader->pipeline,
        .dataset = &loader->children.list[0].dataset, /* the only one: a mix has no streams */
        .seed = loader->seed,
        .batch = s->batch,
        .world = s->world,
        .rank = s->rank,
        .remainder = s->remainder,
        .bytes = options->read_ahead_bytes,
        .state = &loader->restored,
        .journal = options->journal,
        .replay = options->replay,
        .policy = options->policy,
        .fabric = options->fabric,
        .log = &loader->log,
        .tracks = &loader->tracks,
    };
    return loader->pipeline->is_stream ? mr_live_open(&loader->live, &config, err) : MR_OK;
}

static void nudge_workers(void *user) {
    mr_ring_nudge(user);
}

static mr_status open_worker(mr_worker *worker, const mr_kernels *kernels, mr_error *err) {
    const mr_children *children = &worker->loader->children;
    size_t morsel = (size_t)worker->loader->morsel;
    worker->blocks = mr_zalloc(morsel, sizeof *worker->blocks);
    worker->samples = mr_zalloc(morsel, sizeof *worker->samples);
    worker->chains = mr_zalloc((size_t)children->n, sizeof *worker->chains);
    worker->helpers = mr_zalloc((size_t)children->n, sizeof *worker->helpers);
    if (!worker->blocks || !worker->samples || !worker->chains || !worker->helpers) {
        return mr_fail_memory(err, morsel * sizeof *worker->blocks);
    }
    for (int32_t i = 0; i < children->n; i++) {
        mr_child *child = &children->list[i];
        MR_TRY(mr_chain_open(&worker->chains[i], child, kernels, worker->track, err));
        worker->chains[i].borrows = worker->loader->borrows;
        if (worker->chains[i].recall.caches) {
            MR_TRY(mr_chain_open(&worker->helpers[i], child, kernels, worker->track, err));
        }
    }
    return MR_OK;
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
        MR_TRY(open_worker(worker, kernels, err));
    }
    return mr_threads_start(&loader->threads, options->threads, "mr-work", mr_worker_main,
                            loader->workers, sizeof *loader->workers, err);
}

/* ---- Public: open ---- */
static int32_t which_are_shuffled(const mr_children *children) {
    uint32_t which = 0;
    for (int32_t i = 0; i < children->n; i++) {
        which = which * 31 + children->list[i].pipeline->settings.shuffle + 1;
    }
    return (int32_t)which;
}

static mr_status open_peers(mr_loader *loader, const mr_options *options, mr_error *err) {
    const mr_schedule *s = &loader->schedule;
    mr_peers_config config = {.url = options->fabric,
                              .children = &loader->children,
                              .locality = loader->locality,
                              .rank = (int32_t)s->rank,
                              .world = (int32_t)s->world,
                              .foresees = !mr_children_have_blocks(&loader->children)};
    memset(&config.terms, 0, sizeof config.terms); /* compared as bytes */
    memcpy(config.terms.pipeline, loader->pipeline->fingerprint, sizeof config.terms.pipeline);
    memcpy(config.terms.dataset, loader->children.fingerprint, sizeof config.terms.dataset);
    config.terms.seed = (int64_t)loader->seed;
    config.terms.batch = s->batch;
    config.terms.epochs = s->epochs;
    config.terms.first_epoch = s->first_epoch;
    config.terms.first_position = s->first_position;
    config.terms.remainder = s->remainder;
    config.terms.shuffle = which_are_shuffled(&loader->children);
    mr_share_terms_copy(&config.terms.share, &loader->pipeline->share);
    if (s->world < 2) {
        return MR_OK;
    }
    config.track = mr_tracks_add(&loader->tracks, MR_TRACK_READER);
    if (!config.track) {
        return mr_fail_memory(err, sizeof *config.track);
    }
    MR_TRY(mr_peers_open(&loader->peers, &config, err));
    for (int32_t i = 0; i < loader->children.n; i++) {
        loader->children.list[i].caches.peers = loader->peers;
    }
    return MR_OK;
}

/* Sources that read nothing have nothing to ask for; in a mix, one that reads is enough. */
static mr_status open_exchange(mr_loader *loader, const mr_options *options, mr_error *err) {
    if (!options->fabric || loader->live) { /* ranks that follow a stream have one of their own */
        return MR_OK;
    }
    if (!mr_children_are_read(&loader->children)) {
        mr_fail(err, MR_E_PARAM, "source %s reads no files ahead, so a fabric has nothing to do",
                loader->children.list[0].pipeline->source->name);
        mr_hint(err, "run it without a fabric");
        return MR_E_PARAM;
    }
    if (mr_peers_is_url(options->fabric)) {
        return open_peers(loader, options, err);
    }
    const mr_exchange_config config = {.url = options->fabric,
                                       .children = &loader->children,
                                       .travel = (mr_travel)loader->pipeline->share.travel,
                                       .asks = mr_tracks_add(&loader->tracks, MR_TRACK_READER),
                                       .offers = mr_tracks_add(&loader->tracks, MR_TRACK_READER)};
    if (!config.asks || !config.offers) {
        return mr_fail_memory(err, sizeof *config.asks);
    }
    MR_TRY(mr_exchange_open(&loader->exchange, &config, err));
    for (int32_t i = 0; i < loader->children.n; i++) {
        loader->children.list[i].caches.exchange = loader->exchange;
    }
    return MR_OK;
}

/* A store that cannot be opened, on a full disk for instance, ends no run: nothing is kept then. */
static void open_raw(mr_loader *loader, const mr_servers_terms *terms) {
    mr_error failure = MR_ERROR_INIT;
    mr_status status = mr_raw_tier_open(&loader->raw, mr_servers_objects(terms),
                                        mr_servers_objects_size(terms), &loader->log, &failure);
    if (status < 0) {
        char text[sizeof failure.text + 64];
        mr_raw_tier_close(loader->raw);
        loader->raw = NULL;
        snprintf(text, sizeof text, "objects of servers are not kept: %s", failure.text);
        if (loader->log.write) {
            loader->log.write(loader->log.user, text);
        }
    }
}

static mr_status open_far(mr_loader *loader, mr_error *err) {
    const mr_servers_terms *terms = &loader->pipeline->servers;
    const mr_far_limits limits = mr_servers_limits(terms);
    if (!mr_children_are_far(&loader->children)) {
        return MR_OK;
    }
    MR_TRY(mr_far_origin_open(&loader->far, &limits, &loader->tracks, err));
    open_raw(loader, terms);
    return MR_OK;
}

static mr_status start_threads(mr_loader *loader, const mr_options *options, mr_error *err) {
    MR_TRY(open_exchange(loader, options, err));
    MR_TRY(open_far(loader, err));
    list_origins(loader);
    MR_TRY(open_readahead(loader, options, err));
    MR_TRY(open_ahead(loader, err));
    if (loader->ahead) {
        mr_intake *intake = mr_readahead_intake(loader->readahead);
        intake->wake_worker = nudge_workers;
        intake->worker_user = &loader->ring;
    }
    MR_TRY(mr_loader_open_batches(loader, err));
    MR_TRY(open_workers(loader, options, err));
    if (loader->adapter.is_on) {
        mr_adapter_begin(loader);
    }
    return mr_tracing_begin(loader, options, err);
}

/* All that is decided before anything is read. */
static mr_status open_plan(mr_loader *loader, const mr_options *options, mr_error *err) {
    MR_TRY(mr_loader_check_options(options, err));
    MR_TRY(mr_cpu_features(options->disable_cpu, &loader->cpu, err));
    MR_TRY(open_data(loader, err));
    MR_TRY(make_schedule(loader, options, err));
    MR_TRY(open_locality(loader, options, err));
    MR_TRY(open_pool(loader, options, err));
    MR_TRY(open_ring(loader, options, err));
    return measure_reading(loader, options, err);
}

static mr_status open_parts(mr_loader *loader, const mr_options *options, mr_error *err) {
    MR_TRY(open_plan(loader, options, err));
    MR_TRY(mr_tracing_open(loader, options, err));
    MR_TRY(open_live(loader, options, err));
    const mr_caches_config caches = {options->world, options->threads, loader->schedule.epochs};
    MR_TRY(mr_children_open_caches(&loader->children, &caches, &loader->log, err));
    return start_threads(loader, options, err);
}

static void say_warnings(const mr_loader *loader) {
    const char *text;
    for (int32_t i = 0; loader->log.write && (text = mr_pipeline_warning(loader->pipeline, i));
         i++) {
        loader->log.write(loader->log.user, text);
    }
}

static mr_status check_given(const mr_pipeline *pipeline, const mr_options *given, mr_error *err) {
    if (!pipeline) {
        return mr_fail(err, MR_E_PARAM, "there is no pipeline to open");
    }
    if (given && given->size < sizeof given->size) {
        return mr_fail(err, MR_E_PARAM, "the options lack their size: start from MR_OPTIONS_INIT");
    }
    return MR_OK;
}

/* Of which nothing is open yet. */
static mr_loader *new_loader(const mr_pipeline *pipeline, const mr_options *given,
                             const mr_options *options) {
    mr_loader *loader = mr_zalloc(1, sizeof *loader);
    if (!loader) {
        return NULL;
    }
    loader->pipeline = pipeline;
    loader->owner = getpid();
    loader->seed = (uint64_t)(options->seed >= 0 ? options->seed : pipeline->settings.seed);
    loader->on_error = pipeline->settings.on_error;
    loader->digest = options->digest;
    loader->log = options->log;
    loader->opened_epoch = -1;
    loader->by_epoch = options->by_epoch && !pipeline->is_stream;
    loader->no_names = options->no_names;
    loader->asked_epoch = -1;
    mr_loader_limit_adapter(&loader->adapter, given, options, &pipeline->settings);
    pthread_mutex_init(&loader->notes_lock, NULL);
    return loader;
}

/* Closes before it tells: closing may fail too, into the same error. */
static mr_status give_up(mr_loader *loader, const mr_error *failure, mr_error *err) {
    mr_loader_close(loader);
    if (err) {
        *err = *failure;
    }
    return failure->code;
}

mr_status mr_loader_open(mr_loader **out, const mr_pipeline *pipeline, const mr_options *given,
                         mr_error *err) {
    MR_TRY(check_given(pipeline, given, err));
    const mr_options options = mr_loader_options(given);
    mr_error failure = MR_ERROR_INIT;
    mr_loader *loader = new_loader(pipeline, given, &options);
    if (!loader) {
        return mr_fail_memory(err, sizeof *loader);
    }
    say_warnings(loader);
    if (open_parts(loader, &options, &failure) < 0) {
        return give_up(loader, &failure, err);
    }
    *out = loader;
    return MR_OK;
}

mr_status mr_pipeline_outlook(const mr_pipeline *pipeline, const mr_options *given, mr_outlook *out,
                              mr_error *err) {
    MR_TRY(check_given(pipeline, given, err));
    const mr_options options = mr_loader_options(given);
    mr_error failure = MR_ERROR_INIT;
    mr_loader *loader = new_loader(pipeline, given, &options);
    if (!loader) {
        return mr_fail_memory(err, sizeof *loader);
    }
    if (open_plan(loader, &options, &failure) < 0) {
        return give_up(loader, &failure, err);
    }
    mr_loader_outlook(loader, out);
    mr_loader_close(loader);
    return MR_OK;
}

/* ---- Public: end ---- */
void mr_loader_cancel(mr_loader *loader) {
    if (loader->owner == getpid()) {
        atomic_store(&loader->cancelled, true);
        mr_ring_stop(&loader->ring);
        if (loader->readahead) {
            mr_readahead_stop(loader->readahead);
        }
        if (loader->live) {
            mr_live_stop(loader->live);
        }
    }
}

static void free_making(mr_loader *loader, mr_making *making) {
    for (int64_t i = 0; making->own && i < mr_loader_share(loader); i++) {
        mr_intake_empty(mr_readahead_intake(loader->readahead), &making->own[i]);
    }
    mr_live_step_free(&making->live);
    mr_free(making->own);
    mr_free(making->loads);
    mr_free(making->picks);
    mr_free(making->slots);
    mr_batch_unref(making->batch);
    while (making->skips) {
        mr_skip_note *next = making->skips->next;
        mr_free(making->skips);
        making->skips = next;
    }
}

/* The trace has what these threads did until they end. */
static void end_ranks(mr_loader *loader) {
    if (loader->live) {
        mr_live_end(loader->live);
    }
    if (loader->peers) {
        mr_peers_end(loader->peers, loader->n_taken == loader->n_steps && loader->final == MR_OK);
    }
}

static void stop_threads(mr_loader *loader) {
    if (loader->ring_ready) {
        mr_ring_stop(&loader->ring);
    }
    if (loader->readahead) {
        mr_readahead_stop(loader->readahead);
    }
    if (loader->live) {
        mr_live_stop(loader->live);
    }
    mr_threads_join(&loader->threads);
    if (loader->readahead) {
        mr_readahead_end(loader->readahead);
    }
    if (loader->exchange) {
        mr_exchange_end(loader->exchange); /* the trace has what it sends until then */
    }
    if (loader->waited) {
        mr_loader_note_wait(loader); /* for a batch that nobody waits for any more */
    }
    end_ranks(loader);
    mr_tracing_close(loader); /* while the source can still name samples, and reads are counted */
}

static void close_worker(mr_worker *worker) {
    for (int32_t i = 0; worker->chains && i < worker->loader->children.n; i++) {
        mr_chain_close(&worker->chains[i]);
    }
    for (int32_t i = 0; worker->helpers && i < worker->loader->children.n; i++) {
        mr_chain_close(&worker->helpers[i]);
    }
    mr_free(worker->chains);
    mr_free(worker->helpers);
    mr_route_cursor_free(worker->cursor);
    mr_free(worker->blocks);
    mr_free(worker->samples);
}

static void free_parts(mr_loader *loader) {
    for (uint32_t i = 0; loader->workers && i < loader->n_workers; i++) {
        close_worker(&loader->workers[i]);
    }
    for (int64_t i = 0; loader->making && i < loader->ring.depth; i++) {
        free_making(loader, &loader->making[i]);
    }
    for (int64_t i = 0; i < loader->n_skips_kept; i++) {
        mr_free(loader->skips[i]);
    }
    if (loader->ring_ready) {
        mr_ring_free(&loader->ring);
    }
    mr_live_close(loader->live);
    mr_state_free(&loader->restored);
    mr_free(loader->classes);
    mr_ahead_close(loader->ahead);
    mr_readahead_close(loader->readahead);
    mr_exchange_close(loader->exchange);
    mr_peers_close(loader->peers);
    mr_locality_free(loader->locality);
    mr_loader_free_foresight(loader);
    mr_far_origin_close(loader->far);
    mr_raw_tier_close(loader->raw);
    mr_tracks_free(&loader->tracks);
    mr_route_cursor_free(loader->cursor);
    mr_children_close(&loader->children);
    mr_pool_unref(loader->pool);
    pthread_mutex_destroy(&loader->notes_lock);
}

void mr_loader_close(mr_loader *loader) {
    if (!loader || loader->owner != getpid()) {
        return;
    }
    stop_threads(loader);
    (void)mr_loader_note_digest(loader, NULL);
    free_parts(loader);
    mr_free(loader->workers);
    mr_free(loader->making);
    mr_free(loader->skips);
    mr_free(loader);
}
