/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - see segment.h. */
#include "store/segment.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

enum { FRAME = MR_FRAME_BYTES, ALIGN = 64, PAGE = 4096, WRITERS = 4, FORMAT = 1 };
enum { UNIT = 4096, ALL = 65536 };
#define FRAME_MAGIC 0x6172464du /* "MFra" */

/* ---- What lies on disk ---- */
typedef struct segment_head {
    uint32_t magic, format;
    unsigned char prefix[8];
    uint64_t zero[5];
    uint64_t check; /* of what comes before */
} segment_head;

typedef struct frame_head {
    uint32_t magic, format;
    mr_store_key key;
    uint64_t length, sum, zero;
    uint64_t check; /* of what comes before */
} frame_head;

_Static_assert(sizeof(segment_head) == FRAME && sizeof(frame_head) == FRAME, "no padding");

static uint64_t check_of(const void *head) {
    return mr_hash64(head, FRAME - sizeof(uint64_t), 0);
}

mr_location mr_location_load(const unsigned char bytes[MR_LOCATION_BYTES]) {
    uint64_t words[4];
    memcpy(words, bytes, sizeof words);
    return (mr_location){le64toh(words[0]), le64toh(words[1]), le64toh(words[2]),
                         le64toh(words[3])};
}

void mr_location_save(mr_location location, unsigned char bytes[MR_LOCATION_BYTES]) {
    const uint64_t words[4] = {htole64(location.segment), htole64(location.offset),
                               htole64(location.length), htole64(location.sum)};
    memcpy(bytes, words, sizeof words);
}

bool mr_frame_parse(const unsigned char bytes[MR_FRAME_BYTES], mr_store_key *key, uint64_t *length,
                    uint64_t *sum) {
    frame_head head;
    memcpy(&head, bytes, sizeof head);
    if (le32toh(head.magic) != FRAME_MAGIC || le32toh(head.format) != FORMAT ||
        le64toh(head.check) != check_of(&head)) {
        return false;
    }
    *key = head.key;
    *length = le64toh(head.length);
    *sum = le64toh(head.sum);
    return true;
}

static void make_frame(const mr_segment_item *item, uint64_t sum, frame_head *head) {
    *head = (frame_head){.magic = htole32(FRAME_MAGIC),
                         .format = htole32(FORMAT),
                         .key = *item->key,
                         .length = htole64(item->size),
                         .sum = htole64(sum)};
    head->check = htole64(check_of(head));
}

static bool read_segment_head(int fd, segment_head *head) {
    return pread(fd, head, sizeof *head, 0) == (ssize_t)sizeof *head &&
           le32toh(head->magic) == MR_SEGMENT_MAGIC && le32toh(head->format) == FORMAT &&
           le64toh(head->check) == check_of(head);
}

/* ---- Files ---- */
struct mr_segment {
    mr_segment *next;
    uint64_t id;
    int fd;
    int direct;               /* past the page cache; -1: not possible, or not wanted */
    uint32_t cached_share;    /* of 65,536: how many values are read through it all the same */
    const unsigned char *map; /* NULL: none could be made; reads fail then */
    size_t mapped;
    int32_t holders;
    bool dropped; /* closed by the last who holds it */
};

/* A segment that this process appends to. */
typedef struct writer {
    uint64_t id;
    int fd; /* -1: none. Has the lock */
    int64_t size;
    unsigned char prefix[8];
    uint64_t used;   /* when, to close the one that was not for longest */
    int64_t written; /* since write-back was last started */
    bool unfiled;    /* values that the index does not lead to yet */
} writer;

struct mr_segments {
    const mr_place *place;
    mr_segment *open;
    int64_t swept; /* seconds */
    uint32_t cached_share;
    writer writers[WRITERS];
    uint64_t uses;
};

typedef struct file_name {
    char text[24];
} file_name;

static file_name name_of(uint64_t id) {
    file_name name;
    snprintf(name.text, sizeof name.text, "%016llx.seg", (unsigned long long)id);
    return name;
}

static bool id_of(const char *name, uint64_t *id) {
    char *end = NULL;
    *id = strtoull(name, &end, 16);
    return end == name + 16 && strcmp(end, ".seg") == 0;
}

/* -1: it is not there, or is no file. */
static int open_file(const mr_place *place, uint64_t id, int flags) {
    struct stat info;
    int fd = openat(place->dir, name_of(id).text, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                    mr_place_mode(place));
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int64_t whole_pages(int64_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* A 64th of the store, so that evicting one costs little and there are few. */
int64_t mr_segments_target(int64_t most) {
    const int64_t least = 65536;
    int64_t target = whole_pages(most / 64);
    return target < least ? least : target;
}

/* ---- Opening ---- */
mr_segments *mr_segments_open(const mr_place *place) {
    mr_segments *segments = mr_zalloc(1, sizeof *segments);
    if (segments) {
        segments->place = place;
        segments->cached_share = ALL;
        for (int i = 0; i < WRITERS; i++) {
            segments->writers[i].fd = -1;
        }
    }
    return segments;
}

static void close_segment(mr_segment *segment) {
    if (segment->map) {
        munmap((void *)(uintptr_t)segment->map, segment->mapped);
    }
    close(segment->fd);
    if (segment->direct >= 0) {
        close(segment->direct);
    }
    mr_free(segment);
}

/* The lock is given up by itself: a process that was forked meanwhile has the file open too. */
static void close_writer(writer *w) {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (w->fd >= 0) {
        (void)fcntl(w->fd, F_OFD_SETLK, &lock);
        close(w->fd);
    }
    w->fd = -1;
    w->unfiled = false;
}

void mr_segments_filed(mr_segments *segments) {
    for (int i = 0; i < WRITERS; i++) {
        segments->writers[i].unfiled = false;
    }
}

void mr_segments_pause(mr_segments *segments) {
    for (int i = 0; i < WRITERS; i++) {
        close_writer(&segments->writers[i]);
    }
}

void mr_segments_close(mr_segments *segments) {
    if (segments) {
        mr_segments_pause(segments);
        while (segments->open) {
            mr_segment *next = segments->open->next;
            close_segment(segments->open);
            segments->open = next;
        }
        mr_free(segments);
    }
}

/* ---- Reading ---- */
static void forget(mr_segments *segments, mr_segment *segment) {
    mr_segment **link = &segments->open;
    while (*link != segment) {
        link = &(*link)->next;
    }
    *link = segment->next;
    close_segment(segment);
}

/* What others dropped takes room on disk for as long as somebody has it open. */
static void sweep(mr_segments *segments) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == segments->swept) {
        return;
    }
    segments->swept = now.tv_sec;
    for (mr_segment *s = segments->open, *next; s; s = next) {
        struct stat info;
        next = s->next;
        s->dropped = s->dropped || (fstat(s->fd, &info) == 0 && info.st_nlink == 0);
        if (s->dropped && s->holders == 0) {
            forget(segments, s);
        }
    }
}

static bool covers(const mr_segment *segment, const mr_location *location) {
    return location->length <= segment->mapped &&
           location->offset <= segment->mapped - location->length;
}

/* Mapped with room to grow: what is appended later shows in the same map. */
static mr_segment *open_segment(mr_segments *segments, uint64_t id) {
    struct stat info;
    int fd = open_file(segments->place, id, O_RDONLY);
    mr_segment *segment = fd >= 0 ? mr_zalloc(1, sizeof *segment) : NULL;
    if (!segment || fstat(fd, &info) != 0 || info.st_size < FRAME) {
        if (fd >= 0) {
            close(fd);
        }
        mr_free(segment);
        return NULL;
    }
    int64_t target = mr_segments_target(segments->place->size);
    *segment = (mr_segment){.id = id, .fd = fd, .direct = -1, .cached_share = ALL};
    segment->mapped = (size_t)whole_pages(info.st_size > target ? info.st_size : target);
    void *map = mmap(NULL, segment->mapped, PROT_READ, MAP_SHARED, fd, 0);
    segment->map = map == MAP_FAILED ? NULL : map;
    if (segment->map) {
        madvise(map, segment->mapped, MADV_RANDOM); /* values are read in any order */
    }
    segment->next = segments->open;
    segments->open = segment;
    return segment;
}

static mr_segment *find_segment(const mr_segments *segments, const mr_location *location) {
    for (mr_segment *s = segments->open; s; s = s->next) {
        if (s->id == location->segment && !s->dropped && covers(s, location)) {
            return s;
        }
    }
    return NULL;
}

/* Nobody else has the segment in hand when the share changes from all to less: reads that began
 * before go on as they did. */
static void share_cache(mr_segments *segments, mr_segment *segment) {
    if (segment->cached_share == segments->cached_share || segment->holders > 1) {
        return;
    }
    segment->cached_share = segments->cached_share;
    if (segment->direct < 0 && segment->cached_share < ALL) {
        segment->direct = open_file(segments->place, segment->id, O_RDONLY | O_DIRECT);
    }
}

mr_segment *mr_segments_hold(mr_segments *segments, const mr_location *location) {
    sweep(segments);
    mr_segment *segment = find_segment(segments, location);
    if (!segment) {
        segment = open_segment(segments, location->segment);
        if (segment && !covers(segment, location)) {
            forget(segments, segment);
            segment = NULL;
        }
    }
    if (segment) {
        segment->holders++;
        share_cache(segments, segment);
    }
    return segment;
}

void mr_segments_release(mr_segments *segments, mr_segment *segment) {
    if (--segment->holders == 0 && segment->dropped) {
        forget(segments, segment);
    }
}

const void *mr_segment_view(const mr_segment *segment, const mr_location *location) {
    return segment->map ? segment->map + location->offset : NULL;
}

int mr_segment_file(const mr_segment *segment) {
    return segment->fd;
}

static bool read_at(int fd, void *bytes, size_t size, uint64_t at) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, (char *)bytes + done, size - done, (off_t)(at + done));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            errno = n == 0 ? EIO : errno;
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

mr_status mr_segment_read(const mr_segment *segment, const mr_location *location, void *bytes,
                          mr_error *err) {
    return read_at(segment->fd, bytes, location->length, location->offset)
               ? MR_OK
               : mr_fail_errno(err, MR_E_IO, errno, "cannot read from the store");
}

void mr_segment_fetch(const mr_segment *segment, const mr_location *location) {
    (void)posix_fadvise(segment->fd, (off_t)location->offset, (off_t)location->length,
                        POSIX_FADV_WILLNEED);
}

/* ---- Past the page cache ---- */
void mr_segments_fit(mr_segments *segments, int64_t memory) {
    int64_t bytes = mr_segments_bytes(segments->place);
    bool fits = bytes <= memory - memory / 4;
    segments->cached_share = fits ? ALL : (uint32_t)(memory / 2 * ALL / (bytes + 1));
}

/* The same values every time. */
static bool is_for_page_cache(const mr_segment *segment, const mr_location *location) {
    uint64_t mixed = (segment->id ^ location->offset) * 0x9e3779b97f4a7c15u;
    return (mixed >> 48) < segment->cached_share;
}

/* In whole units of a disk; what is behind the end of the file is not missed. */
static bool read_direct(const mr_segment *segment, const mr_location *location, void *memory,
                        size_t *at) {
    uintptr_t base = ((uintptr_t)memory + UNIT - 1) / UNIT * UNIT;
    uint64_t skipped = location->offset % UNIT, wanted = skipped + location->length, done = 0;
    size_t whole = (size_t)((wanted + UNIT - 1) / UNIT * UNIT);
    while (done < wanted) {
        ssize_t n = pread(segment->direct, (char *)base + done, whole - done,
                          (off_t)(location->offset - skipped + done));
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            return false;
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    *at = (size_t)(base - (uintptr_t)memory + skipped);
    return true;
}

mr_status mr_segment_bring(const mr_segment *segment, const mr_location *location, void *memory,
                           size_t *at, mr_error *err) {
    if (segment->direct >= 0 && !is_for_page_cache(segment, location) &&
        read_direct(segment, location, memory, at)) {
        return MR_OK;
    }
    *at = 0;
    mr_segment_fetch(segment, location); /* all at once: the kernel would go on in small steps */
    return mr_segment_read(segment, location, memory, err);
}

/* Where a file system cannot tell, the disk may begin, and the rest is left to whoever uses it. */
static bool waits_for_disk(const mr_segment *segment, const mr_location *location, uint64_t at) {
    unsigned char byte;
    struct iovec one = {&byte, 1};
    if (preadv2(segment->fd, &one, 1, (off_t)(location->offset + at), RWF_NOWAIT) >= 0) {
        return false;
    }
    bool waits = errno == EAGAIN;
    if (!waits) {
        mr_segment_fetch(segment, location);
    }
    return waits;
}

bool mr_segment_is_in_memory(const mr_segment *segment, const mr_location *location) {
    enum { LOOKS = 4 };
    uint64_t last = location->length > 0 ? location->length - 1 : 0;
    bool waits = false;
    for (uint64_t i = 0; i < LOOKS && !waits; i++) {
        waits = waits_for_disk(segment, location, last / (LOOKS - 1) * i);
    }
    return !waits;
}

/* ---- Looking at all of them ---- */
static int set_lock(int fd, int command, struct flock *lock) {
    int done;
    do {
        done = fcntl(fd, command, lock);
    } while (done != 0 && errno == EINTR);
    return done;
}

static bool take_lock(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return set_lock(fd, F_OFD_SETLK, &lock) == 0;
}

static bool is_locked(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return set_lock(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static mr_segment_info look_at(const mr_segments *segments, uint64_t id) {
    mr_segment_info info = {.id = id};
    struct stat file;
    segment_head head;
    int fd = open_file(segments->place, id, O_RDWR);
    if (fd >= 0) {
        info.is_written = is_locked(fd); /* also by ourselves: those have another open file */
        if (fstat(fd, &file) == 0) {
            info.bytes = whole_pages(file.st_size);
            info.changed = (int64_t)file.st_mtim.tv_sec * 1000000000 + file.st_mtim.tv_nsec;
        }
        if (read_segment_head(fd, &head)) {
            memcpy(info.prefix, head.prefix, sizeof info.prefix);
        }
        close(fd);
    }
    return info;
}

static DIR *open_listing(const mr_place *place) {
    int fd = openat(place->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing && fd >= 0) {
        close(fd);
    }
    return listing;
}

static int compare_ages(const void *a, const void *b) {
    int64_t x = ((const mr_segment_info *)a)->changed, y = ((const mr_segment_info *)b)->changed;
    return (x > y) - (x < y);
}

mr_segment_info *mr_segments_list(mr_segments *segments, size_t *n) {
    DIR *listing = open_listing(segments->place);
    mr_segment_info *list = NULL;
    size_t room = 0;
    *n = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        uint64_t id;
        if (!id_of(entry->d_name, &id)) {
            continue;
        }
        if (*n == room) {
            room = room ? 2 * room : 64;
            mr_segment_info *larger = realloc(list, room * sizeof *list);
            if (!larger) {
                break;
            }
            list = larger;
        }
        list[(*n)++] = look_at(segments, id);
    }
    if (list) {
        qsort(list, *n, sizeof *list, compare_ages);
    }
    if (listing) {
        closedir(listing);
    }
    return list;
}

int64_t mr_segments_bytes(const mr_place *place) {
    DIR *listing = open_listing(place);
    int64_t total = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        uint64_t id;
        struct stat info;
        if (id_of(entry->d_name, &id) &&
            fstatat(place->dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            total += whole_pages(info.st_size);
        }
    }
    if (listing) {
        closedir(listing);
    }
    return total;
}

bool mr_segments_sync(mr_segments *segments) {
    size_t n = 0;
    bool synced = true;
    mr_segment_info *list = mr_segments_list(segments, &n);
    for (size_t i = 0; i < n; i++) {
        int fd = open_file(segments->place, list[i].id, O_RDONLY);
        synced = (fd < 0 || fsync(fd) == 0) && synced; /* gone is as good */
        if (fd >= 0) {
            close(fd);
        }
    }
    free(list);
    return synced;
}

void mr_segments_drop(mr_segments *segments, uint64_t id) {
    for (int i = 0; i < WRITERS; i++) {
        if (segments->writers[i].id == id) {
            close_writer(&segments->writers[i]);
        }
    }
    unlinkat(segments->place->dir, name_of(id).text, 0);
    for (mr_segment *s = segments->open, *next; s; s = next) {
        next = s->next;
        if (s->id == id && s->holders == 0) {
            forget(segments, s);
        } else if (s->id == id) {
            s->dropped = true;
        }
    }
}

static uint64_t frame_end(uint64_t offset, uint64_t length) {
    return (offset + length + ALIGN - 1) / ALIGN * ALIGN;
}

/* A frame that is not whole is passed over: what was begun by a process that was killed, or is
 * damaged, ends where the next frame begins. */
void mr_segment_scan(mr_segments *segments, uint64_t id, mr_segment_visit *visit, void *user) {
    struct stat info;
    unsigned char bytes[FRAME];
    int fd = open_file(segments->place, id, O_RDONLY);
    uint64_t size = fd >= 0 && fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0, at = FRAME;
    for (bool more = true; more && size >= FRAME && at <= size - FRAME;) {
        mr_store_key key;
        mr_location location = {.segment = id, .offset = at + FRAME};
        bool whole = read_at(fd, bytes, sizeof bytes, at) &&
                     mr_frame_parse(bytes, &key, &location.length, &location.sum) &&
                     location.length <= size - at - FRAME;
        more = !whole || visit(user, &key, &location);
        at = whole ? frame_end(location.offset, location.length) : at + FRAME;
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- Appending ---- */
/* What all may come to: a segment that is written to counts as full. */
static int64_t charged_bytes(const mr_segment_info *list, size_t n, int64_t target) {
    int64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        total += list[i].is_written && list[i].bytes < target ? target : list[i].bytes;
    }
    return total;
}

static bool write_head(int fd, const unsigned char prefix[8]) {
    segment_head head = {.magic = htole32(MR_SEGMENT_MAGIC), .format = htole32(FORMAT)};
    memcpy(head.prefix, prefix, sizeof head.prefix);
    head.check = htole64(check_of(&head));
    ssize_t n = pwrite(fd, &head, sizeof head, 0);
    errno = n >= 0 && n < (ssize_t)sizeof head ? ENOSPC : errno;
    return n == (ssize_t)sizeof head;
}

static mr_status failed(mr_error *err, int sys) {
    return mr_fail_errno(err, MR_E_IO, sys ? sys : EIO, "cannot write into the store");
}

/* Names are never used again: an entry of the index may outlive its segment. */
static mr_status make_segment(const mr_segments *segments, writer *w, mr_error *err) {
    if (getrandom(&w->id, sizeof w->id, 0) != (ssize_t)sizeof w->id) {
        return failed(err, errno);
    }
    w->fd = open_file(segments->place, w->id, O_RDWR | O_CREAT | O_EXCL);
    if (w->fd < 0) {
        return failed(err, errno);
    }
    if (segments->place->group) {
        (void)fchmod(w->fd, mr_place_mode(segments->place));
    }
    w->size = FRAME;
    if (!take_lock(w->fd) || !write_head(w->fd, w->prefix)) {
        int sys = errno;
        unlinkat(segments->place->dir, name_of(w->id).text, 0);
        close_writer(w);
        return failed(err, sys);
    }
    return MR_OK;
}

/* One that was left behind half full, by a process that ended or was killed. */
static bool resume_segment(const mr_segments *segments, const mr_segment_info *found, int64_t need,
                           int64_t target, writer *w) {
    struct stat info;
    if (found->is_written || memcmp(found->prefix, w->prefix, sizeof w->prefix) != 0 ||
        found->bytes > target - need - ALIGN) {
        return false;
    }
    w->id = found->id;
    w->fd = open_file(segments->place, w->id, O_RDWR);
    bool ours = w->fd >= 0 && take_lock(w->fd) && fstat(w->fd, &info) == 0 && info.st_nlink == 1;
    if (!ours) {
        close_writer(w);
        return false;
    }
    w->size = (int64_t)frame_end((uint64_t)info.st_size, 0);
    return w->size + need <= target;
}

static mr_status begin_segment(mr_segments *segments, writer *w, int64_t need, int64_t most,
                               mr_error *err) {
    size_t n = 0;
    mr_segment_info *list = mr_segments_list(segments, &n);
    int64_t target = mr_segments_target(most),
            wanted = need + FRAME > target ? need + FRAME : target;
    int64_t room = most - charged_bytes(list, n, target);
    bool resumed = false;
    for (size_t i = 0; i < n && !resumed; i++) {
        resumed =
            room >= target - list[i].bytes && resume_segment(segments, &list[i], need, target, w);
    }
    free(list);
    if (resumed) {
        return MR_OK;
    }
    close_writer(w);
    return room >= whole_pages(wanted) ? make_segment(segments, w, err)
                                       : mr_fail(err, MR_E_LIMIT, "the store is full");
}

/* The writer for a prefix: its own, or the one that was not used for longest. */
static writer *choose_writer(mr_segments *segments, const unsigned char prefix[8]) {
    writer *chosen = &segments->writers[0];
    for (int i = 0; i < WRITERS; i++) {
        writer *w = &segments->writers[i];
        if (w->fd >= 0 && memcmp(w->prefix, prefix, sizeof w->prefix) == 0) {
            return w;
        }
        chosen = w->fd < 0 || (chosen->fd >= 0 && w->used < chosen->used) ? w : chosen;
    }
    return chosen;
}

/* Ends with what it had, for another prefix or another segment. False: not yet. */
static bool let_go(writer *w, const unsigned char prefix[8]) {
    if (w->unfiled) {
        return false;
    }
    close_writer(w);
    memcpy(w->prefix, prefix, sizeof w->prefix);
    return true;
}

static bool write_frame(writer *w, const mr_segment_item *item, const frame_head *head) {
    const struct iovec parts[] = {
        {(void *)(uintptr_t)head, sizeof *head},
        {(void *)(uintptr_t)item->data, item->size},
    };
    size_t total = sizeof *head + item->size;
    errno = 0;
    ssize_t n = pwritev(w->fd, parts, 2, (off_t)w->size);
    if (n >= 0 && (size_t)n < total) { /* rare: once more, from where it stopped */
        size_t from = (size_t)n > sizeof *head ? (size_t)n - sizeof *head : 0;
        bool head_done = (size_t)n >= sizeof *head;
        ssize_t rest = head_done ? pwrite(w->fd, (const char *)item->data + from, item->size - from,
                                          (off_t)(w->size + n))
                                 : -1;
        n = rest >= 0 ? n + rest : n;
    }
    errno = n >= 0 && (size_t)n < total && errno == 0 ? ENOSPC : errno;
    return n == (ssize_t)total;
}

/* In pieces so large that a disk writes them at its full rate; a later sync then has little to
 * wait for. */
static void start_writeback(writer *w, int64_t written) {
    const int64_t piece = 16 << 20;
    w->written += written;
    if (w->written >= piece) {
        sync_file_range(w->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        w->written = 0;
    }
}

static bool fits(const writer *w, const unsigned char prefix[8], int64_t need, int64_t most) {
    struct stat info;
    return w->fd >= 0 && memcmp(w->prefix, prefix, sizeof w->prefix) == 0 &&
           w->size + need <= mr_segments_target(most) && fstat(w->fd, &info) == 0 &&
           info.st_nlink == 1;
}

mr_status mr_segments_append(mr_segments *segments, const mr_segment_item *item, int64_t most,
                             mr_location *location, mr_error *err) {
    writer *w = choose_writer(segments, item->key->bytes);
    int64_t need = (int64_t)frame_end(FRAME, item->size);
    uint64_t sum = mr_record_sum(item->data, item->size);
    frame_head head;
    if (!fits(w, item->key->bytes, need, most)) {
        if (!let_go(w, item->key->bytes)) {
            return MR_LATER;
        }
        MR_TRY(begin_segment(segments, w, need, most, err));
    }
    make_frame(item, sum, &head);
    if (!write_frame(w, item, &head)) {
        int sys = errno;
        close_writer(w);
        return failed(err, sys);
    }
    w->used = ++segments->uses;
    w->unfiled = true;
    start_writeback(w, need);
    *location = (mr_location){w->id, (uint64_t)w->size + FRAME, item->size, sum};
    w->size += need;
    return MR_OK;
}
