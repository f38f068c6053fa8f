/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_job.c - see sweep_job.h. The child runs the job and sends what it found, a line of JSON,
 * through a pipe; the kernel tells its CPU time and memory when it ends. */
#include "sweep_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

const char *const mr_sweep_axis_names[MR_SWEEP_AXES] = {"threads", "reads", "batch", "ahead"};

enum { MOST_WORDS = 1 << 22 };

/* ---- The folder, and signals ---- */
mr_status mr_sweep_lab_open(mr_sweep_lab *lab, const char *scratch, mr_error *err) {
    sigset_t awaited;
    lab->signals = -1;
    snprintf(lab->folder, sizeof lab->folder, "%s/millrace-sweep.XXXXXX", scratch);
    if (!mkdtemp(lab->folder)) {
        mr_fail(err, MR_E_IO, "cannot make a folder in %s: %s", scratch, strerrordesc_np(errno));
        mr_hint(err, "--scratch names a folder that can be written to");
        lab->folder[0] = '\0';
        return err->code;
    }
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGTERM);
    sigprocmask(SIG_BLOCK, &awaited, &lab->before);
    lab->signals = signalfd(-1, &awaited, SFD_CLOEXEC);
    return lab->signals >= 0 ? MR_OK : mr_fail(err, MR_E_IO, "signals cannot be awaited");
}

static void trace_path(const mr_sweep_lab *lab, char *out, size_t size) {
    snprintf(out, size, "%s/trace", lab->folder);
}

void mr_sweep_lab_close(mr_sweep_lab *lab) {
    char path[PATH_MAX + 16];
    if (!lab->folder[0]) {
        return;
    }
    trace_path(lab, path, sizeof path);
    unlink(path);
    rmdir(lab->folder);
    if (lab->signals >= 0) {
        close(lab->signals);
    }
    sigprocmask(SIG_SETMASK, &lab->before, NULL);
}

/* ---- In the child ---- */
static mr_status open_loader(const mr_sweep_lab *lab, const mr_sweep_job *job, const char *trace,
                             mr_loader **out, mr_error *err) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = (uint32_t)job->set[MR_SWEEP_THREADS];
    options.reads_in_flight = (uint32_t)job->set[MR_SWEEP_READS];
    options.batch = job->set[MR_SWEEP_BATCH];
    options.batches_ahead = (uint32_t)job->set[MR_SWEEP_AHEAD];
    options.seed = lab->seed;
    options.epochs = lab->samples > 0 ? INT32_MAX : 1;
    options.trace = trace;
    return mr_loader_open(out, lab->pipeline, &options, err);
}

static mr_status take_batches(mr_loader *loader, int64_t wanted, int64_t *samples, mr_error *err) {
    mr_status status = MR_OK;
    while (status == MR_OK && (wanted <= 0 || *samples < wanted)) {
        mr_batch *batch = NULL;
        status = mr_loader_next(loader, &batch, err);
        if (status == MR_OK) {
            *samples += mr_batch_size(batch);
            mr_batch_unref(batch);
        }
    }
    return status == MR_END ? MR_OK : status;
}

static json_t *part_of(const char *path) {
    mr_trace *trace = NULL;
    char *text = NULL;
    json_t *part = NULL;
    if (mr_trace_open(&trace, path, NULL) == MR_OK &&
        mr_trace_text(trace, MR_TRACE_SWEEP, &text, NULL) == MR_OK) {
        part = json_loads(text, 0, NULL);
    }
    mr_free(text);
    mr_trace_close(trace);
    return part;
}

static json_t *do_job(const mr_sweep_lab *lab, const mr_sweep_job *job, bool traced) {
    char path[PATH_MAX + 16];
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    int64_t samples = 0;
    trace_path(lab, path, sizeof path);
    double start = mr_clock();
    mr_status status = open_loader(lab, job, traced ? path : NULL, &loader, &err);
    status = status == MR_OK ? take_batches(loader, lab->samples, &samples, &err) : status;
    double seconds = mr_clock() - start;
    mr_loader_close(loader);
    if (status != MR_OK) {
        return json_pack("{s:s, s:i}", "error", err.text, "code", (int)err.code);
    }
    json_t *part = traced ? part_of(path) : NULL;
    return json_pack("{s:f, s:I, s:o*}", "seconds", seconds, "samples", (json_int_t)samples, "part",
                     part);
}

/* Does not return. */
static void be_child(const mr_sweep_lab *lab, const mr_sweep_job *job, bool traced, int out) {
    sigprocmask(SIG_SETMASK, &lab->before, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    json_t *found = do_job(lab, job, traced);
    bool ok = found && json_dumpfd(found, out, JSON_COMPACT) == 0;
    _exit(ok ? 0 : 1);
}

/* ---- In the parent ---- */
/* The child's words, until it closes the pipe; NULL: no memory, or a signal came. */
static char *listen_to(mr_sweep_lab *lab, int in) {
    char *words = calloc(1, MOST_WORDS);
    size_t size = 0;
    ssize_t n = 1;
    while (words && n > 0 && size < MOST_WORDS - 1) {
        struct pollfd ready[] = {{.fd = in, .events = POLLIN},
                                 {.fd = lab->signals, .events = POLLIN}};
        struct signalfd_siginfo info;
        if (poll(ready, 2, -1) < 0) {
            n = errno == EINTR ? 1 : -1;
            continue;
        }
        if (ready[1].revents && read(lab->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            lab->signal = (int)info.ssi_signo;
            break;
        }
        n = ready[0].revents ? read(in, words + size, MOST_WORDS - 1 - size) : 1;
        size += ready[0].revents && n > 0 ? (size_t)n : 0;
    }
    return words;
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void note_round(mr_sweep_job *job, json_t *found, const struct rusage *used) {
    json_t *round = json_pack("{s:O, s:O, s:f, s:f}", "seconds", json_object_get(found, "seconds"),
                              "samples", json_object_get(found, "samples"), "cpu",
                              seconds_of(used->ru_utime) + seconds_of(used->ru_stime), "memory",
                              1024.0 * (double)used->ru_maxrss);
    job->rounds = job->rounds ? job->rounds : json_array();
    json_array_append_new(job->rounds, round);
}

static void note(mr_sweep_job *job, const char *words, bool traced, int ended,
                 const struct rusage *used) {
    json_t *found = words ? json_loads(words, 0, NULL) : NULL;
    const char *error = json_string_value(json_object_get(found, "error"));
    if (WIFSIGNALED(ended)) {
        snprintf(job->error, sizeof job->error, "the run was ended by signal %d", WTERMSIG(ended));
    } else if (error || !found) {
        snprintf(job->error, sizeof job->error, "%s", error ? error : "the run said nothing");
        job->code = (mr_status)json_integer_value(json_object_get(found, "code"));
    } else if (traced) {
        job->part = json_incref(json_object_get(found, "part"));
    } else {
        note_round(job, found, used);
    }
    json_decref(found);
}

mr_status mr_sweep_job_run(mr_sweep_lab *lab, mr_sweep_job *job, bool traced, mr_error *err) {
    int ends[2], ended = 0;
    struct rusage used;
    if (job->error[0]) {
        return MR_OK;
    }
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return mr_fail(err, MR_E_IO, "cannot start a run: %s", strerrordesc_np(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_child(lab, job, traced, ends[1]);
    }
    close(ends[1]);
    char *words = child > 0 ? listen_to(lab, ends[0]) : NULL;
    close(ends[0]);
    if (child > 0 && lab->signal) {
        kill(child, SIGKILL);
    }
    while (child > 0 && wait4(child, &ended, 0, &used) < 0 && errno == EINTR) {
    }
    if (child > 0 && !lab->signal) {
        note(job, words, traced, ended, &used);
    }
    free(words);
    if (child < 0) {
        return mr_fail(err, MR_E_IO, "cannot start a run: %s", strerrordesc_np(errno));
    }
    return lab->signal ? MR_E_CANCELLED : MR_OK;
}

json_t *mr_sweep_job_json(const mr_sweep_job *job) {
    json_t *set = json_object();
    for (int i = 0; i < MR_SWEEP_AXES; i++) {
        if (job->set[i] > 0) {
            json_object_set_new(set, mr_sweep_axis_names[i], json_integer(job->set[i]));
        }
    }
    json_t *run = json_pack("{s:o, s:O*}", "set", set, "rounds", job->rounds);
    if (job->error[0]) {
        json_object_set_new(run, "error", json_string(job->error));
    }
    json_object_update(run, job->part);
    return run;
}

void mr_sweep_job_free(mr_sweep_job *job) {
    json_decref(job->rounds);
    json_decref(job->part);
}
