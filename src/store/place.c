/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - see place.h. */
#include "store/place.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "io/machine.h"
#include "store/segment.h"

static void say(const mr_log *log, const mr_place *place, const char *what) {
    char text[512], shown[256];
    if (log && log->write) {
        mr_text_escape(shown, sizeof shown, place->path);
        snprintf(text, sizeof text, "the store at %s: %s", shown, what);
        log->write(log->user, text);
    }
}

/* ---- Which folder ---- */
static char *text_of(const char *format, const char *a, const char *b) {
    int length = snprintf(NULL, 0, format, a, b);
    char *text = malloc((size_t)length + 1);
    if (text) {
        snprintf(text, (size_t)length + 1, format, a, b);
    }
    return text;
}

static char *in_home(const char *rest) {
    char buffer[4096];
    struct passwd entry, *found = NULL;
    const char *home = getenv("HOME");
    if (!home || home[0] != '/') {
        getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found);
        home = found ? found->pw_dir : NULL;
    }
    return home && home[0] == '/' ? text_of("%s%s", home, rest) : NULL;
}

/* No shell reads a document, but people write "~/store" into it all the same. */
static bool begins_at_home(const char *path) {
    return path[0] == '~' && (path[1] == '/' || path[1] == '\0');
}

/* A store's folder is made private, and goes with it. */
static bool is_home(const char *path) {
    return begins_at_home(path) && path[1 + strspn(path + 1, "/.")] == '\0';
}

char *mr_place_path(const mr_store_params *params, mr_error *err) {
    const char *xdg = getenv("XDG_CACHE_HOME");
    char user[24], *path;
    if (is_home(params->path)) {
        mr_fail(err, MR_E_NOT_FOUND, "the home folder itself cannot be a store");
        mr_hint(err, "name a folder in it: \"~/store\"");
        return NULL;
    }
    snprintf(user, sizeof user, "%u", (unsigned)geteuid());
    if (begins_at_home(params->path)) {
        path = in_home(params->path + 1);
    } else if (params->path[0]) {
        path = text_of("%s%s", params->path, "");
    } else if (params->tier == MR_TIER_MEMORY) {
        path = text_of("/dev/shm/millrace-%s%s", user, ""); /* sticky: nobody can take it away */
    } else {
        path = xdg && xdg[0] == '/' ? text_of("%s/millrace/%s", xdg, "store")
                                    : in_home("/.cache/millrace/store");
    }
    if (!path) {
        mr_fail(err, MR_E_NOT_FOUND, "there is no home folder to put the store into");
        mr_hint(err, "give the cache a \"path\"");
    }
    return path;
}

/* ---- Making the folder ---- */
/* Files in a group's folder are the group's, whoever makes them. */
static unsigned folder_mode(bool group) {
    return group ? 02770 : 0700;
}

static mr_status failed(mr_error *err, int sys, const char *what, const char *path) {
    char shown[256];
    mr_text_escape(shown, sizeof shown, path);
    return mr_fail_errno(err, sys == ENOENT ? MR_E_NOT_FOUND : MR_E_IO, sys, "%s %s", what, shown);
}

/* Those above the store's own are the user's alone too, unless a group is to get through them. */
static mr_status make_folders(const char *path, bool group, mr_error *err) {
    const unsigned above = group ? 0755 : 0700, mode = folder_mode(group);
    char *copy = text_of("%s%s", path, "");
    int sys = copy ? 0 : ENOMEM;
    for (char *slash = copy ? strchr(copy + 1, '/') : NULL; slash && !sys;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        sys = mkdir(copy, above) != 0 && errno != EEXIST ? errno : 0;
        *slash = '/';
    }
    if (!sys && mkdir(copy, mode) != 0 && errno != EEXIST) {
        sys = errno;
    }
    free(copy);
    return sys ? failed(err, sys, "cannot make the folder", path) : MR_OK;
}

/* ---- Whose folder ---- */
static bool exists(const mr_place *place, const char *name) {
    return faccessat(place->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_a_store(const mr_place *place) {
    return exists(place, "store.json") || exists(place, "users");
}

#define NEW_FILE "new."
#define INDEX_BAD "index.bad"
#define INDEX_SUM "index.sum"

static bool is_empty(const mr_place *place) {
    int fd = openat(place->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* whatever its name */
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    bool empty = listing != NULL;
    for (struct dirent *entry; empty && (entry = readdir(listing)) != NULL;) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    if (listing) {
        closedir(listing);
    } else if (fd >= 0) {
        close(fd);
    }
    return empty;
}

/* Whether a file is a segment by its name and by how it begins: others' files may end so, too. */
static bool is_segment(const mr_place *place, const char *name) {
    enum { DIGITS = 16 };
    uint32_t magic = 0;
    if (strspn(name, "0123456789abcdef") != DIGITS || strcmp(name + DIGITS, ".seg") != 0) {
        return false;
    }
    int fd = openat(place->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    bool is_one = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                  read(fd, &magic, sizeof magic) == (ssize_t)sizeof magic &&
                  le32toh(magic) == MR_SEGMENT_MAGIC;
    if (fd >= 0) {
        close(fd);
    }
    return is_one;
}

static bool is_beside_segments(const char *name) {
    static const char *const names[] = {".",        "..",      "claims",  "use",
                                        "unsynced", INDEX_BAD, INDEX_SUM, MR_INDEX_FILE};
    bool is_one =
        strncmp(name, NEW_FILE, strlen(NEW_FILE)) == 0 || strcmp(name, MR_INDEX_FILE "-lock") == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !is_one; i++) {
        is_one = strcmp(name, names[i]) == 0;
    }
    return is_one;
}

/* Somebody removed the folder while a process wrote into it: what that wrote behind the remover's
 * back is left, and nothing of others. */
static bool is_left_of_a_store(const mr_place *place) {
    int fd = openat(place->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    bool alone = listing != NULL, has_segment = false;
    for (struct dirent *entry; alone && (entry = readdir(listing)) != NULL;) {
        bool segment = is_segment(place, entry->d_name);
        has_segment = has_segment || segment;
        alone = segment || is_beside_segments(entry->d_name);
    }
    if (listing) {
        closedir(listing);
    } else if (fd >= 0) {
        close(fd);
    }
    return alone && has_segment;
}

/* What killed processes had begun to write. */
static void remove_unfinished(const mr_place *place) {
    DIR *listing = opendir(place->path);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        if (strncmp(entry->d_name, NEW_FILE, strlen(NEW_FILE)) == 0) {
            unlinkat(place->dir, entry->d_name, 0);
        }
    }
    if (listing) {
        closedir(listing);
    }
}

static mr_status open_dir(mr_place *place, mr_error *err) {
    struct stat info;
    place->dir = open(place->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place->dir >= 0) {
        return MR_OK;
    }
    mr_status status = failed(err, errno, "cannot open the folder", place->path);
    if (lstat(place->path, &info) == 0 && S_ISLNK(info.st_mode)) {
        mr_hint(err, "it is a link, which is not followed: name the folder that it leads to");
    }
    return status;
}

static mr_status check_owner(const mr_place *place, const struct stat *info, mr_error *err) {
    if (info->st_uid == geteuid()) {
        return MR_OK;
    }
    if (!place->group) {
        mr_fail(err, MR_E_IO, "the folder %s belongs to someone else", place->path);
        mr_hint(err, "choose another \"path\", or share it: \"group\": true");
        return MR_E_IO;
    }
    if ((info->st_mode & 0072) != 0070) {
        return mr_fail(err, MR_E_IO,
                       "the folder belongs to someone else and is not shared with "
                       "its group alone");
    }
    return MR_OK;
}

static mr_status make_private(mr_place *place, mr_error *err) {
    struct stat info;
    if (fstat(place->dir, &info) != 0) {
        return failed(err, errno, "cannot look at", place->path);
    }
    /* A store that is shared stays so, whichever way its owner opens it. */
    place->group = place->group || (is_a_store(place) && (info.st_mode & 0070) == 0070);
    unsigned mode = folder_mode(place->group);
    MR_TRY(check_owner(place, &info, err));
    if (!is_a_store(place) && !is_empty(place) && !is_left_of_a_store(place) &&
        !is_a_store(place)) { /* became one meanwhile */
        mr_fail(err, MR_E_PARAM, "the folder %s has other files in it", place->path);
        mr_hint(err, "give the cache a folder of its own");
        return MR_E_PARAM;
    }
    if (!is_a_store(place) && !place->group && (info.st_mode & (S_ISVTX | 0022)) != 0) {
        mr_fail(err, MR_E_PARAM, "the folder %s is open to others", place->path);
        mr_hint(err, "name a folder in it, which is then made for you alone");
        return MR_E_PARAM;
    }
    if (info.st_uid == geteuid() && (info.st_mode & 07777) != mode &&
        fchmod(place->dir, mode) != 0) {
        return failed(err, errno, "cannot make private", place->path);
    }
    return MR_OK;
}

/* ---- Which file system ---- */
enum { TMPFS = 0x01021994, RAMFS = 0x858458f6, FUSE = 0x65735546 };

static mr_status check_file_system(const mr_place *place, const mr_log *log, mr_error *err) {
    struct statfs info;
    if (fstatfs(place->dir, &info) != 0) {
        return failed(err, errno, "cannot look at", place->path);
    }
    unsigned long type = (unsigned long)info.f_type & 0xffffffffu;
    const char *network = mr_network_of_file(place->dir);
    if (network) {
        mr_fail(err, MR_E_UNSUPPORTED,
                "the folder is on %s, where memory maps and locks do not hold between machines",
                network);
        mr_hint(err, "put the store on a local disk: \"path\"");
        return MR_E_UNSUPPORTED;
    }
    if (place->tier == MR_TIER_MEMORY && type != TMPFS && type != (unsigned)RAMFS) {
        return mr_fail(err, MR_E_PARAM, "tier memory wants a folder in memory, such as /dev/shm");
    }
    if (type == FUSE) {
        say(log, place, "is on FUSE; whether its maps and locks hold is up to that file system");
    }
    return MR_OK;
}

/* ---- Alone or not ---- */
enum { USERS, LEAVING }; /* bytes of the file */

static bool lock_byte(const mr_place *place, off_t byte, short kind) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int done;
    do {
        done = fcntl(place->users, F_OFD_SETLK, &lock);
    } while (done != 0 && errno == EINTR);
    return done == 0;
}

bool mr_place_be_alone(mr_place *place) {
    return lock_byte(place, USERS, F_WRLCK);
}

void mr_place_share(mr_place *place) {
    lock_byte(place, USERS, F_RDLCK);
}

bool mr_place_has_others(const mr_place *place) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = USERS, .l_len = 1};
    return fcntl(place->users, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static void nap(void) {
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
}

/* One after the other: of two that leave at once, each would find the other still there. */
bool mr_place_leave(mr_place *place) {
    enum { TRIES = 2000 };
    for (int i = 0; i < TRIES && !lock_byte(place, LEAVING, F_WRLCK); i++) {
        nap();
    }
    return mr_place_be_alone(place);
}

/* Somebody who is alone is so for a moment only; but not for ever, should they be stopped. */
static mr_status join_users(mr_place *place, bool *alone, mr_error *err) {
    enum { TRIES = 5000 };
    for (int i = 0; i < TRIES; i++) {
        *alone = mr_place_be_alone(place);
        if (*alone || lock_byte(place, USERS, F_RDLCK)) {
            return MR_OK;
        }
        nap();
    }
    return mr_fail(err, MR_E_IO, "another process keeps the store to itself");
}

static mr_status open_users(mr_place *place, mr_error *err) {
    place->users =
        openat(place->dir, "users", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
               mr_place_mode(place));
    if (place->users < 0) {
        int sys = errno;
        mr_status status = failed(err, sys, "cannot open the list of users in", place->path);
        if (sys == EROFS) {
            mr_hint(err, "also who only reads a store locks its files, which needs write access");
        }
        return status;
    }
    if (place->group) {
        (void)fchmod(place->users, mr_place_mode(place)); /* not ours: then it is right already */
    }
    return MR_OK;
}

/* ---- Small files ---- */
/* Under a name of this process's own first: others may be writing the same file. */
static mr_status write_small(const mr_place *place, const char *name, const char *text,
                             mr_error *err) {
    char fresh[32];
    size_t length = strlen(text);
    snprintf(fresh, sizeof fresh, NEW_FILE "%ld", (long)getpid());
    int fd = openat(place->dir, fresh,
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                    mr_place_mode(place));
    bool done = fd >= 0 && write(fd, text, length) == (ssize_t)length && fsync(fd) == 0;
    int sys = done ? 0 : errno ? errno : EIO;
    if (fd >= 0) {
        (void)fchmod(fd, mr_place_mode(place));
        close(fd);
    }
    if (done && (renameat(place->dir, fresh, place->dir, name) != 0 || fsync(place->dir) != 0)) {
        sys = errno;
    }
    return sys ? failed(err, sys, "cannot write into", place->path) : MR_OK;
}

/* The length, or -1 and errno. */
static ssize_t read_small(const mr_place *place, const char *name, char *text, size_t size) {
    int fd = openat(place->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    bool regular = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode); /* no FIFO */
    ssize_t length = regular ? read(fd, text, size - 1) : -1;
    int sys = fd >= 0 && !regular ? ENXIO : errno;
    if (fd >= 0) {
        close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
    errno = sys;
    return length;
}

/* ---- What the store is ---- */
static mr_status write_config(const mr_place *place, mr_error *err) {
    char text[256];
    snprintf(text, sizeof text, "{\"millrace_store\": %d, \"page_size\": %ld, \"size\": %lld}\n",
             MR_PLACE_FORMAT, sysconf(_SC_PAGESIZE), (long long)place->size);
    return write_small(place, "store.json", text, err);
}

static mr_status start_new(mr_place *place, int64_t size, mr_error *err) {
    mr_place_wipe(place);
    place->size = size;
    return write_config(place, err);
}

typedef struct config {
    int64_t format, page_size, size;
} config;

static int64_t number_in(const json_t *json, const char *name) {
    return (int64_t)json_integer_value(json_object_get(json, name));
}

/* Another format's may be anything. */
static bool is_sane(const config *found) {
    return found->format != MR_PLACE_FORMAT ||
           (found->size >= MR_STORE_LEAST && found->size <= MR_STORE_MOST);
}

/* MR_E_CORRUPT, or MR_E_MEMORY, which says nothing about the text. */
static mr_status parse_config(const char *text, config *out) {
    json_t *json = NULL;
    json_error_t ignored;
    mr_status status = mr_json_load(&json, text, strlen(text), 0, &ignored);
    if (status < 0) {
        return status == MR_E_MEMORY ? status : MR_E_CORRUPT;
    }
    bool whole = json_is_integer(json_object_get(json, "millrace_store"));
    *out = (config){number_in(json, "millrace_store"), number_in(json, "page_size"),
                    number_in(json, "size")};
    json_decref(json);
    return whole && is_sane(out) ? MR_OK : MR_E_CORRUPT;
}

static mr_status check_config(const mr_place *place, const config *found, mr_error *err) {
    char shown[160];
    if (found->format != MR_PLACE_FORMAT) {
        mr_fail(err, MR_E_UNSUPPORTED, "the store has format %lld, this release knows %d",
                (long long)found->format, MR_PLACE_FORMAT);
    } else if (found->page_size != sysconf(_SC_PAGESIZE)) {
        mr_fail(err, MR_E_UNSUPPORTED,
                "the store was made with pages of %lld bytes, this machine "
                "has %ld",
                (long long)found->page_size, sysconf(_SC_PAGESIZE));
    } else {
        return MR_OK;
    }
    mr_text_escape(shown, sizeof shown, place->path);
    mr_hint(err, "clear it (`millrace cache clear --path %s`), or choose another \"path\"", shown);
    return MR_E_UNSUPPORTED;
}

/* Small files, the table of stamps and that of readers come off first. */
static int64_t share_of(int64_t size) {
    enum { SMALL_FILES = 32768, LOCKS = 131072 };
    return size - mr_place_stamps(size) * 2 - SMALL_FILES - LOCKS;
}

int64_t mr_place_bytes(const mr_place *place) {
    return share_of(place->size);
}

int64_t mr_place_stamps(int64_t size) {
    int64_t n = 1024;
    while (n < 1 << 20 && n * 4096 < size) {
        n *= 2;
    }
    return n;
}

static bool has_ending(const char *name, const char *ending) {
    size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0;
}

static bool fits_into(const mr_place *place, int64_t size) {
    int64_t total = 0;
    DIR *listing = opendir(place->path);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        struct stat info;
        bool counts =
            has_ending(entry->d_name, ".seg") || strcmp(entry->d_name, MR_INDEX_FILE) == 0;
        if (counts && fstatat(place->dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            total += (int64_t)info.st_size;
        }
    }
    if (listing) {
        closedir(listing);
    }
    return listing && total <= share_of(size);
}

static mr_status resize(mr_place *place, int64_t size, bool alone, const mr_log *log,
                        mr_error *err) {
    if (size == place->size) {
        return MR_OK;
    }
    if (!alone) {
        say(log, place, "is in use with another size, which it keeps");
        return MR_OK;
    }
    if (size < place->size && place->common) {
        say(log, place, "serves all pipelines, and keeps its larger size");
        return MR_OK;
    }
    if (size < place->size && !fits_into(place, size)) {
        say(log, place, "starts anew, since it is to be smaller");
        return start_new(place, size, err);
    }
    int64_t before = place->size;
    place->size = size;
    if (write_config(place, NULL) < 0) { /* on a full disk, say: what is there can be read */
        say(log, place, "cannot change its size, which it keeps");
        place->size = before;
    }
    return MR_OK;
}

static mr_status find_config(mr_place *place, int64_t size, bool alone, const mr_log *log,
                             mr_error *err) {
    char text[1024];
    config found;
    bool there = read_small(place, "store.json", text, sizeof text) >= 0;
    if (!there && errno != ENOENT) {
        return failed(err, errno, "cannot read store.json in", place->path);
    }
    mr_status parsed = there ? parse_config(text, &found) : MR_E_CORRUPT;
    if (parsed == MR_E_MEMORY) {
        return mr_fail_memory(err, strlen(text)); /* no reason to throw anything away */
    }
    if (parsed == MR_OK && found.format < MR_PLACE_FORMAT && alone) {
        say(log, place, "starts anew, since it is of an older release");
        return start_new(place, size > 0 ? size : 1 << 30, err);
    }
    if (parsed == MR_OK) {
        MR_TRY(check_config(place, &found, err));
        place->size = found.size;
        return size > 0 ? resize(place, size, alone, log, err) : MR_OK;
    }
    if (!alone) {
        return mr_fail(err, MR_E_CORRUPT, "store.json cannot be read");
    }
    if (there) {
        say(log, place, "starts anew, since store.json was damaged");
    }
    return start_new(place, size > 0 ? size : 1 << 30, err);
}

/* ---- Trust ---- */
static void boot_id(char *text, size_t size) {
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
}

static bool write_at_start(int fd, const char *text) {
    size_t length = strlen(text);
    return pwrite(fd, text, length, 0) == (ssize_t)length;
}

/* In place: several processes may do this at once, and all write the same. What a fault leaves
 * half written is no boot's name. */
mr_status mr_place_mark(mr_place *place, mr_error *err) {
    char now[64];
    if (atomic_load(&place->marked)) {
        return MR_OK;
    }
    unlinkat(place->dir, INDEX_SUM, 0); /* before the index changes */
    int fd = openat(place->dir, "unsynced",
                    O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mr_place_mode(place));
    boot_id(now, sizeof now);
    bool done = fd >= 0 && write_at_start(fd, now[0] ? now : "unknown\n") && fsync(fd) == 0 &&
                fsync(place->dir) == 0;
    int sys = done ? 0 : errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!done) {
        return failed(err, sys ? sys : EIO, "cannot write into", place->path);
    }
    atomic_store(&place->marked, true);
    return MR_OK;
}

bool mr_place_is_marked(const mr_place *place) {
    return exists(place, "unsynced");
}

void mr_place_unmark(mr_place *place) {
    unlinkat(place->dir, "unsynced", 0);
    fsync(place->dir);
    place->marked = false;
}

void mr_place_forget_index(mr_place *place) {
    static const char *const names[] = {MR_INDEX_FILE, MR_INDEX_FILE "-lock", INDEX_BAD, INDEX_SUM};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unlinkat(place->dir, names[i], 0);
    }
}

/* Segments, and the files of older releases: two digits and an ending. */
static bool is_content(const char *name) {
    bool old = strspn(name, "0123456789") == 2 &&
               (strcmp(name + 2, ".mdb") == 0 || strcmp(name + 2, ".mdb-lock") == 0 ||
                strcmp(name + 2, ".bad") == 0);
    return old || has_ending(name, ".seg");
}

static void remove_content(const mr_place *place) {
    DIR *listing = opendir(place->path);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        if (is_content(entry->d_name)) {
            unlinkat(place->dir, entry->d_name, 0);
        }
    }
    if (listing) {
        closedir(listing);
    }
}

void mr_place_wipe(mr_place *place) {
    mr_place_forget_index(place);
    remove_content(place);
    unlinkat(place->dir, "use", 0);
    fsync(place->dir); /* the mark goes last */
    unlinkat(place->dir, "unsynced", 0);
    place->marked = false;
}

void mr_place_remove(mr_place *place) {
    static const char *const names[] = {"store.json", "claims", "users"};
    mr_place_wipe(place);
    remove_unfinished(place);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unlinkat(place->dir, names[i], 0);
    }
    struct stat info;
    bool shared = fstat(place->dir, &info) == 0 && (info.st_mode & 0070) == 0070;
    if (!shared || place->tier == MR_TIER_MEMORY) { /* the folder's group was somebody's choice */
        rmdir(place->path);
    }
}

void mr_place_mark_bad(mr_place *place) {
    int fd = openat(place->dir, INDEX_BAD, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                    mr_place_mode(place));
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- The index's checksum ---- */
static bool sum_of_index(const mr_place *place, char text[33]) {
    static const size_t piece = 1 << 20;
    int fd = openat(place->dir, MR_INDEX_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    mr_hasher *hasher = mr_hasher_new();
    char *bytes = malloc(piece);
    ssize_t n = -1;
    while (fd >= 0 && hasher && bytes && (n = read(fd, bytes, piece)) > 0) {
        mr_hasher_bytes(hasher, bytes, (size_t)n);
    }
    if (n == 0) {
        mr_hash_hex(mr_hasher_value(hasher), text);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(bytes);
    mr_hasher_free(hasher);
    return n == 0;
}

bool mr_place_seal(mr_place *place) {
    char text[33];
    return sum_of_index(place, text) && write_small(place, INDEX_SUM, text, NULL) == MR_OK;
}

/* Without a checksum the last user was killed. */
bool mr_place_index_is_bad(mr_place *place) {
    char noted[64], found[33];
    bool sealed = read_small(place, INDEX_SUM, noted, sizeof noted) >= 0;
    bool right = !sealed || (sum_of_index(place, found) && strcmp(noted, found) == 0);
    return !right || exists(place, INDEX_BAD);
}

/* What was written since the last sync and before the machine went down may be there in part, in
 * any order. Values can tell by their checksums; the index cannot, and is made again from them.
 * What a killed process of this boot wrote is whole. An empty mark is that of a process that was
 * killed before it wrote anything. */
static mr_status throw_away_doubtful(mr_place *place, const mr_log *log, mr_error *err) {
    char now[64], mark[64];
    boot_id(now, sizeof now);
    remove_unfinished(place);
    ssize_t length = read_small(place, "unsynced", mark, sizeof mark);
    if (length < 0 && errno != ENOENT) {
        return failed(err, errno, "cannot read in", place->path);
    }
    if (place->tier == MR_TIER_MEMORY) {
        mr_place_wipe(place); /* somebody was killed before they could */
    } else if (length > 0 && strcmp(mark, now) != 0) {
        say(log, place, "its index is made again: the machine went down before all was on disk");
        mr_place_forget_index(place);
        fsync(place->dir); /* the mark goes last */
        unlinkat(place->dir, "unsynced", 0);
    }
    return MR_OK;
}

static void close_files(mr_place *place) {
    if (place->users >= 0) {
        close(place->users); /* gives up the lock */
    }
    if (place->dir >= 0) {
        close(place->dir);
    }
    place->users = place->dir = -1;
}

/* ---- Public ---- */
unsigned mr_place_mode(const mr_place *place) {
    return place->group ? 0660 : 0600;
}

int64_t mr_place_room(const mr_place *place, int64_t *slack) {
    struct statvfs info;
    *slack = 0;
    if (fstatvfs(place->dir, &info) != 0) {
        return 0;
    }
    const int64_t most = 1 << 30;
    int64_t unit = (int64_t)info.f_frsize;
    int64_t reserve = (int64_t)info.f_blocks * unit / 20;
    reserve = reserve < most ? reserve : most;
    *slack = reserve / 2;
    return (int64_t)info.f_bavail * unit - reserve;
}

/* The folder may have been removed by its last user while we waited for our turn. */
static bool was_removed(const mr_place *place) {
    struct stat ours, there;
    return fstat(place->users, &ours) != 0 || fstatat(place->dir, "users", &there, 0) != 0 ||
           ours.st_ino != there.st_ino;
}

static mr_status enter_once(mr_place *place, const mr_log *log, bool *alone, mr_error *err) {
    MR_TRY(make_folders(place->path, place->group, err));
    MR_TRY(open_dir(place, err));
    MR_TRY(check_file_system(place, log, err));
    MR_TRY(make_private(place, err));
    MR_TRY(open_users(place, err));
    return join_users(place, alone, err);
}

static mr_status enter(mr_place *place, int64_t size, const mr_log *log, mr_error *err) {
    enum { TRIES = 20 };
    bool alone = false;
    for (int tries = 1;; tries++) {
        mr_status status = enter_once(place, log, &alone, err);
        bool moved = status == MR_OK ? was_removed(place) : status == MR_E_NOT_FOUND;
        if (status < 0 && (!moved || tries == TRIES)) {
            return status;
        }
        if (!moved || tries == TRIES) {
            break;
        }
        close_files(place);
    }
    MR_TRY(find_config(place, size, alone, log, err)); /* what is not ours to read stays as it is */
    place->came_first = alone;
    if (alone) {
        MR_TRY(throw_away_doubtful(place, log, err));
        mr_place_share(place);
    }
    return MR_OK;
}

static mr_status begin(mr_place *place, const mr_store_params *params, mr_error *err) {
    *place = (mr_place){.dir = -1, .users = -1, .tier = params->tier, .group = params->group};
    place->common = params->path[0] == '\0';
    place->path = mr_place_path(params, err);
    return place->path ? MR_OK : MR_E_NOT_FOUND;
}

mr_status mr_place_open(mr_place *place, const mr_store_params *params, const mr_log *log,
                        mr_error *err) {
    MR_TRY(begin(place, params, err));
    return enter(place, params->size, log, err);
}

static mr_status no_store(const char *path, int sys, mr_error *err) {
    char shown[256];
    if (sys == ENOENT && access(path, F_OK) == 0) {
        mr_text_escape(shown, sizeof shown, path);
        return mr_fail(err, MR_E_NOT_FOUND, "the folder %s is no store", shown);
    }
    bool absent = sys == ENOENT || sys == ENOTDIR;
    return failed(err, sys, absent ? "there is no store at" : "cannot look into", path);
}

mr_status mr_place_check(const mr_store_params *params, mr_error *err) {
    char *path = mr_place_path(params, err);
    char *marker = path ? text_of("%s/%s", path, "store.json") : NULL;
    mr_status status = marker ? MR_OK : MR_E_NOT_FOUND;
    if (marker && access(marker, F_OK) != 0) {
        status = no_store(path, errno, err);
    }
    free(marker);
    free(path);
    return status;
}

static mr_status in_use(mr_error *err) {
    mr_fail(err, MR_E_IO, "the store is in use");
    mr_hint(err, "`millrace cache clear PIPELINE.json` deletes a pipeline's entries all the same");
    return MR_E_IO;
}

/* Also a store that this release cannot open: only its folder and its list of users matter. */
mr_status mr_place_destroy(const mr_store_params *params, mr_error *err) {
    mr_place place;
    bool alone = false;
    mr_status status = begin(&place, params, err);
    if (status == MR_OK) {
        status = open_dir(&place, err);
    }
    if (status == MR_OK) {
        status = open_users(&place, err);
    }
    if (status == MR_OK) {
        alone = mr_place_be_alone(&place);
        status = alone ? MR_OK : in_use(err);
    }
    if (alone) {
        mr_place_remove(&place);
    }
    mr_place_close(&place);
    return status;
}

void mr_place_close(mr_place *place) {
    close_files(place);
    free(place->path);
    *place = (mr_place){.dir = -1, .users = -1};
}
