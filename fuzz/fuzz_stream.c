/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the readers of streams and of journals. They are the content of a segment as they
 * are; since a fuzzer hardly guesses a checksum, they are also instructions: entries are written,
 * and bytes of the file are changed. What is read must be what was written, in order, and a writer
 * must be able to go on. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/journal.h"
#include "io/partition.h"
#include "plan/rate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ID = 7 };
#define SEGMENT "00000-0000000000000000000.seg"

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static char folder[] = "/dev/shm/millrace-fuzz-XXXXXX";
static int dir = -1;

static void clean(void) {
    mr_stream_folder stream;
    mr_stream_segment *names = NULL;
    int64_t n = 0;
    if (mr_stream_folder_open(&stream, folder, 0, NULL) == MR_OK &&
        mr_stream_segments(&stream, MR_ALL_PARTITIONS, &names, &n, NULL) == MR_OK) {
        for (int64_t i = 0; i < n; i++) {
            unlinkat(dir, mr_stream_segment_file(&names[i]).text, 0);
        }
    }
    free(names);
    mr_stream_folder_close(&stream);
}

static void remove_folder(void) {
    clean();
    unlinkat(dir, "stream", 0);
    unlinkat(dir, "00000.lock", 0);
    rmdir(folder);
}

static void make_folder(void) {
    if (dir < 0) {
        want(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
        dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int fd = openat(dir, "stream", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        want(write(fd, "0000000000000007\n", 17) == 17);
        close(fd);
    }
    clean();
}

static mr_stream_writer *open_writer(void) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    options.sync = MR_SYNC_NEVER;
    options.segment_bytes = 700;
    want(mr_stream_writer_open(&writer, folder, &options, NULL) == MR_OK);
    return writer;
}

/* Numbers grow; counts add up; every byte of an entry can be read. */
static int64_t read_all(int64_t written) {
    mr_stream_reader *reader = NULL;
    mr_entry entry;
    int64_t last = -1, n = 0;
    volatile unsigned char sum = 0;
    if (mr_stream_reader_open(&reader, folder, 0, MR_STREAM_OLDEST, NULL) != MR_OK) {
        return 0;
    }
    while (mr_stream_next(reader, &entry, NULL) == MR_OK) {
        want(entry.number > last);
        last = entry.number;
        for (size_t i = 0; i < entry.size + entry.key_size; i++) {
            sum = (unsigned char)(sum + ((const unsigned char *)entry.value)[i]);
        }
        if (entry.number < written) {
            want(entry.label == entry.number * 3 && entry.size == (size_t)entry.number % 50);
        }
        n++;
    }
    mr_stream_counts counts = {.size = (uint32_t)sizeof counts};
    mr_stream_reader_counts(reader, &counts);
    want(counts.entries == n && counts.entries + counts.lost == last + 1);
    mr_stream_reader_close(reader);
    return n;
}

static void append(mr_stream_writer *writer, int64_t n) {
    static const unsigned char value[50];
    for (int64_t i = 0; i < n; i++) {
        int64_t number = mr_stream_next_number(writer);
        const mr_entry entry = {.label = number * 3,
                                .value = value,
                                .size = (size_t)number % 50,
                                .key = "key",
                                .key_size = (size_t)number % 4};
        want(mr_stream_append(writer, &entry, NULL, NULL) == MR_OK);
    }
}

static void damage(const uint8_t *data, size_t size) {
    int fd = openat(dir, SEGMENT, O_RDWR | O_CLOEXEC);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    for (size_t i = 0; end > 0 && i + 3 <= size; i += 3) {
        off_t at = (data[i] << 8 | data[i + 1]) % end;
        if (data[i + 2] == 0xff) {
            want(ftruncate(fd, end = at) == 0);
        } else {
            want(pwrite(fd, data + i + 2, 1, at) == 1);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void read_journal(void) {
    mr_journal_reader *reader = NULL;
    uint64_t run[2];
    mr_entry entry;
    int64_t kind;
    if (mr_journal_reader_open(&reader, folder, 0, run, NULL) == MR_OK) {
        while (mr_journal_next(reader, &kind, &entry, NULL) == MR_OK) {
            mr_rate_decision decision;
            (void)mr_rate_entry_load(&decision, entry.value, entry.size, NULL);
        }
    }
    mr_journal_reader_close(reader);
}

static void as_content(const uint8_t *data, size_t size) {
    make_folder();
    int fd = openat(dir, SEGMENT, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    want(write(fd, data, size) == (ssize_t)size);
    close(fd);
    read_all(0);
    read_journal();
    mr_stream_writer *writer = open_writer();
    int64_t first = mr_stream_next_number(writer);
    append(writer, 3);
    want(mr_stream_writer_close(writer, NULL) == MR_OK);
    want(read_all(0) >= 3 && first >= 0);
}

static void as_instructions(const uint8_t *data, size_t size) {
    make_folder();
    mr_stream_writer *writer = open_writer();
    int64_t n = size > 0 ? data[0] % 20 : 0;
    append(writer, n);
    want(mr_stream_writer_close(writer, NULL) == MR_OK);
    want(read_all(n) == n);
    damage(data, size);
    int64_t left = read_all(n);
    read_journal();
    writer = open_writer();
    append(writer, 5);
    int64_t written = mr_stream_next_number(writer);
    want(mr_stream_writer_close(writer, NULL) == MR_OK);
    want(read_all(written) == left + 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_rate_decision decision;
    unsigned char bytes[MR_RATE_ENTRY_BYTES];
    if (mr_rate_entry_load(&decision, data, size, NULL) == MR_OK) {
        mr_rate_entry_save(&decision, bytes);
        want(memcmp(bytes, data, size) == 0);
    }
    as_content(data, size);
    as_instructions(data, size);
    return 0;
}
