/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that other processes of this machine read. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/common.h"
#include "test.h"

enum { SIZE = 1 << 20 };

TEST(what_is_taken_is_zero_apart_and_ends_with_the_memory) {
    mr_common common;
    CHECK(mr_common_open(&common, SIZE));
    char *first = mr_common_take(&common, 1), *second = mr_common_take(&common, 100);
    CHECK(first == common.data);
    CHECK_INT(second - first, ==, MR_COMMON_ALIGN);
    CHECK_INT(second[99], ==, 0);
    CHECK(!mr_common_take(&common, SIZE));
    CHECK(!mr_common_take(&common, SIZE_MAX));
    char *rest = mr_common_take(&common, SIZE - 3 * MR_COMMON_ALIGN);
    CHECK(rest == second + 2 * MR_COMMON_ALIGN);
    memset(rest, 7, SIZE - 3 * MR_COMMON_ALIGN);
    CHECK(!mr_common_take(&common, 1));
    mr_common_close(&common);
}

TEST(what_was_taken_last_can_be_given_back) {
    mr_common common;
    CHECK(mr_common_open(&common, SIZE));
    char *first = mr_common_take(&common, 100), *second = mr_common_take(&common, 100);
    mr_common_give_back(&common, first); /* something lies behind it: it stays */
    CHECK(mr_common_take(&common, 1) == second + 2 * MR_COMMON_ALIGN);
    char *last = mr_common_take(&common, 100);
    mr_common_give_back(&common, last);
    mr_common_give_back(&common, last); /* once */
    CHECK(mr_common_take(&common, 100) == last);
    CHECK(mr_common_take(&common, 1) == last + 2 * MR_COMMON_ALIGN);
    mr_common_close(&common);
}

/* Another process's, which is killed once it was looked into. */
TEST(what_another_process_has_written_is_seen_and_outlives_it) {
    int to_us[2];
    CHECK(pipe(to_us) == 0);
    pid_t child = fork();
    if (child == 0) {
        mr_common common;
        mr_common_name name = {.fd = -1};
        if (mr_common_open(&common, SIZE)) {
            strcpy(mr_common_take(&common, 10000), "seen");
            mr_common_tell(&common, &name);
        }
        if (write(to_us[1], &name, sizeof name) == sizeof name) {
            pause();
        }
        _exit(1);
    }
    mr_common_name name;
    mr_common_view view;
    CHECK_INT(read(to_us[0], &name, sizeof name), ==, sizeof name);
    CHECK_INT(name.pid, ==, child);
    CHECK(mr_common_look(&view, &name));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_INT(view.size, ==, SIZE);
    CHECK_TEXT(view.data, "seen");
    mr_common_look_away(&view);
    CHECK(!view.data);
    CHECK(!mr_common_look(&view, &name)); /* too late */
    close(to_us[0]);
    close(to_us[1]);
}

TEST(what_is_not_as_it_was_told_is_not_looked_into) {
    mr_common common;
    mr_common_view view;
    mr_common_name name, other;
    CHECK(mr_common_open(&common, SIZE));
    mr_common_tell(&common, &name);
    for (int i = 0; i < 5; i++) {
        other = name;
        other.inode += i == 0;
        other.size += i == 1 ? 4096 : 0;
        other.fd = i == 2 ? -1 : i == 3 ? 1 << 20 : other.fd;
        other.device += i == 4;
        CHECK(!mr_common_look(&view, &other));
        CHECK(!view.data);
    }
    CHECK(mr_common_look(&view, &name));
    mr_common_look_away(&view);
    mr_common_close(&common);
}

/* A file that its owner may cut would end whoever reads behind the cut. */
TEST(what_may_be_cut_is_not_looked_into) {
    mr_common_view view;
    struct stat info;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0 && fstat(fd, &info) == 0);
    const mr_common_name name = {.pid = getpid(),
                                 .fd = fd,
                                 .device = (uint64_t)info.st_dev,
                                 .inode = (uint64_t)info.st_ino,
                                 .size = SIZE};
    CHECK(!mr_common_look(&view, &name));
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    CHECK(mr_common_look(&view, &name));
    mr_common_look_away(&view);
    close(fd);
}

/* Where files may not be so large, a signal would end the process. */
TEST(beyond_a_limit_of_files_there_is_none) {
    pid_t child = fork();
    if (child == 0) {
        mr_common common;
        const struct rlimit limit = {SIZE / 2, SIZE / 2};
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(mr_common_open(&common, SIZE) ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_INT(status, ==, 0);
}

/* What is mapped would be missing where the program asks for memory. */
TEST(where_address_space_is_limited_there_is_none) {
    mr_common common;
    mr_common_name name;
    CHECK(mr_common_open(&common, SIZE));
    mr_common_tell(&common, &name);
    pid_t child = fork();
    if (child == 0) {
        mr_common own;
        mr_common_view view;
        const struct rlimit limit = {(rlim_t)1 << 45, (rlim_t)1 << 45};
        setrlimit(RLIMIT_AS, &limit);
        _exit(mr_common_open(&own, SIZE) ? 1 : mr_common_look(&view, &name) ? 2 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_INT(status, ==, 0);
    mr_common_close(&common);
}

static bool is_mapped(void *data) {
    unsigned char resident;
    return mincore(data, 4096, &resident) == 0;
}

TEST(a_child_of_fork_does_not_keep_it) {
    mr_common common;
    CHECK(mr_common_open(&common, SIZE));
    pid_t child = fork();
    if (child == 0) {
        _exit(is_mapped(common.data));
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_INT(status, ==, 0);
    char *data = common.data;
    mr_common_leave(&common); /* what somebody may still read stays mapped */
    CHECK(is_mapped(data));
    munmap(data, SIZE);
}

TEST(none_is_told_as_none) {
    mr_common common = {.fd = -1};
    mr_common_name name;
    CHECK(!mr_common_open(&common, 0));
    CHECK(!mr_common_take(&common, 1));
    mr_common_tell(&common, &name);
    CHECK_INT(name.fd, ==, -1);
    mr_common_close(&common);
}

TEST_MAIN()
