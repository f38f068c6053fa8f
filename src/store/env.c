/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - see env.h. */
#include "store/env.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "store/guard.h"

struct mr_env {
    MDB_env *lmdb;
    MDB_dbi dbi;
    char path[64];
    size_t page, pages; /* size of one, and how many there may be */
    atomic_bool doubtful;
    int turns; /* file descriptor, and the byte of it that writers lock */
    off_t turn;
    atomic_bool torn;  /* a fault in the middle of a change: nobody writes here again */
    mr_store_key hand; /* where eviction goes on */
    int64_t written;   /* since write-back was last started */
};

struct mr_env_reader {
    mr_env *env;
    MDB_txn *txn; /* reset between uses */
    bool active;
};

enum { FIRST_TURN = 16 }; /* bytes of the list of users, beyond those that place.c locks */
enum { READERS = MR_ENV_LOCK_BYTES / 64 - 8 }; /* threads of all processes together */

/* ---- Guarded calls of LMDB: it reads the mapped file itself ----
 * Writes go through cursors of their own: those of mdb_put and mdb_del lie on the stack, where a
 * fault leaves them behind for abort to free. */
typedef struct call {
    MDB_env *lmdb;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val key, data;
    MDB_cursor_op op;
    unsigned flags;
    int result;
    bool faulted; /* ended by the guard, not by LMDB */
    size_t page;
    size_t unused_pages;  /* look_at_lists: freed ones, and those beyond the last */
    size_t oldest;        /* give_lists: the state that some reader sees */
    size_t waiting_pages; /* freed ones that a reader may see */
    mdb_filehandle_t file;
    bool refused; /* by the file system */
} call;

static void do_get(void *user) {
    call *c = user;
    c->result = mdb_get(c->txn, c->dbi, &c->key, &c->data);
}

static void do_cursor_get(void *user) {
    call *c = user;
    c->result = mdb_cursor_get(c->cursor, &c->key, &c->data, c->op);
}

static void do_cursor_del(void *user) {
    call *c = user;
    c->result = mdb_cursor_del(c->cursor, 0);
}

static void do_cursor_put(void *user) {
    call *c = user;
    c->result = mdb_cursor_put(c->cursor, &c->key, &c->data, c->flags);
}

static void do_begin(void *user) {
    call *c = user;
    c->result = mdb_txn_begin(c->lmdb, NULL, c->flags, &c->txn);
}

static void do_renew(void *user) {
    call *c = user;
    c->result = mdb_txn_renew(c->txn);
}

static void do_sync(void *user) {
    call *c = user;
    c->result = mdb_env_sync(c->lmdb, 1);
}

static void do_close(void *user) {
    call *c = user;
    mdb_env_close(c->lmdb);
}

static void do_check_readers(void *user) {
    call *c = user;
    int dead = 0;
    c->result = mdb_reader_check(c->lmdb, &dead);
}

static void do_commit(void *user) {
    call *c = user;
    c->result = mdb_txn_commit(c->txn);
}

/* Pages that contradict each other are as bad as pages that cannot be read. But a commit that
 * cannot write (EIO is also what LMDB says of a short write, on a full disk) leaves what was there.
 */
static int guarded(mr_env *env, void (*body)(void *), call *c) {
    c->faulted = !mr_guard_call(body, c);
    if (c->faulted) {
        c->result = EIO;
    }
    bool unread = c->result == EIO && (c->faulted || body != do_commit);
    if (unread || c->result == MDB_CORRUPTED || c->result == MDB_PAGE_NOTFOUND ||
        c->result == MDB_PANIC || c->result == MDB_INVALID) {
        atomic_store(&env->doubtful, true);
    }
    return c->result;
}

static MDB_val value_of(const void *data, size_t size) {
    return (MDB_val){size, (void *)(uintptr_t)data};
}

/* Killed processes leave their places, and with them what they were reading. */
static void forget_dead_readers(const mr_env *env) {
    call c = {.lmdb = env->lmdb};
    mr_guard_call(do_check_readers, &c);
}

/* A transaction begins with reading the first two pages, which a writer does with its lock taken:
 * a fault there would keep the lock, so what can be foreseen is. */
static bool is_cut_short(const mr_env *env) {
    mdb_filehandle_t file;
    struct stat info;
    return mdb_env_get_fd(env->lmdb, &file) == 0 && fstat(file, &info) == 0 &&
           info.st_size < 2 * (off_t)env->page;
}

static int begin(mr_env *env, unsigned flags, MDB_txn **txn) {
    call c = {.lmdb = env->lmdb, .flags = flags};
    if (is_cut_short(env)) {
        atomic_store(&env->doubtful, true);
    }
    int code = mr_env_is_doubtful(env) ? EIO : guarded(env, do_begin, &c);
    *txn = code == 0 ? c.txn : NULL;
    return code;
}

/* ---- Writers take turns ----
 * LMDB has a lock for that, but it waits for ever, also for a process that was stopped with it. So
 * whoever writes locks a byte first, and gives up after a while. */
static bool lock_turn(const mr_env *env, short kind) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = env->turn, .l_len = 1};
    int done;
    do {
        done = fcntl(env->turns, F_OFD_SETLK, &lock);
    } while (done != 0 && errno == EINTR);
    return done == 0;
}

static bool wait_for_turn(const mr_env *env) {
    enum { TRIES = 2000 };
    const struct timespec pause = {0, 1000000};
    bool ours = lock_turn(env, F_WRLCK);
    for (int i = 0; i < TRIES && !ours; i++) {
        nanosleep(&pause, NULL);
        ours = lock_turn(env, F_WRLCK);
    }
    return ours;
}

/* ---- Is it sound ----
 * LMDB trusts its pages. A damaged list of free pages makes it write beyond its memory, so that is
 * looked at before each change; the tree, when the store is opened. */
static bool is_sound_list(const MDB_val *data, size_t last_page) {
    const size_t *list = data->mv_data;
    size_t room = data->mv_size / sizeof *list;
    bool sound = room > 0 && list[0] < room;
    for (size_t i = 1; sound && i <= list[0]; i++) {
        sound = list[i] > 1 && list[i] <= last_page && (i == 1 || list[i] < list[i - 1]);
    }
    return sound;
}

static void look_at_lists(void *user) {
    call *c = user;
    MDB_envinfo info;
    c->result = mdb_env_info(c->lmdb, &info);
    for (c->op = MDB_FIRST; c->result == 0; c->op = MDB_NEXT) {
        c->result = mdb_cursor_get(c->cursor, &c->key, &c->data, c->op);
        if (c->result == 0 && !is_sound_list(&c->data, info.me_last_pgno)) {
            c->result = MDB_CORRUPTED;
        } else if (c->result == 0) {
            c->unused_pages += *(const size_t *)c->data.mv_data;
        }
    }
    c->unused_pages += info.me_mapsize / c->page - 1 - info.me_last_pgno;
    c->result = c->result == MDB_NOTFOUND ? 0 : c->result;
}

static void look_at_tree(void *user) {
    call *c = user;
    for (c->op = MDB_FIRST; c->result == 0; c->op = MDB_NEXT) {
        c->result = mdb_cursor_get(c->cursor, &c->key, &c->data, c->op);
        bool known = c->key.mv_size == sizeof(mr_store_key) || c->key.mv_size == sizeof(uint64_t);
        if (c->result == 0 && !known) {
            c->result = MDB_CORRUPTED;
        }
    }
    c->result = c->result == MDB_NOTFOUND ? 0 : c->result;
}

static int look_at(mr_env *env, MDB_dbi dbi, void (*body)(void *), call *c) {
    *c = (call){.lmdb = env->lmdb, .page = env->page};
    int code = begin(env, MDB_RDONLY, &c->txn);
    if (code != 0) {
        return code;
    }
    code = mdb_cursor_open(c->txn, dbi, &c->cursor);
    code = code ? code : guarded(env, body, c);
    if (c->cursor) {
        mdb_cursor_close(c->cursor);
    }
    mdb_txn_abort(c->txn);
    return code;
}

enum { FREE_PAGES = 0 }; /* LMDB's own table */

bool mr_env_is_sound(mr_env *env) {
    call c;
    return look_at(env, FREE_PAGES, look_at_lists, &c) == 0 &&
           look_at(env, env->dbi, look_at_tree, &c) == 0;
}

void mr_env_doubt(mr_env *env) {
    atomic_store(&env->doubtful, true);
}

static int begin_write(mr_env *env, MDB_txn **txn, size_t *unused_pages) {
    if (env->torn || !wait_for_turn(env)) {
        return EBUSY;
    }
    call c;
    int code = look_at(env, FREE_PAGES, look_at_lists, &c);
    *unused_pages = c.unused_pages;
    code = code ? code : begin(env, 0, txn);
    if (code != 0) {
        lock_turn(env, F_UNLCK);
    }
    return code;
}

/* ---- Opening ---- */
static mr_status failed(mr_error *err, int code, const char *what) {
    if (code > 0) {
        return mr_fail_errno(err, code == ENOMEM ? MR_E_MEMORY : MR_E_IO, code, "%s", what);
    }
    return mr_fail(err, code == MDB_VERSION_MISMATCH ? MR_E_UNSUPPORTED : MR_E_CORRUPT, "%s: %s",
                   what, mdb_strerror(code));
}

static int open_table(mr_env *env) {
    MDB_txn *txn = NULL;
    int code = mdb_txn_begin(env->lmdb, NULL, MDB_RDONLY, &txn);
    if (code == 0) {
        code = mdb_dbi_open(txn, NULL, 0, &env->dbi);
        mdb_txn_abort(txn);
    }
    return code;
}

/* Makes a file before LMDB does, which would follow links and leave modes to the umask. The table
 * of readers gets all its room at once: a full disk must not show when a reader enters itself. */
static int prepare_open(const mr_place *place, int fd, off_t size) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return errno;
    }
    if (!S_ISREG(info.st_mode) || info.st_nlink != 1) {
        return ELOOP;
    }
    if (place->group) {
        (void)fchmod(fd, mr_place_mode(place)); /* not ours: then it is right already */
    }
    return info.st_size < size ? posix_fallocate(fd, 0, size) : 0;
}

static int prepare_file(const mr_place *place, const char *name, off_t size) {
    int fd =
        openat(place->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mr_place_mode(place));
    if (fd < 0) {
        return errno;
    }
    int sys = prepare_open(place, fd, size);
    close(fd); /* before LMDB opens it: its locks would go with ours */
    return sys;
}

static int prepare_files(const mr_place *place, int32_t index) {
    char name[24];
    snprintf(name, sizeof name, "%02d.mdb", index);
    int sys = prepare_file(place, name, 0);
    snprintf(name, sizeof name, "%02d.mdb-lock", index);
    return sys ? sys : prepare_file(place, name, MR_ENV_LOCK_BYTES);
}

typedef struct opening {
    mr_env *env;
    const mr_place *place;
    int64_t size;
    int result;
} opening;

/* NOSYNC: place.h keeps track of what is on disk. NOTLS: a reader may change threads. NORDAHEAD:
 * order is random, and values are larger than what the kernel would read around them. */
static void do_open(void *user) {
    opening *o = user;
    MDB_env *lmdb = o->env->lmdb;
    const unsigned flags = MDB_NOSUBDIR | MDB_NOSYNC | MDB_NOMETASYNC | MDB_NOTLS | MDB_NORDAHEAD;
    o->result = mdb_env_set_mapsize(lmdb, (size_t)o->size);
    o->result = o->result ? o->result : mdb_env_set_maxreaders(lmdb, READERS);
    o->result =
        o->result ? o->result : mdb_env_open(lmdb, o->env->path, flags, mr_place_mode(o->place));
    o->result = o->result ? o->result : open_table(o->env);
}

/* Where LMDB would abort the process because a page contradicts it. */
static void on_contradiction(MDB_env *lmdb, const char *text) {
    (void)lmdb;
    (void)text;
    mr_guard_escape();
}

static int open_lmdb(mr_env *env, const mr_place *place, int64_t size) {
    opening o = {env, place, size, 0};
    int code = mdb_env_create(&env->lmdb);
    if (code != 0) {
        return code;
    }
    mdb_env_set_assert(env->lmdb, on_contradiction);
    if (!mr_guard_call(do_open, &o)) {
        return MDB_CORRUPTED;
    }
    if (o.result == 0) {
        forget_dead_readers(env);
    }
    return o.result;
}

mr_status mr_env_open(mr_env **out, const mr_place *place, int32_t index, int64_t size,
                      mr_error *err) {
    mr_env *env = mr_zalloc(1, sizeof *env);
    if (!env) {
        return mr_fail_memory(err, sizeof *env);
    }
    /* By the folder that was looked at, whatever its name means by now. */
    snprintf(env->path, sizeof env->path, "/proc/self/fd/%d/%02d.mdb", place->dir, index);
    env->page = (size_t)sysconf(_SC_PAGESIZE);
    env->turns = place->users;
    env->turn = FIRST_TURN + index;
    size -= size % (int64_t)env->page;
    env->pages = (size_t)size / env->page;
    int code = prepare_files(place, index);
    code = code ? code : open_lmdb(env, place, size);
    if (code != 0) {
        mr_env_close(env);
        return failed(err, code, "cannot open the store");
    }
    *out = env;
    return MR_OK;
}

void mr_env_close(mr_env *env) {
    if (env) {
        if (env->lmdb && !env->torn) {
            call c = {.lmdb = env->lmdb};
            mr_guard_call(do_close, &c); /* a fault leaves a little memory behind */
        }
        mr_free(env);
    }
}

bool mr_env_sync(mr_env *env) {
    call c = {.lmdb = env->lmdb};
    return !mr_env_is_doubtful(env) && guarded(env, do_sync, &c) == 0;
}

/* In pieces worth a disk's while. */
void mr_env_start_writeback(mr_env *env, int64_t written) {
    const int64_t piece = 16 << 20;
    mdb_filehandle_t file;
    env->written += written;
    if (env->written >= piece && mdb_env_get_fd(env->lmdb, &file) == 0) {
        sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
        env->written = 0;
    }
}

bool mr_env_is_doubtful(const mr_env *env) {
    return atomic_load_explicit(&env->doubtful, memory_order_relaxed);
}

/* ---- Reading ---- */
mr_env_reader *mr_env_reader_new(mr_env *env) {
    mr_env_reader *reader = mr_zalloc(1, sizeof *reader);
    int code = reader ? begin(env, MDB_RDONLY, &reader->txn) : ENOMEM;
    if (code == MDB_READERS_FULL) {
        forget_dead_readers(env);
        code = begin(env, MDB_RDONLY, &reader->txn);
    }
    if (code != 0) {
        mr_free(reader);
        return NULL;
    }
    reader->env = env;
    mdb_txn_reset(reader->txn);
    return reader;
}

void mr_env_reader_free(mr_env_reader *reader) {
    if (reader) {
        mdb_txn_abort(reader->txn);
        mr_free(reader);
    }
}

bool mr_env_begin(mr_env_reader *reader) {
    call c = {.txn = reader->txn};
    reader->active = !mr_env_is_doubtful(reader->env) && guarded(reader->env, do_renew, &c) == 0;
    return reader->active;
}

void mr_env_end(mr_env_reader *reader) {
    if (reader->active) {
        mdb_txn_reset(reader->txn);
        reader->active = false;
    }
}

bool mr_env_find(mr_env_reader *reader, const mr_store_key *key, const void **data, size_t *size) {
    call c = {.txn = reader->txn, .dbi = reader->env->dbi, .key = value_of(key, sizeof *key)};
    if (guarded(reader->env, do_get, &c) != 0) {
        return false;
    }
    *data = c.data.mv_data;
    *size = c.data.mv_size;
    return true;
}

void mr_env_fetch(const mr_env_reader *reader, const void *data, size_t size) {
    uintptr_t page = reader->env->page, first = (uintptr_t)data / page * page;
    uintptr_t end = ((uintptr_t)data + size + page - 1) / page * page;
    madvise((void *)first, end - first, MADV_WILLNEED);
}

/* ---- Writing ---- */
static mr_env_result outcome(int code, mr_error *err) {
    if (code == 0) {
        return MR_ENV_OK;
    }
    if (code == MDB_MAP_FULL || code == MDB_TXN_FULL) {
        return MR_ENV_FULL;
    }
    failed(err, code, "cannot write into the store");
    return MR_ENV_FAILED;
}

static void tear(mr_env *env, bool faulted) {
    if (faulted) {
        atomic_store(&env->torn, true);
    }
}

/* After a fault in the middle of a change LMDB's own notes about it, some of them on a stack that
 * is gone, cannot be trusted to undo it. The transaction is left where it is and the turn kept:
 * others find the environment busy until this process ends, and the kernel gives LMDB's lock back.
 */
static int end_write(mr_env *env, MDB_txn *txn, int code) {
    call c = {.txn = txn};
    if (code == 0) {
        code = guarded(env, do_commit, &c);
        tear(env, c.faulted);
    } else if (!env->torn) {
        mdb_txn_abort(txn);
    }
    if (!env->torn) {
        lock_turn(env, F_UNLCK);
    }
    return code;
}

/* A change; see end_write. */
static int change(mr_env *env, void (*body)(void *), call *c) {
    int code = guarded(env, body, c);
    tear(env, c->faulted);
    return code;
}

static int put_all(mr_env *env, MDB_txn *txn, const mr_env_item *items, int32_t n) {
    MDB_cursor *cursor = NULL;
    int code = mdb_cursor_open(txn, env->dbi, &cursor);
    for (int32_t i = 0; i < n && code == 0; i++) {
        call c = {.cursor = cursor,
                  .key = value_of(items[i].key, sizeof *items[i].key),
                  .data = value_of(items[i].data, items[i].size),
                  .flags = MDB_NOOVERWRITE};
        code = change(env, do_cursor_put, &c);
        code = code == MDB_KEYEXIST ? 0 : code; /* made twice is made the same */
    }
    return code; /* the cursor ends with the transaction */
}

static size_t pages_of(const mr_env *env, size_t size) {
    return (size + 16 + env->page - 1) / env->page;
}

/* Deleting copies pages too: of an environment that is full to the last page nothing could be
 * evicted. */
static size_t spare_pages(const mr_env *env) {
    return 16 + env->pages / 128;
}

static bool is_room(const mr_env *env, const mr_env_item *items, int32_t n, size_t unused_pages) {
    size_t needed = spare_pages(env);
    for (int32_t i = 0; i < n; i++) {
        needed += pages_of(env, items[i].size);
    }
    return needed <= unused_pages;
}

/* Of the tree a page for each value, and some for the lists of free pages. */
int64_t mr_env_cost(const mr_env *env, const mr_env_item *items, int32_t n) {
    size_t pages = 64;
    for (int32_t i = 0; i < n; i++) {
        pages += pages_of(env, items[i].size) + 1;
    }
    return (int64_t)(pages * env->page);
}

mr_env_result mr_env_put(mr_env *env, const mr_env_item *items, int32_t n, mr_error *err) {
    MDB_txn *txn = NULL;
    size_t unused_pages = 0;
    int code = begin_write(env, &txn, &unused_pages);
    if (code == 0) {
        bool fits = is_room(env, items, n, unused_pages);
        code = end_write(env, txn, fits ? put_all(env, txn, items, n) : MDB_MAP_FULL);
    }
    return outcome(code, err);
}

/* ---- Eviction ---- */
typedef struct eviction {
    mr_env *env;
    MDB_cursor *cursor;
    mr_env_choose *choose;
    void *user;
    int64_t wanted, freed, n;
} eviction;

/* Looks at one entry; a code other than 0 ends the walk. */
static int consider(eviction *e, call *c) {
    if (c->key.mv_size != sizeof(mr_store_key)) {
        return 0;
    }
    if (!mr_guard_copy(&e->env->hand, c->key.mv_data, sizeof e->env->hand)) {
        return EIO;
    }
    if (!e->choose(e->user, &e->env->hand, c->data.mv_size)) {
        return 0;
    }
    e->freed += (int64_t)(pages_of(e->env, c->data.mv_size) * e->env->page);
    e->n++;
    return change(e->env, do_cursor_del, c);
}

/* From a key to the end, or to where the walk began. */
static int walk_part(eviction *e, const mr_store_key *from, int64_t *left) {
    mr_store_key start = *from;
    call c = {.cursor = e->cursor, .key = value_of(&start, sizeof start), .op = MDB_SET_RANGE};
    int code = guarded(e->env, do_cursor_get, &c);
    while (code == 0 && e->freed < e->wanted && (*left)-- > 0) {
        code = consider(e, &c);
        c.op = MDB_NEXT;
        code = code ? code : guarded(e->env, do_cursor_get, &c);
    }
    return code == MDB_NOTFOUND ? 0 : code;
}

static int walk_round(eviction *e, MDB_txn *txn) {
    static const mr_store_key first;
    MDB_stat info;
    int code = mdb_cursor_open(txn, e->env->dbi, &e->cursor);
    if (code != 0 || (code = mdb_stat(txn, e->env->dbi, &info)) != 0) {
        return code;
    }
    int64_t left = (int64_t)info.ms_entries;
    mr_store_key hand = e->env->hand;
    code = walk_part(e, &hand, &left);
    if (code == 0 && e->freed < e->wanted && left > 0) {
        code = walk_part(e, &first, &left);
    }
    return code;
}

static int evict(eviction *e) {
    MDB_txn *txn = NULL;
    size_t ignored = 0;
    forget_dead_readers(e->env);
    int code = begin_write(e->env, &txn, &ignored);
    if (code == 0) {
        code = end_write(e->env, txn, walk_round(e, txn));
    }
    if (code != 0) {
        e->freed = e->n = 0;
    }
    return code;
}

int64_t mr_env_evict(mr_env *env, int64_t bytes, mr_env_choose *choose, void *user, int64_t *n) {
    eviction e = {.env = env, .choose = choose, .user = user, .wanted = bytes};
    evict(&e);
    *n = e.n;
    return e.freed;
}

/* In steps: the list of pages that a step frees takes pages itself, which must be found first. */
mr_status mr_env_delete(mr_env *env, mr_env_choose *choose, void *user, int64_t *n, mr_error *err) {
    const int64_t step = 1 << 20;
    eviction e = {.env = env, .choose = choose, .user = user, .wanted = step};
    int code;
    *n = 0;
    do {
        e.freed = e.n = 0;
        code = evict(&e);
        *n += e.n;
    } while (code == 0 && e.n > 0);
    return code == 0 ? MR_OK : failed(err, code, "cannot delete from the store");
}

/* ---- Giving back ----
 * LMDB keeps the pages of what was deleted, and takes those for a value only where enough lie side
 * by side; otherwise the file grows. On a full disk they are better given back: what is written
 * then takes as much as it is large, into whichever pages it goes. */

/* A line for each reader: process, thread, and the state that it sees, or "-". */
static int note_oldest(const char *line, void *user) {
    call *c = user;
    size_t seen;
    if (sscanf(line, "%*d %*x %zu", &seen) == 1 && seen < c->oldest) {
        c->oldest = seen;
    }
    return 0;
}

static void give_run(call *c, size_t page, size_t n) {
    off_t from = (off_t)(page * c->page), length = (off_t)(n * c->page);
    off_t data = lseek(c->file, from, SEEK_DATA);
    if (data >= from && data < from + length &&
        fallocate(c->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, length) != 0) {
        c->refused = true;
    }
}

/* Lists count downwards. */
static void give_list(call *c, const size_t *list) {
    for (size_t i = 1, n; i <= list[0] && !c->refused; i += n) {
        for (n = 1; i + n <= list[0] && list[i + n] == list[i] - n; n++) {
        }
        give_run(c, list[i] - n + 1, n);
    }
}

/* A list's key is the change that freed its pages: they belong to states before that. The state
 * that we see ourselves is the last one, and among those of the readers. */
static void give_lists(void *user) {
    call *c = user;
    c->oldest = SIZE_MAX;
    c->result = mdb_env_get_fd(c->lmdb, &c->file);
    c->result = c->result ? c->result : mdb_reader_list(c->lmdb, note_oldest, c) < 0 ? EIO : 0;
    c->oldest = c->oldest == SIZE_MAX ? 0 : c->oldest;
    for (c->op = MDB_FIRST; c->result == 0; c->op = MDB_NEXT) {
        c->result = mdb_cursor_get(c->cursor, &c->key, &c->data, c->op);
        if (c->result == 0 && *(const size_t *)c->key.mv_data < c->oldest) {
            give_list(c, c->data.mv_data);
        } else if (c->result == 0) {
            c->waiting_pages += *(const size_t *)c->data.mv_data;
        }
    }
    c->result = c->result == MDB_NOTFOUND ? 0 : c->result;
}

/* With LMDB's lock taken, so that nobody takes a page meanwhile; its lists were just looked at. */
bool mr_env_give_back(mr_env *env, int64_t *waiting) {
    MDB_txn *txn = NULL;
    size_t ignored = 0;
    call c;
    if (begin_write(env, &txn, &ignored) != 0) {
        return false;
    }
    int code = look_at(env, FREE_PAGES, give_lists, &c);
    mdb_txn_abort(txn);
    lock_turn(env, F_UNLCK);
    *waiting = (int64_t)(c.waiting_pages * env->page);
    return code == 0 && !c.refused;
}

/* ---- Looking at everything ---- */
mr_status mr_env_walk(mr_env *env, mr_env_visit *visit, void *user, mr_error *err) {
    MDB_txn *txn = NULL;
    call c = {.op = MDB_FIRST};
    int code = begin(env, MDB_RDONLY, &txn);
    code = code ? code : mdb_cursor_open(txn, env->dbi, &c.cursor);
    bool more = true;
    while (code == 0 && more && (code = guarded(env, do_cursor_get, &c)) == 0) {
        mr_store_key key;
        if (c.key.mv_size == sizeof key) {
            more = mr_guard_copy(&key, c.key.mv_data, sizeof key) &&
                   visit(user, &key, c.data.mv_data, c.data.mv_size);
        }
        c.op = MDB_NEXT;
    }
    if (c.cursor) {
        mdb_cursor_close(c.cursor);
    }
    if (txn) {
        mdb_txn_abort(txn);
    }
    return code == 0 || code == MDB_NOTFOUND ? MR_OK : failed(err, code, "cannot read the store");
}

int64_t mr_env_bytes(const mr_env *env) {
    mdb_filehandle_t file;
    struct stat info;
    if (mdb_env_get_fd(env->lmdb, &file) != 0 || fstat(file, &info) != 0) {
        return 0;
    }
    int64_t there = (int64_t)info.st_blocks * 512;
    return there < (int64_t)info.st_size ? there : (int64_t)info.st_size;
}

/* ---- Notes ---- */
bool mr_env_read_note(mr_env *env, const void *key, size_t key_size, char out[MR_NOTE_BYTES]) {
    MDB_txn *txn = NULL;
    if (begin(env, MDB_RDONLY, &txn) != 0) {
        return false;
    }
    call c = {.txn = txn, .dbi = env->dbi, .key = value_of(key, key_size)};
    bool found = guarded(env, do_get, &c) == 0 && c.data.mv_size == MR_NOTE_BYTES &&
                 mr_guard_copy(out, c.data.mv_data, MR_NOTE_BYTES);
    mdb_txn_abort(txn);
    return found;
}

bool mr_env_change_note(mr_env *env, const void *key, size_t key_size, mr_env_change *edit,
                        void *user) {
    MDB_txn *txn = NULL;
    char note[MR_NOTE_BYTES] = {0};
    size_t ignored = 0;
    if (begin_write(env, &txn, &ignored) != 0) {
        return false;
    }
    call c = {.txn = txn, .dbi = env->dbi, .key = value_of(key, key_size)};
    int code = guarded(env, do_get, &c);
    if (code == 0 && c.data.mv_size == sizeof note) {
        code = mr_guard_copy(note, c.data.mv_data, sizeof note) ? 0 : EIO;
    }
    if (code == 0 || code == MDB_NOTFOUND) {
        edit(user, note);
        c.data = value_of(note, sizeof note);
        code = mdb_cursor_open(txn, env->dbi, &c.cursor);
        code = code ? code : change(env, do_cursor_put, &c);
    }
    return end_write(env, txn, code) == 0;
}
