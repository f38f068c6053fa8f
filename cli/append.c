/* SPDX-License-Identifier: Apache-2.0 */
/* append.c - millrace append: files or lines as entries of a stream. */
#include <errno.h>
#include <inttypes.h>
#include <millrace/stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "errors.h"

typedef struct append_values {
    const char *folder, *list;
    mr_files files;
    int64_t partition, label, segment_megabytes;
    int32_t sync;
    bool lines;
} append_values;

typedef struct appending {
    const append_values *values;
    mr_stream_writer *writer;
    int64_t time;
    char *bytes; /* of the file or line at hand */
    size_t room;
    mr_error err;
} appending;

static mr_status append(appending *a, const char *key, size_t size) {
    const mr_entry entry = {.label = a->values->label,
                            .time = a->time,
                            .key = key,
                            .key_size = strlen(key),
                            .value = a->bytes,
                            .size = size};
    return mr_stream_append(a->writer, &entry, NULL, &a->err);
}

static mr_status failed(appending *a, const char *file) {
    int sys = errno;
    mr_fail(&a->err, MR_E_IO, "cannot read %s: %s", file, strerror(sys));
    a->err.sys = sys;
    return MR_E_IO;
}

static FILE *open_file(const char *name) {
    return strcmp(name, "-") == 0 ? stdin : fopen(name, "rbe");
}

static void close_file(FILE *file) {
    if (file != stdin) {
        fclose(file);
    }
}

static mr_status make_room(appending *a, size_t size) {
    size_t room = a->room ? 2 * a->room : 65536;
    char *grown = size < a->room ? a->bytes : realloc(a->bytes, room);
    if (!grown) {
        return mr_fail(&a->err, MR_E_MEMORY, "out of memory");
    }
    a->room = size < a->room ? a->room : room;
    a->bytes = grown;
    return MR_OK;
}

/* One entry too large for a stream is read only so far that this shows. */
static mr_status append_whole(appending *a, FILE *file, const char *name) {
    size_t size = 0, n = 1;
    while (n > 0 && size <= (size_t)MR_ENTRY_MAX) {
        if (make_room(a, size) < 0) {
            return MR_E_MEMORY;
        }
        n = fread(a->bytes + size, 1, a->room - size, file);
        size += n;
    }
    return ferror(file) ? failed(a, name) : append(a, name, size);
}

static mr_status append_lines(appending *a, FILE *file, const char *name) {
    ssize_t n;
    mr_status status = MR_OK;
    while (status == MR_OK && (n = getline(&a->bytes, &a->room, file)) >= 0) {
        size_t size = (size_t)n;
        size -= size > 0 && a->bytes[size - 1] == '\n';
        status = append(a, "", size);
    }
    return status == MR_OK && ferror(file) ? failed(a, name) : status;
}

static mr_status append_file(appending *a, const char *name) {
    FILE *file = open_file(name);
    if (!file) {
        return failed(a, name);
    }
    mr_status status = a->values->lines ? append_lines(a, file, name) : append_whole(a, file, name);
    close_file(file);
    return status;
}

static mr_status append_listed(appending *a, const char *list) {
    FILE *file = open_file(list);
    char *name = NULL;
    size_t room = 0;
    mr_status status = file ? MR_OK : failed(a, list);
    while (status == MR_OK && getline(&name, &room, file) >= 0) {
        name[strcspn(name, "\n")] = '\0';
        status = *name ? append_file(a, name) : MR_OK;
    }
    free(name);
    if (file) {
        close_file(file);
    }
    return status;
}

static mr_status append_all(appending *a) {
    const append_values *v = a->values;
    mr_status status = v->list ? append_listed(a, v->list) : MR_OK;
    for (int32_t i = 0; status == MR_OK && i < v->files.n; i++) {
        status = append_file(a, v->files.v[i]);
    }
    if (status == MR_OK && !v->list && v->files.n == 0) {
        status = append_file(a, "-");
    }
    return status;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int run_append(const void *values) {
    const append_values *v = values;
    appending a = {.values = v, .time = now(), .err = MR_ERROR_INIT};
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    options.partition = (uint32_t)v->partition;
    options.segment_bytes = v->segment_megabytes << 20;
    options.sync = (mr_stream_sync)v->sync;
    if (mr_stream_writer_open(&a.writer, v->folder, &options, &a.err) < 0) {
        return mr_error_print(&a.err);
    }
    int64_t first = mr_stream_next_number(a.writer);
    mr_status status = append_all(&a);
    int64_t n = mr_stream_next_number(a.writer) - first;
    mr_status closed = mr_stream_writer_close(a.writer, status < 0 ? NULL : &a.err);
    free(a.bytes);
    if (closed == MR_OK && n > 0) {
        printf("appended %" PRId64 " to partition %" PRId64 ": %" PRId64 " to %" PRId64 "\n", n,
               v->partition, first, first + n - 1);
    }
    return status < 0 || closed < 0 ? mr_error_print(&a.err) : MR_EXIT_OK;
}

static const mr_option_row operands[] = {
    {.name = "FOLDER",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(append_values, folder),
     .doc = "The stream's folder; made where there is none."},
    {.name = "FILE...",
     .kind = MR_OPTION_FILES,
     .offset = offsetof(append_values, files),
     .fallback = "-",
     .doc = "Each is an entry, with its name as the key; none, or -: standard input."},
    {.name = NULL},
};

static const char *const syncs[] = {"segment", "flush", "never", NULL};

static const mr_option_row options[] = {
    {.name = "partition",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(append_values, partition),
     .fallback = "0",
     .max = MR_PARTITIONS_MAX - 1,
     .doc = "Partition to append to; each has one writer at a time."},
    {.name = "label",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(append_values, label),
     .fallback = "0",
     .min = INT64_MIN,
     .max = INT64_MAX,
     .doc = "Label of the entries."},
    {.name = "lines",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(append_values, lines),
     .doc = "Each line is an entry, without its end and without a key."},
    {.name = "list",
     .argument = "FILE",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(append_values, list),
     .doc = "A file with the name of a file to append on each line; -: standard input."},
    {.name = "segment",
     .argument = "MB",
     .kind = MR_OPTION_INT,
     .offset = offsetof(append_values, segment_megabytes),
     .fallback = "256",
     .min = 1,
     .max = 1 << 20,
     .doc = "Size at which a new segment is begun."},
    {.name = "sync",
     .argument = "WHEN",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(append_values, sync),
     .choices = syncs,
     .doc = "When to wait for the disk: for each full segment and at the end, at every write, or "
            "never."},
    {.name = NULL},
};

const mr_command mr_command_append = {
    .name = "append",
    .summary = "Append files or lines to a stream in a folder.",
    .doc = "The entries can be read by the source `segments` and followed while the stream grows. "
           "They are numbered within their partition; what was appended is printed once it is "
           "there. Each has the time at which the command began.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(append_values),
    .run = run_append,
};
