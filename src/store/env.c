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
#include "store/leaf.h"

struct mr_env {
    MDB_env *lmdb;
    MDB_dbi dbi;
    char path[64];
    size_t page, pages; /* size of one, and how many there may be */
    atomic_bool doubtful;
    _Atomic int64_t longest; /* that the file was seen to be */
    int turns;               /* the file whose byte writers lock */
};

struct mr_env_reader {
    mr_env *env;
    MDB_txn *txn; /* reset between uses */
    bool active;
};

enum { TURN = 16 }; /* byte of the list of users, beyond those that place.c locks */
enum { READERS = MR_ENV_LOCK_BYTES / 64 - 8 }; /* threads of all processes together */

/* Of two kinds of keys the longer; shorter ones end with zeros here. */
typedef struct last_key {
    unsigned char bytes[MR_KEY_BYTES];
    size_t size; /* 0: there is none yet */
} last_key;

/* ---- Guarded calls of LMDB: it reads the mapped file itself ---- */
typedef struct call {
    MDB_env *lmdb;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val key, data;
    MDB_cursor_op op;
    last_key last; /* do_next: where the walk is */
    unsigned flags;
    int result;
    size_t page;
    size_t unused_pages; /* look_at_lists: freed ones, and those beyond the last */
} call;

static void do_get(void *user) {
    call *c = user;
    c->result = mdb_get(c->txn, c->dbi, &c->key, &c->data);
}

/* Whether a key comes after the last one, whose place it takes. */
static bool is_later(last_key *last, const MDB_val *key) {
    size_t common = key->mv_size < last->size ? key->mv_size : last->size;
    if (key->mv_size > sizeof last->bytes) {
        return false;
    }
    int order = memcmp(last->bytes, key->mv_data, common);
    bool later = order < 0 || (order == 0 && last->size < key->mv_size);
    memcpy(last->bytes, key->mv_data, key->mv_size);
    last->size = key->mv_size;
    return later;
}

/* From key to key: where pages lead to each other in a circle, or several ways to one page, a walk
 * would hardly end; but keys that ascend come once. */
static void do_next(void *user) {
    call *c = user;
    c->result = mdb_cursor_get(c->cursor, &c->key, &c->data, c->op);
    if (c->result == 0 && !is_later(&c->last, &c->key)) {
        c->result = MDB_CORRUPTED;
    }
}

static void do_begin(void *user) {
    call *c = user;
    c->result = mdb_txn_begin(c->lmdb, NULL, c->flags, &c->txn);
}

static void do_renew(void *user) {
    call *c = user;
    c->result = mdb_txn_renew(c->txn);
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

/* Pages that contradict each other are as bad as pages that cannot be read. */
static int judge(mr_env *env, int code) {
    if (code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND || code == MDB_PANIC ||
        code == MDB_INVALID) {
        atomic_store(&env->doubtful, true);
    }
    return code;
}

static int guarded(mr_env *env, void (*body)(void *), call *c) {
    if (!mr_guard_call(body, c)) {
        c->result = EIO;
    }
    if (c->result == EIO) {
        atomic_store(&env->doubtful, true);
    }
    return judge(env, c->result);
}

static MDB_val value_of(const void *data, size_t size) {
    return (MDB_val){size, (void *)(uintptr_t)data};
}

/* Killed processes leave their places, and with them what they were reading. */
static void forget_dead_readers(const mr_env *env) {
    call c = {.lmdb = env->lmdb};
    mr_guard_call(do_check_readers, &c);
}

/* Files of LMDB only grow. One that became shorter would end a change in the middle: looked at
 * before. */
static bool is_whole(mr_env *env) {
    mdb_filehandle_t file;
    struct stat info;
    int64_t longest = atomic_load(&env->longest);
    bool whole = mdb_env_get_fd(env->lmdb, &file) == 0 && fstat(file, &info) == 0 &&
                 info.st_size >= 2 * (off_t)env->page && info.st_size >= longest;
    if (!whole) {
        atomic_store(&env->doubtful, true);
    } else if (info.st_size > longest) {
        atomic_compare_exchange_strong(&env->longest, &longest, (int64_t)info.st_size);
    }
    return whole;
}

static int begin(mr_env *env, unsigned flags, MDB_txn **txn) {
    call c = {.lmdb = env->lmdb, .flags = flags};
    int code = mr_env_is_doubtful(env) || !is_whole(env) ? EIO : guarded(env, do_begin, &c);
    *txn = code == 0 ? c.txn : NULL;
    return code;
}

/* ---- Writers take turns ----
 * LMDB has a lock for that, but it waits for ever, also for a process that was stopped with it. So
 * whoever writes locks a byte first, and gives up after a while. */
static bool lock_turn(const mr_env *env, short kind) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = TURN, .l_len = 1};
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

/* Lists are filed under numbers that ascend. */
static bool is_later_list(size_t *last, const MDB_val *key) {
    size_t number = 0;
    if (key->mv_size == sizeof number) {
        memcpy(&number, key->mv_data, sizeof number);
    }
    bool later = number > *last;
    *last = number;
    return later;
}

static void look_at_lists(void *user) {
    call *c = user;
    MDB_envinfo info;
    size_t last = 0;
    c->result = mdb_env_info(c->lmdb, &info);
    for (c->op = MDB_FIRST; c->result == 0; c->op = MDB_NEXT) {
        c->result = mdb_cursor_get(c->cursor, &c->key, &c->data, c->op);
        if (c->result == 0 &&
            !(is_later_list(&last, &c->key) && is_sound_list(&c->data, info.me_last_pgno))) {
            c->result = MDB_CORRUPTED;
        } else if (c->result == 0) {
            c->unused_pages += *(const size_t *)c->data.mv_data;
        }
    }
    c->unused_pages += info.me_mapsize / c->page - 1 - info.me_last_pgno;
    c->result = c->result == MDB_NOTFOUND ? 0 : c->result;
}

/* Entries and notes are small enough to lie in the page of their key. */
static bool is_sound_entry(const MDB_val *key, const MDB_val *data, uintptr_t page, size_t size) {
    bool known = key->mv_size == sizeof(mr_store_key) ||
                 (key->mv_size == sizeof(uint64_t) && data->mv_size == MR_NOTE_BYTES);
    uintptr_t at = (uintptr_t)data->mv_data;
    return known && at == (uintptr_t)key->mv_data + key->mv_size &&
           at + data->mv_size <= page + size;
}

/* Every page once: entries come in the order of the pages they lie in. */
static void look_at_tree(void *user) {
    call *c = user;
    uintptr_t seen = 0;
    for (c->op = MDB_FIRST; c->result == 0; c->op = MDB_NEXT) {
        do_next(c);
        if (c->result != 0) {
            break;
        }
        uintptr_t at = (uintptr_t)c->key.mv_data, page = at - at % c->page;
        bool sound = is_sound_entry(&c->key, &c->data, page, c->page) &&
                     (page == seen || mr_leaf_is_sound((const void *)page, c->page));
        c->result = sound ? 0 : MDB_CORRUPTED;
        seen = page;
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

/* Reads the pages that lead to where the items will be. */
static int look_at_ways(mr_env *env, const mr_env_item *items, int32_t n) {
    call c = {.dbi = env->dbi};
    int code = n > 0 ? begin(env, MDB_RDONLY, &c.txn) : 0;
    for (int32_t i = 0; i < n && code == 0; i++) {
        c.key = value_of(items[i].key, sizeof *items[i].key);
        code = guarded(env, do_get, &c);
        code = code == MDB_NOTFOUND ? 0 : code;
    }
    if (c.txn) {
        mdb_txn_abort(c.txn);
    }
    return code;
}

/* A writer begins with its turn, and with a look at all that it relies on. Nothing is guarded from
 * then on: LMDB's own lock must not be left behind by a jump. */
static int begin_write(mr_env *env, const mr_env_item *items, int32_t n, MDB_txn **txn,
                       size_t *unused_pages) {
    if (!wait_for_turn(env)) {
        return EBUSY;
    }
    call c;
    int code = look_at(env, FREE_PAGES, look_at_lists, &c);
    *unused_pages = c.unused_pages;
    code = code ? code : look_at_ways(env, items, n);
    code = code ? code : judge(env, mdb_txn_begin(env->lmdb, NULL, 0, txn));
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

static int prepare_files(const mr_place *place) {
    int sys = prepare_file(place, MR_INDEX_FILE, 0);
    return sys ? sys : prepare_file(place, MR_INDEX_FILE "-lock", MR_ENV_LOCK_BYTES);
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

mr_status mr_env_open(mr_env **out, const mr_place *place, int64_t size, mr_error *err) {
    mr_env *env = mr_zalloc(1, sizeof *env);
    if (!env) {
        return mr_fail_memory(err, sizeof *env);
    }
    /* By the folder that was looked at, whatever its name means by now. */
    snprintf(env->path, sizeof env->path, "/proc/self/fd/%d/" MR_INDEX_FILE, place->dir);
    env->page = (size_t)sysconf(_SC_PAGESIZE);
    env->turns = place->users;
    size -= size % (int64_t)env->page;
    env->pages = (size_t)size / env->page;
    int code = prepare_files(place);
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
        if (env->lmdb) {
            call c = {.lmdb = env->lmdb};
            mr_guard_call(do_close, &c); /* a fault leaves a little memory behind */
        }
        mr_free(env);
    }
}

bool mr_env_sync(mr_env *env) {
    return !mr_env_is_doubtful(env) && is_whole(env) && mdb_env_sync(env->lmdb, 1) == 0;
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

static int end_write(mr_env *env, MDB_txn *txn, int code) {
    if (code == 0) {
        code = judge(env, mdb_txn_commit(txn));
    } else {
        mdb_txn_abort(txn);
    }
    lock_turn(env, F_UNLCK);
    return code;
}

static int put_all(mr_env *env, MDB_txn *txn, const mr_env_item *items, int32_t n) {
    int code = 0;
    for (int32_t i = 0; i < n && code == 0; i++) {
        MDB_val key = value_of(items[i].key, sizeof *items[i].key);
        MDB_val data = value_of(items[i].data, items[i].size);
        code = judge(env, mdb_put(txn, env->dbi, &key, &data, 0));
    }
    return code;
}

/* Deleting copies pages too: of an environment that is full to the last page nothing could be
 * evicted. */
static size_t spare_pages(const mr_env *env) {
    return 24 + env->pages / 32;
}

/* Each may touch a page of its own, and all the pages above it. */
static bool is_room(const mr_env *env, int32_t n, size_t unused_pages) {
    return spare_pages(env) + 4 + 2 * (size_t)n <= unused_pages;
}

mr_env_result mr_env_put(mr_env *env, const mr_env_item *items, int32_t n, mr_error *err) {
    MDB_txn *txn = NULL;
    size_t unused_pages = 0;
    int code = begin_write(env, items, n, &txn, &unused_pages);
    if (code == 0) {
        bool fits = is_room(env, n, unused_pages);
        code = end_write(env, txn, fits ? put_all(env, txn, items, n) : MDB_MAP_FULL);
    }
    return outcome(code, err);
}

/* ---- Deleting ---- */
typedef struct deletion {
    mr_env_choose *choose;
    void *user;
    mr_store_key at; /* where the walk goes on */
    bool ended;
    int64_t step, n; /* deletions in this step: at most, and done */
} deletion;

/* Looks at one entry; a code other than 0 ends the walk. */
static int consider(deletion *d, MDB_cursor *cursor, const MDB_val *key, const MDB_val *data) {
    if (key->mv_size != sizeof d->at) {
        return 0;
    }
    memcpy(&d->at, key->mv_data, sizeof d->at);
    if (!d->choose(d->user, &d->at, data->mv_data, data->mv_size)) {
        return 0;
    }
    d->n++;
    return mdb_cursor_del(cursor, 0);
}

static int walk_on(const mr_env *env, MDB_txn *txn, deletion *d) {
    MDB_cursor *cursor = NULL;
    mr_store_key start = d->at;
    MDB_val key = value_of(&start, sizeof start), data;
    int code = mdb_cursor_open(txn, env->dbi, &cursor);
    code = code ? code : mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
    while (code == 0 && d->n < d->step) {
        code = consider(d, cursor, &key, &data);
        code = code ? code : mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
    }
    d->ended = code == MDB_NOTFOUND;
    return d->ended ? 0 : code; /* the cursor ends with the transaction */
}

static int delete_step(mr_env *env, deletion *d) {
    MDB_txn *txn = NULL;
    size_t ignored = 0;
    call c;
    d->n = 0;
    forget_dead_readers(env);
    int code = look_at(env, env->dbi, look_at_tree, &c);
    code = code ? code : begin_write(env, NULL, 0, &txn, &ignored);
    return code ? code : end_write(env, txn, judge(env, walk_on(env, txn, d)));
}

/* Ends where the tree ends: what others put behind it meanwhile is not waited for. */
mr_status mr_env_delete(mr_env *env, mr_env_choose *choose, void *user, int64_t *n, mr_error *err) {
    deletion d = {.choose = choose, .user = user, .step = 256};
    int code = 0;
    *n = 0;
    while (code == 0 && !d.ended) {
        mr_store_key from = d.at;
        code = delete_step(env, &d);
        *n += code == 0 ? d.n : 0;
        if (code == MDB_MAP_FULL && d.step > 1) { /* deleting takes pages: fewer at a time */
            d.at = from;
            d.step /= 4;
            d.ended = false;
            code = 0;
        }
    }
    return code == 0 ? MR_OK : failed(err, code, "cannot delete from the store");
}

mr_status mr_env_remove(mr_env *env, const mr_store_key *keys, int32_t n, mr_error *err) {
    MDB_txn *txn = NULL;
    size_t ignored = 0;
    int code = begin_write(env, NULL, 0, &txn, &ignored);
    if (code == 0) {
        for (int32_t i = 0; i < n && code == 0; i++) {
            MDB_val key = value_of(&keys[i], sizeof keys[i]);
            code = judge(env, mdb_del(txn, env->dbi, &key, NULL));
            code = code == MDB_NOTFOUND ? 0 : code;
        }
        code = end_write(env, txn, code);
    }
    return code == 0 ? MR_OK : failed(err, code, "cannot delete from the store");
}

/* ---- Looking at everything ---- */
mr_status mr_env_walk(mr_env *env, mr_env_visit *visit, void *user, mr_error *err) {
    MDB_txn *txn = NULL;
    call c = {.op = MDB_FIRST};
    int code = begin(env, MDB_RDONLY, &txn);
    code = code ? code : mdb_cursor_open(txn, env->dbi, &c.cursor);
    bool more = true;
    while (code == 0 && more && (code = guarded(env, do_next, &c)) == 0) {
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

static void do_count(void *user) {
    call *c = user;
    MDB_stat info;
    c->result = mdb_stat(c->txn, c->dbi, &info);
    c->unused_pages = c->result == 0 ? info.ms_entries : 0;
}

int64_t mr_env_count(mr_env *env) {
    call c = {.dbi = env->dbi};
    if (begin(env, MDB_RDONLY, &c.txn) != 0) {
        return -1;
    }
    int code = guarded(env, do_count, &c);
    mdb_txn_abort(c.txn);
    return code == 0 ? (int64_t)c.unused_pages : -1;
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
    if (begin_write(env, NULL, 0, &txn, &ignored) != 0) {
        return false;
    }
    MDB_val name = value_of(key, key_size), data;
    int code = mdb_get(txn, env->dbi, &name, &data);
    if (code == 0 && data.mv_size == sizeof note) {
        memcpy(note, data.mv_data, sizeof note);
    }
    if (code == 0 || code == MDB_NOTFOUND) {
        edit(user, note);
        data = value_of(note, sizeof note);
        code = mdb_put(txn, env->dbi, &name, &data, 0);
    }
    return end_write(env, txn, judge(env, code)) == 0;
}
