/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_foreign.c - what holds up a torch DataLoader. Its samples are made by processes, or by
 * the program itself; batches go through a queue between processes, in order; its settings have
 * other names. */
#include <math.h>

#include "trace/verdict_words.h"

/* Every epoch, unless they are kept. */
static bool starts_workers(mr_verdict *v, const mr_figures *f) {
    if (f->workers == 0 || f->starts < 1 || f->start < culprit * f->wait) {
        return false;
    }
    conclude(v, MR_BOUND_HOST, "held up by starting workers");
    evidence(
        v,
        "%.0f %% of the waiting is for %d worker processes to start, %.2f s each of %.0f times "
        "after the first.",
        percent(f->start, f->wait), f->workers, f->start / f->starts, f->starts);
    double rate = mr_divide(f->samples, f->seconds - f->start);
    if (f->persistent) {
        advise(v, MR_ADVISE_PROCESSES, rate, "make epochs longer: the loader is opened anew");
    } else {
        advise(v, MR_ADVISE_PROCESSES, rate, "keep them: persistent_workers=True");
    }
    return true;
}

static bool has_no_workers(mr_verdict *v, const mr_figures *f) {
    if (f->workers > 0) {
        return false;
    }
    conclude(v, MR_BOUND_HOST, "held up by its own program");
    evidence(
        v,
        "The program makes its samples itself, %.2f ms each, and trains meanwhile not: it waits "
        "%.0f %% of its time.",
        1e3 * mr_divide(f->work, f->made), 100 * v->stall);
    advise(v, MR_ADVISE_PROCESSES, mr_model_make(f, f->cpus).rate, "num_workers=%d", f->cpus);
    return true;
}

/* Who takes a batch out of the queue runs Python, and needs its lock. */
static bool is_lock_bound(mr_verdict *v, const mr_figures *f) {
    if (f->handover < culprit * f->wait || f->beside < 0.5 * f->wait) {
        return false;
    }
    conclude(v, MR_BOUND_HOST, "held up by Python's lock");
    evidence(
        v,
        "%.0f %% of the waiting is for batches that are ready, and other threads of the program "
        "compute for %.0f %% of it: they have Python's lock, which taking a batch needs.",
        percent(f->handover, f->wait), fmin(percent(f->beside, f->wait), 100));
    advise(v, MR_ADVISE_PROCESSES, mr_divide(f->samples, f->seconds - f->handover),
           "let those threads compute in a process of their own; if taking batches cost nothing");
    return true;
}

/* Ready and wanted, and still not there: pickled, sent, read and put together again. */
static bool is_queue_bound(mr_verdict *v, const mr_figures *f) {
    if (f->handover < culprit * f->wait) {
        return false;
    }
    conclude(v, MR_BOUND_HOST, "queue-bound");
    char pinned[80] = "";
    if (f->pinning >= 0.1 * f->handover) {
        snprintf(pinned, sizeof pinned, ", and %.2f ms for each into pinned memory",
                 1e3 * mr_divide(f->pinning, f->batches));
    }
    evidence(
        v,
        "%.0f %% of the waiting is for batches that are ready in a worker, %.2f ms for each of "
        "%.0f: they go through a queue between processes%s.",
        percent(f->handover, f->wait), 1e3 * f->handover / f->batches, f->batches, pinned);
    advise(v, MR_ADVISE_PROCESSES, mr_divide(f->samples, f->seconds - f->handover),
           "send less: one tensor for each field, uint8 until it is on the device; or workers that "
           "are threads (millrace.torch.DataLoader); if it cost nothing");
    return true;
}

static bool is_collate_bound(mr_verdict *v, const mr_figures *f) {
    if (f->seal < culprit * (f->work + f->seal)) {
        return false;
    }
    conclude(v, MR_BOUND_OP, "collate-bound");
    evidence(v, "Putting batches together takes %.0f %% of the workers' time, %.2f ms for each.",
             percent(f->seal, f->work + f->seal), 1e3 * mr_divide(f->seal, f->batches));
    advise(v, MR_ADVISE_PROCESSES, 0,
           "let samples be arrays of one size, which need no collate_fn of its own");
    return true;
}

/* In order: a batch that takes long holds up those that are ready behind it. */
static bool lacks_prefetch(mr_verdict *v, const mr_figures *f) {
    if (v->idle < culprit) {
        return false;
    }
    conclude(v, MR_BOUND_MEMORY, "short of batches ahead");
    evidence(
        v,
        "The program waits %.0f %% of its time, and the workers have nothing to do for %.0f %% "
        "of theirs: %d batches may be ahead.",
        100 * v->stall, 100 * v->idle, f->batches_ahead);
    advise(v, MR_ADVISE_AHEAD, v->model.rate, "prefetch_factor=%d",
           2 * f->batches_ahead / f->workers);
    return true;
}

/* More than can run at once, all of them computing: they take the CPUs from each other. */
static bool has_too_many(mr_verdict *v, const mr_figures *f) {
    double most = f->cpus * f->seconds;
    if (f->threads <= f->cpus || f->cpu < 0.8 * most || f->preempted <= f->paused) {
        return false;
    }
    conclude(v, MR_BOUND_CROWDED, "too many workers");
    evidence(
        v,
        "%d workers compute on %d CPUs: they used %.0f %% of the CPUs' time, and were taken off "
        "them %.0f times.",
        f->workers, f->cpus, percent(f->cpu, most), f->preempted);
    advise(v, MR_ADVISE_ALONE, 0, "num_workers=%d", f->cpus);
    return true;
}

/* Inside samples, without computing, while bytes come from a disk: files that memory does not
 * hold. More workers than CPUs wait at the same time. */
static bool lacks_page_cache(mr_verdict *v, const mr_figures *f) {
    double waits = mr_busy_time(f) - f->cpu, each = mr_divide(f->disk_bytes, f->made);
    if (f->cpu <= 0 || each < 4096 || waits < culprit * mr_busy_time(f) ||
        f->paused <= f->preempted) {
        return false;
    }
    conclude(v, MR_BOUND_STORAGE, "storage-bound: files are not in the page cache");
    evidence(
        v,
        "Workers wait for %.0f %% of the time in which they make samples, and %.3g KB of each come "
        "from a disk, %.1f MB/s in all.",
        percent(waits, mr_busy_time(f)), each / 1e3, mr_divide(f->disk_bytes, f->seconds) / 1e6);
    advise(v, MR_ADVISE_READS,
           mr_lower(mr_divide(fmin(f->threads, f->cpus) * f->made, f->cpu), v->model.consumer),
           "more workers than CPUs, which wait together, larger files, or data that memory holds; "
           "if reading cost nothing");
    return true;
}

/* The dataset's own time is one of its steps. */
static void is_step_bound(mr_verdict *v, const mr_figures *f) {
    const char *name = "the dataset's own code";
    double longest = f->fill;
    for (int32_t i = 0; i < f->n_ops; i++) {
        name = f->ops[i].seconds > longest ? f->ops[i].name : name;
        longest = fmax(longest, f->ops[i].seconds);
    }
    char title[sizeof v->title];
    snprintf(title, sizeof title, longest > f->fill ? "%.40s-bound" : "bound by its dataset", name);
    conclude(v, MR_BOUND_OP, title);
    evidence(
        v, "%s takes %.0f %% of the workers' time; they are busy %.0f %% of it, %d on %d CPUs.",
        name, percent(longest, f->work), percent(f->work, mr_thread_time(f)), f->workers, f->cpus);
    if (f->threads < f->cpus) {
        advise(v, MR_ADVISE_THREADS, mr_model_make(f, f->cpus).rate, "num_workers=%d", f->cpus);
    } else {
        advise(v, MR_ADVISE_CPUS, 0, "make %s cheaper, or do it once and keep what it makes", name);
    }
}

bool mr_verdict_foreign(mr_verdict *v, const mr_figures *f) {
    if (!f->foreign) {
        return false;
    }
    if (!starts_workers(v, f) && !has_no_workers(v, f) && !mr_verdict_straggler(v, f) &&
        !has_too_many(v, f) && !mr_verdict_crowded(v, f) && !is_lock_bound(v, f) &&
        !is_queue_bound(v, f) && !is_collate_bound(v, f) && !lacks_prefetch(v, f) &&
        !lacks_page_cache(v, f)) {
        is_step_bound(v, f);
    }
    return true;
}
