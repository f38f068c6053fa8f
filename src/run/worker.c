/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - what a worker thread does: take a ticket, make its samples, finish it. */
#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "run/loader.h"

/* ---- Notes about bad samples ---- */
static void name_sample(const mr_loader *loader, int64_t sample, mr_error *err) {
    char name[512];
    loader->pipeline->source->sample_name(loader->source_state, sample, name, sizeof name);
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
        note->skip = (mr_skip){making->slice.epoch, making->slice.step, sample, replacement, NULL};
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
/* Only what is wrong with the sample itself may be skipped: a disk or a server that fails for a
 * moment, or a machine without memory or file handles, would otherwise change the data that a run
 * sees. */
static bool is_samples_fault(const mr_error *err) {
    bool files_own = err->sys == 0 || err->sys == ENOENT || err->sys == ENOTDIR ||
                     err->sys == EACCES || err->sys == EPERM || err->sys == ELOOP ||
                     err->sys == EISDIR || err->sys == ENAMETOOLONG;
    return files_own && err->code != MR_E_MEMORY && err->code != MR_E_INTERNAL &&
           err->code != MR_E_CANCELLED;
}

static mr_status read_now(const mr_loader *loader, int64_t sample, void **bytes, size_t *size,
                          mr_error *err) {
    mr_extent extent;
    mr_open_extent open;
    MR_TRY(loader->pipeline->source->locate(loader->source_state, sample, &extent, err));
    MR_TRY(mr_extent_open(&extent, &open, err));
    *bytes = malloc(open.size ? open.size : 1);
    *size = open.size;
    mr_status status = *bytes ? mr_extent_read(&open, *bytes, err) : mr_fail_memory(err, open.size);
    mr_extent_close(&open);
    return status;
}

/* A chain's fetch. The bytes are the worker's until the sample is done. */
static mr_status fetch(void *user, mr_chain_job *job, mr_error *err) {
    mr_worker *worker = user;
    MR_TRY(read_now(worker->loader, job->sample, &worker->fetched, &job->n_bytes, err));
    job->bytes = worker->fetched;
    return MR_OK;
}

static mr_status run_chain(mr_worker *worker, mr_chain_job *job, mr_error *err) {
    mr_status status = mr_chain_run(&worker->chain, job, err);
    free(worker->fetched);
    worker->fetched = NULL;
    return status;
}

static mr_status make_without_readahead(mr_worker *worker, mr_chain_job *job, mr_error *err) {
    job->bytes = NULL;
    job->identity = (mr_identity){.asked = false};
    job->fetch = worker->loader->readahead ? fetch : NULL;
    return run_chain(worker, job, err);
}

/* Tries other samples, chosen by the law, until one is good. */
static mr_status substitute(mr_worker *worker, mr_making *making, mr_chain_job *job,
                            mr_error *first) {
    mr_loader *loader = worker->loader;
    int64_t bad = job->sample;
    int64_t position = mr_slice_position(&loader->schedule, &making->slice, job->slot);
    for (uint32_t attempt = 0;
         attempt < MR_SUBSTITUTE_ATTEMPTS && !mr_ring_is_stopped(&loader->ring); attempt++) {
        mr_error err = MR_ERROR_INIT;
        job->sample =
            mr_order_substitute(loader->schedule.n, loader->seed, job->epoch, position, attempt);
        mr_status status = make_without_readahead(worker, job, &err);
        if (status == MR_OK) {
            mr_batch_samples_mutable(making->batch)[job->slot] = job->sample;
            note_skip(loader, making, job->slot, bad, job->sample, first);
            return MR_OK;
        }
        if (!is_samples_fault(&err)) {
            name_sample(loader, job->sample, &err);
            *first = err;
            return status;
        }
    }
    mr_hint(first, "%d other samples tried in its place were bad too", MR_SUBSTITUTE_ATTEMPTS);
    return first->code;
}

/* ---- Samples ---- */
static mr_window_entry *await_read(mr_worker *worker, mr_window *window, int64_t read,
                                   const mr_chain_job *job) {
    if (mr_window_is_there(window, read)) {
        return mr_window_get(window, read);
    }
    uint64_t begun = mr_track_now(worker->track);
    mr_window_entry *entry = mr_window_get(window, read);
    mr_track_since(worker->track, MR_SPAN_WAIT_READ, begun, job->sample, job->batch_number, 0);
    return entry;
}

static mr_status make_from_readahead(mr_worker *worker, mr_making *making, mr_chain_job *job,
                                     mr_error *err) {
    mr_window *window = mr_readahead_window(worker->loader->readahead);
    mr_window_entry *entry = await_read(worker, window, making->first_read + job->slot, job);
    if (!entry) {
        return mr_window_failure(window, err);
    }
    mr_status status = entry->read.status;
    if (status < 0) {
        *err = entry->err;
    } else {
        job->identity = entry->identity;
        job->bytes = entry->kept ? NULL : entry->buffer;
        job->n_bytes = entry->kept ? 0 : entry->read.open.size;
        job->fetch = entry->kept ? fetch : NULL;
        status = run_chain(worker, job, err);
    }
    mr_window_release(window, entry);
    return status;
}

static bool is_stopped(void *user) {
    const mr_worker *worker = user;
    return mr_ring_is_stopped(&worker->loader->ring);
}

/* The sample at a place of the run: anywhere ahead where samples are read ahead, else in the batch.
 */
static bool sample_at(const mr_worker *worker, const mr_chain_job *job, int64_t place,
                      int64_t *sample) {
    const mr_loader *loader = worker->loader;
    int64_t slot = place - loader->making[job->batch_number % loader->ring.depth].first_read;
    if (loader->readahead) {
        return mr_window_upcoming(mr_readahead_window(loader->readahead), place, sample);
    }
    if (slot >= mr_batch_size(job->batch)) {
        return false;
    }
    *sample = mr_batch_samples(job->batch)[slot];
    return true;
}

/* What goes wrong with it is for its own turn to tell. */
static bool prepare(mr_worker *worker, const mr_chain_job *job, int64_t sample) {
    mr_error ignored;
    mr_error_clear(&ignored);
    mr_chain_job ahead = {.sample = sample,
                          .epoch = job->epoch,
                          .fetch = worker->loader->readahead ? fetch : NULL,
                          .user = worker};
    mr_status status = mr_chain_prepare(&worker->chain, &ahead, &ignored);
    free(worker->fetched);
    worker->fetched = NULL;
    return status == MR_OK;
}

/* Looks among the samples that come next for one that nobody has made or is making; at each of them
 * once only, since what somebody has or makes now need not be looked at again. */
static bool help(void *user, const mr_chain_job *job) {
    enum { LOOKS = 256 };
    mr_worker *worker = user;
    const mr_loader *loader = worker->loader;
    int64_t own = loader->making[job->batch_number % loader->ring.depth].first_read + job->slot;
    int64_t sample;
    worker->looked = worker->looked > own ? worker->looked : own + 1;
    while (worker->looked <= own + LOOKS && !is_stopped(worker) &&
           sample_at(worker, job, worker->looked, &sample)) {
        worker->looked++;
        if (prepare(worker, job, sample)) {
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
        .sample = mr_batch_samples(making->batch)[slot],
        .epoch = (uint32_t)making->slice.epoch,
        .batch = making->batch,
        .slot = slot,
        .is_stopped = is_stopped,
        .help = help,
        .user = worker,
        .batch_number = batch,
    };
    mr_status status = loader->readahead ? make_from_readahead(worker, making, &job, &err)
                                         : run_chain(worker, &job, &err);
    if (status < 0 && status != MR_E_CANCELLED) {
        name_sample(loader, job.sample, &err);
        if (loader->on_error == MR_ON_ERROR_SKIP && is_samples_fault(&err)) {
            status = substitute(worker, making, &job, &err);
        }
    }
    if (status < 0 && is_samples_fault(&err) && err.hint[0] == '\0') {
        mr_hint(&err, "\"on_error\": \"skip\" takes another sample in its place and lists it");
    }
    if (status < 0) {
        note_failure(loader, making, slot, &err);
    }
}

static void prefetch_sample(const mr_loader *loader, const mr_making *making, int64_t slot) {
    const mr_source_class *source = loader->pipeline->source;
    if (source->prefetch) {
        source->prefetch(loader->source_state, mr_batch_samples(making->batch)[slot]);
    }
}

/* False: one by one, then. */
static bool gather(mr_worker *worker, mr_making *making, int64_t first, int64_t end) {
    mr_error ignored;
    if (!worker->chain.gathers || mr_ring_is_stopped(&worker->loader->ring)) {
        return false;
    }
    mr_error_clear(&ignored);
    return mr_chain_gather(&worker->chain, making->batch, first, end - first, &ignored) == MR_OK;
}

static void make_samples(mr_worker *worker, mr_making *making, int64_t batch, int64_t first,
                         int64_t end) {
    const mr_loader *loader = worker->loader;
    for (int64_t slot = first; slot < end && !mr_ring_is_stopped(&loader->ring); slot++) {
        if (slot + 1 < end) {
            prefetch_sample(loader, making, slot + 1);
        }
        make_sample(worker, making, batch, slot);
    }
}

static void seal(mr_worker *worker, mr_making *making, int64_t batch) {
    mr_loader *loader = worker->loader;
    mr_error err = MR_ERROR_INIT;
    uint64_t begun = mr_track_now(worker->track);
    if (making->failed_slot < 0 && mr_batch_seal(making->batch, &err) < 0) {
        note_failure(loader, making, 0, &err);
    }
    mr_track_since(worker->track, MR_SPAN_SEAL, begun, batch, batch, 0);
}

static void work_off(mr_worker *worker, mr_ticket ticket) {
    mr_loader *loader = worker->loader;
    mr_making *making = &loader->making[ticket.batch % loader->ring.depth];
    int64_t first = ticket.part * loader->morsel, end = first + loader->morsel;
    end = end < making->slice.count ? end : making->slice.count;
    if (first < end && !gather(worker, making, first, end)) {
        make_samples(worker, making, ticket.batch, first, end);
    }
    if (mr_ring_finish_ticket(&loader->ring, ticket)) {
        seal(worker, making, ticket.batch);
        mr_ring_publish(&loader->ring, ticket.batch);
    }
}

void *mr_worker_main(void *context) {
    mr_worker *worker = context;
    mr_ticket ticket;
    mr_track_attach(worker->track);
    uint64_t begun = mr_track_now(worker->track);
    while (mr_ring_take_ticket(&worker->loader->ring, &ticket)) {
        if (ticket.waited) {
            mr_track_since(worker->track, MR_SPAN_WAIT_WORK, begun, ticket.batch, ticket.batch, 0);
        }
        work_off(worker, ticket);
        begun = mr_track_now(worker->track);
    }
    mr_track_detach(worker->track);
    return NULL;
}
