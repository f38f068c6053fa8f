/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h - starting and joining a group of equal threads that leave signals to the caller's. */
#ifndef MR_RUN_THREADS_H
#define MR_RUN_THREADS_H

#include <millrace/types.h>
#include <pthread.h>

typedef struct mr_threads {
    pthread_t *threads;
    uint32_t n; /* started */
} mr_threads;

/* Starts n threads with run(contexts + i * context_size). On failure those that started run on:
 * the caller tells them to stop and joins. */
mr_status mr_threads_start(mr_threads *group, uint32_t n, const char *name, void *(*run)(void *),
                           void *contexts, size_t context_size, mr_error *err);
void mr_threads_join(mr_threads *group);

#endif
