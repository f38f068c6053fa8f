/* SPDX-License-Identifier: Apache-2.0 */
/* adapt.c - see adapt.h. */
#include "run/adapt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/number.h"
#include "run/loader.h"

enum { LEAST_BATCHES = 4, LEAST_READS = 4, SETTLE_NS = 100000000, INTERVAL_NS = 400000000 };

/* ---- Measuring ---- */
static double ticks_of_work(const mr_loader *loader) {
    double busy = 0;
    for (uint32_t i = 0; i < loader->n_workers; i++) {
        busy += (double)atomic_load_explicit(&loader->workers[i].busy, memory_order_relaxed);
    }
    return busy;
}

static double cpu_seconds(const mr_loader *loader) {
    double seconds = 0;
    for (uint32_t i = 0; i < loader->threads.n; i++) {
        clockid_t clock;
        struct timespec used;
        if (pthread_getcpuclockid(loader->threads.threads[i], &clock) == 0 &&
            clock_gettime(clock, &used) == 0) {
            seconds += (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
        }
    }
    return seconds;
}

/* How long a thread was ready and had no CPU; -1: nobody knows. */
static double seconds_queued(int32_t thread) {
    char path[64], text[128] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    const char *second = n > 0 ? strchr(text, ' ') : NULL; /* "computed queued slices", in ns */
    return second ? 1e-9 * mr_number_parse(second, NULL) : -1;
}

static double all_queued(const mr_loader *loader) {
    double sum = 0;
    for (uint32_t i = 0; i < loader->n_workers && sum >= 0; i++) {
        int32_t thread = atomic_load(&loader->workers[i].thread);
        double queued = thread ? seconds_queued(thread) : 0;
        sum = queued < 0 ? -1 : sum + queued;
    }
    return sum;
}

static mr_adapt_mark mark_now(const mr_loader *loader, int64_t at) {
    mr_tally_sum reading;
    mr_intake *intake = loader->readahead ? mr_readahead_intake(loader->readahead) : NULL;
    double tick = mr_ticks_rate(&loader->tracks.clock).ns_per_tick * 1e-9;
    mr_tracks_sum(&loader->tracks, MR_SPAN_WAIT_READ, &reading);
    return (mr_adapt_mark){.at = at,
                           .samples = atomic_load(&loader->delivered_samples),
                           .batches = atomic_load(&loader->delivered_batches),
                           .waited = atomic_load(&loader->wait_ns),
                           .short_of_memory = intake ? atomic_load(&intake->short_of_memory) : 0,
                           .busy = tick * ticks_of_work(loader),
                           .reading = tick * (double)reading.ticks,
                           .computing = cpu_seconds(loader),
                           .queued = all_queued(loader)};
}

/* Where nobody knows, no thread is in another's way: taking them for locks, what other programs
 * take would cost threads. */
static double queued_between(const mr_adapt_mark *from, const mr_adapt_mark *to) {
    double known = to->computing - from->computing + to->reading - from->reading;
    return from->queued < 0 || to->queued < 0 ? to->busy - from->busy - known
                                              : to->queued - from->queued;
}

static mr_sight sight_between(const mr_adapt_mark *from, const mr_adapt_mark *to) {
    return (mr_sight){.seconds = 1e-9 * (double)(to->at - from->at),
                      .samples = (double)(to->samples - from->samples),
                      .waited = 1e-9 * (double)(to->waited - from->waited),
                      .busy = to->busy - from->busy,
                      .reading = to->reading - from->reading,
                      .computing = to->computing - from->computing,
                      .queued = queued_between(from, to),
                      .memory_short = to->short_of_memory > from->short_of_memory};
}

/* ---- Doing ---- */
void mr_adapter_set(mr_loader *loader, const mr_setting *setting) {
    mr_adapter *own = &loader->adapter;
    bool is_new = memcmp(&own->now, setting, sizeof *setting) != 0;
    atomic_fetch_add(&own->changes, is_new ? 1 : 0);
    own->settling = own->settling || is_new;
    if (own->now.threads != setting->threads) {
        mr_ring_admit(&loader->ring, setting->threads);
    }
    if (own->now.ahead != setting->ahead) {
        atomic_store(&loader->ring.ahead, setting->ahead);
    }
    if (loader->readahead &&
        (own->now.reads != setting->reads || own->now.bytes != setting->bytes)) {
        mr_intake_allow(mr_readahead_intake(loader->readahead),
                        mr_loader_most_held(loader, (uint32_t)setting->reads, loader->n_workers),
                        setting->bytes);
        mr_readahead_allow(loader->readahead, setting->reads);
    }
    own->now = *setting;
}

void mr_adapter_begin(mr_loader *loader) {
    mr_adapter *own = &loader->adapter;
    mr_setting least = own->start;
    if (loader->readahead) {
        uint32_t reads = mr_readahead_most(loader->readahead);
        own->most.reads = own->most.reads < reads ? own->most.reads : reads;
        least.reads = own->most.reads > own->start.reads ? LEAST_READS : own->start.reads;
    } else {
        own->most.reads = own->start.reads;
        own->most.bytes = own->start.bytes;
    }
    least.threads = 1;
    mr_adapt_begin(&own->rules, &own->start, &least, &own->most);
    own->now = own->most;
    mr_adapter_set(loader, &own->start);
    atomic_store(&own->changes, 0);
    own->settling = true;
    own->begun = mark_now(loader, mr_monotonic_ns());
}

/* An interval begins once what was under way at the last change is mostly done. */
void mr_adapter_look(mr_loader *loader) {
    mr_adapter *own = &loader->adapter;
    if (!own->is_on) {
        return;
    }
    int64_t now = mr_monotonic_ns(), batches = atomic_load(&loader->delivered_batches);
    bool over = own->settling ? now - own->begun.at >= SETTLE_NS && batches > own->begun.batches
                              : now - own->begun.at >= INTERVAL_NS &&
                                    batches - own->begun.batches >= LEAST_BATCHES;
    if (!over) {
        return;
    }
    mr_adapt_mark mark = mark_now(loader, now);
    if (!own->settling) {
        mr_sight sight = sight_between(&own->begun, &mark);
        mr_setting next = mr_adapt_next(&own->rules, &sight);
        mr_adapter_set(loader, &next);
    } else {
        own->settling = false;
    }
    own->begun = mark;
}
