/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_io.c - calls that are interrupted or do half of what they are asked change nothing;
 * calls that fail end the run with an error that names the file; a state file that cannot be
 * written leaves the old one as it was. */
#include "rig.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

static outcome expected;

/* ---- Reading -------------------------------------------------------------------------------- */

static bool names_a_file(const mr_error *err) {
    char text[2048];
    mr_error_format(err, text, sizeof text);
    return strstr(text, rig_folder) != NULL;
}

static int run_unchanged(const fault *wanted) {
    fault_arm(wanted);
    outcome result = rig_run();
    int64_t struck = fault_disarm();
    if (result.status != MR_END || strcmp(result.digest, expected.digest) != 0) {
        rig_show(wanted, &result, "the stream changed");
        return CHILD_BAD;
    }
    return struck ? CHILD_GOOD : CHILD_NO_STRIKE;
}

static int run_refused(const fault *wanted) {
    fault_arm(wanted);
    outcome result = rig_run();
    int64_t struck = fault_disarm();
    bool right = result.status == MR_END && strcmp(result.digest, expected.digest) == 0;
    bool refused = rig_is_clean_error(&result) && names_a_file(&result.err);
    if (!(right && (!struck || wanted->calls == FAULT_CLOSE)) && !refused) {
        rig_show(wanted, &result, "neither the right stream nor an error that names the file");
        return CHILD_BAD;
    }
    return struck ? CHILD_GOOD : CHILD_NO_STRIKE;
}

static void with_rig(void (*test)(void)) {
    rig_make("fail");
    expected = rig_run();
    CHECK_INT(expected.status, ==, MR_END);
    if (expected.status == MR_END) {
        test();
    }
    rig_remove();
}

/* Lets the first of these calls fail, then the second, until a run has no more of them. */
static void fail_each(unsigned calls, fault_kind kind, int error) {
    int verdict = CHILD_GOOD;
    int64_t at = 0;
    while (verdict == CHILD_GOOD && at < 1000) {
        const fault wanted = {calls, kind, ++at, error};
        verdict = rig_child(run_refused, &wanted);
    }
    CHECK_INT(verdict, ==, CHILD_NO_STRIKE);
    CHECK_INT(at, >, 6); /* there are six files */
}

static void interrupted_everywhere(void) {
    const fault wanted = {FAULT_OPEN | FAULT_READ, FAULT_EVERY, 2, EINTR};
    CHECK_INT(rig_child(run_unchanged, &wanted), ==, CHILD_GOOD);
}

static void interrupted_while_closing(void) {
    const fault wanted = {FAULT_CLOSE, FAULT_EVERY, 1, EINTR};
    CHECK_INT(rig_child(run_unchanged, &wanted), ==, CHILD_GOOD);
}

static void reads_come_short(void) {
    const fault wanted = {FAULT_READ, FAULT_SHORT, 1, 0};
    CHECK_INT(rig_child(run_unchanged, &wanted), ==, CHILD_GOOD);
}

static void each_read_fails(void) {
    fail_each(FAULT_READ, FAULT_ONCE, EIO);
}

static void each_open_fails(void) {
    fail_each(FAULT_OPEN, FAULT_ONCE, EMFILE);
}

static void each_stat_fails(void) {
    fail_each(FAULT_STAT, FAULT_ONCE, EIO);
}

static void each_file_shrinks(void) {
    fail_each(FAULT_READ, FAULT_EOF, 0);
}

TEST(interrupted_calls_are_continued) {
    with_rig(interrupted_everywhere);
}

TEST(interrupted_close_is_a_close) {
    with_rig(interrupted_while_closing);
}

TEST(short_reads_are_continued) {
    with_rig(reads_come_short);
}

TEST(a_failed_read_names_the_file) {
    with_rig(each_read_fails);
}

TEST(a_failed_open_names_the_file) {
    with_rig(each_open_fails);
}

TEST(a_failed_stat_names_the_file) {
    with_rig(each_stat_fails);
}

TEST(a_file_that_shrinks_is_named) {
    with_rig(each_file_shrinks);
}

/* ---- Writing a state ------------------------------------------------------------------------ */

static const char old_state[] = "the old state", new_state[] = "another state, and longer";

static bool holds(const char *path, const char *text) {
    char buffer[64] = "";
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(buffer, 1, sizeof buffer - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    return n == strlen(text) && strcmp(buffer, text) == 0;
}

static int files_in(const char *folder) {
    int n = 0;
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        n += entry->d_name[0] != '.';
    }
    closedir(list);
    return n;
}

/* A failure of the last sync comes after the rename: then the new text stands there, whole. */
static int replace_with_fault(const fault *wanted) {
    char path[256];
    mr_error err = MR_ERROR_INIT;
    rig_path(path, sizeof path, "state/state.json");
    rig_file("state/state.json", old_state, strlen(old_state));
    fault_arm(wanted);
    mr_status status = mr_file_replace(path, new_state, strlen(new_state), &err);
    int64_t struck = fault_disarm();
    bool whole = holds(path, new_state) || (status < 0 && holds(path, old_state));
    char folder[256];
    rig_path(folder, sizeof folder, "state");
    if (!whole || files_in(folder) != 1 || (status < 0 && !strstr(err.text, "state.json"))) {
        fprintf(stderr, "call %" PRId64 ": status %d, %d files, %s\n", wanted->at, status,
                files_in(folder), err.text);
        return CHILD_BAD;
    }
    bool matters = wanted->kind == FAULT_ONCE && wanted->calls != FAULT_CLOSE; /* synced before */
    if (struck && status == MR_OK && matters) {
        fprintf(stderr, "call %" PRId64 ": a failed call went unnoticed\n", wanted->at);
        return CHILD_BAD;
    }
    return struck ? CHILD_GOOD : CHILD_NO_STRIKE;
}

static void replace_under(unsigned calls, int error) {
    int verdict = CHILD_GOOD;
    int64_t at = 0;
    while (verdict == CHILD_GOOD && at < 100) {
        const fault wanted = {calls, FAULT_ONCE, ++at, error};
        verdict = rig_child(replace_with_fault, &wanted);
    }
    CHECK_INT(verdict, ==, CHILD_NO_STRIKE);
    CHECK_INT(at, >, 1);
}

static void make_state_folder(void) {
    rig_make("fail");
    rig_make_folder("state");
}

TEST(a_state_that_cannot_be_written_leaves_the_old_one) {
    make_state_folder();
    replace_under(FAULT_WRITE, ENOSPC);
    replace_under(FAULT_WRITE, EIO);
    replace_under(FAULT_SYNC, EIO);
    replace_under(FAULT_RENAME, EIO);
    replace_under(FAULT_CLOSE, EIO);
    rig_remove();
}

TEST(a_state_is_written_through_interruptions) {
    make_state_folder();
    const fault interrupted = {FAULT_WRITE | FAULT_OPEN, FAULT_EVERY, 2, EINTR};
    const fault partial = {FAULT_WRITE, FAULT_SHORT, 1, 0};
    char path[256];
    rig_path(path, sizeof path, "state/state.json");
    rig_child(replace_with_fault, &interrupted);
    CHECK(holds(path, new_state));
    CHECK_INT(rig_child(replace_with_fault, &partial), ==, CHILD_GOOD);
    CHECK(holds(path, new_state));
    rig_remove();
}

/* A disk that is really full: a file system of one page in memory, in a mount namespace of its own.
 */
static int replace_on_full_disk(const fault *unused) {
    char folder[256], path[256], page[65536] = "";
    mr_error err = MR_ERROR_INIT;
    (void)unused;
    rig_path(folder, sizeof folder, "state");
    rig_path(path, sizeof path, "state/state.json");
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=16k") != 0) {
        return CHILD_NO_STRIKE;
    }
    rig_file("state/state.json", old_state, strlen(old_state));
    mr_status status = mr_file_replace(path, page, sizeof page, &err);
    bool good =
        status == MR_E_IO && err.sys == ENOSPC && holds(path, old_state) && files_in(folder) == 1;
    if (!good) {
        fprintf(stderr, "status %d, %d files: %s\n", status, files_in(folder), err.text);
    }
    return good ? CHILD_GOOD : CHILD_BAD;
}

TEST(a_full_disk_leaves_the_old_state) {
    make_state_folder();
    const fault none = {0};
    int verdict = rig_child(replace_on_full_disk, &none);
    if (verdict == CHILD_NO_STRIKE) {
        printf("skipped: a disk that is really full (none could be mounted)\n");
    } else {
        CHECK_INT(verdict, ==, CHILD_GOOD);
    }
    rig_remove();
}

TEST_MAIN()
