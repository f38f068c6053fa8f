/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - see partition.h. */
#include "io/partition.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/entry_cursor.h"
#include "io/file.h"

static mr_status blame(const mr_stream_folder *folder, mr_status status, mr_error *err) {
    if (err && status < 0) {
        mr_text_escape(err->source, sizeof err->source, folder->path);
    }
    return status;
}

/* ---- The stream's id ---- */
static mr_status read_id(mr_stream_folder *folder, mr_error *err) {
    char text[18] = "", *end = NULL;
    int fd = openat(folder->dir, "stream", MR_OPEN_FLAGS);
    if (fd < 0) {
        bool absent = errno == ENOENT;
        mr_fail_errno(err, absent ? MR_E_NOT_FOUND : MR_E_IO, errno, "this folder is no stream");
        mr_hint(err, "`millrace append` makes one");
        return absent ? MR_E_NOT_FOUND : MR_E_IO;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    folder->id = strtoull(text, &end, 16);
    return n == 17 && end == text + 16 && *end == '\n'
               ? MR_OK
               : mr_fail(err, MR_E_CORRUPT,
                         "the file `stream`, which has the stream's id, is damaged");
}

/* Whole or not there: it gets its name by a link, which only the first of several makers can make.
 * Threads, and processes of several machines, may have one number: a random one is added to it. */
static mr_status create_id(const mr_stream_folder *folder, uint64_t id, mr_error *err) {
    char temporary[64], text[24];
    uint64_t luck = 0;
    (void)getrandom(&luck, sizeof luck, 0);
    snprintf(temporary, sizeof temporary, "stream.%ld.%016" PRIx64, (long)getpid(), luck);
    int n = snprintf(text, sizeof text, "%016" PRIx64 "\n", id);
    int fd = openat(folder->dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool made = fd >= 0 && write(fd, text, (size_t)n) == n && fsync(fd) == 0;
    int failed = made ? 0 : errno;
    if (fd >= 0) {
        close(fd);
    }
    if (made && linkat(folder->dir, temporary, folder->dir, "stream", 0) != 0 && errno != EEXIST) {
        failed = errno;
    }
    (void)unlinkat(folder->dir, temporary, 0);
    return failed == 0 ? MR_OK : mr_fail_errno(err, MR_E_IO, failed, "cannot make a stream here");
}

/* NULL: errno says why. */
static DIR *list_folder(const mr_stream_folder *folder) {
    int fd = openat(folder->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0) {
        int failed = errno;
        close(fd);
        errno = failed;
    }
    return dir;
}

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), n = strlen(end);
    return length >= n && strcmp(name + length - n, end) == 0;
}

/* Not what streams are made of, some other maker of this one being at work or killed, nor what file
 * systems put into empty folders. */
static bool is_foreign(const char *name) {
    return name[0] != '.' && strcmp(name, "lost+found") != 0 && strncmp(name, "stream", 6) != 0 &&
           !ends_with(name, ".seg") && !ends_with(name, ".lock");
}

/* A name that was mistaken: a folder of images would be a stream from then on. */
static mr_status refuse_others(const mr_stream_folder *folder, mr_error *err) {
    DIR *dir = list_folder(folder);
    const struct dirent *item;
    bool foreign = false;
    while (dir && !foreign && (item = readdir(dir)) != NULL) {
        foreign = is_foreign(item->d_name);
    }
    if (dir) {
        closedir(dir);
    }
    if (!foreign || faccessat(folder->dir, "stream", F_OK, 0) == 0) { /* became one meanwhile */
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "this folder is no stream, and has other files in it");
    mr_hint(err, "give the stream a folder of its own: an empty one, or one that is not there yet");
    return MR_E_PARAM;
}

static mr_status open_folder(mr_stream_folder *folder, const char *path, uint64_t create,
                             mr_error *err) {
    if (create && mkdir(path, 0777) != 0 && errno != EEXIST) {
        return mr_fail_errno(err, MR_E_IO, errno, "cannot make the folder");
    }
    folder->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->dir < 0) {
        return mr_open_failed(path, errno, err);
    }
    if (create && faccessat(folder->dir, "stream", F_OK, 0) != 0) {
        MR_TRY(refuse_others(folder, err));
        MR_TRY(create_id(folder, create, err));
    }
    return read_id(folder, err);
}

mr_status mr_stream_folder_open(mr_stream_folder *folder, const char *path, uint64_t create,
                                mr_error *err) {
    folder->dir = -1;
    snprintf(folder->path, sizeof folder->path, "%s", path);
    return blame(folder, open_folder(folder, path, create, err), err);
}

void mr_stream_folder_close(mr_stream_folder *folder) {
    if (folder->dir >= 0) {
        close(folder->dir);
    }
    folder->dir = -1;
}

/* ---- Segments ---- */
mr_stream_segment_file_name mr_stream_segment_file(const mr_stream_segment *name) {
    mr_stream_segment_file_name file;
    snprintf(file.text, sizeof file.text, "%05" PRIu32 "-%019" PRId64 ".seg", name->partition,
             name->first);
    return file;
}

/* Only names that we would give count: others may have put anything here. */
static bool parse_name(const char *text, mr_stream_segment *name) {
    char *end = NULL;
    unsigned long partition = strtoul(text, &end, 10);
    if (*end != '-' || partition >= MR_PARTITIONS_MAX) {
        return false;
    }
    name->partition = (uint32_t)partition;
    name->first = strtoll(end + 1, NULL, 10);
    return name->first >= 0 && strcmp(mr_stream_segment_file(name).text, text) == 0;
}

static int by_place(const void *a_, const void *b_) {
    const mr_stream_segment *a = a_, *b = b_;
    if (a->partition != b->partition) {
        return a->partition < b->partition ? -1 : 1;
    }
    return a->first < b->first ? -1 : a->first > b->first;
}

typedef struct name_list {
    mr_stream_segment *v;
    int64_t n, room;
} name_list;

static bool add_name(name_list *list, const mr_stream_segment *name) {
    if (list->n == list->room) {
        int64_t room = list->room ? 2 * list->room : 16;
        mr_stream_segment *v = realloc(list->v, (size_t)room * sizeof *v);
        if (!v) {
            return false;
        }
        list->v = v;
        list->room = room;
    }
    list->v[list->n++] = *name;
    return true;
}

static bool list_names(const mr_stream_folder *folder, DIR *dir, uint32_t partition,
                       name_list *list) {
    const struct dirent *item;
    while ((item = readdir(dir)) != NULL) {
        mr_stream_segment name = {.stream = folder->id};
        if (parse_name(item->d_name, &name) &&
            (partition == MR_ALL_PARTITIONS || name.partition == partition) &&
            !add_name(list, &name)) {
            return false;
        }
    }
    return true;
}

mr_status mr_stream_segments(const mr_stream_folder *folder, uint32_t partition,
                             mr_stream_segment **out, int64_t *n, mr_error *err) {
    name_list list = {0};
    DIR *dir = list_folder(folder);
    *out = NULL;
    *n = 0;
    if (!dir) {
        int failed = errno;
        mr_status status = failed == ENOMEM ? MR_E_MEMORY : MR_E_IO;
        return blame(folder, mr_fail_errno(err, status, failed, "cannot list the stream"), err);
    }
    bool listed = list_names(folder, dir, partition, &list);
    closedir(dir);
    if (!listed) {
        free(list.v);
        return mr_fail_memory(err, (size_t)list.room * 2 * sizeof *list.v);
    }
    if (list.n > 1) {
        qsort(list.v, (size_t)list.n, sizeof *list.v, by_place);
    }
    *out = list.v;
    *n = list.n;
    return MR_OK;
}

mr_status mr_stream_segment_open(const mr_stream_folder *folder, const mr_stream_segment *name,
                                 int *fd, mr_error *err) {
    struct stat info;
    const mr_stream_segment_file_name file = mr_stream_segment_file(name);
    *fd = openat(folder->dir, file.text, MR_OPEN_FLAGS | O_NOFOLLOW);
    if (*fd < 0) {
        mr_status code = errno == ENOENT ? MR_E_NOT_FOUND : MR_E_IO;
        return blame(folder, mr_fail_errno(err, code, errno, "cannot open %s", file.text), err);
    }
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(*fd);
        *fd = -1;
        return blame(folder, mr_fail(err, MR_E_IO, "%s is not a file", file.text), err);
    }
    return MR_OK;
}

/* ---- What is kept ---- */
static mr_status bounds_of(const mr_stream_folder *folder, const mr_stream_segment *names,
                           int64_t n, int64_t *first, int64_t *next, mr_error *err) {
    mr_entry_cursor cursor = {.fd = -1};
    mr_entry entry;
    int fd = -1;
    if (n == 0) {
        return blame(folder, mr_fail(err, MR_E_NOT_FOUND, "the stream has no such partition"), err);
    }
    MR_TRY(mr_stream_segment_open(folder, &names[n - 1], &fd, err));
    mr_entry_cursor_start(&cursor, fd, &names[n - 1]);
    mr_status status = MR_OK;
    while (status == MR_OK) {
        status = mr_entry_cursor_next(&cursor, &entry, err);
    }
    *first = names[0].first;
    *next = cursor.expected;
    mr_entry_cursor_free(&cursor);
    close(fd);
    return status == MR_END ? MR_OK : status;
}

mr_status mr_stream_bounds(const char *path, uint32_t partition, int64_t *first, int64_t *next,
                           mr_error *err) {
    mr_stream_folder folder;
    mr_stream_segment *names = NULL;
    int64_t n = 0;
    mr_status status = mr_stream_folder_open(&folder, path, 0, err);
    if (status == MR_OK) {
        status = mr_stream_segments(&folder, partition, &names, &n, err);
    }
    if (status == MR_OK) {
        status = bounds_of(&folder, names, n, first, next, err);
    }
    mr_free(names);
    mr_stream_folder_close(&folder);
    return status;
}

static mr_status drop_before(const mr_stream_folder *folder, const mr_stream_segment *names,
                             int64_t n, int64_t before, int64_t *dropped, mr_error *err) {
    for (int64_t i = 0; i + 1 < n && names[i + 1].first <= before; i++) {
        const mr_stream_segment_file_name file = mr_stream_segment_file(&names[i]);
        if (unlinkat(folder->dir, file.text, 0) != 0 && errno != ENOENT) {
            return blame(folder, mr_fail_errno(err, MR_E_IO, errno, "cannot delete %s", file.text),
                         err);
        }
        ++*dropped;
    }
    return MR_OK;
}

mr_status mr_stream_trim(const char *path, uint32_t partition, int64_t before, int64_t *dropped,
                         mr_error *err) {
    mr_stream_folder folder;
    mr_stream_segment *names = NULL;
    int64_t n = 0, gone = 0;
    mr_status status = mr_stream_folder_open(&folder, path, 0, err);
    if (status == MR_OK) {
        status = mr_stream_segments(&folder, partition, &names, &n, err);
    }
    if (status == MR_OK) {
        status = drop_before(&folder, names, n, before, &gone, err);
    }
    if (dropped) {
        *dropped = gone;
    }
    mr_free(names);
    mr_stream_folder_close(&folder);
    return status;
}
