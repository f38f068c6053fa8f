/* SPDX-License-Identifier: Apache-2.0 */
/* test_whole.c - files that are replaced whole, and what must not be replaced. */
#include "fixture.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/whole.h"

static void write_whole(const char *path, const char *text) {
    mr_whole_file file;
    CHECK_INT(mr_whole_open(&file, path), ==, 0);
    CHECK_INT(write(file.fd, text, strlen(text)), ==, (ssize_t)strlen(text));
    CHECK_INT(mr_whole_close(&file, 0), ==, 0);
}

static void check_content(int fd, const char *wanted) {
    char found[64] = "";
    CHECK(pread(fd, found, sizeof found - 1, 0) >= 0);
    CHECK_TEXT(found, wanted);
}

static void check_file(const char *path, const char *wanted) {
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    check_content(fd, wanted);
    close(fd);
}

static char *named(char out[256], const char *folder, const char *name) {
    snprintf(out, 256, "%s/%s", folder, name);
    return out;
}

static bool is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

TEST(who_has_it_open_keeps_the_old_one_and_permissions_stay) {
    char *folder = fixture_folder(), path[256];
    int old = open(named(path, folder, "file"), O_RDWR | O_CREAT, 0600);
    struct stat info;
    CHECK_INT(write(old, "old", 3), ==, 3);
    write_whole(path, "new");
    check_content(old, "old");
    check_file(path, "new");
    CHECK_INT(stat(path, &info), ==, 0);
    CHECK_INT(info.st_mode & 0777, ==, 0600);
    close(old);
    fixture_remove(folder);
}

TEST(a_failure_leaves_the_old_one) {
    char *folder = fixture_folder(), path[256];
    mr_whole_file file;
    write_whole(named(path, folder, "file"), "old");
    CHECK_INT(mr_whole_open(&file, path), ==, 0);
    CHECK_INT(mr_whole_close(&file, ENOSPC), ==, ENOSPC);
    check_file(path, "old");
    fixture_remove(folder);
}

TEST(links_lead_where_they_led) {
    char *folder = fixture_folder(), link[256], file[256];
    CHECK_INT(symlink("file", named(link, folder, "link")), ==, 0);
    write_whole(link, "there was none");
    check_file(named(file, folder, "file"), "there was none");
    write_whole(link, "another");
    check_file(file, "another");
    CHECK(is_link(link));
    fixture_remove(folder);
}

TEST(a_file_without_a_name_is_written_in_place) {
    char *folder = fixture_folder(), link[256], path[256], own[64];
    int fd = open(named(path, folder, "file"), O_RDWR | O_CREAT, 0600);
    CHECK_INT(unlink(path), ==, 0);
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    CHECK_INT(symlink(own, named(link, folder, "link")), ==, 0);
    write_whole(link, "here");
    check_content(fd, "here");
    CHECK(is_link(link));
    close(fd);
    fixture_remove(folder);
}

TEST(our_own_output_is_not_replaced) {
    char *folder = fixture_folder(), link[256], path[256];
    int fd = open(named(path, folder, "log"), O_RDWR | O_CREAT | O_APPEND, 0600);
    int output = dup(STDOUT_FILENO);
    CHECK_INT(write(fd, "before,", 7), ==, 7);
    CHECK_INT(symlink("/proc/self/fd/1", named(link, folder, "link")), ==, 0);
    fflush(stdout);
    CHECK(dup2(fd, STDOUT_FILENO) >= 0);
    write_whole(link, "page,");
    CHECK(dup2(output, STDOUT_FILENO) >= 0);
    CHECK_INT(write(fd, "after", 5), ==, 5);
    check_file(path, "before,page,after");
    close(output);
    close(fd);
    fixture_remove(folder);
}

TEST_MAIN()
