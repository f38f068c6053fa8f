/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: what is appended is read back, whatever happens to writers and to files in between. */
#include <fcntl.h>
#include <millrace/stream.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "fixture.h"
#include "io/entry.h"
#include "io/partition.h"
#include "test.h"

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

/* Entry i: all of it follows from its number. */
static unsigned char value_bytes[1 << 21];
static char key_text[40];

static mr_entry entry_of(int64_t i, size_t most) {
    uint64_t seed = mix((uint64_t)i + 1);
    size_t size = most ? seed % most : 0;
    for (size_t k = 0; k < size; k++) {
        value_bytes[k] = (unsigned char)(seed >> (k % 7 * 8)) ^ (unsigned char)k;
    }
    int n = snprintf(key_text, sizeof key_text, "key %" PRId64, i);
    return (mr_entry){.number = i,
                      .label = i % 10 - 5,
                      .time = i * 1000,
                      .key = key_text,
                      .key_size = i % 3 ? (size_t)n : 0,
                      .value = value_bytes,
                      .size = size};
}

static bool same(const mr_entry *a, const mr_entry *b) {
    return a->number == b->number && a->label == b->label && a->time == b->time &&
           a->key_size == b->key_size && a->size == b->size &&
           memcmp(a->key, b->key, a->key_size) == 0 && memcmp(a->value, b->value, a->size) == 0;
}

static mr_stream_writer *writer_of(const char *folder, int64_t segment_bytes) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    mr_error err = MR_ERROR_INIT;
    options.segment_bytes = segment_bytes;
    options.sync = MR_SYNC_NEVER;
    CHECK_INT(mr_stream_writer_open(&writer, folder, &options, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    return writer;
}

static void append(mr_stream_writer *writer, int64_t n, size_t most) {
    for (int64_t i = 0; i < n; i++) {
        mr_entry entry = entry_of(mr_stream_next_number(writer), most);
        int64_t number = -1;
        CHECK_INT(mr_stream_append(writer, &entry, &number, NULL), ==, MR_OK);
        CHECK_INT(number, ==, entry.number);
    }
}

static void write_stream(const char *folder, int64_t n, size_t most, int64_t segment_bytes) {
    mr_stream_writer *writer = writer_of(folder, segment_bytes);
    append(writer, n, most);
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
}

static mr_stream_counts counts_of(const mr_stream_reader *reader) {
    mr_stream_counts counts = {.size = (uint32_t)sizeof counts};
    mr_stream_reader_counts(reader, &counts);
    return counts;
}

/* Reads what is there; every entry is the one of its number. */
static mr_stream_counts read_all(mr_stream_reader *reader, size_t most) {
    mr_entry entry;
    while (mr_stream_next(reader, &entry, NULL) == MR_OK) {
        mr_entry wanted = entry_of(entry.number, most);
        CHECK(same(&entry, &wanted));
    }
    return counts_of(reader);
}

static mr_stream_counts read_from(const char *folder, int64_t from, size_t most) {
    mr_stream_reader *reader = NULL;
    CHECK_INT(mr_stream_reader_open(&reader, folder, 0, from, NULL), ==, MR_OK);
    mr_stream_counts counts = read_all(reader, most);
    mr_stream_reader_close(reader);
    return counts;
}

static int64_t segments_of(const char *path, mr_stream_segment **names) {
    mr_stream_folder folder;
    int64_t n = 0;
    CHECK_INT(mr_stream_folder_open(&folder, path, 0, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_segments(&folder, 0, names, &n, NULL), ==, MR_OK);
    mr_stream_folder_close(&folder);
    return n;
}

static int open_segment(const char *folder, int64_t which) {
    mr_stream_segment *names = NULL;
    char path[256];
    segments_of(folder, &names);
    snprintf(path, sizeof path, "%s/%s", folder, mr_stream_segment_file(&names[which]).text);
    free(names);
    return open(path, O_RDWR | O_CLOEXEC);
}

static int64_t size_of(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 ? info.st_size : -1;
}

TEST(what_is_appended_is_read) {
    static const size_t most[] = {0, 1, 100, 5000, 2000000};
    for (size_t i = 0; i < 5; i++) {
        char *folder = fixture_folder();
        int64_t n = most[i] > 100000 ? 20 : 1000;
        write_stream(folder, n, most[i], 65536);
        mr_stream_counts counts = read_from(folder, MR_STREAM_OLDEST, most[i]);
        CHECK_INT(counts.entries, ==, n);
        CHECK_INT(counts.lost, ==, 0);
        CHECK_INT(counts.skipped_bytes, ==, 0);
        fixture_remove(folder);
    }
}

TEST(reading_from_any_number_on) {
    char *folder = fixture_folder();
    write_stream(folder, 500, 1000, 20000);
    for (int64_t from = 0; from <= 500; from += 13) {
        mr_stream_counts counts = read_from(folder, from, 1000);
        CHECK_INT(counts.entries, ==, 500 - from);
        CHECK_INT(counts.lost, ==, 0);
    }
    fixture_remove(folder);
}

TEST(a_writer_goes_on_where_the_last_one_ended) {
    char *folder = fixture_folder();
    int64_t first = -1, next = -1;
    for (int i = 0; i < 10; i++) {
        write_stream(folder, 7, 1000, 1 << 20);
    }
    CHECK_INT(mr_stream_bounds(folder, 0, &first, &next, NULL), ==, MR_OK);
    CHECK_INT(first, ==, 0);
    CHECK_INT(next, ==, 70);
    mr_stream_segment *names = NULL;
    CHECK_INT(segments_of(folder, &names), ==, 1);
    free(names);
    CHECK_INT(read_from(folder, 0, 1000).entries, ==, 70);
    fixture_remove(folder);
}

TEST(a_partition_has_one_writer) {
    char *folder = fixture_folder();
    mr_error err = MR_ERROR_INIT;
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *one = writer_of(folder, 0), *two = NULL;
    CHECK_INT(mr_stream_writer_open(&two, folder, &options, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "written to by somebody else");
    options.partition = 1;
    CHECK_INT(mr_stream_writer_open(&two, folder, &options, &err), ==, MR_OK);
    mr_stream_writer_close(two, NULL);
    mr_stream_writer_close(one, NULL);
    options.partition = 0;
    CHECK_INT(mr_stream_writer_open(&two, folder, &options, &err), ==, MR_OK);
    mr_stream_writer_close(two, NULL);
    fixture_remove(folder);
}

TEST(a_reader_follows_a_writer) {
    char *folder = fixture_folder();
    mr_stream_writer *writer = writer_of(folder, 30000);
    mr_stream_reader *reader = NULL;
    mr_entry entry;
    append(writer, 1, 100);
    CHECK_INT(mr_stream_flush(writer, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_reader_open(&reader, folder, 0, MR_STREAM_OLDEST, NULL), ==, MR_OK);
    for (int64_t n = 1; n < 3000; n += 7) {
        append(writer, 7, 100);
        CHECK_INT(mr_stream_flush(writer, NULL), ==, MR_OK);
        CHECK_INT(read_all(reader, 100).entries, ==, n + 7);
        CHECK_INT(mr_stream_next(reader, &entry, NULL), ==, MR_END);
    }
    CHECK_INT(counts_of(reader).lost, ==, 0);
    CHECK_INT(counts_of(reader).skipped_bytes, ==, 0);
    mr_stream_reader_close(reader);
    mr_stream_writer_close(writer, NULL);
    fixture_remove(folder);
}

/* Cut at every byte: what is whole is read, and a writer goes on with the next number. */
TEST(a_tail_that_is_cut_off_at_any_byte) {
    char *folder = fixture_folder();
    write_stream(folder, 4, 60, 0);
    int fd = open_segment(folder, 0);
    int64_t size = size_of(fd);
    for (int64_t end = size; end >= 0; end--) {
        CHECK_INT(ftruncate(fd, end), ==, 0);
        mr_stream_counts before = read_from(folder, MR_STREAM_OLDEST, 60);
        CHECK_INT(before.lost, ==, 0);
        write_stream(folder, 2, 60, 0);
        mr_stream_counts after = read_from(folder, MR_STREAM_OLDEST, 60);
        CHECK_INT(after.entries, ==, before.entries + 2);
        CHECK_INT(after.lost, ==, 0);
        CHECK_INT(ftruncate(fd, end), ==, 0);
        mr_stream_segment *names = NULL;
        int64_t n = segments_of(folder, &names);
        for (int64_t i = 1; i < n; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s/%s", folder, mr_stream_segment_file(&names[i]).text);
            CHECK_INT(unlink(path), ==, 0);
        }
        free(names);
    }
    close(fd);
    fixture_remove(folder);
}

/* One damaged byte costs at most one entry, and the count says so. */
TEST(any_damaged_byte_costs_one_entry) {
    char *folder = fixture_folder();
    write_stream(folder, 6, 60, 0);
    int fd = open_segment(folder, 0);
    int64_t size = size_of(fd);
    for (int64_t at = 0; at < size; at++) {
        unsigned char byte = 0, other;
        CHECK_INT(pread(fd, &byte, 1, at), ==, 1);
        other = (unsigned char)(byte ^ 0x40);
        CHECK_INT(pwrite(fd, &other, 1, at), ==, 1);
        mr_stream_counts counts = read_from(folder, MR_STREAM_OLDEST, 60);
        CHECK(counts.entries >= 5);
        CHECK(counts.entries + counts.lost == 6 ||
              counts.entries == 5); /* the last: not yet lost */
        CHECK_INT(pwrite(fd, &byte, 1, at), ==, 1);
    }
    close(fd);
    fixture_remove(folder);
}

/* A number that may have been acknowledged is not given to another entry. */
TEST(numbers_of_damaged_entries_are_not_used_again) {
    char *folder = fixture_folder();
    write_stream(folder, 6, 60, 0);
    int fd = open_segment(folder, 0);
    int64_t size = size_of(fd);
    for (int64_t i = MR_ENTRY_HEAD; i < size; i++) {
        CHECK_INT(pwrite(fd, "x", 1, i), ==, 1);
    }
    close(fd);
    mr_stream_writer *writer = writer_of(folder, 0);
    CHECK_INT(mr_stream_next_number(writer), >=, 6);
    append(writer, 3, 60);
    mr_stream_writer_close(writer, NULL);
    mr_stream_counts counts = read_from(folder, MR_STREAM_OLDEST, 60);
    CHECK_INT(counts.entries, ==, 3);
    CHECK_INT(counts.lost, >=, 6);
    CHECK_INT(counts.skipped_bytes, ==, size - MR_ENTRY_HEAD);
    fixture_remove(folder);
}

/* Entries whose values are segments of another stream, or of this one, are not taken apart. */
TEST(a_segment_inside_a_value_is_a_value) {
    char inner[64], *folder = fixture_folder();
    static unsigned char bytes[1 << 16];
    snprintf(inner, sizeof inner, "%s", folder);
    write_stream(inner, 50, 100, 0);
    int fd = open_segment(inner, 0);
    ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    close(fd);
    folder = fixture_folder();
    mr_stream_writer *writer = writer_of(folder, 0);
    mr_entry entry = {.value = bytes, .size = (size_t)n};
    CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    mr_stream_writer_close(writer, NULL);
    fd = open_segment(folder, 0);
    CHECK_INT(pwrite(fd, "x", 1, MR_ENTRY_HEAD + 8), ==, 1); /* the first head */
    close(fd);
    mr_stream_reader *reader = NULL;
    CHECK_INT(mr_stream_reader_open(&reader, folder, 0, 0, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_next(reader, &entry, NULL), ==, MR_OK);
    CHECK_INT(entry.number, ==, 1);
    CHECK_INT(mr_stream_next(reader, &entry, NULL), ==, MR_END);
    CHECK_INT(counts_of(reader).lost, ==, 1);
    mr_stream_reader_close(reader);
    fixture_remove(folder);
    fixture_remove(inner);
}

TEST(what_is_trimmed_is_an_error_not_a_gap) {
    char *folder = fixture_folder();
    int64_t dropped = -1, first = -1, next = -1;
    mr_error err = MR_ERROR_INIT;
    mr_stream_reader *reader = NULL;
    write_stream(folder, 300, 1000, 20000);
    CHECK_INT(mr_stream_trim(folder, 0, 150, &dropped, NULL), ==, MR_OK);
    CHECK_INT(dropped, >, 1);
    CHECK_INT(mr_stream_bounds(folder, 0, &first, &next, NULL), ==, MR_OK);
    CHECK(first > 0 && first <= 150 && next == 300);
    CHECK_INT(mr_stream_reader_open(&reader, folder, 0, first - 1, &err), ==, MR_E_STATE);
    CHECK_HAS(err.text, "kept no more");
    CHECK_INT(read_from(folder, first, 1000).entries, ==, 300 - first);
    CHECK_INT(mr_stream_trim(folder, 0, INT64_MAX, &dropped, NULL), ==, MR_OK);
    CHECK_INT(read_from(folder, MR_STREAM_OLDEST, 1000).lost, ==, 0);
    fixture_remove(folder);
}

TEST(what_is_no_stream_says_so) {
    char *folder = fixture_folder();
    mr_error err = MR_ERROR_INIT;
    mr_stream_reader *reader = NULL;
    CHECK_INT(mr_stream_reader_open(&reader, folder, 0, 0, &err), ==, MR_E_NOT_FOUND);
    CHECK_HAS(err.text, "no stream");
    write_stream(folder, 1, 10, 0);
    CHECK_INT(mr_stream_reader_open(&reader, folder, 1, 0, &err), ==, MR_E_NOT_FOUND);
    CHECK_HAS(err.text, "no partition 1");
    mr_entry large = {.value = value_bytes, .size = (size_t)MR_ENTRY_MAX + 1};
    mr_stream_writer *writer = writer_of(folder, 0);
    CHECK_INT(mr_stream_append(writer, &large, NULL, &err), ==, MR_E_LIMIT);
    mr_stream_writer_close(writer, NULL);
    fixture_remove(folder);
}

TEST(a_folder_of_other_files_becomes_no_stream) {
    char path[128], *folder = fixture_folder();
    mr_error err = MR_ERROR_INIT;
    mr_stream_writer *writer = NULL;
    snprintf(path, sizeof path, "%s/photo.jpg", folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    CHECK_INT(mr_stream_writer_open(&writer, folder, NULL, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.text, "other files");
    CHECK_HAS(err.source, folder);
    CHECK_INT(unlink(path), ==, 0);
    write_stream(folder, 1, 10, 0);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)); /* beside a stream anything may be */
    write_stream(folder, 1, 10, 0);
    CHECK_INT(read_from(folder, MR_STREAM_OLDEST, 10).entries, ==, 2);
    fixture_remove(folder);
}

/* A full disk, as a limit on the size of files: the append fails, nothing is half there, and it can
 * be made again. */
TEST(a_full_disk_is_an_error_and_can_be_tried_again) {
    char *folder = fixture_folder();
    struct rlimit old, tight;
    mr_error err = MR_ERROR_INIT;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    mr_stream_writer *writer = writer_of(folder, 0);
    append(writer, 10, 1000);
    CHECK_INT(mr_stream_flush(writer, NULL), ==, MR_OK);
    int fd = open_segment(folder, 0);
    int64_t size = size_of(fd);
    tight = (struct rlimit){(rlim_t)size + 100, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    append(writer, 10, 1000);
    CHECK_INT(mr_stream_flush(writer, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "cannot append");
    CHECK_INT(size_of(fd), ==, size);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_INT(mr_stream_flush(writer, NULL), ==, MR_OK);
    mr_stream_writer_close(writer, NULL);
    CHECK_INT(read_from(folder, 0, 1000).entries, ==, 20);
    close(fd);
    fixture_remove(folder);
}

/* ---- Kills ---- */
static void write_until_killed(const char *folder, volatile int64_t *acknowledged) {
    mr_stream_writer *writer = writer_of(folder, 50000);
    for (;;) {
        int64_t n = 1 + (int64_t)(mix((uint64_t)mr_stream_next_number(writer)) % 40);
        append(writer, n, 900);
        if (mr_stream_flush(writer, NULL) != MR_OK) {
            _exit(1);
        }
        *acknowledged = mr_stream_next_number(writer);
    }
}

TEST(what_was_acknowledged_before_a_kill_is_there) {
    char *folder = fixture_folder();
    volatile int64_t *acknowledged =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *many = getenv("MR_KILLS");
    int kills = many ? atoi(many) : 40, early = 0;
    for (int i = 0; i < kills; i++) {
        int64_t before = *acknowledged, next = -1, first;
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            write_until_killed(folder, acknowledged);
        }
        const struct timespec pause = {0, (long)(mix((uint64_t)i) % 15000000)};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status));
        early += *acknowledged == before;
        if (mr_stream_bounds(folder, 0, &first, &next, NULL) == MR_OK) {
            CHECK_INT(next, >=, *acknowledged);
        }
    }
    mr_stream_counts counts = read_from(folder, MR_STREAM_OLDEST, 900);
    printf("%" PRId64 " entries, %d killed before the first was acknowledged\n", counts.entries,
           early);
    CHECK_INT(counts.entries, >=, *acknowledged);
    CHECK_INT(*acknowledged, >, 0);
    CHECK_INT(counts.lost, ==, 0);
    munmap((void *)(uintptr_t)acknowledged, 4096);
    fixture_remove(folder);
}

TEST_MAIN()
