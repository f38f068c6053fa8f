/* SPDX-License-Identifier: Apache-2.0 */
/* Files that stay open between reads: as many as the process can afford. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/handles.h"
#include "test.h"

enum { FILES = 500 };

static int open_one(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void offer_all(mr_handles *handles) {
    for (int32_t object = 1; object <= FILES; object++) {
        int fd = open_one();
        CHECK(fd >= 0);
        if (mr_handles_offer(handles, object, fd, object)) {
            mr_handles_give(handles, object, fd);
        } else {
            close(fd);
        }
    }
}

static int count_open(mr_handles *handles) {
    int n = 0;
    for (int32_t object = 1; object <= FILES; object++) {
        int64_t size = -1;
        int fd = mr_handles_take(handles, object, &size);
        if (fd >= 0) {
            CHECK_INT(size, ==, object);
            mr_handles_give(handles, object, fd);
            n++;
        }
    }
    return n;
}

static int kept_under(rlim_t files) {
    struct rlimit before, now;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    now = before;
    now.rlim_cur = files;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &now), ==, 0);
    mr_handles *handles = mr_handles_new();
    CHECK(handles != NULL);
    offer_all(handles);
    int n = count_open(handles);
    mr_handles_free(handles);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    return n;
}

TEST(a_quarter_of_the_files_that_may_be_open_stay_open) {
    CHECK_INT(kept_under(1024), ==, 256);
    CHECK_INT(kept_under(200), ==, 64);
}

TEST(every_shard_is_opened_once_where_the_limit_allows_it) {
    struct rlimit limit;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    if (limit.rlim_max >= 4 * FILES) {
        CHECK_INT(kept_under(4 * FILES), ==, FILES);
    }
}

TEST(a_file_that_is_read_is_not_closed_for_another) {
    mr_handles *handles = mr_handles_new();
    int64_t size = 0;
    int first = open_one(), second = open_one();
    CHECK(mr_handles_offer(handles, 7, first, 70));
    for (int32_t other = 8; other < 8 + 5000; other++) {
        if (mr_handles_offer(handles, other, second, other)) {
            mr_handles_give(handles, other, second);
            second = open_one();
        }
    }
    CHECK_INT(mr_handles_take(handles, 7, &size), ==, first);
    CHECK_INT(size, ==, 70);
    close(second);
    mr_handles_free(handles);
}

TEST_MAIN()
