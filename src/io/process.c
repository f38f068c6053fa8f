/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h. /proc tells a process that has ended, but was not waited for, from one
 * that runs; a signal would not. */
#include "io/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum answer { THERE, NOT_THERE, UNKNOWN } answer;

/* Its state ('Z': ended) and start. A process that can open no more files cannot tell. */
static answer look(int64_t pid, char *state, uint64_t *started) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return errno == ENOENT ? NOT_THERE : UNKNOWN;
    }
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    unsigned long long ticks = 0;
    bool told = rest && sscanf(rest + 1,
                               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                               "%*d %*d %*d %*d %*d %llu",
                               state, &ticks) == 2;
    *started = ticks;
    return told ? THERE : NOT_THERE;
}

void mr_process_self(mr_process *out) {
    struct stat space;
    char state;
    *out = (mr_process){.pid = getpid()};
    if (look(out->pid, &state, &out->started) == THERE && stat("/proc/self/ns/pid", &space) == 0) {
        out->space = (uint64_t)space.st_ino;
    }
}

bool mr_process_is_near(const mr_process *other, const mr_process *self) {
    return other->space != 0 && other->space == self->space;
}

bool mr_process_is_alive(const mr_process *process) {
    char state;
    uint64_t started;
    answer found = look(process->pid, &state, &started);
    return found == UNKNOWN ||
           (found == THERE && started == process->started && state != 'Z' && state != 'X');
}
