/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - --world and --rank belong together. */
#include "ranks.h"

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
