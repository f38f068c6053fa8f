/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - see model.h. */
#include "trace/model.h"

#include <math.h>

/* What a sample from a store takes besides the checking of its bytes: to find it, to go from one to
 * the next, and what shows in neither: the thread that reads ahead asks the store first (1.5 us),
 * and later ops wait for bytes that no cache of the CPU holds, the longer the more there are. A run
 * that has a store already has part of this in its own times. Bytes are checked at a rate that the
 * run measured; a trace that does not tell it gets a modest one. */
static const double find_seconds = 2e-6, next_seconds = 7e-6, beside_seconds = 12e-6,
                    beside_byte_seconds = 25e-12, beside_again_seconds = 10e-6;
static const double usual_check_rate = 5e9;

/* Waiting that happens while a sample is being made. */
static double in_waits(const mr_figures *f) {
    return f->wait_host + f->store_wait;
}

double mr_busy_time(const mr_figures *f) {
    return fmax(mr_thread_time(f) - f->wait_read - f->wait_work - in_waits(f), 0);
}

/* Below this share of the time that threads wanted a CPU, they did not have it. */
static const double had_cpus = 0.6;

/* Threads that compute and do not get a CPU are taken off it far more often than they leave it by
 * themselves, and each time for a slice of others' time. What the loader's own threads and
 * processes leave is what workers could have had. */
double mr_cpu_share(const mr_figures *f) {
    static const double few = 10, longest_slice = 0.1;
    double own = f->readers_cpu + f->deliver + f->consume + f->elsewhere;
    double wanted = fmin(mr_busy_time(f) - f->elsewhere, f->cpus * f->seconds - own);
    bool preempted = f->preempted >= few && f->preempted > f->paused &&
                     wanted - f->cpu < longest_slice * f->preempted;
    double share = f->cpu > 0 && preempted ? mr_divide(f->cpu, wanted) : 1;
    return share > 0 && share < had_cpus ? share : 1;
}

/* Where threads take up all CPUs, they also wait for CPUs: for each other and for those that read.
 * With more of them, or fewer, their CPU time is the better measure, if there is one and they did
 * not spend most of their time otherwise: other programs took the CPUs, or they wait inside ops. */
static double seconds_per_sample(const mr_figures *f, double threads) {
    double crowded = f->threads > f->cpus ? (double)f->cpus / f->threads : 1;
    double busy = mr_busy_time(f), most = busy * crowded;
    bool other = crowded < 1 || (f->threads == f->cpus && threads < f->threads);
    bool by_cpu = f->cpu >= had_cpus * most && other;
    return mr_divide(by_cpu ? fmin(f->cpu, busy) : most, f->made);
}

double mr_host_time(const mr_figures *f) {
    double seconds = 0;
    for (int32_t i = 0; i < f->n_ops; i++) {
        seconds += f->ops[i].host ? f->ops[i].seconds : 0;
    }
    return seconds;
}

/* A function may give the lock up, to sleep or to compute elsewhere: under the lock is at most its
 * CPU time, and at most the time that passed. */
static double seconds_under_lock(const mr_figures *f) {
    double under_lock = fmax(mr_host_time(f) - f->wait_host, 0);
    under_lock = f->cpu > 0 ? fmin(under_lock, f->cpu) : under_lock;
    return mr_divide(fmin(under_lock, f->seconds), fmax(f->made, f->samples));
}

/* Of samples a second that servers give, with so many requests in flight. */
static double rate_of_servers(const mr_figures *f, double in_flight) {
    double shared = f->transfer * mr_divide(in_flight, f->requests_in_flight);
    double a_second = mr_divide(in_flight, f->first_byte + shared);
    return a_second * mr_divide(f->made, f->requests);
}

/* Blocks of many samples are read once for all of them. A sample may be read again in place of a
 * bad one, but a read brings one at least. */
static double samples_of_a_read(const mr_figures *f) {
    return f->unpack > 0 && f->reads > 0 ? fmax(f->made / f->reads, 1) : 1;
}

static double rate_of_files(const mr_figures *f) {
    return mr_divide(f->reads_most, f->read_seconds) * samples_of_a_read(f);
}

static double rate_of_storage(const mr_figures *f) {
    return f->requests > 0 ? rate_of_servers(f, fmax(f->requests_most, f->requests_in_flight))
                           : rate_of_files(f);
}

/* Of the consumer's thread, on waiting for batches and taking them. */
static double consumers_cpu(const mr_figures *f) {
    return f->consumer_cpu > 0 ? f->consumer_cpu : f->deliver;
}

/* CPU time of all threads, with so many workers. Workers that are more than the CPUs leave them in
 * the middle of a batch, which the consumer then waits for while the others run out of batches to
 * make: with small batches that took about twice as much again as the consumer's own waking. */
static double cpu_of_all(const mr_figures *f, int32_t threads) {
    const double switches = 2;
    bool crowded = threads > f->cpus && f->threads <= f->cpus;
    double cpu = f->cpu + f->readers_cpu + consumers_cpu(f);
    return f->cpu > 0 ? cpu + (crowded ? switches * f->consumer_cpu : 0) : 0;
}

/* Workers that are processes take caches from each other wherever one follows another on a CPU: a
 * torch loader's four on two CPUs used 8 % more CPU time for an image than two, its three 4 %.
 * Beyond four for a CPU nothing was measured. */
static double crowding(const mr_figures *f, double workers) {
    static const double cost = 0.08, most = 3;
    double more = mr_divide(workers, f->cpus) - 1;
    return f->foreign && f->workers > 0 ? 1 + cost * fmax(fmin(more, most), 0) : 1;
}

mr_model mr_model_make(const mr_figures *f, int32_t threads) {
    threads = threads > 0 ? threads : f->threads;
    double n = fmin(threads, f->cpus);
    double crowded = crowding(f, threads) / crowding(f, f->threads);
    double all_cpu = cpu_of_all(f, threads) * crowded;
    mr_model model = {
        .thread_seconds = seconds_per_sample(f, n) * crowded,
        .cpu_seconds = mr_divide(all_cpu, f->made),
        .host_seconds = seconds_under_lock(f),
        .storage = rate_of_storage(f),
    };
    model.threads = mr_divide(n, model.thread_seconds);
    model.cpus = mr_divide(f->cpus, model.cpu_seconds);
    model.host = mr_divide(1, model.host_seconds);
    model.consumer = mr_divide(f->samples, f->consume + f->deliver);
    model.rate = mr_lower(mr_lower(model.threads, model.cpus),
                          mr_lower(model.host, mr_lower(model.storage, model.consumer)));
    return model;
}

/* Stations leave out how long threads take to wake each other, which small samples feel. */
double mr_model_threads(const mr_figures *f, int32_t threads) {
    double own = mr_model_make(f, 0).rate, done = mr_divide(f->samples, f->seconds);
    double reached = f->foreign || own <= done || done <= 0 ? 1 : done / own;
    return reached * mr_model_make(f, threads).rate;
}

double mr_model_kept(const mr_figures *f) {
    mr_model m = mr_model_make(f, 0);
    return mr_lower(mr_lower(m.threads, m.cpus), mr_lower(m.host, m.consumer));
}

double mr_model_requests(const mr_figures *f, double in_flight) {
    return mr_lower(rate_of_servers(f, in_flight), mr_model_kept(f));
}

mr_model mr_model_alone(const mr_figures *f) {
    mr_figures alone = *f;
    double taken = mr_cpu_share(f) < 1 ? mr_busy_time(f) - f->cpu : 0;
    alone.wait_work += fmax(taken, 0);
    return mr_model_make(&alone, 0);
}

/* ---- The model with another cache ---- */
int32_t mr_figures_cache(const mr_figures *f) {
    int32_t i = f->n_ops - 1;
    while (i >= 0 && !f->ops[i].cache) {
        i--;
    }
    return i;
}

/* Of all workers, on the ops before a cache and on bringing their input: between samples they give
 * the bytes of files back and wake who reads. */
static double time_before(const mr_figures *f, int32_t ops) {
    double between = f->read_seconds > 0 ? mr_busy_time(f) - (f->work - in_waits(f)) - f->seal : 0;
    double seconds = f->fill + fmax(between, 0);
    for (int32_t i = 0; i < ops; i++) {
        seconds += f->ops[i].seconds;
    }
    return seconds;
}

/* What runs in place of the ops before a cache that is full: a sample is found, checked, and what
 * later ops want of it is copied, row by row where they are fused. Hits of the run itself say
 * best. */
static double hit_time(const mr_figures *f, double bytes, double passed_on) {
    double rate = f->check_rate > 0 ? f->check_rate : usual_check_rate;
    double checking = f->store_hits > 0 ? (f->hit_seconds - find_seconds) * bytes / f->hit_bytes
                                        : (bytes + passed_on) / rate;
    return find_seconds + fmax(checking, 0);
}

/* The rate if workers had so many seconds less to do, of all they had, and a little more for every
 * sample; beside them threads do `beside` for a sample. */
static double rate_with(const mr_figures *f, double less, double more, double beside) {
    mr_model m = mr_model_make(f, 0);
    double busy = mr_busy_time(f), made = f->made;
    less =
        fmin(less, busy); /* ops' seconds are scaled from the whole run, and may come out as more */
    /* A store that is being filled writes on a CPU that threads then wait for. */
    bool writes = f->store_write > 0 && f->cpu > 0 && f->threads >= f->cpus && mr_cpu_share(f) == 1;
    double now = writes ? mr_divide(f->cpu, made) : m.thread_seconds;
    double each = now * (1 - mr_divide(less, busy)) + more;
    double cpu =
        m.cpu_seconds > 0 ? mr_divide(f->cpu * (1 - mr_divide(less, busy)), made) + more : 0;
    cpu += cpu > 0 ? mr_divide(consumers_cpu(f), made) + beside : 0;
    return mr_lower(mr_lower(mr_divide(fmin(f->threads, f->cpus), each), mr_divide(f->cpus, cpu)),
                    mr_lower(m.host, m.consumer));
}

bool mr_model_cached(const mr_figures *f, int32_t ops, mr_cached *out) {
    int32_t cache = mr_figures_cache(f);
    int32_t n = cache >= 0 ? cache : ops;
    for (int32_t i = 0; i < n && cache < 0; i++) {
        if (f->ops[i].random || f->ops[i].host || f->ops[i].opaque) {
            return false;
        }
    }
    double kept = n > 0 ? f->ops[n - 1].bytes_out : 0;
    double bytes = cache >= 0 && f->store_hits > 0 ? f->hit_bytes : kept;
    if (bytes <= 0 || f->made <= 0) {
        return false;
    }
    double less = time_before(f, n) + f->store_read + f->store_write;
    double saved = mr_model_make(f, 0).thread_seconds * mr_divide(less, mr_busy_time(f));
    double passed_on =
        cache < 0 ? f->ops[n - 1].passed_on : 0; /* a cache that is there counts it */
    double next = f->read_seconds > 0 ? next_seconds : 0;
    *out = (mr_cached){n, bytes, saved, hit_time(f, bytes, passed_on) + next, 0};
    double beside =
        cache >= 0 ? beside_again_seconds : beside_seconds + bytes * beside_byte_seconds;
    out->rate = rate_with(f, less, out->added, f->read_seconds > 0 ? beside : 0);
    return true;
}

/* What was made in spite of the cache stands for what would have to be made without it. */
double mr_model_uncached(const mr_figures *f, bool *at_least) {
    int32_t cache = mr_figures_cache(f);
    double made_anew = cache > 0 ? f->ops[cache - 1].runs : 0;
    *at_least = cache >= 0 && f->ops[cache].fused;
    if (made_anew < 0.05 * f->made || made_anew <= 0) {
        return 0;
    }
    double before = time_before(f, cache), share = fmin(made_anew / f->made, 1);
    double less = f->store_read + f->store_write;
    double more = mr_divide(before, f->made) * (1 / share - 1);
    return mr_lower(rate_with(f, less, more, mr_divide(f->readers_cpu, f->made) / share),
                    rate_of_files(f));
}
