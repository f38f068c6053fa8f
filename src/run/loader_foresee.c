/* SPDX-License-Identifier: Apache-2.0 */
/* loader_foresee.c - what the other ranks will need of this one, so that it is sent before they ask
 * (peers.h): their portions of the steps that lie ahead, as far beyond those that are open here as
 * are open. Samples that are files of their own; blocks are asked for, and so is all where epochs
 * are so short that a sample is needed more than once in these steps. Want of memory ends the
 * foresight: what is not pushed is asked for. */
#include "core/error.h"
#include "core/memory.h"
#include "run/loader.h"

static bool is_wanted(const mr_loader *loader, int64_t ahead) {
    return loader->peers && mr_peers_pushes(loader->peers) && !loader->ahead && !loader->live &&
           mr_schedule_epoch_steps(&loader->schedule) > 2 * ahead + 1;
}

static bool make_room(mr_loader *loader) {
    mr_foresight *f = &loader->foresight;
    size_t share = (size_t)mr_loader_share(loader);
    f->picks = f->picks ? f->picks : mr_zalloc(share, sizeof *f->picks);
    f->items = f->items ? f->items : mr_zalloc(share, sizeof *f->items);
    return f->picks && f->items;
}

void mr_loader_free_foresight(mr_loader *loader) {
    mr_free(loader->foresight.picks);
    mr_free(loader->foresight.items);
}

static mr_status list_rank(mr_loader *loader, const mr_slice *step, int64_t rank, int64_t *n,
                           mr_error *err) {
    mr_pick *picks = loader->foresight.picks;
    mr_portion portion;
    if (mr_loader_is_local(loader)) {
        portion = mr_locality_portion(loader->locality, step, rank, picks);
    } else {
        portion = mr_share_of(&loader->share, step, rank);
        MR_TRY(mr_list_portion(loader->cursor, &portion, 0, portion.positions.count, picks, err));
    }
    *n = portion.positions.count;
    return MR_OK;
}

static mr_status foresee_rank(mr_loader *loader, const mr_slice *step, int64_t rank,
                              mr_error *err) {
    const mr_foresight *f = &loader->foresight;
    int64_t n = 0;
    MR_TRY(list_rank(loader, step, rank, &n, err));
    for (int64_t k = 0; k < n; k++) {
        f->items[k] = mr_locality_item(loader->locality, f->picks[k].child, f->picks[k].sample);
    }
    mr_peers_foresee(loader->peers, (int32_t)rank, f->items, n);
    return MR_OK;
}

static mr_status foresee_step(mr_loader *loader, int64_t i, mr_error *err) {
    const mr_slice step = mr_share_step(&loader->share, i);
    if (mr_loader_is_local(loader)) {
        MR_TRY(mr_locality_step(loader->locality, loader->cursor, &step, err));
    }
    for (int64_t rank = 0; rank < loader->schedule.world; rank++) {
        if (mr_peers_pushes_to(loader->peers, (int32_t)rank)) {
            MR_TRY(foresee_rank(loader, &step, rank, err));
        }
    }
    return MR_OK;
}

static bool is_before(const mr_slice *step, const mr_portion *portion) {
    return step->epoch < portion->epoch ||
           (step->epoch == portion->epoch && step->step < portion->step);
}

/* Steps are counted over all ranks here: this one may have no part in the last of an epoch. */
void mr_loader_foresee(mr_loader *loader, const mr_portion *opened) {
    mr_foresight *f = &loader->foresight;
    const int64_t ahead = atomic_load(&loader->ring.ahead);
    if (f->is_over || !is_wanted(loader, ahead) || !make_room(loader)) {
        return;
    }
    mr_error ignored = MR_ERROR_INIT;
    const int64_t steps = mr_share_steps(&loader->share);
    mr_slice at = mr_share_step(&loader->share, f->opened);
    while (is_before(&at, opened)) {
        at = mr_share_step(&loader->share, ++f->opened);
    }
    f->next =
        f->next < f->opened ? f->opened : f->next; /* nothing was to be foreseen for a while */
    for (; f->next < steps && f->next <= f->opened + ahead && !f->is_over; f->next++) {
        f->is_over = foresee_step(loader, f->next, &ignored) < 0;
    }
}
