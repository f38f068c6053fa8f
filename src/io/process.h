/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - a process of this machine, told from others that get its number later. */
#ifndef MR_IO_PROCESS_H
#define MR_IO_PROCESS_H

#include <millrace/types.h>

typedef struct mr_process {
    int64_t pid;
    uint64_t started; /* in ticks since the machine was */
    uint64_t space;   /* in which the number counts; 0: unknown */
} mr_process;

void mr_process_self(mr_process *out);

/* Whether this process can see the other one, and whether that still runs: unless it has certainly
 * ended. */
bool mr_process_is_near(const mr_process *other, const mr_process *self);
bool mr_process_is_alive(const mr_process *process);

#endif
