/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h. */
#include "record.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_EVENTS = 20000, MOST_FILES = 512, NAME = 64, SECTOR = 512 };

typedef enum kind { WRITE, SIZE, GROW, SYNC, SYNC_FOLDER, MAKE, RENAME, UNLINK } kind;

/* A file keeps its number, whatever it is called. */
typedef struct event {
    kind kind;
    int file;
    char name[NAME]; /* MAKE, RENAME: the new one; UNLINK */
    int64_t at;      /* or a size */
    size_t n;
    unsigned char *bytes;
} event;

static char folder_path[256];
static bool is_on;
static event events[MOST_EVENTS];
static int n_events;
static ino_t inodes[MOST_FILES];
static int n_files;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Writing down ---- */
/* The name of a file right inside the folder, "" for the folder itself; false: elsewhere. */
static bool name_of(int fd, char name[NAME]) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t own = strlen(folder_path);
    if (length < (ssize_t)own) {
        return false;
    }
    path[length] = '\0';
    if (strncmp(path, folder_path, own) != 0 || (path[own] != '/' && path[own] != '\0')) {
        return false;
    }
    snprintf(name, NAME, "%s", path[own] == '/' ? path + own + 1 : "");
    return true;
}

static int number_of(int fd) {
    struct stat info;
    if (syscall(SYS_newfstatat, fd, "", &info, AT_EMPTY_PATH) != 0) {
        return -1;
    }
    int i = 0;
    while (i < n_files && inodes[i] != info.st_ino) {
        i++;
    }
    if (i == n_files && n_files < MOST_FILES) {
        inodes[n_files++] = info.st_ino;
    }
    return i < n_files ? i : -1;
}

static event *add(kind what, int file) {
    if (n_events == MOST_EVENTS || file < 0) {
        fprintf(stderr, "too much is done for the record\n");
        abort();
    }
    event *e = &events[n_events++];
    *e = (event){.kind = what, .file = file};
    return e;
}

static bool is_recorded(int fd, char name[NAME]) {
    return is_on && fd >= 0 && name_of(fd, name);
}

/* What LMDB locks is not part of what lies on the disk. */
static bool is_lock(const char *name) {
    return strstr(name, "-lock") != NULL;
}

void record_write(int fd, const struct iovec *pieces, int n, ssize_t done, off_t offset) {
    char name[NAME];
    if (done <= 0 || !is_recorded(fd, name) || is_lock(name)) {
        return;
    }
    pthread_mutex_lock(&lock);
    event *e = add(WRITE, number_of(fd));
    e->at = offset >= 0 ? offset : lseek(fd, 0, SEEK_CUR) - done;
    e->n = (size_t)done;
    e->bytes = malloc(e->n);
    size_t used = 0;
    for (int i = 0; i < n && e->bytes && used < e->n; i++) {
        size_t take = pieces[i].iov_len < e->n - used ? pieces[i].iov_len : e->n - used;
        memcpy(e->bytes + used, pieces[i].iov_base, take);
        used += take;
    }
    pthread_mutex_unlock(&lock);
}

static void note(int fd, kind what, int64_t at, bool well) {
    char name[NAME];
    if (well && is_recorded(fd, name) && !is_lock(name)) {
        pthread_mutex_lock(&lock);
        add(name[0] ? what : SYNC_FOLDER, name[0] ? number_of(fd) : 0)->at = at;
        pthread_mutex_unlock(&lock);
    }
}

void record_size(int fd, off_t size, bool well) {
    note(fd, SIZE, size, well);
}

void record_grow(int fd, off_t size, bool well) {
    note(fd, GROW, size, well);
}

void record_sync(int fd, bool well) {
    note(fd, SYNC, 0, well);
}

void record_open(int fd, int flags) {
    char name[NAME];
    if (!(flags & O_CREAT) || !is_recorded(fd, name) || !name[0] || is_lock(name)) {
        return;
    }
    pthread_mutex_lock(&lock);
    int before = n_files, file = number_of(fd);
    if (n_files > before) { /* else it was there */
        snprintf(add(MAKE, file)->name, NAME, "%s", name);
    } else if (flags & O_TRUNC) {
        add(SIZE, file);
    }
    pthread_mutex_unlock(&lock);
}

void record_rename(int from_folder, const char *from, int to_folder, const char *to, bool well) {
    char name[NAME];
    (void)from;
    if (!well || from_folder != to_folder || !is_recorded(to_folder, name) || name[0]) {
        return;
    }
    int fd = (int)syscall(SYS_openat, to_folder, to, O_RDONLY | O_CLOEXEC);
    pthread_mutex_lock(&lock);
    snprintf(add(RENAME, number_of(fd))->name, NAME, "%s", to);
    pthread_mutex_unlock(&lock);
    syscall(SYS_close, fd);
}

/* The inode may be used again, for another file. */
void record_unlink(int folder, const char *path, bool well) {
    char name[NAME];
    if (!well || !is_recorded(folder, name) || name[0] || is_lock(path)) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (int i = n_events - 1, done = 0; i >= 0 && !done; i--) {
        if ((events[i].kind == MAKE || events[i].kind == RENAME) &&
            strcmp(events[i].name, path) == 0) {
            inodes[events[i].file] = 0;
            done = 1;
        }
    }
    snprintf(add(UNLINK, 0)->name, NAME, "%s", path);
    pthread_mutex_unlock(&lock);
}

void record_begin(const char *folder) {
    snprintf(folder_path, sizeof folder_path, "%s", folder);
    record_forget();
    is_on = true;
}

int record_end(void) {
    is_on = false;
    return n_events;
}

void record_forget(void) {
    for (int i = 0; i < n_events; i++) {
        free(events[i].bytes);
    }
    n_events = n_files = 0;
}

/* ---- Making folders of it ---- */
typedef struct disk_file {
    char name[NAME]; /* "": no name leads to it */
    unsigned char *bytes;
    int64_t size, room;
} disk_file;

static uint64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state ^ (*state >> 33);
    return (x * 0xff51afd7ed558ccdu) >> 16;
}

static void set_size(disk_file *file, int64_t size) {
    if (size > file->room) {
        file->room = size * 2;
        file->bytes = realloc(file->bytes, (size_t)file->room);
    }
    if (size > file->size) {
        memset(file->bytes + file->size, 0, (size_t)(size - file->size));
    }
    file->size = size;
}

static void put_bytes(disk_file *file, const event *e, size_t from, size_t to) {
    int64_t end = e->at + (int64_t)to;
    set_size(file, end > file->size ? end : file->size);
    memcpy(file->bytes + e->at + (int64_t)from, e->bytes + from, to - from);
}

static void do_name(disk_file *files, const event *e) {
    for (int i = 0; i < n_files; i++) {
        if (strcmp(files[i].name, e->name) == 0) {
            files[i].name[0] = '\0';
        }
    }
    if (e->kind != UNLINK) {
        snprintf(files[e->file].name, NAME, "%s", e->name);
    }
}

static bool is_name(const event *e) {
    return e->kind == MAKE || e->kind == RENAME || e->kind == UNLINK;
}

static void do_bytes(disk_file *files, const event *e) {
    disk_file *file = &files[e->file];
    if (e->kind == WRITE) {
        put_bytes(file, e, 0, e->n);
    } else if (e->kind == SIZE || (e->kind == GROW && e->at > file->size)) {
        set_size(file, e->at);
    }
}

static bool write_files(const char *folder, const disk_file *files) {
    bool well = mkdir(folder, 0700) == 0;
    for (int i = 0; i < n_files && well; i++) {
        char path[400];
        if (!files[i].name[0]) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        well = fd >= 0 && syscall(SYS_write, fd, files[i].bytes ? files[i].bytes : (void *)"",
                                  (size_t)files[i].size) == files[i].size;
        syscall(SYS_close, fd);
    }
    return well;
}

static bool finish(const char *folder, disk_file *files) {
    bool well = write_files(folder, files);
    for (int i = 0; i < n_files; i++) {
        free(files[i].bytes);
    }
    free(files);
    return well;
}

bool record_make_killed(const char *folder, int n, uint64_t *state) {
    disk_file *files = calloc(MOST_FILES, sizeof *files);
    for (int i = 0; i < n; i++) {
        if (is_name(&events[i])) {
            do_name(files, &events[i]);
        } else {
            do_bytes(files, &events[i]);
        }
    }
    if (n < n_events && events[n].kind == WRITE) {
        put_bytes(&files[events[n].file], &events[n], 0, draw(state) % events[n].n);
    }
    return finish(folder, files);
}

/* The last sync of each file, and of the folder, before the end. */
static int synced_until(int n, kind what, int file) {
    int i = n - 1;
    while (i >= 0 && !(events[i].kind == what && events[i].file == file)) {
        i--;
    }
    return i;
}

/* Some sectors of a write: all, none or any. */
static void lose_some(disk_file *file, const event *e, uint64_t *state) {
    uint64_t luck = draw(state) % 4;
    for (size_t from = 0; from < e->n && luck > 0;) {
        size_t to = from + SECTOR - (size_t)((uint64_t)e->at + from) % SECTOR;
        to = to < e->n ? to : e->n;
        if (luck > 1 || draw(state) % 2) {
            put_bytes(file, e, from, to);
        }
        from = to;
    }
}

static void lose_bytes(disk_file *files, int file, int from, int n, uint64_t *state) {
    int *order = malloc((size_t)(n + 1) * sizeof *order), left = 0;
    for (int i = from; i < n; i++) {
        if (events[i].file == file && (events[i].kind <= GROW)) {
            order[left++] = i;
        }
    }
    while (left > 0) { /* in any order */
        int at = (int)(draw(state) % (uint64_t)left);
        const event *e = &events[order[at]];
        if (e->kind == WRITE) {
            lose_some(&files[file], e, state);
        } else if (draw(state) % 2) {
            do_bytes(files, e);
        }
        order[at] = order[--left];
    }
    free(order);
}

bool record_make_lost(const char *folder, int n, uint64_t *state) {
    disk_file *files = calloc(MOST_FILES, sizeof *files);
    int named = synced_until(n, SYNC_FOLDER, 0);
    int until = named + 1 + (int)(draw(state) % (uint64_t)(n - named));
    for (int i = 0; i < until && i < n; i++) {
        if (is_name(&events[i])) {
            do_name(files, &events[i]);
        }
    }
    for (int file = 0; file < n_files; file++) {
        int synced = synced_until(n, SYNC, file);
        for (int i = 0; i < synced; i++) {
            if (events[i].file == file && events[i].kind <= GROW) {
                do_bytes(files, &events[i]);
            }
        }
        lose_bytes(files, file, synced + 1, n, state);
    }
    return finish(folder, files);
}
