/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the options that say which part of a run is this process's. */
#ifndef MR_CLI_RANKS_H
#define MR_CLI_RANKS_H

#include "command.h"

mr_status mr_ranks_check(int64_t world, int64_t rank, mr_error *err);

/* Where neither is given: those that mpirun, torchrun, srun or the like gave this process. */
void mr_ranks_find(int64_t *world, int64_t *rank);

/* Whether a file's name tells ranks apart: it has {rank} in it, or the number itself. */
bool mr_ranks_is_own(const char *path, int64_t rank);

/* A file's name with {rank} in it, for this rank: *path becomes `buffer`. False: it is too long. */
bool mr_ranks_name(const char **path, int64_t rank, char *buffer, size_t size);

#define MR_THREADS_ROW(type)                                                                       \
    {                                                                                              \
        .name = "threads", .argument = "N", .kind = MR_OPTION_INT,                                 \
        .offset = offsetof(type, threads), .min = 1, .max = 1024,                                  \
        .doc = "Threads that compute; otherwise one for each CPU this process may use."            \
    }

/* The same, where a run may find the number itself: -1. */
#define MR_THREADS_OR_AUTO_ROW(type)                                                               \
    {                                                                                              \
        .name = "threads", .argument = "N", .kind = MR_OPTION_INT,                                 \
        .offset = offsetof(type, threads), .min = 1, .max = 1024, .or_auto = true,                 \
        .doc = "Threads that compute; otherwise one for each CPU this process may use. With auto " \
               "as many as are of use, adapted while it runs, with reads and batches ahead."       \
    }

#define MR_WORLD_ROW(type)                                                                         \
    {                                                                                              \
        .name = "world", .argument = "N", .kind = MR_OPTION_INT, .offset = offsetof(type, world),  \
        .min = 1, .max = 1 << 20,                                                                  \
        .doc = "Number of ranks that share the run. Needs --rank. Otherwise mpirun, torchrun or "  \
               "srun say it."                                                                      \
    }

#define MR_RANK_ROW(type)                                                                          \
    {                                                                                              \
        .name = "rank", .argument = "N", .kind = MR_OPTION_INT, .offset = offsetof(type, rank),    \
        .fallback = "-1", .min = 0, .max = (1 << 20) - 1,                                          \
        .doc = "Which of the ranks this is, from 0."                                               \
    }

#endif
