/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - --world and --rank belong together; launchers say both. */
#include "ranks.h"

#include <millrace/fabric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mr_ranks_find(int64_t *world, int64_t *rank) {
    mr_launch launch = {.size = (uint32_t)sizeof launch};
    if (*world < 1 && *rank < 0 && mr_launch_detect(&launch) && launch.world > 1) {
        *world = launch.world;
        *rank = launch.rank;
    }
}

static const char DIGITS[] = "0123456789";

bool mr_ranks_is_own(const char *path, int64_t rank) {
    for (const char *at = path + strcspn(path, DIGITS); *at; at += strcspn(at, DIGITS)) {
        if (strtoll(at, NULL, 10) == rank) {
            return true;
        }
        at += strspn(at, DIGITS);
    }
    return strstr(path, "{rank}") != NULL;
}

bool mr_ranks_name(const char **path, int64_t rank, char *buffer, size_t size) {
    static const char mark[] = "{rank}";
    const char *at = *path ? strstr(*path, mark) : NULL;
    if (!at) {
        return true;
    }
    int n = snprintf(buffer, size, "%.*s%lld%s", (int)(at - *path), *path,
                     (long long)(rank < 0 ? 0 : rank), at + sizeof mark - 1);
    *path = buffer;
    return n >= 0 && (size_t)n < size;
}

mr_status mr_ranks_check(int64_t world, int64_t rank, mr_error *err) {
    if (rank >= 0 && world < 1) {
        mr_fail(err, MR_E_PARAM, "--rank needs --world");
        mr_hint(err, "--world N is the number of ranks, --rank counts from 0 to N - 1");
        return err->code;
    }
    if (world > 1 && rank < 0) {
        mr_fail(err, MR_E_PARAM, "--world %lld needs --rank", (long long)world);
        mr_hint(err, "each rank is a run of its own: --rank 0, --rank 1, ...");
        return err->code;
    }
    if (world >= 1 && rank >= world) {
        mr_fail(err, MR_E_PARAM, "--rank %lld is too large for --world %lld", (long long)rank,
                (long long)world);
        mr_hint(err, "ranks count from 0");
        return err->code;
    }
    return MR_OK;
}
