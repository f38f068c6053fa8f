/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - what a worker thread does: take a ticket, make its samples, finish it. */
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "plan/order.h"
#include "run/loader.h"

/* ---- Notes about bad samples ---- */
static void name_sample(const mr_loader *loader, int64_t sample, mr_error *err) {
    char name[512];
    mr_children_name(&loader->children, sample, name, sizeof name);
    mr_error_at_sample(err, sample, name);
}

static void note_failure(mr_loader *loader, mr_making *making, int64_t slot, const mr_error *err) {
    pthread_mutex_lock(&loader->notes_lock);
    if (making->failed_slot < 0 || slot < making->failed_slot) {
        making->failed_slot = slot;
        making->failure = *err;
    }
    pthread_mutex_unlock(&loader->notes_lock);
}

static void note_skip(mr_loader *loader, mr_making *making, int64_t slot, int64_t sample,
                      int64_t replacement, const mr_error *err) {
    mr_skip_note *note = mr_zalloc(1, sizeof *note);
    if (note) {
        note->slot = slot;
        note->error = *err;
        note->skip =
            (mr_skip){0, making->portion.epoch, making->portion.step, sample, replacement, NULL};
    }
    pthread_mutex_lock(&loader->notes_lock);
    making->n_skips++; /* counted even where there is no memory to list it */
    if (note) {
        note->next = making->skips;
        making->skips = note;
    }
    pthread_mutex_unlock(&loader->notes_lock);
}

/* ---- Replacing a bad sample ---- */
/* What was read out of turn counts as what was read ahead does. */
static void note_fetched(mr_worker *worker) {
    const mr_block *block = &worker->fetched.block;
    size_t size = 0;
    for (int32_t i = 0; i < block->n_bytes; i++) {
        size += block->bytes[i].size;
    }
    if (worker->loader->readahead) {
        mr_intake *intake = mr_readahead_intake(worker->loader->readahead);
        atomic_fetch_add(&intake->bytes_read, (int64_t)size);
        atomic_fetch_add(&intake->loads_read, 1);
    }
    mr_track_lap(worker->track, MR_SPAN_READ, 0, 0, size, size);
}

/* A chain's fetch. The block is the worker's until the sample is done. */
static mr_status fetch(void *user, mr_chain_job *job, mr_error *err) {
    mr_worker *worker = user;
    const mr_dataset *dataset = &worker->loader->children.list[job->child].dataset;
    worker->fetched_from = dataset;
    int64_t block = mr_dataset_block_of(dataset, job->sample);
    MR_TRY(mr_dataset_fetch(dataset, block, &worker->fetched, err));
    job->block = &worker->fetched.block;
    note_fetched(worker);
    return MR_OK;
}

static void release_fetched(mr_worker *worker) {
    if (worker->fetched_from) {
        mr_dataset_release(worker->fetched_from, &worker->fetched);
        worker->fetched_from = NULL;
    }
}

static mr_status run_chain(mr_worker *worker, mr_chain_job *job, mr_error *err) {
    mr_status status = mr_chain_run(&worker->chains[job->child], job, err);
    release_fetched(worker);
    return status;
}

static bool is_read(const mr_loader *loader, int32_t child) {
    return mr_dataset_is_read(&loader->children.list[child].dataset);
}

static bool has_blocks(const mr_loader *loader, int32_t child) {
    return mr_dataset_has_blocks(&loader->children.list[child].dataset);
}

/* In the numbers that batches have. */
static int64_t number_of(const mr_loader *loader, int32_t child, int64_t sample) {
    return loader->children.list[child].first_sample + sample;
}

static mr_status make_without_readahead(mr_worker *worker, mr_chain_job *job, mr_error *err) {
    job->block = NULL;
    job->identity = job->abroad = (mr_identity){.asked = false};
    job->record = NULL; /* a load's that may be gone */
    job->offers = false;
    job->fetch = is_read(worker->loader, job->child) ? fetch : NULL;
    return run_chain(worker, job, err);
}

static mr_status open_cursor(mr_worker *worker, mr_error *err) {
    return worker->cursor
               ? MR_OK
               : mr_route_cursor_open(&worker->cursor, &worker->loader->children.route, err);
}

/* From the same window, whose blocks are there; a window may be one damaged block, then from
 * anywhere.
 */
static mr_status pick_substitute(mr_worker *worker, uint32_t epoch, int64_t position,
                                 uint32_t attempt, mr_pick *pick, mr_error *err) {
    const mr_loader *loader = worker->loader;
    MR_TRY(open_cursor(worker, err));
    if (attempt < MR_SUBSTITUTE_ATTEMPTS) {
        return mr_route_substitute(worker->cursor, epoch, position, attempt, pick, err);
    }
    const mr_positions elsewhere = {
        mr_order_substitute(loader->schedule.n, loader->seed, epoch, position, attempt), 1, 1, 1};
    return mr_route_list(worker->cursor, epoch, &elsewhere, pick, err);
}

static mr_status make_live(mr_worker *worker, mr_making *making, mr_chain_job *job, int64_t attempt,
                           mr_error *err) {
    mr_live_block live;
    const uint64_t begun = mr_track_now(worker->track);
    MR_TRY(mr_live_fetch(worker->loader->live, &making->live, job->slot, attempt, &live, err));
    if (live.waited < MR_SPAN_KINDS) {
        mr_track_since(worker->track, (mr_span_kind)live.waited, begun, live.sample,
                       job->batch_number, live.arrival.entry.size);
    }
    job->sample = live.sample;
    job->identity = job->abroad = (mr_identity){.asked = false};
    job->block = &live.block;
    job->lends = true; /* entries stay until the step is delivered */
    job->made = live.made;
    job->made_size = live.made_size;
    job->packs = live.packs;
    mr_status status = run_chain(worker, job, err);
    if (job->packed && status == MR_OK) {
        mr_live_keep(&making->live, job->slot, job->packed, job->packed_size);
    }
    free(job->packed);
    job->packed = NULL;
    job->made = NULL;
    job->packs = job->lends = false;
    job->block = NULL;
    return status;
}

static mr_status make_substitute(mr_worker *worker, mr_making *making, mr_chain_job *job,
                                 uint32_t attempt, mr_error *err) {
    if (worker->loader->live) {
        return make_live(worker, making, job, attempt, err);
    }
    mr_pick pick;
    int64_t n = worker->loader->schedule.n;
    int64_t position = mr_portion_at(&making->portion, job->slot) % n;
    MR_TRY(pick_substitute(worker, (uint32_t)making->portion.epoch, position, attempt, &pick, err));
    job->sample = pick.sample;
    job->child = pick.child;
    job->epoch = pick.epoch;
    return make_without_readahead(worker, job, err);
}

/* The bad samples that were met, the one to be replaced first. Few samples are drawn again. */
typedef struct bad_ones {
    int64_t numbers[1 + 2 * MR_SUBSTITUTE_ATTEMPTS];
    int32_t n;
} bad_ones;

static void add_bad(bad_ones *bad, int64_t number) {
    for (int32_t i = 0; i < bad->n; i++) {
        if (bad->numbers[i] == number) {
            return;
        }
    }
    bad->numbers[bad->n++] = number;
}

static void hint_at_others(const bad_ones *bad, mr_error *err) {
    int32_t others = bad->n - 1;
    if (others == 0) {
        mr_hint(err, "there was no other sample to try in its place");
    } else if (others == 1) {
        mr_hint(err, "1 other sample tried in its place was bad too");
    } else {
        mr_hint(err, "%d other samples tried in its place were bad too", (int)others);
    }
}

/* Tries other samples, chosen by the law, until one is good. */
static mr_status substitute(mr_worker *worker, mr_making *making, mr_chain_job *job,
                            mr_error *first) {
    mr_loader *loader = worker->loader;
    int64_t bad = number_of(loader, job->child, job->sample);
    bad_ones met = {.numbers = {bad}, .n = 1};
    uint32_t most = MR_SUBSTITUTE_ATTEMPTS * (has_blocks(loader, job->child) ? 2u : 1u);
    for (uint32_t attempt = 0; attempt < most && !mr_ring_is_stopped(&loader->ring); attempt++) {
        mr_error err = MR_ERROR_INIT;
        mr_status status = make_substitute(worker, making, job, attempt, &err);
        int64_t other = number_of(loader, job->child, job->sample);
        if (status == MR_OK) {
            mr_batch_samples_mutable(making->batch)[job->slot] = other;
            note_skip(loader, making, job->slot, bad, other, first);
            return MR_OK;
        }
        if (!mr_is_samples_fault(&err)) {
            name_sample(loader, other, &err);
            *first = err;
            return status;
        }
        add_bad(&met, other);
    }
    hint_at_others(&met, first);
    return first->code;
}

/* ---- Samples ---- */
static mr_status await_load(mr_worker *worker, mr_load *load, int64_t sample, int64_t batch,
                            mr_error *err) {
    const mr_waiter waiter = {worker->track, sample, (uint32_t)batch};
    return mr_intake_await(mr_readahead_intake(worker->loader->readahead), load, &waiter, err);
}

/* NULL: nothing is read for the sample, or it was not read ahead. */
static mr_load *load_of(const mr_worker *worker, const mr_making *making, int64_t slot) {
    const mr_loader *loader = worker->loader;
    const mr_pick *pick = &making->picks[slot];
    bool is_padding = slot >= making->portion.valid;
    if (!is_read(loader, pick->child) ||
        (pick->block >= 0 && is_padding && mr_loader_is_mix(loader))) {
        return NULL;
    }
    return pick->block >= 0 ? mr_ahead_load(loader->ahead, pick) : &making->own[slot];
}

static mr_status make(mr_worker *worker, mr_making *making, mr_chain_job *job, mr_error *err) {
    mr_load *load = load_of(worker, making, job->slot);
    if (!load) {
        return make_without_readahead(worker, job, err);
    }
    mr_status status = await_load(worker, load, job->sample, job->batch_number, err);
    if (status == MR_OK) {
        job->identity = load->identity;
        job->abroad = load->abroad;
        job->offers = load->abroad.known &&
                      (load->origin == worker->loader->n_origins || worker->loader->peers);
        job->record = load->record_size == 0 ? NULL
                      : load->lent           ? load->bytes[0].data
                                             : (const char *)load->buffer + load->record_at;
        job->record_size = load->record_size;
        job->is_own_record = load->is_own_record;
        job->block = load->kept ? NULL : &load->block;
        job->fetch = load->kept ? fetch : NULL;
        status = run_chain(worker, job, err);
    }
    if (making->picks[job->slot].block < 0 && mr_load_is_settled(load)) {
        mr_intake_let_go(mr_readahead_intake(worker->loader->readahead), load);
    }
    return status;
}

static bool is_stopped(void *user) {
    const mr_worker *worker = user;
    return mr_ring_is_stopped(&worker->loader->ring);
}

/* The sample that comes next after the place up to which was looked: in this batch or in one of
 * those that are open behind it. These stay as they are until the worker's own batch is delivered.
 */
static bool look_further(mr_worker *worker, const mr_pick **pick) {
    const mr_loader *loader = worker->loader;
    while (worker->looked_batch < atomic_load(&loader->ring.opened)) {
        const mr_making *making = &loader->making[worker->looked_batch % loader->ring.depth];
        if (worker->looked_slot < making->portion.positions.count) {
            *pick = &making->picks[worker->looked_slot++];
            return true;
        }
        worker->looked_batch++;
        worker->looked_slot = 0;
    }
    return false;
}

/* What goes wrong with it is for its own turn to tell. Its spans lie inside those of the sample
 * that waits, and have its own number. */
static bool prepare(mr_worker *worker, const mr_pick *pick) {
    mr_error ignored;
    mr_error_clear(&ignored);
    const int64_t waiting = worker->track->sample;
    worker->track->sample = number_of(worker->loader, pick->child, pick->sample);
    mr_chain_job ahead = {.sample = pick->sample,
                          .child = pick->child,
                          .epoch = pick->epoch,
                          .fetch = is_read(worker->loader, pick->child) ? fetch : NULL,
                          .user = worker};
    mr_status status = mr_chain_prepare(&worker->helpers[pick->child], &ahead, &ignored);
    worker->track->sample = waiting;
    release_fetched(worker);
    return status == MR_OK;
}

/* Looks among the samples that come next for one that nobody has made or is making; at each of them
 * once only, since what somebody has or makes now need not be looked at again. */
static bool help(void *user, const mr_chain_job *job) {
    enum { LOOKS = 256 };
    mr_worker *worker = user;
    const mr_pick *pick;
    if (!mr_lists_early(worker->loader)) {
        return false; /* nobody has listed the rows of later batches yet */
    }
    if (worker->looked_batch < job->batch_number ||
        (worker->looked_batch == job->batch_number && worker->looked_slot <= job->slot)) {
        worker->looked_batch = job->batch_number;
        worker->looked_slot = job->slot + 1;
    }
    for (int i = 0; i < LOOKS && !is_stopped(worker) && look_further(worker, &pick); i++) {
        bool has_stores = worker->helpers[pick->child].recall.caches != NULL;
        if (has_stores && prepare(worker, pick)) {
            return true;
        }
    }
    return false;
}

static void make_sample(mr_worker *worker, mr_making *making, int64_t batch, int64_t slot) {
    mr_loader *loader = worker->loader;
    mr_error err;
    mr_error_clear(&err);
    mr_chain_job job = {
        .sample = making->picks[slot].sample,
        .child = making->picks[slot].child,
        .epoch = making->picks[slot].epoch,
        .batch = making->batch,
        .slot = slot,
        .is_stopped = is_stopped,
        .help = help,
        .user = worker,
        .batch_number = batch,
    };
    mr_status status =
        loader->live ? make_live(worker, making, &job, -1, &err) : make(worker, making, &job, &err);
    if (status < 0 && status != MR_E_CANCELLED) {
        name_sample(loader, number_of(loader, job.child, job.sample), &err);
        if (loader->on_error == MR_ON_ERROR_SKIP && mr_is_samples_fault(&err)) {
            status = substitute(worker, making, &job, &err);
        }
    }
    if (status < 0 && mr_is_samples_fault(&err) && err.hint[0] == '\0') {
        mr_hint(&err, "\"on_error\": \"skip\" takes another sample in its place and lists it");
    }
    if (status < 0) {
        note_failure(loader, making, slot, &err);
    }
}

/* Whether a row is of the block that the row before it is of, so that nobody need look it up. */
static bool is_like_before(const mr_making *making, int64_t slot) {
    const mr_pick *pick = &making->picks[slot], *before = pick - 1;
    return pick->block >= 0 && pick->visit == before->visit && pick->epoch == before->epoch &&
           pick->child == before->child && slot < making->portion.valid;
}

/* Waits for the blocks of a run of rows. False: not all are there, and some sample will tell why.
 */
static bool collect_blocks(mr_worker *worker, const mr_making *making, int64_t batch, int64_t first,
                           int64_t end) {
    mr_error ignored;
    mr_error_clear(&ignored);
    for (int64_t slot = first; slot < end; slot++) {
        if (slot > first && is_like_before(making, slot)) {
            worker->blocks[slot - first] = worker->blocks[slot - first - 1];
            continue;
        }
        mr_load *load = load_of(worker, making, slot);
        if (!load) {
            return false;
        }
        if ((!mr_load_is_settled(load) || atomic_load(&load->status) < 0) &&
            await_load(worker, load, making->picks[slot].sample, batch, &ignored) < 0) {
            return false;
        }
        if (load->kept) {
            return false;
        }
        worker->blocks[slot - first] = &load->block;
    }
    return true;
}

/* Rows of one child. False: one by one, then. */
static bool gather(mr_worker *worker, mr_making *making, int64_t batch, int64_t first,
                   int64_t end) {
    mr_error ignored;
    int32_t child = making->picks[first].child;
    mr_chain *chain = &worker->chains[child];
    bool in_blocks = is_read(worker->loader, child);
    if (!chain->gathers || mr_ring_is_stopped(&worker->loader->ring) ||
        (in_blocks && !collect_blocks(worker, making, batch, first, end))) {
        return false;
    }
    for (int64_t slot = first; slot < end; slot++) {
        worker->samples[slot - first] = making->picks[slot].sample;
    }
    mr_error_clear(&ignored);
    return mr_chain_gather(chain, making->batch, batch, in_blocks ? worker->blocks : NULL,
                           worker->samples, first, end - first, &ignored) == MR_OK;
}

static void make_samples(mr_worker *worker, mr_making *making, int64_t batch, int64_t first,
                         int64_t end) {
    const mr_loader *loader = worker->loader;
    for (int64_t slot = first; slot < end && !mr_ring_is_stopped(&loader->ring); slot++) {
        if (slot + 1 < end) {
            const mr_pick *next = &making->picks[slot + 1];
            mr_dataset_prefetch(&loader->children.list[next->child].dataset, next->sample);
        }
        make_sample(worker, making, batch, slot);
    }
}

/* Once a run is stopped, samples may be missing. */
static mr_status join_samples(mr_worker *worker, mr_making *making, int64_t batch, mr_error *err) {
    if (mr_ring_is_stopped(&worker->loader->ring)) {
        return mr_fail(err, MR_E_CANCELLED, "stopped");
    }
    MR_TRY(mr_chain_run_batch(&worker->chains[0], making->batch, batch, err));
    return mr_batch_seal(making->batch, err);
}

static void seal(mr_worker *worker, mr_making *making, int64_t batch) {
    mr_error err = MR_ERROR_INIT;
    uint64_t begun = mr_track_now(worker->track);
    if (making->failed_slot < 0 && join_samples(worker, making, batch, &err) < 0) {
        note_failure(worker->loader, making, 0, &err);
    }
    mr_track_since(worker->track, MR_SPAN_SEAL, begun, batch, batch, 0);
}

/* The rows of a ticket, where the consumer has not listed them. */
static bool list_rows(mr_worker *worker, mr_making *making, int64_t first, int64_t end) {
    const mr_loader *loader = worker->loader;
    mr_error err = MR_ERROR_INIT;
    if (mr_lists_early(loader)) {
        return true;
    }
    mr_status status = open_cursor(worker, &err);
    if (status == MR_OK) {
        status = mr_list_picks(loader, worker->cursor, making, first, end - first, &err);
    }
    if (status < 0) {
        note_failure(worker->loader, making, first, &err);
    }
    return status == MR_OK;
}

/* A child's rows that stand side by side are taken together. */
static void make_rows(mr_worker *worker, mr_making *making, int64_t batch, int64_t first,
                      int64_t end) {
    for (int64_t next = first; first < end; first = next) {
        while (next < end && next - first < MR_SPAN_MOST_ROWS &&
               making->picks[next].child == making->picks[first].child) {
            next++;
        }
        if (!gather(worker, making, batch, first, next)) {
            make_samples(worker, making, batch, first, next);
        }
    }
}

static void work_off(mr_worker *worker, mr_ticket ticket) {
    mr_loader *loader = worker->loader;
    mr_making *making = &loader->making[ticket.batch % loader->ring.depth];
    int64_t first = ticket.part * loader->morsel, end = first + loader->morsel;
    end = end < making->portion.positions.count ? end : making->portion.positions.count;
    if (first < end && list_rows(worker, making, first, end)) {
        make_rows(worker, making, ticket.batch, first, end);
    }
    if (mr_ring_finish_ticket(&loader->ring, ticket)) {
        seal(worker, making, ticket.batch);
        mr_ring_publish(&loader->ring, ticket.batch);
    }
}

/* Nobody else writes it. */
static void add_busy(mr_worker *worker, uint64_t begun) {
    uint64_t busy = atomic_load_explicit(&worker->busy, memory_order_relaxed);
    atomic_store_explicit(&worker->busy, busy + mr_track_now(worker->track) - begun,
                          memory_order_relaxed);
}

/* Takes a ticket once it is this worker's turn to. False: there are no more. */
static bool draw(mr_worker *worker, mr_ticket *ticket) {
    mr_ring *ring = &worker->loader->ring;
    mr_ring_enter(ring, (uint32_t)(worker - worker->loader->workers));
    return mr_ring_draw_ticket(ring, ticket);
}

/* Waits for the ticket's batch to be opened, and unpacks meanwhile what will be needed next.
 * `begun`: since when the worker has had nothing to do. */
static bool await_batch(mr_worker *worker, mr_ticket *ticket, uint64_t begun) {
    mr_loader *loader = worker->loader;
    mr_track *track = worker->track;
    mr_intake *intake = loader->ahead ? mr_readahead_intake(loader->readahead) : NULL;
    while (!mr_ring_is_open(&loader->ring, ticket)) {
        uint64_t now = mr_track_now(track);
        if (intake && mr_intake_unpack_one(intake, NULL, track)) {
            add_busy(worker, now);
        } else {
            mr_ring_sleep(&loader->ring, ticket);
            mr_track_since(track, MR_SPAN_WAIT_WORK, begun, ticket->batch, ticket->batch, 0);
        }
        begun = mr_track_now(track);
    }
    return !mr_ring_is_stopped(&loader->ring);
}

void *mr_worker_main(void *context) {
    mr_worker *worker = context;
    mr_ticket ticket;
    mr_track_attach(worker->track);
    atomic_store(&worker->thread, (int32_t)gettid());
    uint64_t begun = mr_track_now(worker->track);
    while (draw(worker, &ticket) && await_batch(worker, &ticket, begun)) {
        uint64_t awake = mr_track_now(worker->track);
        work_off(worker, ticket);
        add_busy(worker, awake);
        begun = mr_track_now(worker->track);
    }
    mr_track_detach(worker->track);
    return NULL;
}
