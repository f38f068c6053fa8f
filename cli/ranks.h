/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the options that say which part of a run is this process's. */
#ifndef MR_CLI_RANKS_H
#define MR_CLI_RANKS_H

#include "command.h"

mr_status mr_ranks_check(int64_t world, int64_t rank, mr_error *err);

#define MR_THREADS_ROW(type)                                                                       \
    {                                                                                              \
        .name = "threads", .argument = "N", .kind = MR_OPTION_INT,                                 \
        .offset = offsetof(type, threads), .min = 1, .max = 1024,                                  \
        .doc = "Threads that compute; otherwise one for each CPU this process may use."            \
    }

#define MR_WORLD_ROW(type)                                                                         \
    {                                                                                              \
        .name = "world", .argument = "N", .kind = MR_OPTION_INT, .offset = offsetof(type, world),  \
        .min = 1, .max = 1 << 20, .doc = "Number of ranks that share the run. Needs --rank."       \
    }

#define MR_RANK_ROW(type)                                                                          \
    {                                                                                              \
        .name = "rank", .argument = "N", .kind = MR_OPTION_INT, .offset = offsetof(type, rank),    \
        .fallback = "-1", .min = 0, .max = (1 << 20) - 1,                                          \
        .doc = "Which of the ranks this is, from 0."                                               \
    }

#endif
