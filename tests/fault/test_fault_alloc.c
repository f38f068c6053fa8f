/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_alloc.c - lets the first allocation of a run fail, then the second, and so on until a
 * run needs no more. Each run either delivers the right stream or ends in a clean error; none
 * crashes, hangs, leaks, or takes a lack of memory for a bad sample. */
#include "rig.h"

#include <errno.h>

#define MAX_ALLOCATIONS 50000

static outcome expected;

static int judge(const fault *wanted, const outcome *result, int64_t leaked) {
    bool right = result->status == MR_END && strcmp(result->digest, expected.digest) == 0 &&
                 strcmp(result->fingerprint, expected.fingerprint) == 0;
    bool refused = rig_is_clean_error(result) && result->status == MR_E_MEMORY;
    const char *why = !right && !refused ? "neither the right stream nor out of memory"
                      : result->skipped  ? "lack of memory was taken for a bad sample"
                      : leaked           ? "memory leaked"
                                         : NULL;
    if (why) {
        rig_show(wanted, result, why);
        fprintf(stderr, "%" PRId64 " blocks more than before\n", leaked);
    }
    return why ? CHILD_BAD : CHILD_GOOD;
}

/* What libraries allocate once and keep, they have from the parent's run. */
static int run_with_fault(const fault *wanted) {
    int64_t before = fault_live_blocks();
    fault_arm(wanted);
    outcome result = rig_run();
    int64_t struck = fault_disarm();
    int verdict = judge(wanted, &result, fault_live_blocks() - before);
    return verdict == CHILD_GOOD && !struck ? CHILD_NO_STRIKE : verdict;
}

static void fail_each_allocation(fault_kind kind, const char *on_error) {
    rig_make(on_error);
    expected = rig_run();
    CHECK_INT(expected.status, ==, MR_END);
    int verdict = expected.status == MR_END ? CHILD_GOOD : CHILD_DIED;
    int64_t at = 0;
    int bad = 0;
    while (verdict != CHILD_NO_STRIKE && bad < 10 && at < MAX_ALLOCATIONS &&
           expected.status == MR_END) {
        const fault wanted = {FAULT_ALLOC, kind, ++at, ENOMEM};
        verdict = rig_child(run_with_fault, &wanted);
        bad += verdict == CHILD_BAD || verdict == CHILD_DIED;
    }
    CHECK_INT(bad, ==, 0);
    CHECK_INT(at, >, 20); /* fewer would mean that the faults do not arrive */
    CHECK_INT(at, <, MAX_ALLOCATIONS);
    rig_remove();
}

TEST(one_allocation_fails) {
    fail_each_allocation(FAULT_ONCE, "fail");
}

TEST(one_allocation_fails_where_bad_samples_are_skipped) {
    fail_each_allocation(FAULT_ONCE, "skip");
}

TEST(memory_runs_out_for_good) {
    fail_each_allocation(FAULT_LASTING, "fail");
}

TEST_MAIN()
