/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - see relay.h: opening, closing, and what the feed, the consumer and workers do. */
#include "run/stream/relay_parts.h"

#include <errno.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/memory.h"

/* ---- Who reads what ---- */
int32_t mr_relay_first(const mr_relay *x, int32_t rank) {
    return (int32_t)mr_merge_cut(x->config.merge.partitions, x->config.world, rank);
}

int32_t mr_relay_reader(const mr_relay *x, int32_t partition) {
    int32_t rank = (int32_t)((int64_t)partition * x->config.world / x->config.merge.partitions);
    while (mr_relay_first(x, rank + 1) <= partition) {
        rank++;
    }
    while (mr_relay_first(x, rank) > partition) {
        rank--;
    }
    return rank;
}

bool mr_relay_is_mine(const mr_relay *x, int32_t partition) {
    return partition >= mr_relay_first(x, x->config.rank) &&
           partition < mr_relay_first(x, x->config.rank + 1);
}

bool mr_relay_is_here(mr_relay *x, int32_t rank) {
    pthread_mutex_lock(&x->lock);
    bool here = rank == x->config.rank || !x->peers[rank].left;
    pthread_mutex_unlock(&x->lock);
    return here;
}

/* ---- Letters ---- */
static relay_letter *open_letter(mr_relay *x, int32_t to, relay_kind kind) {
    relay_peer *p = &x->peers[to];
    relay_letter *l = mr_zalloc(1, sizeof *l);
    if (l) {
        l->kind = kind;
        l->peer = to;
        *(p->last ? &p->last->next : &p->first) = l;
        p->last = l;
    }
    return l;
}

/* Who has no memory to tell others what they wait for is of no use to them. */
size_t mr_relay_post(mr_relay *x, int32_t to, relay_kind kind, const mr_relay_record *where,
                     const mr_entry *entry) {
    relay_letter *l = x->peers[to].last;
    bool fits = where && l && l->kind == kind && l->body.size < LETTER_BYTES;
    l = fits ? l : open_letter(x, to, kind);
    size_t bytes = l && where ? mr_relay_write(&l->body, where->step, where->place, entry,
                                               where->flags & MR_RECORD_AFAR)
                              : 0;
    if (!l || (where && bytes == 0)) {
        x->failed = mr_fail_memory(&x->failure, LETTER_BYTES);
    }
    pthread_cond_signal(&x->mail);
    return bytes;
}

/* Of a letter that has just got its first record. */
static void name_letter(const relay_peer *p, size_t bytes, int64_t sample) {
    if (p->last && p->last->body.size == bytes) {
        p->last->id = sample;
    }
}

/* Takes the bytes over, unless there is no memory for a letter. */
bool mr_relay_post_bytes(mr_relay *x, int32_t to, relay_kind kind, int64_t id,
                         mr_relay_bytes *body) {
    relay_letter *l = open_letter(x, to, kind);
    if (l) {
        l->id = id;
        l->body = *body;
        pthread_cond_signal(&x->mail);
    }
    return l != NULL;
}

void mr_relay_free_letter(relay_letter *l) {
    free(l->body.bytes);
    mr_free(l);
}

void mr_relay_drop_letters(relay_peer *p) {
    for (relay_letter *l = p->first, *next; l; l = next) {
        next = l->next;
        mr_relay_free_letter(l);
    }
    p->first = p->last = NULL;
}

static void free_letters(relay_peer *p) {
    mr_relay_drop_letters(p);
    for (relay_early *e = p->early, *next; e; e = next) {
        next = e->next;
        free(e->body);
        mr_free(e);
    }
}

/* ---- Reading for others ---- */
typedef struct copy {
    mr_held *held;
} copy;

static bool take_copy(void *user, const mr_entry *entry) {
    copy *out = user;
    out->held = mr_held_copy(entry, NULL);
    return out->held != NULL;
}

static mr_held *read_entry(const mr_relay *x, int64_t sample) {
    const mr_merge_place place = mr_merge_at(&x->config.merge, sample);
    copy out = {NULL};
    const mr_entry_sink sink = {take_copy, &out};
    mr_status status =
        mr_dataset_recall(x->config.dataset, place.partition, place.number, &sink, NULL);
    return status == MR_OK ? out.held : NULL;
}

/* With the lock held. Beyond the window the other reads for itself. */
static void send_row(mr_relay *x, const mr_relay_row *row, const mr_entry *entry) {
    relay_peer *p = &x->peers[row->rank];
    const mr_relay_record where = {.step = row->step, .place = (int32_t)row->row};
    bool fits = entry && p->given - p->acknowledged + (int64_t)entry->size < WINDOW_BYTES;
    if (p->left || x->closing) {
        return;
    }
    size_t bytes = mr_relay_post(x, row->rank, GIVEN, &where, fits ? entry : NULL);
    name_letter(p, bytes, row->sample);
    p->given += (int64_t)bytes;
    x->counts.sent += fits;
    x->counts.bytes_out += fits ? (int64_t)bytes : 0;
}

static void note_read(mr_relay *x, uint64_t begun, const relay_job *job) {
    if (x->config.reads && job->held) {
        mr_track_since(x->config.reads, MR_SPAN_READ, begun, job->row.sample, MR_SPAN_NO_BATCH,
                       job->held->entry.size);
    }
}

static void finish(mr_relay *x, relay_job *job) {
    send_row(x, &job->row, job->held ? &job->held->entry : NULL);
    if (job->held) {
        job->next = x->found;
        x->found = job;
    } else {
        mr_free(job);
    }
}

static void *read_for_others(void *context) {
    mr_relay *x = context;
    mr_track *track = x->config.reads;
    mr_relay_attach(track);
    pthread_mutex_lock(&x->lock);
    while (!x->stopping) {
        relay_job *job = x->first_job;
        if (!job) {
            pthread_cond_wait(&x->jobs, &x->lock);
            continue;
        }
        x->first_job = job->next;
        x->last_job = x->first_job ? x->last_job : &x->first_job;
        x->n_jobs--;
        pthread_mutex_unlock(&x->lock);
        const uint64_t begun = track ? mr_track_now(track) : 0;
        job->held = read_entry(x, job->row.sample);
        note_read(x, begun, job);
        pthread_mutex_lock(&x->lock);
        finish(x, job);
    }
    pthread_mutex_unlock(&x->lock);
    mr_relay_detach(track);
    return NULL;
}

static bool queue_job(mr_relay *x, const mr_relay_row *row) {
    relay_job *job = x->n_jobs < MOST_JOBS ? mr_zalloc(1, sizeof *job) : NULL;
    if (job) {
        *job = (relay_job){.row = *row};
        *x->last_job = job;
        x->last_job = &job->next;
        x->n_jobs++;
        pthread_cond_signal(&x->jobs);
    }
    return job != NULL;
}

void mr_relay_give(mr_relay *x, const mr_relay_row *row, const mr_held *held, bool wanted) {
    pthread_mutex_lock(&x->lock);
    if (!x->peers[row->rank].left && (held || !wanted || !queue_job(x, row))) {
        send_row(x, row, held ? &held->entry : NULL);
    }
    pthread_mutex_unlock(&x->lock);
}

mr_held *mr_relay_found(mr_relay *x, int64_t *sample) {
    pthread_mutex_lock(&x->lock);
    relay_job *job = x->found;
    x->found = job ? job->next : NULL;
    pthread_mutex_unlock(&x->lock);
    mr_held *held = job ? job->held : NULL;
    if (job) {
        *sample = job->row.sample;
        mr_free(job);
    }
    return held;
}

/* ---- What was told ---- */
static bool make_place(relay_told *t) {
    if (t->n < t->room) {
        return true;
    }
    size_t room = t->room ? 2 * t->room : 64;
    mr_held **ring = mr_zalloc(room, sizeof(mr_held *));
    for (size_t i = 0; ring && i < t->n; i++) {
        ring[i] = t->ring[(t->first + i) & (t->room - 1)];
    }
    if (ring) {
        mr_free(t->ring);
        t->ring = ring;
        t->room = room;
        t->first = 0;
    }
    return ring != NULL;
}

/* The feed fills gaps; sources leave out no more than that. */
static bool is_near_enough(const mr_relay *x, int32_t partition, int64_t number) {
    const relay_told *t = &x->told[partition];
    int64_t begin = mr_merge_number(&x->config.merge, partition, x->config.terms.position);
    return number - (t->end > begin ? t->end : begin) <= MOST_MISSING;
}

/* A rank that has told of much is told once how much of it was taken in. */
static void count_told(mr_relay *x, int32_t partition, int64_t bytes) {
    relay_told *t = &x->told[partition];
    int32_t reader = mr_relay_reader(x, partition);
    t->taken += bytes;
    if (t->taken - t->heard > mr_relay_told_most(x) / 4 && !x->peers[reader].left && !x->closing) {
        const mr_relay_record where = {.place = partition};
        const mr_entry taken = {.number = t->taken};
        t->heard = t->taken;
        (void)mr_relay_post(x, reader, HEARD, &where, &taken);
    }
}

void mr_relay_take_told(mr_relay *x, int32_t from, const mr_relay_record *r, const mr_entry *e) {
    bool known = r->place < x->config.merge.partitions && mr_relay_reader(x, r->place) == from &&
                 !(r->flags & MR_RECORD_NOT_HERE);
    relay_told *t = known ? &x->told[r->place] : NULL;
    int64_t bytes = (int64_t)mr_relay_told_bytes(e);
    if (!t || x->peers[from].left) {
        return;
    }
    if (e->number < t->end) {
        count_told(x, r->place, bytes);
        return;
    }
    if (t->bytes + bytes > 2 * mr_relay_told_most(x)) {
        mr_relay_lose(x, from, "it tells of more than it may");
        return;
    }
    if (!is_near_enough(x, r->place, e->number)) {
        mr_relay_lose(x, from, "it told of an entry that is far behind the one before");
        return;
    }
    mr_held *held = make_place(t) ? mr_held_copy(e, NULL) : NULL;
    if (!held) {
        x->failed = mr_fail_memory(&x->failure, sizeof *held);
        return;
    }
    t->ring[(t->first + t->n++) & (t->room - 1)] = held;
    t->end = e->number + 1;
    t->bytes += bytes;
    x->counts.told++;
}

static bool is_own(const mr_relay *x, int32_t partition) {
    return partition < x->config.merge.partitions && mr_relay_is_mine(x, partition);
}

static relay_ahead *ahead_of(const mr_relay *x, int32_t partition, int32_t rank) {
    int32_t own = partition - mr_relay_first(x, x->config.rank);
    return &x->ahead[(size_t)own * (size_t)x->config.world + (size_t)rank];
}

/* Nobody has taken in more than it was told. */
void mr_relay_take_heard(mr_relay *x, int32_t from, const mr_relay_record *r) {
    relay_ahead *ahead = is_own(x, r->place) ? ahead_of(x, r->place, from) : NULL;
    if (ahead && r->number > ahead->heard && r->number <= ahead->told) {
        ahead->heard = r->number;
    }
}

void mr_relay_listen(mr_relay *x, mr_relay_wake *wake, void *user) {
    pthread_mutex_lock(&x->lock);
    x->wake = wake;
    x->wake_user = user;
    pthread_mutex_unlock(&x->lock);
}

bool mr_relay_may_tell(mr_relay *x, int32_t partition) {
    bool may = true;
    pthread_mutex_lock(&x->lock);
    for (int32_t r = 0; may && r < x->config.world; r++) {
        const relay_ahead *ahead = ahead_of(x, partition, r);
        may = r == x->config.rank || x->peers[r].left ||
              ahead->told - ahead->heard < mr_relay_told_most(x);
    }
    pthread_mutex_unlock(&x->lock);
    return may;
}

void mr_relay_tell(mr_relay *x, int32_t partition, const mr_entry *entry) {
    const mr_relay_record where = {.place = partition, .flags = MR_RECORD_AFAR};
    int64_t sample = mr_merge_sample(&x->config.merge, partition, entry->number);
    pthread_mutex_lock(&x->lock);
    for (int32_t r = 0; r < x->config.world; r++) {
        if (r != x->config.rank && !x->peers[r].left) {
            size_t bytes = mr_relay_post(x, r, TOLD, &where, entry);
            name_letter(&x->peers[r], bytes, sample);
            ahead_of(x, partition, r)->told += (int64_t)bytes;
        }
    }
    pthread_mutex_unlock(&x->lock);
}

static mr_status fail_as_before(const mr_relay *x, mr_error *err) {
    if (x->failed < 0 && err) {
        *err = x->failure;
    }
    return x->failed;
}

mr_status mr_relay_failure(mr_relay *x, mr_error *err) {
    pthread_mutex_lock(&x->lock);
    mr_status status = fail_as_before(x, err);
    pthread_mutex_unlock(&x->lock);
    return status;
}

/* Only the feed's thread takes entries out, so the first stays the first without the lock. */
static mr_held *first_told(mr_relay *x, int32_t partition) {
    relay_told *t = &x->told[partition];
    pthread_mutex_lock(&x->lock);
    mr_held *held = t->n > 0 ? t->ring[t->first] : NULL;
    pthread_mutex_unlock(&x->lock);
    return held;
}

static void drop_told(mr_relay *x, int32_t partition) {
    relay_told *t = &x->told[partition];
    pthread_mutex_lock(&x->lock);
    mr_held *held = t->ring[t->first];
    t->first = (t->first + 1) & (t->room - 1);
    t->n--;
    int64_t bytes = (int64_t)mr_relay_told_bytes(&held->entry);
    t->bytes -= bytes;
    count_told(x, partition, bytes);
    pthread_mutex_unlock(&x->lock);
    mr_held_release(held);
}

mr_status mr_relay_advance(mr_relay *x, int32_t partition, int64_t number,
                           const mr_entry_sink *sink, mr_error *err) {
    mr_status status = mr_relay_failure(x, err);
    for (mr_held *held; status == MR_OK && (held = first_told(x, partition));) {
        if (held->entry.number >= number && !sink->take(sink->user, &held->entry)) {
            break;
        }
        drop_told(x, partition);
    }
    return status;
}

/* ---- What was given ---- */
static relay_parked **cell_of(mr_relay *x, int64_t step, int64_t row) {
    return &x->parked[((uint64_t)step * 64 + (uint64_t)row) % RELAY_CELLS];
}

static void count_taken(mr_relay *x, const relay_parked *p) {
    x->n_parked--;
    x->peers[p->from].taken += p->bytes;
    x->peers[p->from].parked -= p->bytes;
}

static bool is_for(const relay_parked *p, const mr_relay_row *row) {
    return p->step == row->step && p->row == row->row && p->from == row->rank;
}

static relay_parked *take_out(mr_relay *x, const mr_relay_row *row) {
    relay_parked **at = cell_of(x, row->step, row->row);
    while (*at && !is_for(*at, row)) {
        at = &(*at)->next;
    }
    relay_parked *p = *at;
    if (p) {
        *at = p->next;
        count_taken(x, p);
    }
    return p;
}

/* A row that was given up on may come all the same. No rank sends more than fits into its window;
 * what is more is dropped, and read from the stream. */
void mr_relay_take_given(mr_relay *x, int32_t from, const mr_relay_record *r, const mr_entry *e,
                         size_t bytes) {
    bool here = r->flags == 0; /* else there are no bytes that could be a row */
    bool fits = x->peers[from].parked + (int64_t)bytes <= PARKED_BYTES;
    relay_parked *p = r->step >= x->passed && fits ? mr_zalloc(1, sizeof *p) : NULL;
    if (!p) {
        x->peers[from].taken += (int64_t)bytes;
        return;
    }
    relay_parked **cell = cell_of(x, r->step, r->place);
    *p = (relay_parked){.next = *cell,
                        .step = r->step,
                        .row = r->place,
                        .from = from,
                        .bytes = (int64_t)bytes,
                        .held = here ? mr_held_copy(e, NULL) : NULL};
    *cell = p;
    x->n_parked++;
    x->peers[from].parked += (int64_t)bytes;
    x->counts.received += p->held != NULL;
    x->counts.bytes_in += p->held ? (int64_t)bytes : 0;
}

static void free_parked(mr_relay *x, int64_t before) {
    for (int32_t i = 0; x->n_parked > 0 && i < RELAY_CELLS; i++) {
        for (relay_parked **at = &x->parked[i]; *at;) {
            relay_parked *p = *at;
            if (p->step >= before) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            count_taken(x, p);
            mr_held_release(p->held);
            mr_free(p);
        }
    }
}

void mr_relay_passed(mr_relay *x, int64_t step) {
    pthread_mutex_lock(&x->lock);
    x->passed = step;
    free_parked(x, step);
    pthread_mutex_unlock(&x->lock);
}

/* The entry, if it is the one that the plan says. */
static mr_held *open_parked(const mr_relay *x, relay_parked *p, const mr_relay_row *row) {
    mr_held *held = p->held;
    mr_free(p);
    if (held && held->entry.number != mr_merge_at(&x->config.merge, row->sample).number) {
        mr_held_release(held);
        return NULL;
    }
    return held;
}

/* MR_LATER: nothing is known of the row yet. */
static mr_status look_for(mr_relay *x, const mr_relay_row *row, mr_held **out, mr_error *err) {
    relay_parked *p = take_out(x, row);
    if (p) {
        *out = open_parked(x, p, row);
        return MR_OK;
    }
    if (x->stopping) {
        return mr_fail(err, MR_E_CANCELLED, "the loader was cancelled");
    }
    return x->failed < 0 ? fail_as_before(x, err) : x->peers[row->rank].left ? MR_OK : MR_LATER;
}

mr_status mr_relay_take(mr_relay *x, const mr_relay_row *row, double seconds, mr_held **out,
                        mr_error *err) {
    double end = mr_relay_now() + seconds;
    const struct timespec moment = {(time_t)end, (long)((end - (double)(time_t)end) * 1e9)};
    bool in_time = true;
    *out = NULL;
    pthread_mutex_lock(&x->lock);
    mr_status status = look_for(x, row, out, err);
    x->waiting++;
    while (status == MR_LATER && in_time) {
        in_time = pthread_cond_clockwait(&x->came, &x->lock, CLOCK_MONOTONIC, &moment) == 0;
        status = look_for(x, row, out, err);
    }
    x->waiting--;
    x->counts.missed += status >= 0 && !*out;
    pthread_mutex_unlock(&x->lock);
    return status;
}

/* ---- Who is lost ---- */
/* Others would take this rank, which ends now, for the one that was lost. */
static void tell_lost(mr_relay *x, int32_t who) {
    const mr_relay_record where = {.place = who};
    for (int32_t r = 0; r < x->config.world; r++) {
        if (r != x->config.rank && r != who && !x->peers[r].left) {
            (void)mr_relay_post(x, r, LOST, &where, NULL);
        }
    }
}

/* With the lock held. */
void mr_relay_lose(mr_relay *x, int32_t who, const char *why) {
    relay_peer *p = &x->peers[who];
    if (p->left) {
        return;
    }
    p->left = p->left_too = true;
    mr_relay_drop_letters(p);
    mr_relay_free_loans(x, who);
    if (x->is_vital && x->failed == MR_OK && !x->closing) {
        mr_fail(&x->failure, MR_E_IO, "rank %d (process %lld on %s) is gone: %s", (int)who,
                (long long)p->process.pid, p->host, why);
        x->failure.sys = ECONNRESET; /* no sample's fault: nothing is skipped for it */
        mr_hint(&x->failure, "go on from the saved state, with as many ranks as there are");
        x->failed = MR_E_IO;
        tell_lost(x, who);
    } else {
        snprintf(x->news, sizeof x->news,
                 "rank %d has left (%.80s): what it read or kept is read here from now on",
                 (int)who, why);
    }
    pthread_cond_broadcast(&x->came);
    if (x->wake) {
        x->wake(x->wake_user);
    }
}

bool mr_relay_news(mr_relay *x, char *text, size_t size) {
    pthread_mutex_lock(&x->lock);
    bool any = x->news[0] != '\0';
    snprintf(text, size, "%s", x->news);
    x->news[0] = '\0';
    pthread_mutex_unlock(&x->lock);
    return any;
}

void mr_relay_counts_of(mr_relay *x, mr_relay_counts *out) {
    pthread_mutex_lock(&x->lock);
    *out = x->counts;
    pthread_mutex_unlock(&x->lock);
}

/* ---- Opening, closing ---- */
static void init_locks(mr_relay *x) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->mail, &monotonic);
    pthread_cond_init(&x->came, NULL);
    pthread_cond_init(&x->jobs, NULL);
    pthread_condattr_destroy(&monotonic);
}

static mr_status start(mr_relay *x, mr_error *err) {
    MR_TRY(mr_relay_meet(x, err));
    MR_TRY(mr_threads_start(&x->reader, 1, "mr-relay-read", read_for_others, x, 0, err));
    return mr_threads_start(&x->speaker, 1, "mr-relay", mr_relay_speaker_main, x, 0, err);
}

mr_status mr_relay_open(mr_relay **out, const mr_relay_config *config, mr_error *err) {
    mr_relay *x = mr_zalloc(1, sizeof *x);
    *out = x;
    if (!x) {
        return mr_fail_memory(err, sizeof *x);
    }
    x->config = *config;
    x->last_job = &x->first_job;
    init_locks(x);
    x->peers = mr_zalloc((size_t)config->world, sizeof *x->peers);
    x->told = mr_zalloc((size_t)config->merge.partitions, sizeof *x->told);
    int32_t own = mr_relay_first(x, config->rank + 1) - mr_relay_first(x, config->rank);
    x->ahead = mr_zalloc((size_t)own * (size_t)config->world + 1, sizeof *x->ahead);
    if (!x->peers || !x->told || !x->ahead) {
        return mr_fail_memory(err, (size_t)config->world * sizeof *x->peers);
    }
    return start(x, err);
}

void mr_relay_stop(mr_relay *x) {
    pthread_mutex_lock(&x->lock);
    x->stopping = true;
    pthread_cond_broadcast(&x->came);
    pthread_cond_broadcast(&x->jobs);
    pthread_mutex_unlock(&x->lock);
}

static void free_jobs(relay_job *job) {
    for (relay_job *next; job; job = next) {
        next = job->next;
        mr_held_release(job->held);
        mr_free(job);
    }
}

static void free_told(relay_told *t) {
    for (size_t i = 0; i < t->n; i++) {
        mr_held_release(t->ring[(t->first + i) & (t->room - 1)]);
    }
    mr_free(t->ring);
}

void mr_relay_end(mr_relay *x) {
    mr_relay_stop(x);
    mr_threads_join(&x->reader);
    pthread_mutex_lock(&x->lock);
    x->closing = true;
    pthread_cond_signal(&x->mail);
    pthread_mutex_unlock(&x->lock);
    mr_threads_join(&x->speaker);
}

static void free_mail(mr_relay *x) {
    for (relay_letter *l = x->under_way, *next; l; l = next) {
        next = l->next;
        mr_relay_free_letter(l);
    }
    for (int32_t r = 0; x->peers && r < x->config.world; r++) {
        free_letters(&x->peers[r]);
    }
    if (x->peers) {
        free_parked(x, INT64_MAX);
    }
}

static void free_parts(mr_relay *x) {
    free_mail(x);
    free_jobs(x->first_job);
    free_jobs(x->found);
    mr_relay_free_loans(x, -1);
    for (int32_t i = 0; x->told && i < x->config.merge.partitions; i++) {
        free_told(&x->told[i]);
    }
    mr_free(x->peers);
    mr_free(x->told);
    mr_free(x->ahead);
}

void mr_relay_close(mr_relay *x) {
    if (!x) {
        return;
    }
    mr_relay_end(x);
    if (x->link) { /* the speaker was not started */
        x->class->close(x->link, true);
    }
    free_parts(x);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->mail);
    pthread_cond_destroy(&x->came);
    pthread_cond_destroy(&x->jobs);
    mr_free(x);
}
