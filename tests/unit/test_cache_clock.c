/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks that jump: a file that was changed in what is now the future could change again without
 * its times telling, so it is not kept; the bytes are right in any case. This program has a clock
 * of its own, which the library reads too. */
#include "cache_rig.h"
#include "test.h"

#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int64_t ahead; /* seconds that the clock of the day goes ahead of the kernel's */

int clock_gettime(clockid_t clock, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_REALTIME) {
        out->tv_sec += ahead;
    }
    return result;
}

enum { PHOTOS = 12 };

static char data_folder[128], store[160];

static const char *pipeline(bool cached) {
    static char json[1024];
    char cache[300];
    snprintf(cache, sizeof cache, ", {\"cache\": {\"path\": \"%s\", \"size\": \"16MB\"}}", store);
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [\"decode_image\", "
             "\"tally\"%s], \"batch\": 4, \"epochs\": 2}",
             data_folder, cached ? cache : "");
    return json;
}

static void begin(void) {
    ahead = 0;
    snprintf(data_folder, sizeof data_folder, "%s", rig_photos(PHOTOS));
    snprintf(store, sizeof store, "%s-store", data_folder);
}

static void end(void) {
    fixture_remove(store);
    fixture_remove(data_folder);
}

static int64_t run_at(int64_t seconds, const char *digest) {
    ahead = seconds;
    rig_result result = rig_run(pipeline(true));
    CHECK_INT(result.status, ==, MR_END);
    CHECK_TEXT(result.digest, digest);
    CHECK_INT(result.log.lines, ==, 0);
    ahead = 0;
    return result.made;
}

TEST(files_of_the_future_are_not_kept) {
    begin();
    rig_result off = rig_run(pipeline(false));
    CHECK_INT(run_at(-3600, off.digest), ==, 2 * PHOTOS);
    CHECK_INT(run_at(0, off.digest), ==, PHOTOS);
    end();
}

TEST(jumps_in_both_directions) {
    begin();
    rig_result off = rig_run(pipeline(false));
    CHECK_INT(run_at(0, off.digest), ==, PHOTOS);
    CHECK_INT(run_at(400 * 86400, off.digest), ==, 0);
    CHECK_INT(run_at(-3600, off.digest), ==, 2 * PHOTOS); /* not even looked up */
    CHECK_INT(run_at(0, off.digest), ==, 0);
    end();
}

TEST(times_of_change_set_by_hand_name_another_sample) {
    begin();
    char path[256];
    rig_result off = rig_run(pipeline(false));
    CHECK_INT(run_at(0, off.digest), ==, PHOTOS);
    snprintf(path, sizeof path, "%s/class1/001.jpg", data_folder);
    const struct timespec times[2] = {{2000000000, 0}, {4000000000, 0}}; /* the year 2096 */
    CHECK_INT(utimensat(AT_FDCWD, path, times, 0), ==, 0);
    rig_nap(80);
    CHECK_INT(run_at(0, off.digest), ==, 1);
    CHECK_INT(run_at(0, off.digest), ==, 0);
    end();
}

TEST_MAIN()
