/* SPDX-License-Identifier: Apache-2.0 */
/* loader_batches.c - opening batches: which samples stand in the next one, and what must be read
 * for them. The consumer does this; the workers take it from there. */
#include <string.h>

#include "core/error.h"
#include "run/loader.h"

static void note_epoch(mr_loader *loader, int64_t epoch) {
    if (loader->opened_epoch != epoch) {
        loader->opened_epoch = epoch;
        for (int32_t i = 0; i < loader->children.n; i++) {
            mr_caches_epoch(&loader->children.list[i].caches);
        }
    }
}

/* A part of a pattern of positions that goes as far as one call can take it: whole runs, or what is
 * left of one. */
static mr_positions part_of(const mr_positions *all, int64_t first, int64_t n) {
    int64_t into = first % all->run, left = all->run - into;
    int64_t count = into == 0 ? n : left < n ? left : n;
    mr_positions part = {mr_positions_at(all, first), count, all->run, all->stride};
    if (into > 0) {
        part.run = part.stride = count;
    }
    return part;
}

mr_status mr_list_portion(mr_route_cursor *cursor, const mr_portion *portion, int64_t first,
                          int64_t n, mr_pick *picks, mr_error *err) {
    for (int64_t at = first; !portion->slots && at < first + n;) {
        mr_positions part = part_of(&portion->positions, at, first + n - at);
        MR_TRY(mr_route_list(cursor, (uint32_t)portion->epoch, &part, picks + at, err));
        at += part.count;
    }
    return MR_OK;
}

mr_status mr_list_picks(const mr_loader *loader, mr_route_cursor *cursor, mr_making *making,
                        int64_t first, int64_t n, mr_error *err) {
    int64_t *samples = mr_batch_samples_mutable(making->batch);
    MR_TRY(mr_list_portion(cursor, &making->portion, first, n, making->picks, err));
    for (int64_t i = first; i < first + n; i++) {
        const mr_pick *pick = &making->picks[i];
        samples[i] = loader->children.list[pick->child].first_sample + pick->sample;
    }
    return MR_OK;
}

static mr_status make_picks(const mr_loader *loader, mr_making *making, mr_error *err) {
    size_t share = (size_t)mr_loader_share(loader);
    if (!making->picks) {
        making->picks = mr_zalloc(share, sizeof *making->picks);
    }
    return making->picks ? MR_OK : mr_fail_memory(err, share * sizeof *making->picks);
}

/* The picks come with it; the slots are the locality's until the next step. */
static mr_status choose_local(mr_loader *loader, mr_making *making, mr_error *err) {
    mr_portion *portion = &making->portion;
    size_t share = (size_t)mr_loader_share(loader);
    making->slots = making->slots ? making->slots : mr_zalloc(share, sizeof *making->slots);
    if (!making->slots) {
        return mr_fail_memory(err, share * sizeof *making->slots);
    }
    MR_TRY(make_picks(loader, making, err));
    const mr_slice step = mr_share_step_of(&loader->share, loader->schedule.rank, loader->n_opened);
    MR_TRY(mr_locality_step(loader->locality, loader->cursor, &step, err));
    *portion = mr_locality_portion(loader->locality, &step, loader->schedule.rank, making->picks);
    memcpy(making->slots, portion->slots, (size_t)portion->positions.count * sizeof *making->slots);
    portion->slots = making->slots;
    return MR_OK;
}

/* MR_LATER, MR_END: see mr_live_plan. */
static mr_status choose_portion(mr_loader *loader, mr_making *making, mr_error *err) {
    if (loader->live) {
        return mr_live_plan(loader->live, &making->live, &making->portion, err);
    }
    if (mr_loader_is_local(loader)) {
        return choose_local(loader, making, err);
    }
    making->portion = mr_share_at(&loader->share, loader->schedule.rank, loader->n_opened);
    return MR_OK;
}

static mr_status fill_making(mr_loader *loader, mr_making *making, mr_error *err) {
    mr_portion *portion = &making->portion;
    mr_status status = choose_portion(loader, making, err);
    if (status != MR_OK) {
        return status;
    }
    note_epoch(loader, portion->epoch);
    MR_TRY(mr_pool_take(loader->pool, portion->positions.count, &making->batch, err));
    mr_batch_place(making->batch, portion->epoch, portion->step, portion->valid);
    making->failed_slot = -1;
    return make_picks(loader, making, err);
}

/* Where a sample is a block that is read, it has a load of its own. */
static int64_t list_own_loads(const mr_loader *loader, mr_making *making) {
    int64_t n = 0;
    for (int64_t i = 0; i < making->portion.positions.count; i++) {
        const mr_pick *pick = &making->picks[i];
        const mr_dataset *dataset = &loader->children.list[pick->child].dataset;
        if (pick->block < 0 && mr_dataset_is_read(dataset)) {
            making->own[i] = (mr_load){.block.number = pick->sample, .dataset = dataset};
            making->loads[n++] = &making->own[i];
        }
    }
    return n;
}

static mr_status plan_samples(mr_loader *loader, mr_making *making, mr_error *err) {
    size_t share = (size_t)mr_loader_share(loader);
    making->own = making->own ? making->own : mr_zalloc(share, sizeof *making->own);
    making->loads = making->loads ? making->loads : mr_zalloc(share, sizeof *making->loads);
    if (!making->own || !making->loads) {
        return mr_fail_memory(err, share * sizeof *making->own);
    }
    int64_t n = list_own_loads(loader, making);
    return n == 0 || mr_intake_plan(mr_readahead_intake(loader->readahead), making->loads, n)
               ? MR_OK
               : mr_fail_memory(err, share * sizeof *making->loads);
}

/* Blocks that the walk over this rank's lanes has not planned: padding comes from the epoch's
 * beginning, and a step that cannot be shared by lane has rows of other lanes. In a mix the
 * beginning may be many epochs of a child ago: workers fetch what they need of it. */
static mr_status plan_strays(mr_loader *loader, mr_making *making, mr_error *err) {
    const mr_portion *portion = &making->portion;
    bool at_home = !portion->slots && portion->first_lane >= loader->first_lane &&
                   portion->end_lane <= loader->end_lane;
    int64_t end = mr_loader_is_mix(loader) ? portion->valid : portion->positions.count;
    int64_t first = at_home ? portion->valid : 0, n = end - first;
    if (n <= 0) {
        return MR_OK;
    }
    if (!mr_lists_early(loader)) {
        MR_TRY(mr_list_picks(loader, loader->cursor, making, first, n, err));
    }
    return mr_ahead_again(loader->ahead, making->picks + first, n,
                          mr_loader_position(loader, portion), err);
}

static mr_status list_live(mr_making *making) {
    for (int64_t i = 0; i < making->live.n_rows; i++) {
        const mr_live_row *row = &making->live.rows[i];
        making->picks[i] =
            (mr_pick){.sample = row->sample, .block = -1, .visit = -1, .epoch = row->epoch};
        mr_batch_samples_mutable(making->batch)[i] = row->sample;
    }
    return MR_OK;
}

static mr_status plan_reads(mr_loader *loader, mr_making *making, mr_error *err) {
    const mr_portion *portion = &making->portion;
    if (loader->live) {
        return list_live(making);
    }
    if (mr_lists_early(loader)) {
        MR_TRY(mr_list_picks(loader, loader->cursor, making, 0, portion->positions.count, err));
    }
    if (loader->ahead) {
        MR_TRY(mr_ahead_reach(loader->ahead, mr_loader_position(loader, portion), err));
        MR_TRY(plan_strays(loader, making, err));
    }
    return loader->readahead && mr_lists_early(loader) ? plan_samples(loader, making, err) : MR_OK;
}

static mr_status open_next_batch(mr_loader *loader, mr_error *err) {
    mr_making *making = &loader->making[loader->n_opened % loader->ring.depth];
    mr_status status = fill_making(loader, making, err);
    if (status == MR_OK) {
        status = plan_reads(loader, making, err);
    }
    if (status != MR_OK) {
        mr_batch_unref(making->batch);
        making->batch = NULL;
        return status;
    }
    mr_ring_open(&loader->ring, loader->n_opened++);
    mr_loader_foresee(loader, &making->portion);
    return MR_OK;
}

static int64_t epoch_of(const mr_loader *loader, int64_t batch) {
    return mr_share_at(&loader->share, loader->schedule.rank, batch).epoch;
}

void mr_loader_ask(mr_loader *loader) {
    if (loader->by_epoch && loader->n_taken < loader->n_steps) {
        loader->asked_epoch = epoch_of(loader, loader->n_taken);
    }
}

static bool may_open(const mr_loader *loader) {
    return loader->n_opened < loader->n_steps &&
           loader->n_opened < loader->n_taken + atomic_load(&loader->ring.ahead) &&
           (!loader->by_epoch || epoch_of(loader, loader->n_opened) <= loader->asked_epoch);
}

/* Opens what may be open. Running out of memory is an error only when nothing is in the making;
 * otherwise it is tried again at the next step. */
mr_status mr_loader_open_batches(mr_loader *loader, mr_error *err) {
    while (may_open(loader)) {
        mr_error failure = MR_ERROR_INIT;
        mr_status status = open_next_batch(loader, &failure);
        if (status == MR_OK) {
            continue;
        }
        if (status == MR_END) {
            loader->n_steps = loader->n_opened;
        }
        if (status > 0 || loader->n_opened > loader->n_taken) {
            return MR_OK;
        }
        if (err) {
            *err = failure;
        }
        return failure.code;
    }
    return MR_OK;
}
