/* SPDX-License-Identifier: Apache-2.0 */
/* Whether another process still runs: only one that has certainly ended counts as lost. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/process.h"
#include "test.h"

/* A child that says who it is, and waits for its end. */
static mr_process start_child(void) {
    int ends[2];
    mr_process child = {.pid = 0};
    CHECK_INT(pipe(ends), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        mr_process_self(&child);
        _exit(write(ends[1], &child, sizeof child) == sizeof child ? pause() : 1);
    }
    CHECK_INT(read(ends[0], &child, sizeof child), ==, sizeof child);
    CHECK_INT(child.pid, ==, pid);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void wait_until_ended(const mr_process *child) {
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT), ==, 0);
}

TEST(a_process_has_ended_before_it_was_waited_for) {
    mr_process own, child = start_child();
    mr_process_self(&own);
    CHECK(mr_process_is_near(&child, &own));
    CHECK(mr_process_is_alive(&child));
    CHECK_INT(kill((pid_t)child.pid, SIGKILL), ==, 0);
    wait_until_ended(&child);
    CHECK(!mr_process_is_alive(&child));
    CHECK_INT(waitpid((pid_t)child.pid, NULL, 0), ==, child.pid);
    CHECK(!mr_process_is_alive(&child));
}

TEST(another_process_with_its_number_is_another_one) {
    mr_process own;
    mr_process_self(&own);
    CHECK(mr_process_is_alive(&own));
    own.started++;
    CHECK(!mr_process_is_alive(&own));
}

TEST(who_can_open_no_file_takes_nobody_for_lost) {
    struct rlimit before, none;
    mr_process own;
    mr_process_self(&own);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    none = (struct rlimit){0, before.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    bool alive = mr_process_is_alive(&own);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    CHECK(alive);
}

TEST_MAIN()
