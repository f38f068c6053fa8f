/* SPDX-License-Identifier: Apache-2.0 */
/* live_fetch.c - a worker has a row's bytes: from memory, from the rank that read them, or from the
 * stream once more. */
#include <errno.h>

#include "core/error.h"
#include "plan/order.h"
#include "run/stream/live_parts.h"

typedef struct copy {
    mr_held *held;
} copy;

static bool take_copy(void *user, const mr_entry *entry) {
    copy *out = user;
    out->held = mr_held_copy(entry, NULL);
    return out->held != NULL;
}

static mr_status recall(const mr_live *live, int64_t sample, mr_held **to, mr_error *err) {
    const mr_dataset *dataset = live->config.dataset;
    mr_merge_place place = mr_merge_at(&live->merge, sample);
    copy out = {NULL};
    const mr_entry_sink sink = {take_copy, &out};
    MR_TRY(mr_dataset_recall(dataset, place.partition, place.number, &sink, err));
    mr_held_release(*to);
    *to = out.held;
    return MR_OK;
}

/* From the rank that has it, or from the stream where that does not send it soon; where the stream
 * has it no more, the rank is waited for, unless it has said that it sends nothing. That nobody has
 * it any more is not the sample's fault: it was there, and faster ranks would have had it. A row is
 * one worker's, so nobody else reads it now. */
static mr_status fetch_row(const mr_live *live, const mr_live_step *step, int64_t at,
                           int32_t *waited, mr_error *err) {
    const double soon = 1, late = 60;
    mr_live_row *row = &step->rows[at];
    const mr_relay_row wanted = {row->from, step->step, at, row->sample};
    mr_status sent = MR_OK;
    if (row->from >= 0) {
        sent = mr_relay_take(live->relay, &wanted, soon, &row->recalled, err);
        MR_TRY(sent);
    }
    *waited = row->recalled ? MR_SPAN_WAIT_PEER : MR_SPAN_WAIT_READ;
    mr_status status = row->recalled ? MR_OK : recall(live, row->sample, &row->recalled, err);
    if (status < 0 && sent == MR_LATER) {
        MR_TRY(mr_relay_take(live->relay, &wanted, late, &row->recalled, err));
    }
    if (!row->recalled && status == MR_E_NOT_FOUND && row->from >= 0 && err) {
        err->sys = ETIMEDOUT;
    }
    return row->recalled ? MR_OK : status;
}

static void fill_block(mr_live_block *out, int64_t sample, const mr_held *held,
                       const mr_live_row *row) {
    const mr_extra *extra = sample == row->sample ? row->extra : NULL; /* else it stands in */
    out->sample = sample;
    out->arrival = (mr_arrival){.entry = held->entry,
                                .weight = row->weight,
                                .is_replay = row->is_replay,
                                .extra = extra ? extra->values : NULL,
                                .n_extra = extra ? extra->n : 0};
    out->part = &out->arrival;
    out->block = (mr_block){.number = sample, .first = sample, .n_parts = 1, .parts = &out->part};
}

/* The n-th new sample of the step that may stand in for a bad one, or how many there are: of the
 * same partition, since a rank may have read no other; any, where every rank reads all. */
static int64_t find_stand_in(const mr_live *live, const mr_live_step *step, int64_t bad,
                             int64_t which) {
    int32_t own = mr_merge_at(&live->merge, bad).partition;
    int64_t n = 0;
    for (int64_t i = 0; i < step->count; i++) {
        bool fits = live->planned || mr_merge_at(&live->merge, step->samples[i]).partition == own;
        if (fits && n++ == which) {
            return i;
        }
    }
    return n;
}

/* *out NULL: there is none. */
static mr_status stand_in(const mr_live *live, const mr_live_step *step, mr_live_row *row,
                          uint32_t attempt, int64_t *sample, const mr_held **out, mr_error *err) {
    int64_t n = find_stand_in(live, step, row->sample, -1);
    *out = NULL;
    if (n == 0) {
        return MR_OK;
    }
    int64_t which = mr_order_substitute(n, live->config.seed, row->epoch, row->sample, attempt);
    int64_t at = find_stand_in(live, step, row->sample, which);
    *sample = step->samples[at];
    *out = step->arrived[at];
    if (*out && (*out)->is_afar) {
        MR_TRY(recall(live, *sample, &row->stand_in, err));
        *out = row->stand_in;
    }
    return MR_OK;
}

mr_status mr_live_fetch(const mr_live *live, const mr_live_step *step, int64_t row, int64_t attempt,
                        mr_live_block *out, mr_error *err) {
    mr_live_row *own = &step->rows[row];
    int64_t sample = own->sample;
    const mr_held *held = own->held ? own->held : own->recalled;
    out->waited = MR_SPAN_KINDS;
    if (attempt >= 0) {
        MR_TRY(stand_in(live, step, own, (uint32_t)attempt, &sample, &held, err));
    } else if (!held) {
        MR_TRY(fetch_row(live, step, row, &out->waited, err));
        held = own->recalled;
    }
    if (!held) {
        return mr_fail(err, MR_E_NOT_FOUND, "the step has no sample to take in its place");
    }
    fill_block(out, sample, held, own);
    out->made = held->is_made ? held->entry.value : NULL;
    out->made_size = held->is_made ? held->entry.size : 0;
    out->packs = live->enters && attempt < 0 && !held->is_made;
    return MR_OK;
}

/* A row is one worker's. Without memory it is made again the next time. */
void mr_live_keep(const mr_live_step *step, int64_t row, const void *bytes, size_t size) {
    mr_live_row *own = &step->rows[row];
    mr_entry entry = (own->held ? own->held : own->recalled)->entry;
    entry.value = bytes;
    entry.size = size;
    own->made = mr_held_copy(&entry, NULL);
    if (own->made) {
        own->made->is_made = true;
    }
}
