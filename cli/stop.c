/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c - a thread of its own waits for the signals, because mr_loader_cancel takes locks and
 * must not be called from a handler. A signal that is ignored from the start (nohup, a job in the
 * background of a script) stays so. What comes within two seconds of the first is the same wish
 * once more (`timeout` signals a process and then its group); later it means: at once. */
#include "stop.h"

#include <string.h>
#include <time.h>

#define END_OF_WATCH SIGUSR1

enum { PATIENCE_SECONDS = 2 };

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void die_of(int number) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
}

static void *watch(void *user) {
    mr_stop *stop = user;
    int received = 0;
    if (sigwait(&stop->waited, &received) != 0 || received == END_OF_WATCH) {
        return NULL;
    }
    atomic_store(&stop->signal, received);
    if (stop->loader) {
        mr_loader_cancel(stop->loader);
    }
    double first = seconds_now();
    while (sigwait(&stop->waited, &received) == 0 && received != END_OF_WATCH) {
        if (seconds_now() - first > PATIENCE_SECONDS) {
            die_of(received);
        }
    }
    return NULL;
}

static void add_unless_ignored(sigset_t *set, int number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
        sigaddset(set, number);
    }
}

mr_status mr_stop_begin(mr_stop *stop, mr_loader *loader, mr_error *err) {
    stop->loader = loader;
    atomic_init(&stop->signal, 0);
    sigemptyset(&stop->waited);
    sigaddset(&stop->waited, END_OF_WATCH);
    add_unless_ignored(&stop->waited, SIGINT);
    add_unless_ignored(&stop->waited, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop->waited, &stop->before);
    int failed = pthread_create(&stop->thread, NULL, watch, stop);
    if (failed) {
        pthread_sigmask(SIG_SETMASK, &stop->before, NULL);
        return mr_fail(err, MR_E_MEMORY, "cannot start a thread: %s", strerrordesc_np(failed));
    }
    return MR_OK;
}

int mr_stop_end(mr_stop *stop) {
    pthread_kill(stop->thread, END_OF_WATCH);
    pthread_join(stop->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &stop->before, NULL);
    return atomic_load(&stop->signal);
}
