/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - see verdict.h. The questions are asked in order, and the first that is answered by
 * yes gives the verdict; each has its evidence and its first remedy. */
#include "trace/verdict.h"

#include <math.h>
#include <string.h>

#include "trace/verdict_words.h"

/* Shares from which something counts. A consumer that waits less than a twentieth of its time is
 * fed; a worker that idles more than a fifth has time to spare. */
static const double fed = 0.05, spare = 0.2;
/* With every tenth span gone, what is left is no longer a fair part. */
static const double many_lost = 0.1;

const char *mr_bound_name(mr_bound bound) {
    static const char *const names[] = {
        "unknown",  "balanced", "consumer", "storage", "op",      "store",     "host",   "memory",
        "overhead", "crowded",  "stream",   "network", "latency", "bandwidth", "server", "unpack"};
    return names[bound];
}

/* ---- Words ---- */
static int32_t longest_op(const mr_figures *f) { /* -1: there is none */
    int32_t longest = -1;
    for (int32_t i = 0; i < f->n_ops; i++) {
        longest = longest < 0 || f->ops[i].seconds > f->ops[longest].seconds ? i : longest;
    }
    return longest;
}

/* ---- Remedies with a prediction ---- */
static double without_station(const mr_model *m, double threads, double host, double storage) {
    return mr_lower(mr_lower(mr_lower(threads, host), mr_lower(storage, m->consumer)), m->cpus);
}

static double without_consumer(const mr_model *m) {
    return mr_lower(mr_lower(m->threads, m->cpus), mr_lower(m->host, m->storage));
}

static void advise_threads(mr_verdict *v, const mr_figures *f) {
    double more = mr_model_threads(f, f->cpus);
    double needed = ceil(v->model.consumer * v->model.thread_seconds - 1e-9);
    if (v->model.consumer > 0 && needed > f->threads && needed <= f->cpus) {
        advise(v, MR_ADVISE_THREADS, more,
               "%.0f threads instead of %d would keep this consumer fed", needed, f->threads);
    } else {
        advise(v, MR_ADVISE_THREADS, more, "use %d threads instead of %d: the machine has %d CPUs",
               f->cpus, f->threads, f->cpus);
    }
}

/* The place that gives most; of those that give nearly as much, the one that takes least room. */
static mr_cached best_cache(const mr_figures *f) {
    mr_cached best = {0}, here;
    double highest = 0;
    for (int32_t n = 1; n <= f->n_ops && mr_model_cached(f, n, &here); n++) {
        highest = fmax(highest, here.rate);
    }
    for (int32_t n = 1; n <= f->n_ops && mr_model_cached(f, n, &here); n++) {
        bool nearly = here.rate >= 0.95 * highest;
        best = nearly && (best.ops == 0 || here.bytes < best.bytes) ? here : best;
    }
    return best;
}

/* A store that takes no more will not fill by waiting. */
static void advise_room(mr_verdict *v, const mr_figures *f) {
    advise(v, MR_ADVISE_STORE, 0,
           "the store refused %.0f samples: make room on its disk or raise its limit (millrace "
           "cache shows it)",
           f->refused);
}

/* The ops before the first random one give the same every epoch. Returns false where keeping that
 * brings nothing. A cache that is there already only has to be full. */
static bool advise_cache(mr_verdict *v, const mr_figures *f) {
    mr_cached best = best_cache(f);
    if (best.ops == 0 || best.rate < 1.1 * v->rate) {
        return false;
    }
    if (mr_figures_cache(f) >= 0 && f->refused > 0) {
        advise_room(v, f);
    } else if (mr_figures_cache(f) >= 0) {
        advise(v, MR_ADVISE_FILL, best.rate, "let the store fill: later epochs read from it");
    } else {
        const mr_op_figure *op = &f->ops[best.ops - 1];
        advise(v, MR_ADVISE_CACHE, best.rate, "cache after %s: %s%.3g MB", op->name,
               op->partly ? "at least " : "", best.bytes * f->dataset_samples / 1e6);
    }
    return true;
}

/* A function that takes long and gives the same every epoch, which no cache may keep as it is. */
static bool advise_version(mr_verdict *v, const mr_figures *f) {
    int32_t i = 0;
    while (i < f->n_ops && !f->ops[i].opaque && !f->ops[i].random) {
        i++;
    }
    if (i == f->n_ops || f->ops[i].random || f->ops[i].seconds < culprit * f->work) {
        return false;
    }
    advise(v, MR_ADVISE_VERSION, 0,
           "tell when the function changes, %s(fn, version=\"1\"): then a cache may keep what it "
           "makes",
           f->ops[i].name);
    return true;
}

/* ---- The questions ---- */
static bool is_too_short(mr_verdict *v, const mr_figures *f) {
    if (f->batches >= 2 && f->seconds > 0 && f->made > 0) {
        return false;
    }
    conclude(v, MR_BOUND_UNKNOWN, "too short to tell");
    evidence(v,
             "The trace has %.0f %s after the first, and %.0f %s made meanwhile: too little for a "
             "verdict.",
             fmax(f->batches, 0), f->batches == 1 ? "batch" : "batches", f->made,
             f->made == 1 ? "sample" : "samples");
    return true;
}

static bool is_full_of_holes(mr_verdict *v, const mr_figures *f) {
    if (f->lost < many_lost) {
        return false;
    }
    conclude(v, MR_BOUND_UNKNOWN, "too many spans were dropped to tell");
    evidence(v,
             "%.0f %% of the spans came faster than they could be written: where the others spent "
             "their time says little about the run.",
             100 * f->lost);
    return true;
}

static bool is_contended(const mr_figures *f) {
    double host = mr_host_time(f);
    return host >= 0.5 * f->work && f->wait_host > 0.1 * host;
}

/* How long anything took then says more about the others than about the pipeline. Threads that take
 * Python's lock from each other are off their CPUs for that. */
bool mr_verdict_crowded(mr_verdict *v, const mr_figures *f) {
    double share = mr_cpu_share(f);
    if (share == 1 || is_contended(f)) {
        return false;
    }
    conclude(v, MR_BOUND_CROWDED, "other programs took the CPUs");
    evidence(
        v,
        "Workers got %.0f %% of the CPU time they wanted, and were taken off a CPU %.0f times, "
        "%.0f a second.",
        100 * share, f->preempted, f->preempted / f->seconds);
    advise(v, MR_ADVISE_ALONE, mr_model_alone(f).rate, "%s; alone",
           f->threads > 1 ? "run it without other programs, or with fewer threads beside them"
                          : "run it without other programs");
    return true;
}

/* A consumer in the host's language wants its lock too: what looks like its own time is waiting. */
static bool is_lock_taken(const mr_verdict *v, const mr_figures *f) {
    return is_contended(f) && v->model.host < 1.1 * v->rate;
}

static bool is_fed(mr_verdict *v, const mr_figures *f) {
    bool time_to_spare = v->idle >= spare;
    if (v->stall >= fed || (!time_to_spare && is_lock_taken(v, f))) {
        return false;
    }
    conclude(v, time_to_spare ? MR_BOUND_CONSUMER : MR_BOUND_BALANCED,
             time_to_spare ? "consumer-bound" : "balanced");
    evidence(
        v,
        "The consumer waits %.1f %% of its time and takes %.0f samples/s; the loader could give "
        "%.0f, its threads idle %.0f %% of theirs.",
        100 * v->stall, v->rate, fmax(without_consumer(&v->model), v->rate), 100 * v->idle);
    if (time_to_spare) {
        double needed = ceil(v->model.consumer * v->model.thread_seconds * 1.05);
        needed = fmin(needed, f->threads); /* so many fed it */
        v->advice = MR_ADVISE_CONSUMER;
        snprintf(
            v->change, sizeof v->change,
            "Data loading is not the problem: make the training step faster; %.0f %s would do.",
            fmax(needed, 1), needed > 1 ? "threads" : "thread");
    }
    return true;
}

/* Waiting for entries that nobody has written yet is no fault of the loader's. */
static bool is_starved(mr_verdict *v, const mr_figures *f) {
    if (f->entries <= 0 || f->starved < 0.5 * f->wait) {
        return false;
    }
    conclude(v, MR_BOUND_STREAM, "stream-bound");
    evidence(
        v,
        "The consumer waited %.3f s for a stream that had too little; it takes %.0f samples/s, "
        "and the loader could give %.0f.",
        f->starved, v->rate, fmax(without_consumer(&v->model), v->rate));
    advise(v, MR_ADVISE_NOTHING, 0,
           "\"pace\": {\"late\": \"fill\"} takes old samples meanwhile, with \"rehearse\"");
    return true;
}

/* Slow again and again; or made once, by a thread that had its CPU or gave it up itself. */
static bool is_slow_itself(const mr_figures *f) {
    if (f->longest_seen > 1) {
        return f->longest_slow >= 0.5 * f->longest_seen && f->longest_slow > 1;
    }
    return f->cpu <= 0 || mr_busy_time(f) - f->cpu < f->sample_longest || f->paused > f->preempted;
}

bool mr_verdict_straggler(mr_verdict *v, const mr_figures *f) {
    bool slow = f->sample_longest > 20 * f->sample_p50;
    double rate = mr_lower(mr_divide(f->samples, f->seconds - f->straggler_wait), v->model.rate);
    if (!slow || !is_slow_itself(f) || f->straggler_wait < 0.5 * f->wait || rate < 1.1 * v->rate) {
        return false;
    }
    conclude(v, MR_BOUND_OP, "held up by stragglers");
    evidence(
        v,
        "%.0f %% of the consumer's waiting is for batches with a sample that takes 20 times the "
        "median of %.2f ms; the longest takes %.1f ms.",
        percent(f->straggler_wait, f->wait), 1e3 * f->sample_p50, 1e3 * f->sample_longest);
    advise(v, MR_ADVISE_STRAGGLER, rate, "look at %s, or %s",
           f->longest_name ? f->longest_name : "the slowest samples",
           f->foreign ? "raise prefetch_factor: batches come in order"
                      : "allow more batches ahead");
    return true;
}

static bool lacks_memory(mr_verdict *v, const mr_figures *f) {
    bool paging = f->major_faults > 10 * f->seconds && f->major_faults > 0.01 * f->made;
    if (!paging) {
        return false;
    }
    conclude(v, MR_BOUND_MEMORY, "memory-bound");
    evidence(v,
             "Workers wait for memory that was paged out: %.0f major page faults, %.1f a second.",
             f->major_faults, f->major_faults / f->seconds);
    advise(v, MR_ADVISE_MEMORY, 0,
           "leave more memory: fewer batches ahead than %d (%.3g MB each), or fewer programs "
           "beside it",
           f->batches_ahead, f->batch_bytes / 1e6);
    return true;
}

static bool lacks_batches_ahead(mr_verdict *v, const mr_figures *f) {
    if (v->idle < culprit) {
        return false;
    }
    conclude(v, MR_BOUND_MEMORY, "short of batches ahead");
    evidence(
        v,
        "The consumer waits %.0f %% of its time, and the workers have nothing to do for %.0f %% of "
        "theirs: only %d %s ahead.",
        100 * v->stall, 100 * v->idle, f->batches_ahead,
        f->batches_ahead == 1 ? "batch may be" : "batches may be");
    advise(v, MR_ADVISE_AHEAD, v->model.rate, "allow %d batches ahead (%.3g MB more)",
           2 * f->batches_ahead, f->batches_ahead * f->batch_bytes / 1e6);
    return true;
}

/* Nothing is read and nothing computed for what it keeps. */
static bool needs_no_cache(const mr_figures *f) {
    return mr_figures_cache(f) == 0 && f->reads_most <= 0;
}

static bool is_store_bound(mr_verdict *v, const mr_figures *f) {
    double in_store = f->store_read + f->store_write + f->store_wait;
    if (in_store < culprit * mr_thread_time(f)) {
        return false;
    }
    bool cold = f->store_write + f->store_wait > f->store_read;
    conclude(v, MR_BOUND_STORE, cold ? "store-bound: the store is cold" : "store-bound");
    evidence(
        v,
        "Workers spend %.0f %% of their time in the store: %.0f %% reading, %.0f %% writing, %.0f "
        "%% waiting for each other.",
        percent(in_store, mr_thread_time(f)), percent(f->store_read, mr_thread_time(f)),
        percent(f->store_write, mr_thread_time(f)), percent(f->store_wait, mr_thread_time(f)));
    mr_cached full = {0};
    bool at_least = false;
    if (cold && f->refused > 0) {
        advise_room(v, f);
    } else if (cold) {
        (void)mr_model_cached(f, 0, &full);
        advise(v, MR_ADVISE_FILL, full.rate, "let it fill: later epochs read from it");
    } else if (mr_model_uncached(f, &at_least) > 1.1 * v->rate || needs_no_cache(f)) {
        advise(v, MR_ADVISE_NO_CACHE, mr_model_uncached(f, &at_least),
               "take the cache away: what it keeps is made faster than it is read");
    } else {
        advise(v, MR_ADVISE_STORE, 0, "put the store on a faster disk, or cache smaller samples");
    }
    return true;
}

static bool is_network_bound(mr_verdict *v, const mr_figures *f) {
    if (f->wait_read < culprit * mr_thread_time(f) || f->wait_peer < 0.5 * f->wait_read) {
        return false;
    }
    conclude(v, MR_BOUND_NETWORK, "network-bound");
    evidence(v,
             "Workers wait %.0f %% of their time for bytes that other nodes and ranks have, and "
             "%.0f %% for those of files.",
             percent(f->wait_peer, mr_thread_time(f)),
             percent(f->wait_read - f->wait_peer, mr_thread_time(f)));
    double rate = without_station(&v->model, v->model.threads, v->model.host, 0);
    advise(v, MR_ADVISE_SHARE, rate,
           f->entries > 0
               ? "a faster network, or no fabric, so that every rank reads all that it needs; if "
                 "they cost nothing"
               : "\"share\": \"local\", which moves a few per cent of the bytes, a faster network, "
                 "or a store on each node; if they cost nothing");
    return true;
}

static bool is_storage_bound(mr_verdict *v, const mr_figures *f) {
    if (f->wait_read < culprit * mr_thread_time(f)) {
        return false;
    }
    conclude(v, MR_BOUND_STORAGE, "storage-bound");
    evidence(
        v,
        "Workers wait %.0f %% of their time for reads; a read takes %.2f ms with %.1f of %.0f in "
        "flight, %.1f MB/s in all.",
        percent(f->wait_read, mr_thread_time(f)), 1e3 * f->read_seconds, f->reads_in_flight,
        f->reads_most, mr_divide(f->read_bytes * f->reads, f->seconds) / 1e6);
    double rate = without_station(&v->model, v->model.threads, v->model.host, 0);
    advise(v, MR_ADVISE_READS, rate,
           "more reads in flight, a faster disk, or a store that keeps the files; if reading cost "
           "nothing");
    return true;
}

static bool is_host_bound(mr_verdict *v, const mr_figures *f) {
    double host = mr_host_time(f);
    double near = f->threads > 1 ? 1.2 : 2.5; /* one thread has other things to do, too */
    bool at_limit = host >= 0.5 * f->work && v->model.host < near * v->rate;
    if (!is_contended(f) && !at_limit) {
        return false;
    }
    conclude(v, MR_BOUND_HOST, "Python-bound");
    evidence(v,
             "Functions in Python take %.0f %% of the workers' time, %.0f %% of that waiting for "
             "its lock: "
             "at most %.0f samples/s whatever the threads.",
             percent(host, f->work), percent(f->wait_host, host), v->model.host);
    advise(v, MR_ADVISE_PROCESSES,
           without_station(&v->model,
                           fmax(v->model.threads, mr_divide(f->cpus, v->model.thread_seconds)), 0,
                           v->model.storage),
           "run them in processes, map(fn, processes=%d)", f->cpus);
    return true;
}

/* Whatever is done about ops: each sample's block must be unpacked. */
static bool is_unpack_bound(mr_verdict *v, const mr_figures *f) {
    int32_t longest = longest_op(f);
    double busy = mr_busy_time(f);
    if (f->unpack < culprit * busy || (longest >= 0 && f->ops[longest].seconds > f->unpack)) {
        return false;
    }
    conclude(v, MR_BOUND_UNPACK, "unpack-bound");
    evidence(v,
             "Unpacking blocks, that is decompressing and decoding them, takes %.0f %% of the "
             "workers' time; they are busy %.0f %% of it, with %d %s on %d %s.",
             percent(f->unpack, mr_thread_time(f)), percent(busy, mr_thread_time(f)), f->threads,
             f->threads == 1 ? "thread" : "threads", f->cpus, f->cpus == 1 ? "CPU" : "CPUs");
    if (f->threads < f->cpus) {
        advise_threads(v, f);
    } else {
        mr_figures whole = *f;
        whole.wait_work += f->unpack;
        whole.cpu = f->cpu > 0 ? fmax(f->cpu - f->unpack, 0) : f->cpu;
        advise(v, MR_ADVISE_CODEC, mr_model_make(&whole, 0).rate,
               "take fewer columns, or write the data with a codec that is unpacked faster (lz4, "
               "snappy, none); if unpacking cost nothing");
    }
    return true;
}

static bool is_overhead_bound(mr_verdict *v, const mr_figures *f) {
    double in_ops = f->store_read + f->store_write + f->store_wait + f->unpack;
    for (int32_t i = 0; i < f->n_ops; i++) {
        in_ops += f->ops[i].seconds;
    }
    double busy = v->model.thread_seconds * f->made;
    if (in_ops > 0.5 * busy || v->model.thread_seconds > 20e-6) {
        return false;
    }
    conclude(v, MR_BOUND_OVERHEAD, "overhead-bound");
    evidence(v,
             "A sample takes %.2f us of a thread, of which %.0f %% are its ops; the rest is "
             "handing it out.",
             1e6 * v->model.thread_seconds, percent(in_ops, busy));
    advise(v, MR_ADVISE_PACK, 0,
           "make samples larger: several records in one, or one array instead of many files");
    return true;
}

/* Sleeping, or waiting for a disk or a network: nobody took their CPUs. */
static bool waits_inside(const mr_figures *f) {
    return f->cpu > 0 && f->threads <= f->cpus && mr_cpu_share(f) == 1 &&
           f->paused > f->preempted && f->cpu < 0.5 * mr_busy_time(f);
}

static void is_op_bound(mr_verdict *v, const mr_figures *f) {
    int32_t longest = longest_op(f);
    const char *name = longest >= 0 ? f->ops[longest].name : "the source";
    double seconds = longest >= 0 ? f->ops[longest].seconds : f->work;
    char title[64] = "bound by its source";
    if (longest >= 0) {
        bool decoder = strncmp(name, "decode", 6) == 0;
        snprintf(title, sizeof title, "%.40s-bound", decoder ? "decode" : name);
    }
    conclude(v, MR_BOUND_OP, title);
    evidence(
        v,
        "%s takes %.0f %% of the workers' time; they are busy %.0f %% of it, with %d %s on %d %s.",
        name, percent(seconds, f->work), percent(f->work, mr_thread_time(f)), f->threads,
        f->threads == 1 ? "thread" : "threads", f->cpus, f->cpus == 1 ? "CPU" : "CPUs");
    if (f->threads < f->cpus) {
        advise_threads(v, f);
    } else if (waits_inside(f)) {
        advise(v, MR_ADVISE_THREADS, 0,
               "workers wait inside their ops (CPU time is %.0f %% of the time they are busy): use "
               "more threads than CPUs",
               percent(f->cpu, mr_busy_time(f)));
    } else if (!advise_version(v, f) && !advise_cache(v, f)) {
        mr_figures twice = *f;
        twice.cpus = 2 * f->cpus;
        double needed = ceil(v->model.consumer * v->model.thread_seconds);
        advise(v, MR_ADVISE_CPUS, mr_model_make(&twice, twice.cpus).rate,
               "with %d CPUs instead of %d (%.0f would keep this consumer fed)", twice.cpus,
               f->cpus, fmax(needed, 1));
    }
}

/* Whatever holds the run up: the stream does not wait for it. */
static void add_behind(mr_verdict *v, const mr_figures *f) {
    size_t used = strlen(v->evidence);
    if (f->entries > 0 && f->behind > 0 && v->bound != MR_BOUND_STREAM) {
        snprintf(v->evidence + used, sizeof v->evidence - used,
                 " The run is behind the stream by %.0f entries.", f->behind);
    }
}

static void find_bound(mr_verdict *out, const mr_figures *f) {
    if (is_full_of_holes(out, f) || is_too_short(out, f) || is_fed(out, f) || is_starved(out, f) ||
        mr_verdict_foreign(out, f) || mr_verdict_crowded(out, f) || is_store_bound(out, f) ||
        is_network_bound(out, f) || mr_verdict_far(out, f) || is_storage_bound(out, f) ||
        is_host_bound(out, f) || mr_verdict_straggler(out, f) || lacks_memory(out, f) ||
        lacks_batches_ahead(out, f) || is_unpack_bound(out, f) || is_overhead_bound(out, f)) {
        return;
    }
    is_op_bound(out, f);
}

void mr_verdict_make(mr_verdict *out, const mr_figures *f) {
    *out = (mr_verdict){.model = mr_model_make(f, 0)};
    out->rate = mr_divide(f->samples, f->seconds);
    out->stall = mr_divide(f->wait, f->wait + f->consume + f->deliver);
    out->idle = mr_divide(f->wait_work, mr_thread_time(f));
    find_bound(out, f);
    add_behind(out, f);
}

/* ---- The arithmetic ---- */
typedef struct lines {
    char *out;
    int size, used;
} lines;

__attribute__((format(printf, 2, 3))) static void say(lines *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int room = l->used < l->size ? l->size - l->used : 0;
    l->used += vsnprintf(l->out + (room ? l->used : 0), (size_t)room, format, arguments);
    va_end(arguments);
}

static void say_station(lines *l, const char *name, double rate, const char *how) {
    if (rate > 0) {
        say(l, "  %-9s %9.0f samples/s   %s\n", name, rate, how);
    }
}

static void say_stations(lines *l, const mr_model *m, const mr_figures *f) {
    char how[128];
    say(l, "highest rate of each station; the run goes at the lowest\n");
    snprintf(how, sizeof how, "min(%d threads, %d CPUs) / %.3f ms of a thread per sample",
             f->threads, f->cpus, 1e3 * m->thread_seconds);
    say_station(l, "threads", m->threads, how);
    snprintf(how, sizeof how, "%d CPUs / %.3f ms of CPU time of all threads per sample", f->cpus,
             1e3 * m->cpu_seconds);
    say_station(l, "CPUs", m->cpus, how);
    snprintf(how, sizeof how, "1 / %.3f ms under the lock per sample", 1e3 * m->host_seconds);
    say_station(l, "Python", m->host, how);
    if (f->requests > 0) {
        snprintf(how, sizeof how, "up to %.0f requests in flight; %.3f ms + %.3f ms each now",
                 f->requests_most, 1e3 * f->first_byte, 1e3 * f->transfer);
    } else {
        double each = m->storage * mr_divide(f->read_seconds, f->reads_most);
        int used = snprintf(how, sizeof how, "%.0f reads in flight / %.3f ms a read", f->reads_most,
                            1e3 * f->read_seconds);
        if (each > 1.005 && used > 0 && (size_t)used < sizeof how) {
            snprintf(how + used, sizeof how - (size_t)used, ", %.0f samples each", each);
        }
    }
    say_station(l, "storage", m->storage, how);
    snprintf(how, sizeof how, "%.0f samples / %.3f s of the consumer", f->samples,
             f->consume + f->deliver);
    say_station(l, "consumer", m->consumer, how);
}

static void say_part(lines *l, const char *name, double seconds, double whole) {
    say(l, "  %-20s %8.3f s  %5.1f %%\n", name, seconds, percent(seconds, whole));
}

static void say_threads(lines *l, const mr_figures *f) {
    double whole = mr_thread_time(f),
           rest = whole - f->work - f->seal - f->unpack - f->wait_read - f->wait_work,
           inside = f->work - f->fill - f->store_read - f->store_write - f->store_wait;
    say(l, "\nwhere %d x %.3f s of the workers went\n", f->threads, f->seconds);
    for (int32_t i = 0; i < f->n_ops; i++) {
        inside -= f->ops[i].seconds;
        say_part(l, f->ops[i].name, f->ops[i].seconds, whole);
    }
    const struct {
        const char *name;
        double seconds;
    } some[] = {{"filling fields", f->fill},
                {"reading the store", f->store_read},
                {"writing the store", f->store_write},
                {"waiting for it", f->store_wait}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        if (some[i].seconds > 0) {
            say_part(l, some[i].name, some[i].seconds, whole);
        }
    }
    say_part(l, "between ops", inside, whole);
    if (f->unpack > 0) {
        say_part(l, "unpacking blocks", f->unpack, whole);
    }
    say_part(l, "waiting for reads", f->wait_read - f->wait_peer, whole);
    if (f->wait_peer > 0) {
        say_part(l, "waiting for peers", f->wait_peer, whole);
    }
    say_part(l, "without work", f->wait_work, whole);
    say_part(l, "sealing batches", f->seal, whole);
    say_part(l, "between samples", rest, whole);
    if (f->cpu > 0) {
        say(l, "their CPU time is %.3f s, %.0f %% of the time they were not waiting\n", f->cpu,
            percent(f->cpu, whole - f->wait_read - f->wait_work - f->wait_host - f->store_wait));
    }
}

static void say_predictions(lines *l, const mr_figures *f) {
    say(l, "\npredicted with other numbers of threads%s\n",
        mr_cpu_share(f) < 1 ? ", other programs taking as much of the CPUs" : "");
    for (int32_t n = 1; n <= 2 * f->cpus && n <= 64; n *= 2) {
        say(l, "  %4d  %9.0f samples/s%s\n", n, mr_model_threads(f, n),
            n == f->threads ? "   (this run's)" : "");
    }
}

static void say_requests(lines *l, const mr_figures *f) {
    if (f->requests <= 0 || f->requests_in_flight <= 0) {
        return;
    }
    say(l,
        "\n%.0f requests to servers, %.1f in flight: sent after %.2f ms, first byte %.2f ms later, "
        "then %.2f ms for %.4g kB\n",
        f->requests, f->requests_in_flight, 1e3 * f->request_wait, 1e3 * f->first_byte,
        1e3 * f->transfer, f->request_bytes / 1e3);
    say(l, "%.0f sent again after a failure, the server said %.0f times that it is busy\n",
        f->retries, f->busy);
    say(l, "predicted with other numbers of requests in flight, if the server keeps up\n");
    for (int halves = 1; halves <= 8; halves *= 2) {
        double n = 0.5 * halves * f->requests_in_flight;
        say(l, "  %4.0f  %9.0f samples/s%s\n", n, mr_model_requests(f, n),
            halves == 2 ? "   (this run's)" : "");
    }
}

static void say_cached(lines *l, const mr_figures *f, const mr_cached *c) {
    const mr_model m = mr_model_make(f, 0);
    say(l, "  after %-16s %9.0f samples/s   %.4g kB a sample, %.4g MB in all; ",
        c->ops > 0 ? f->ops[c->ops - 1].name : "the source", c->rate, c->bytes / 1e3,
        c->bytes * f->dataset_samples / 1e6);
    say(l, "%.3f - %.3f + %.3f ms of a thread\n", 1e3 * m.thread_seconds, 1e3 * c->saved,
        1e3 * c->added);
}

static void say_caches(lines *l, const mr_figures *f) {
    bool has_cache = mr_figures_cache(f) >= 0;
    bool at_least = false;
    double without = mr_model_uncached(f, &at_least);
    mr_cached cached;
    for (int32_t n = 1; n <= f->n_ops && mr_model_cached(f, n, &cached); n++) {
        if (n == 1) {
            say(l, "\npredicted with %s, once it is full\n", has_cache ? "its cache" : "a cache");
        }
        say_cached(l, f, &cached);
        n = has_cache ? f->n_ops : n;
    }
    if (without > 0) {
        say(l, "predicted without its cache%s\n  %-22s %9.0f samples/s\n",
            at_least ? ", at least: later ops want only a part of what it keeps" : "", "", without);
    }
}

int mr_verdict_explain(const mr_verdict *v, const mr_figures *f, char *out, int size) {
    lines l = {out, size, 0};
    say(&l, "%s\n  %s\n", v->title, v->evidence);
    if (v->change[0]) {
        say(&l, "  %s\n", v->change);
    }
    if (v->bound == MR_BOUND_UNKNOWN) {
        return l.used;
    }
    say(&l, "\n%.0f samples in %.3f s after the first batch: %.0f samples/s\n", f->samples,
        f->seconds, v->rate);
    say(&l, "the consumer waited %.3f s and was busy %.3f s: it stalls %.1f %% of its time\n\n",
        f->wait, f->consume + f->deliver, 100 * v->stall);
    say_stations(&l, &v->model, f);
    say_threads(&l, f);
    say_predictions(&l, f);
    say_requests(&l, f);
    say_caches(&l, f);
    return l.used;
}
