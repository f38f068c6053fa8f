/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - failures on demand. A test program that links faults.c gets its own malloc, pread and
 * so on, which the libraries in the process use too; they pass through to the real ones until a
 * fault is armed. */
#ifndef MR_FAULTS_H
#define MR_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Calls that a fault may hit; may be combined. */
enum {
    FAULT_ALLOC = 1u << 0,  /* malloc and its family, and pthread_create: there is none to be had */
    FAULT_OPEN = 1u << 1,   /* open, openat */
    FAULT_STAT = 1u << 2,   /* fstat, fstatat, statx */
    FAULT_READ = 1u << 3,   /* read, pread */
    FAULT_WRITE = 1u << 4,  /* write, pwrite, writev, ftruncate, posix_fallocate */
    FAULT_SYNC = 1u << 5,   /* fsync, fdatasync */
    FAULT_RENAME = 1u << 6, /* rename, renameat */
    FAULT_CLOSE = 1u << 7,  /* the descriptor is closed all the same, as Linux does */
    FAULT_ANY_IO = 0xFEu
};

typedef enum fault_kind {
    FAULT_ONCE,    /* the call number `at` fails */
    FAULT_LASTING, /* it and all after it fail */
    FAULT_EVERY,   /* every `at`-th call fails: for EINTR */
    FAULT_SHORT,   /* reads and writes do about half of what they are asked; nothing fails */
    FAULT_EOF      /* the call number `at` and all after it read nothing: the file has shrunk */
} fault_kind;

typedef struct fault {
    unsigned calls;
    fault_kind kind;
    int64_t at; /* counted from 1 */
    int error;  /* errno to give */
} fault;

void fault_arm(const fault *wanted);
int64_t fault_disarm(void); /* how often it struck */

/* From now on only files whose paths contain this; NULL: all. */
void fault_within(const char *part);

/* Blocks of memory that are allocated and not yet freed. */
int64_t fault_live_blocks(void);

#endif
