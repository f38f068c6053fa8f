/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - see threads.h. */
#include "run/threads.h"

#include <signal.h>

#include "core/error.h"
#include "core/memory.h"
#include <millrace/millrace.h>

/* A thread's own faults: blocked, they would end the process before anybody could look. */
static const int own_faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};

static mr_status start_one(mr_threads *group, const char *name, void *(*run)(void *), void *context,
                           mr_error *err) {
    int failed = pthread_create(&group->threads[group->n], NULL, run, context);
    if (failed) {
        return mr_fail_errno(err, MR_E_MEMORY, failed, "cannot start thread %u", group->n);
    }
    pthread_setname_np(group->threads[group->n], name);
    group->n++;
    return MR_OK;
}

mr_status mr_threads_start(mr_threads *group, uint32_t n, const char *name, void *(*run)(void *),
                           void *contexts, size_t context_size, mr_error *err) {
    sigset_t all, before;
    mr_status status = MR_OK;
    group->threads = mr_zalloc(n, sizeof *group->threads);
    if (!group->threads) {
        return mr_fail_memory(err, n * sizeof *group->threads);
    }
    sigfillset(&all); /* a new thread inherits the mask */
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++) {
        sigdelset(&all, own_faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < n && status == MR_OK; i++) {
        status = start_one(group, name, run, (char *)contexts + i * context_size, err);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void mr_threads_join(mr_threads *group) {
    for (uint32_t i = 0; i < group->n; i++) {
        pthread_join(group->threads[i], NULL);
    }
    mr_free(group->threads);
    *group = (mr_threads){NULL, 0};
}
