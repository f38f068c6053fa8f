/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - see feed.h. */
#include "run/stream/feed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/threads.h"

/* Entries of a partition that wait: numbers [first, end), each at number % room. */
typedef struct queue {
    mr_held **ring;
    int64_t room; /* a power of two */
    int64_t first, end;
} queue;

struct mr_feed {
    mr_feed_config config;
    mr_threads threads;
    atomic_bool stopped;
    mr_held_pool *pool;
    _Atomic int64_t kept_from; /* a sample; what was spilled before it can go */
    int64_t saved;             /* where the last state stands; -1: there is none; the consumer's */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t came;  /* for the consumer */
    pthread_cond_t room;  /* for the reader */
    queue *queues;        /* one for each partition */
    int64_t waiting_bytes;
    int64_t position; /* samples before it were taken */
    bool is_woken;    /* the reader need not rest */
    mr_feed_counts counts;
    mr_news news; /* of the source, for the consumer to tell */
    mr_status failed;
    mr_error failure;
};

/* ---- Windows ---- */
static bool make_place(queue *q) {
    if (q->end - q->first < q->room) {
        return true;
    }
    int64_t room = q->room ? 2 * q->room : 64;
    mr_held **ring = mr_zalloc((size_t)room, sizeof(mr_held *));
    if (!ring) {
        return false;
    }
    for (int64_t i = q->first; i < q->end; i++) {
        ring[i & (room - 1)] = q->ring[i & (q->room - 1)];
    }
    mr_free(q->ring);
    q->ring = ring;
    q->room = room;
    return true;
}

static bool push(mr_feed *feed, queue *q, mr_held *held) {
    if (!held || !make_place(q)) {
        mr_held_release(held);
        return false;
    }
    q->ring[q->end++ & (q->room - 1)] = held;
    feed->waiting_bytes += (int64_t)held->bytes;
    feed->counts.waiting++;
    return true;
}

/* Numbers that the source left out. */
static bool push_missing(mr_feed *feed, queue *q, int64_t before) {
    while (q->end < before) {
        const mr_entry missing = {.number = q->end};
        if (!push(feed, q, mr_held_copy(&missing, feed->pool))) {
            return false;
        }
        feed->counts.missing++;
    }
    return true;
}

/* ---- The reader ---- */
/* The number before which a partition has no entry that is ever asked for. */
static int64_t end_of(const mr_feed *feed, int32_t partition) {
    return mr_merge_number(&feed->config.merge, partition, feed->config.end);
}

static bool has_room(const mr_feed *feed, int32_t partition) {
    const mr_feed_config *c = &feed->config;
    const queue *q = &feed->queues[partition];
    int64_t needed = mr_merge_number(&c->merge, partition, feed->position + c->least);
    return q->end < end_of(feed, partition) && (q->end < needed || feed->waiting_bytes < c->bytes);
}

static bool has_room_now(mr_feed *feed, int32_t partition) {
    pthread_mutex_lock(&feed->lock);
    bool room = has_room(feed, partition);
    pthread_mutex_unlock(&feed->lock);
    return room;
}

typedef struct taking {
    mr_feed *feed;
    int32_t partition;
    bool any, no_memory;
    bool is_back;     /* entries come out of the spill */
    bool is_told;     /* entries come from other ranks, without their bytes */
    mr_status failed; /* of the spill */
    mr_error *err;
} taking;

/* Where ranks read for each other, whose partition it is. */
static bool is_own(const mr_feed *feed, int32_t partition) {
    const mr_relay *relay = feed->config.relay;
    return !relay || mr_relay_is_mine(relay, partition);
}

/* Where other ranks are to hear of it, as long as they have taken in what they heard. */
static bool may_tell(const mr_feed *feed, int32_t partition) {
    return !feed->config.relay || !is_own(feed, partition) ||
           mr_relay_may_tell(feed->config.relay, partition);
}

static bool push_entry(taking *t, const mr_entry *entry) {
    mr_held *held = mr_held_copy(entry, t->feed->pool);
    if (held && t->is_told) {
        held->is_afar = entry->value != NULL;
    }
    return push(t->feed, &t->feed->queues[t->partition], held);
}

static void count_entry(taking *t, const mr_entry *entry) {
    mr_feed_counts *counts = &t->feed->counts;
    if (!t->is_told) {
        counts->entries++;
        counts->bytes += (int64_t)(entry->size + entry->key_size);
    }
    counts->newest = entry->time;
    t->any = true;
}

/* Into memory, as long as there is room. */
static bool take_in(taking *t, const mr_entry *entry) {
    mr_feed *feed = t->feed;
    queue *q = &feed->queues[t->partition];
    bool wanted =
        may_tell(feed, t->partition); /* not with the lock, which the relay takes second */
    pthread_mutex_lock(&feed->lock);
    wanted = wanted && has_room(feed, t->partition);
    if (wanted) {
        int64_t end = end_of(feed, t->partition);
        t->no_memory = !push_missing(feed, q, entry->number < end ? entry->number : end) ||
                       (entry->number < end && !push_entry(t, entry));
        count_entry(t, entry);
    }
    pthread_mutex_unlock(&feed->lock);
    if (wanted && feed->config.relay && is_own(feed, t->partition)) {
        mr_relay_tell(feed->config.relay, t->partition, entry);
    }
    return wanted && !t->no_memory;
}

/* Of a partition some of which is spilled, all that comes is, so that it stays one run: until
 * nobody needs any of it, or it is full and everything was read back. */
static bool must_spill(mr_feed *feed, int32_t partition, const mr_entry *entry) {
    mr_spill *spill = feed->config.spill;
    int64_t end = mr_spill_end(spill, partition), taken = feed->queues[partition].end;
    return end > taken || (end == taken && mr_spill_has_room(spill, entry));
}

static bool may_spill(const mr_feed *feed, int32_t partition, const mr_entry *entry) {
    int64_t end = mr_spill_end(feed->config.spill, partition);
    return (end < 0 || end >= feed->queues[partition].end) &&
           entry->number < end_of(feed, partition) && mr_spill_has_room(feed->config.spill, entry);
}

static bool spill_entry(taking *t, const mr_entry *entry) {
    mr_spill *spill = t->feed->config.spill;
    if (!may_spill(t->feed, t->partition, entry)) {
        return false;
    }
    t->failed = mr_spill_put(spill, t->partition, entry, t->err);
    t->any = true;
    return t->failed == MR_OK;
}

/* Whole or not at all: an entry that there is no room for is given again. */
static bool take_entry(void *user, const mr_entry *entry) {
    taking *t = user;
    mr_feed *feed = t->feed;
    bool spills = feed->config.spill && !t->is_back && is_own(feed, t->partition);
    int64_t next = feed->queues[t->partition].end; /* only this thread changes it */
    if (atomic_load(&feed->stopped)) {
        return false;
    }
    if (spills && mr_spill_end(feed->config.spill, t->partition) > next) {
        next = mr_spill_end(feed->config.spill, t->partition);
    }
    if (entry->number < next) {
        return true; /* it was there before: go on */
    }
    if (spills && must_spill(feed, t->partition, entry)) {
        return spill_entry(t, entry);
    }
    return take_in(t, entry) || (spills && !t->no_memory && spill_entry(t, entry));
}

static mr_status outcome(const taking *t, mr_status status, mr_error *err) {
    return t->no_memory ? mr_fail_memory(err, sizeof(mr_held)) : t->failed < 0 ? t->failed : status;
}

/* Bad entries at the end of what was spilled have no entry behind them that would tell. */
static void take_missing(taking *t) {
    mr_feed *feed = t->feed;
    queue *q = &feed->queues[t->partition];
    int64_t spilled = mr_spill_end(feed->config.spill, t->partition);
    int64_t end = end_of(feed, t->partition);
    pthread_mutex_lock(&feed->lock);
    t->any = t->any || q->end < spilled;
    t->no_memory = !push_missing(feed, q, spilled < end ? spilled : end);
    pthread_mutex_unlock(&feed->lock);
}

/* What was spilled comes back before anything new is read. */
static mr_status take_back(mr_feed *feed, int32_t partition, bool *any, mr_error *err) {
    const mr_feed_config *c = &feed->config;
    taking t = {.feed = feed, .partition = partition, .is_back = true, .err = err};
    const mr_entry_sink sink = {take_entry, &t};
    int64_t kept = mr_merge_number(&c->merge, partition, atomic_load(&feed->kept_from));
    int64_t next = feed->queues[partition].end;
    MR_TRY(mr_spill_flush(c->spill, partition, err));
    MR_TRY(mr_spill_keep(c->spill, partition, kept < next ? kept : next, err));
    if (mr_spill_end(c->spill, partition) <= next || !has_room_now(feed, partition)) {
        return MR_OK;
    }
    mr_status status = mr_spill_take(c->spill, partition, next, &sink, err);
    if (status == MR_OK && !t.no_memory && mr_spill_is_given(c->spill, partition)) {
        take_missing(&t);
    }
    *any = *any || t.any;
    return outcome(&t, status, err);
}

static bool wants_more(mr_feed *feed, int32_t partition) {
    return (has_room_now(feed, partition) && may_tell(feed, partition)) ||
           (feed->config.spill && is_own(feed, partition));
}

/* From the rank that reads the partition, or from the stream where that has left. */
static mr_status hear_partition(mr_feed *feed, int32_t partition, bool *any, mr_error *err) {
    mr_relay *relay = feed->config.relay;
    taking t = {.feed = feed, .partition = partition, .is_told = true, .err = err};
    const mr_entry_sink sink = {take_entry, &t};
    bool has_left = !mr_relay_is_here(relay, mr_relay_reader(relay, partition));
    mr_status status = mr_relay_advance(relay, partition, feed->queues[partition].end, &sink, err);
    if (status == MR_OK && has_left && !t.any && wants_more(feed, partition)) {
        t.is_told = false;
        status = mr_dataset_advance(feed->config.dataset, partition, feed->queues[partition].end,
                                    &sink, err);
    }
    *any = *any || t.any;
    return outcome(&t, status, err);
}

static mr_status read_partition(mr_feed *feed, int32_t partition, bool *any, mr_error *err) {
    const mr_dataset *dataset = feed->config.dataset;
    taking t = {.feed = feed, .partition = partition, .err = err};
    const mr_entry_sink sink = {take_entry, &t};
    int64_t number = feed->queues[partition].end;
    if (!is_own(feed, partition)) {
        return hear_partition(feed, partition, any, err);
    }
    if (feed->config.spill) {
        MR_TRY(take_back(feed, partition, any, err));
        int64_t spilled = mr_spill_end(feed->config.spill, partition);
        number = feed->queues[partition].end;
        number = spilled > number ? spilled : number;
    }
    if (number >= end_of(feed, partition) || !wants_more(feed, partition)) {
        return MR_OK;
    }
    mr_status status = mr_dataset_advance(dataset, partition, number, &sink, err);
    *any = *any || t.any;
    return outcome(&t, status, err);
}

static mr_status read_all(mr_feed *feed, bool *any, mr_error *err) {
    const mr_feed_config *c = &feed->config;
    for (int32_t i = c->first_partition; i < c->end_partition; i++) {
        bool some = false;
        if (atomic_load(&feed->stopped)) {
            return MR_OK;
        }
        MR_TRY(read_partition(feed, i, &some, err));
        if (some) {
            pthread_mutex_lock(&feed->lock);
            pthread_cond_signal(&feed->came);
            pthread_mutex_unlock(&feed->lock);
        }
        *any = *any || some;
    }
    return MR_OK;
}

/* Until there is room again, or it is time to look whether something came. */
static void rest(mr_feed *feed, int64_t nanoseconds) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    moment.tv_nsec += nanoseconds;
    moment.tv_sec += moment.tv_nsec / 1000000000;
    moment.tv_nsec %= 1000000000;
    pthread_mutex_lock(&feed->lock);
    if (!atomic_load(&feed->stopped) && !feed->is_woken) {
        pthread_cond_clockwait(&feed->room, &feed->lock, CLOCK_MONOTONIC, &moment);
    }
    feed->is_woken = false;
    pthread_mutex_unlock(&feed->lock);
}

/* Other ranks told of entries, or took in what they were told. */
static void wake(void *user) {
    mr_feed *feed = user;
    pthread_mutex_lock(&feed->lock);
    feed->is_woken = true;
    pthread_cond_signal(&feed->room);
    pthread_mutex_unlock(&feed->lock);
}

static void note_failure(mr_feed *feed, mr_status status, const mr_error *err) {
    pthread_mutex_lock(&feed->lock);
    feed->failed = status;
    feed->failure = *err;
    pthread_cond_signal(&feed->came);
    pthread_mutex_unlock(&feed->lock);
}

/* The consumer, who may be waiting, tells what the source said. */
static void hand_over_news(mr_feed *feed) {
    mr_news *news = feed->config.dataset->news;
    if (news && news->n > 0) {
        pthread_mutex_lock(&feed->lock);
        mr_news_move(news, &feed->news);
        pthread_cond_signal(&feed->came);
        pthread_mutex_unlock(&feed->lock);
    }
}

/* A source that has nothing is asked again after 0.5 ms, then more and more rarely. */
static void *read_on(void *context) {
    enum { SOONEST = 500000, LATEST = 16000000 };
    mr_feed *feed = context;
    int64_t pause = SOONEST;
    while (!atomic_load(&feed->stopped)) {
        mr_error err = MR_ERROR_INIT;
        bool any = false;
        mr_status status = read_all(feed, &any, &err);
        hand_over_news(feed);
        if (status < 0) {
            note_failure(feed, status, &err);
            break;
        }
        if (!any) {
            rest(feed, pause);
        }
        pause = any ? SOONEST : 2 * pause < LATEST ? 2 * pause : LATEST;
    }
    return NULL;
}

/* ---- The consumer ---- */
static int64_t reach(const mr_feed *feed) {
    const mr_feed_config *c = &feed->config;
    int64_t first = c->end;
    for (int32_t i = c->first_partition; i < c->end_partition; i++) {
        int64_t own = mr_merge_sample(&c->merge, i, feed->queues[i].end);
        first = own < first ? own : first;
    }
    return first;
}

int64_t mr_feed_reach(mr_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    int64_t first = reach(feed);
    pthread_mutex_unlock(&feed->lock);
    return first;
}

static mr_held *pop(mr_feed *feed, int32_t partition, int64_t number) {
    queue *q = &feed->queues[partition];
    const mr_feed_config *c = &feed->config;
    if (partition < c->first_partition || partition >= c->end_partition || number != q->first) {
        return NULL;
    }
    mr_held *held = q->ring[q->first++ & (q->room - 1)];
    feed->waiting_bytes -= (int64_t)held->bytes;
    feed->counts.waiting--;
    return held;
}

void mr_feed_take(mr_feed *feed, int64_t first, int64_t count, mr_held **out) {
    pthread_mutex_lock(&feed->lock);
    for (int64_t i = 0; i < count; i++) {
        mr_merge_place place = mr_merge_at(&feed->config.merge, first + i);
        out[i] = pop(feed, place.partition, place.number);
    }
    feed->position = first + count;
    pthread_cond_signal(&feed->room);
    pthread_mutex_unlock(&feed->lock);
}

int64_t mr_feed_look(mr_feed *feed, int64_t first, int64_t end, mr_feed_visit *visit, void *user) {
    int64_t at = first;
    bool more = true;
    pthread_mutex_lock(&feed->lock);
    while (more && at < end) {
        mr_merge_place place = mr_merge_at(&feed->config.merge, at);
        const queue *q = &feed->queues[place.partition];
        more = visit(user, at++, q->ring[place.number & (q->room - 1)]);
    }
    pthread_mutex_unlock(&feed->lock);
    return at - first;
}

static mr_status look(const mr_feed *feed, int64_t before, mr_error *err) {
    if (atomic_load(&feed->stopped)) {
        return mr_fail(err, MR_E_CANCELLED, "the loader was cancelled");
    }
    if (reach(feed) > before) {
        return MR_OK;
    }
    if (feed->failed < 0 && err) {
        *err = feed->failure;
    }
    return feed->failed < 0 ? feed->failed : MR_LATER;
}

/* Without the lock: a log may take its time. */
static void tell_news(mr_feed *feed) {
    if (feed->news.n > 0) {
        mr_news news = feed->news;
        feed->news.n = 0;
        pthread_mutex_unlock(&feed->lock);
        mr_news_tell(&news, feed->config.log);
        pthread_mutex_lock(&feed->lock);
    }
}

mr_status mr_feed_wait(mr_feed *feed, int64_t before, const struct timespec *moment,
                       mr_error *err) {
    bool in_time = true;
    pthread_mutex_lock(&feed->lock);
    tell_news(feed);
    mr_status status = look(feed, before, err);
    while (status == MR_LATER && in_time) {
        in_time =
            moment ? pthread_cond_clockwait(&feed->came, &feed->lock, CLOCK_MONOTONIC, moment) == 0
                   : pthread_cond_wait(&feed->came, &feed->lock) == 0;
        tell_news(feed);
        status = look(feed, before, err);
    }
    pthread_mutex_unlock(&feed->lock);
    return status;
}

void mr_feed_counts_of(mr_feed *feed, mr_feed_counts *out) {
    pthread_mutex_lock(&feed->lock);
    *out = feed->counts;
    pthread_mutex_unlock(&feed->lock);
    if (feed->config.spill) {
        mr_spill_counts spilled;
        mr_spill_counts_of(feed->config.spill, &spilled);
        out->spilled = spilled.entries;
        out->spill_bytes = spilled.bytes;
    }
}

void mr_feed_delivered(mr_feed *feed, int64_t sample) {
    if (feed->saved < 0) {
        atomic_store(&feed->kept_from, sample);
    }
}

void mr_feed_saved(mr_feed *feed, int64_t sample) {
    if (feed->saved >= 0) {
        atomic_store(&feed->kept_from, feed->saved);
    }
    feed->saved = sample;
}

int64_t mr_feed_behind(mr_feed *feed) {
    const mr_feed_config *c = &feed->config;
    int64_t behind = 0;
    for (int32_t i = c->first_partition;
         mr_dataset_tells_newest(c->dataset) && i < c->end_partition; i++) {
        int64_t newest = 0;
        if (!is_own(feed, i)) {
            continue;
        }
        if (mr_dataset_newest(c->dataset, i, &newest, NULL) < 0) {
            return -1;
        }
        pthread_mutex_lock(&feed->lock);
        int64_t end = end_of(feed, i), first = feed->queues[i].first;
        pthread_mutex_unlock(&feed->lock);
        newest = newest < end ? newest : end;
        behind += newest > first ? newest - first : 0;
    }
    return mr_dataset_tells_newest(c->dataset) ? behind : -1;
}

/* ---- Opening, closing ---- */
static mr_status begin_spill(mr_feed *feed, mr_error *err) {
    const mr_feed_config *c = &feed->config;
    for (int32_t i = c->first_partition; c->spill && i < c->end_partition; i++) {
        if (!is_own(feed, i)) {
            continue;
        }
        MR_TRY(mr_spill_begin(c->spill, i, feed->queues[i].first, err));
    }
    return MR_OK;
}

mr_status mr_feed_open(mr_feed **out, const mr_feed_config *config, mr_error *err) {
    mr_feed *feed = mr_zalloc(1, sizeof *feed);
    *out = feed;
    if (!feed) {
        return mr_fail_memory(err, sizeof *feed);
    }
    feed->config = *config;
    feed->position = config->position;
    atomic_init(&feed->kept_from, config->position);
    feed->saved = config->position > 0 ? config->position : -1;
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->came, NULL);
    pthread_cond_init(&feed->room, NULL);
    feed->queues = mr_zalloc((size_t)config->merge.partitions, sizeof *feed->queues);
    feed->pool = mr_held_pool_new(MR_FEED_UNUSED);
    if (!feed->queues || !feed->pool) {
        return mr_fail_memory(err, (size_t)config->merge.partitions * sizeof *feed->queues);
    }
    for (int32_t i = 0; i < config->merge.partitions; i++) {
        feed->queues[i].first = feed->queues[i].end =
            mr_merge_number(&config->merge, i, config->position);
    }
    MR_TRY(begin_spill(feed, err));
    if (config->ranks) {
        mr_relay_listen(config->ranks, wake, feed);
    }
    return mr_threads_start(&feed->threads, 1, "mr-feed", read_on, feed, 0, err);
}

void mr_feed_stop(mr_feed *feed) {
    atomic_store(&feed->stopped, true);
    pthread_mutex_lock(&feed->lock);
    pthread_cond_broadcast(&feed->came);
    pthread_cond_broadcast(&feed->room);
    pthread_mutex_unlock(&feed->lock);
}

static void empty(queue *q) {
    for (; q->first < q->end; q->first++) {
        mr_held_release(q->ring[q->first & (q->room - 1)]);
    }
    mr_free(q->ring);
}

void mr_feed_end(mr_feed *feed) {
    mr_feed_stop(feed);
    mr_threads_join(&feed->threads);
    if (feed->config.ranks) {
        mr_relay_listen(feed->config.ranks, NULL, NULL);
    }
}

void mr_feed_close(mr_feed *feed) {
    if (!feed) {
        return;
    }
    mr_feed_end(feed);
    for (int32_t i = 0; feed->queues && i < feed->config.merge.partitions; i++) {
        empty(&feed->queues[i]);
    }
    mr_free(feed->queues);
    mr_held_pool_free(feed->pool);
    pthread_mutex_destroy(&feed->lock);
    pthread_cond_destroy(&feed->came);
    pthread_cond_destroy(&feed->room);
    mr_free(feed);
}
