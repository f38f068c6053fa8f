/* SPDX-License-Identifier: Apache-2.0 */
/* stores.c - see stores.h: opening, plans and finding. */
#include "run/cache/stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/machine.h"
#include "run/cache/store_parts.h"
#include "store/guard.h"

/* The process's open stores: state that no object owns, because LMDB's is the process's too. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static mr_store *registry;

int64_t mr_store_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Opening ---- */
static mr_store *find_open(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return NULL;
    }
    for (mr_store *store = registry; store; store = store->next) {
        if (store->owner == getpid() && store->device == info.st_dev &&
            store->inode == info.st_ino) {
            return store;
        }
    }
    return NULL;
}

/* ---- The index, and making it again from the segments ---- */
enum { REBUILT = 64 }; /* entries in a transaction */

typedef struct rebuilding {
    mr_env *index;
    mr_store_key keys[REBUILT];
    unsigned char locations[REBUILT][MR_LOCATION_BYTES];
    int32_t n;
    mr_env_result result;
} rebuilding;

static void put_rebuilt(rebuilding *r) {
    mr_env_item items[REBUILT];
    for (int32_t i = 0; i < r->n; i++) {
        items[i] = (mr_env_item){&r->keys[i], r->locations[i], MR_LOCATION_BYTES};
    }
    r->result = r->n > 0 ? mr_env_put(r->index, items, r->n, NULL) : MR_ENV_OK;
    r->n = 0;
}

static bool add_rebuilt(void *user, const mr_store_key *key, const mr_location *location) {
    rebuilding *r = user;
    r->keys[r->n] = *key;
    mr_location_save(*location, r->locations[r->n++]);
    if (r->n == REBUILT) {
        put_rebuilt(r);
    }
    return r->result == MR_ENV_OK;
}

/* Values are checked when they are read, so frames that look whole are enough. The last of a key
 * counts: the one before it was damaged. */
static void rebuild_index(mr_store *store) {
    size_t n = 0;
    rebuilding r = {.index = store->index};
    mr_segment_info *list = mr_segments_list(store->segments, &n);
    if (n > 0 && mr_place_mark(&store->place, NULL) == MR_OK) {
        for (size_t i = 0; i < n && r.result == MR_ENV_OK; i++) {
            mr_segment_scan(store->segments, list[i].id, add_rebuilt, &r);
            put_rebuilt(&r);
        }
    }
    free(list);
}

static int64_t index_bytes(const mr_store *store) {
    const int64_t least = 524288;
    int64_t quarter = mr_place_bytes(&store->place) / 4;
    return quarter > least ? quarter : least;
}

static mr_status open_sound(mr_store *store, mr_error *err) {
    bool first = store->place.came_first;
    if (first && mr_place_index_is_bad(&store->place)) {
        return mr_fail(err, MR_E_CORRUPT, "its index was damaged, and is made again");
    }
    MR_TRY(mr_env_open(&store->index, &store->place, index_bytes(store), err));
    if (!first || mr_env_is_sound(store->index)) {
        return MR_OK;
    }
    mr_env_close(store->index);
    store->index = NULL;
    return mr_fail(err, MR_E_CORRUPT, "its index was damaged, and is made again");
}

/* One that is damaged is made again by whoever is alone; so is one that is empty beside segments,
 * which is what a process leaves that was killed before its first entry, and no damage. */
static mr_status open_index(mr_store *store, mr_error *err) {
    mr_error damage = MR_ERROR_INIT;
    mr_status status = open_sound(store, err ? err : &damage);
    if (status == MR_E_CORRUPT && mr_place_be_alone(&store->place)) {
        mr_place_forget_index(&store->place);
        mr_place_share(&store->place);
        atomic_fetch_add(&store->damaged, 1);
        mr_store_note_trouble(store, err ? err : &damage);
        status = mr_env_open(&store->index, &store->place, index_bytes(store), err);
    }
    if (status == MR_OK && store->place.came_first && mr_env_count(store->index) == 0) {
        rebuild_index(store);
    }
    return status;
}

static mr_status open_parts(mr_store *store, const mr_store_params *params, const mr_log *log,
                            mr_error *err) {
    struct stat info;
    MR_TRY(mr_place_open(&store->place, params, log, err));
    if (fstat(store->place.dir, &info) != 0) {
        return mr_fail_errno(err, MR_E_IO, errno, "cannot look at the store");
    }
    store->device = info.st_dev;
    store->inode = info.st_ino;
    store->segments = mr_segments_open(&store->place);
    if (!store->segments) {
        return mr_fail_memory(err, 256);
    }
    MR_TRY(open_index(store, err));
    mr_use_open(&store->use, &store->place);
    atomic_store(&store->round, mr_use_round(&store->use));
    store->claims = mr_claims_open(&store->place);
    store->whole = true;
    return mr_threads_start(&store->writer, 1, "mr-store", mr_spill_main, store, 0, err);
}

static bool sync_all(const mr_store *store) {
    return mr_segments_sync(store->segments) && mr_env_sync(store->index);
}

/* What this process wrote is safe once it is synced, and what others wrote too, if there are no
 * others any more. Most of it is synced before the others are kept waiting. */
static void leave_place(mr_store *store) {
    if (!store->whole) {
        return; /* never opened: it is not ours to tidy up */
    }
    bool disk = store->place.tier == MR_TIER_DISK;
    if (disk && atomic_load(&store->place.marked)) {
        sync_all(store);
    }
    if (!mr_place_leave(&store->place)) {
        return;
    }
    if (!disk) {
        mr_place_remove(&store->place);
    } else if (atomic_load(&store->place.marked) || mr_place_is_marked(&store->place)) {
        if (sync_all(store)) {
            mr_place_seal(&store->place); /* without it the tree is all that is looked at */
            mr_place_unmark(&store->place);
        }
    }
}

static void stop_writer(mr_store *store) {
    pthread_mutex_lock(&store->lock);
    store->stopping = true;
    pthread_cond_broadcast(&store->work);
    pthread_mutex_unlock(&store->lock);
    mr_threads_join(&store->writer);
}

static void free_store(mr_store *store) {
    stop_writer(store);
    mr_store_free_buffers(store);
    if (store->segments) {
        mr_segments_pause(store->segments);
    }
    leave_place(store);
    if (store->index && mr_env_is_doubtful(store->index)) {
        mr_place_mark_bad(&store->place);
    }
    mr_env_close(store->index);
    mr_segments_close(store->segments);
    mr_use_close(&store->use);
    if (store->claims >= 0) {
        close(store->claims);
    }
    mr_place_close(&store->place);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->holding);
    pthread_mutex_destroy(&store->writing);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->room);
    mr_free(store);
}

static mr_store *new_store(void) {
    pthread_condattr_t forward;
    mr_store *store = mr_zalloc(1, sizeof *store);
    if (store) {
        store->owner = getpid();
        store->claims = -1;
        store->place = (mr_place){.dir = -1, .users = -1};
        store->last = &store->first;
        pthread_condattr_init(&forward);
        pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
        pthread_mutex_init(&store->lock, NULL);
        pthread_mutex_init(&store->holding, NULL);
        pthread_mutex_init(&store->writing, NULL);
        pthread_cond_init(&store->work, &forward);
        pthread_cond_init(&store->room, &forward);
        pthread_condattr_destroy(&forward);
    }
    return store;
}

static mr_status open_new(mr_store **out, const mr_store_params *params, const mr_log *log,
                          mr_error *err) {
    mr_store *store = new_store();
    if (!store) {
        return mr_fail_memory(err, sizeof *store);
    }
    bool first = registry == NULL;
    if (first) {
        mr_guard_install();
    }
    mr_status status = open_parts(store, params, log, err);
    if (status < 0) {
        free_store(store);
        if (first) {
            mr_guard_remove();
        }
        return status;
    }
    store->next = registry;
    registry = store;
    *out = store;
    return MR_OK;
}

mr_status mr_store_open(mr_store **out, const mr_store_params *params, const mr_log *log,
                        mr_error *err) {
    char *path = mr_place_path(params, err);
    if (!path) {
        return MR_E_NOT_FOUND;
    }
    pthread_mutex_lock(&registry_lock);
    mr_store *store = find_open(path);
    mr_status status = store ? MR_OK : open_new(&store, params, log, err);
    if (status == MR_OK) {
        store->users++;
        *out = store;
    }
    pthread_mutex_unlock(&registry_lock);
    free(path);
    return status;
}

void mr_store_close(mr_store *store) {
    if (!store || store->owner != getpid()) {
        return;
    }
    pthread_mutex_lock(&registry_lock);
    if (--store->users == 0) {
        mr_store **link = &registry;
        while (*link != store) {
            link = &(*link)->next;
        }
        *link = store->next;
        free_store(store);
        if (!registry) {
            mr_guard_remove();
        }
    }
    pthread_mutex_unlock(&registry_lock);
}

const char *mr_store_path(const mr_store *store) {
    return store->place.path;
}

/* ---- Trouble ---- */
void mr_store_note_trouble(mr_store *store, const mr_error *err) {
    pthread_mutex_lock(&store->lock);
    if (!atomic_load(&store->troubled)) {
        char shown[200];
        mr_text_escape(shown, sizeof shown, store->place.path);
        snprintf(store->trouble, sizeof store->trouble,
                 "the store at %s: %s%s%s; samples that it lacks are made again", shown, err->text,
                 err->hint[0] ? "; " : "", err->hint);
        atomic_store(&store->troubled, true);
    }
    pthread_mutex_unlock(&store->lock);
}

bool mr_store_trouble(mr_store *store, char *text, size_t size) {
    if (!atomic_load_explicit(&store->troubled, memory_order_acquire)) {
        return false;
    }
    pthread_mutex_lock(&store->lock);
    snprintf(text, size, "%s", store->trouble);
    pthread_mutex_unlock(&store->lock);
    return true;
}

void mr_store_refuse(mr_store *store) {
    atomic_fetch_add_explicit(&store->refused, 1, memory_order_relaxed);
}

void mr_store_counts_get(mr_store *store, mr_store_counts *out) {
    *out = (mr_store_counts){
        .stored = atomic_load(&store->stored),
        .stored_bytes = atomic_load(&store->stored_bytes),
        .evicted = atomic_load(&store->evicted),
        .refused = atomic_load(&store->refused),
        .damaged = atomic_load(&store->damaged),
    };
}

/* ---- Plans ---- */
static void prefix_bytes(mr_hash128 prefix, unsigned char out[8]) {
    memcpy(out, &prefix.low, 8);
}

static int32_t find_plan(const mr_store *store, const unsigned char prefix[8]) {
    int32_t unused = -1;
    for (int32_t i = 0; i < MR_MAX_PLANS; i++) {
        const mr_joined *plan = &store->plans[i];
        if (plan->users > 0 && memcmp(plan->prefix, prefix, 8) == 0) {
            return i;
        }
        unused = plan->users == 0 && unused < 0 ? i : unused;
    }
    return unused;
}

int32_t mr_store_join(mr_store *store, const mr_store_plan *plan) {
    unsigned char prefix[8];
    prefix_bytes(plan->prefix, prefix);
    pthread_mutex_lock(&store->lock);
    int32_t i = find_plan(store, prefix);
    if (i >= 0 && store->plans[i].users++ == 0) {
        mr_joined *joined = &store->plans[i];
        memcpy(joined->prefix, prefix, sizeof joined->prefix);
        snprintf(joined->text, sizeof joined->text, "%s", plan->text);
        joined->whole = plan->whole;
        joined->epochs = 0;
        atomic_store(&joined->found, 0);
        atomic_store(&joined->missed, 0);
        for (int k = 0; k < 3; k++) {
            joined->began[k] = (uint16_t)atomic_load(&store->round);
        }
    }
    pthread_mutex_unlock(&store->lock);
    return i;
}

static void reopen(mr_store *store) {
    atomic_store(&store->closed_until, 0);
}

void mr_store_epoch(mr_store *store, int32_t plan) {
    uint16_t round = mr_use_next_round(&store->use);
    pthread_mutex_lock(&store->holding);
    mr_segments_fit(store->segments, mr_machine_memory());
    pthread_mutex_unlock(&store->holding);
    pthread_mutex_lock(&store->lock);
    atomic_store(&store->round, round);
    if (plan >= 0) {
        mr_joined *joined = &store->plans[plan];
        joined->began[2] = joined->began[1];
        joined->began[1] = joined->began[0];
        joined->began[0] = round;
        if (joined->epochs++ == 0) {
            atomic_store(&joined->first, round);
        }
    }
    pthread_mutex_unlock(&store->lock);
    reopen(store); /* something may have become old */
}

void mr_store_tally(mr_store *store, int32_t plan, bool found) {
    if (plan < 0) {
        return;
    }
    mr_joined *joined = &store->plans[plan];
    atomic_fetch_add_explicit(found ? &joined->found : &joined->missed, 1, memory_order_relaxed);
    if (!found && atomic_load_explicit(&joined->missed, memory_order_relaxed) == MR_PLAN_TRIAL) {
        reopen(store);
    }
}

static void add_to_note(void *user, char bytes[MR_NOTE_BYTES]) {
    const mr_plan_note *more = user;
    mr_plan_note note;
    memcpy(&note, bytes, sizeof note);
    note.hits += more->hits;
    note.misses += more->misses;
    note.made = note.made ? note.made : more->used;
    note.used = more->used;
    memcpy(note.text, more->text, sizeof note.text);
    memcpy(bytes, &note, sizeof note);
}

void mr_store_leave(mr_store *store, int32_t plan, int64_t hits, int64_t misses) {
    mr_plan_note note = {.hits = hits, .misses = misses, .used = (int64_t)time(NULL)};
    unsigned char prefix[8];
    if (plan < 0) {
        return;
    }
    pthread_mutex_lock(&store->lock);
    mr_joined *joined = &store->plans[plan];
    memcpy(note.text, joined->text, sizeof note.text);
    memcpy(prefix, joined->prefix, sizeof prefix);
    joined->users--;
    pthread_mutex_unlock(&store->lock);
    mr_error ignored = MR_ERROR_INIT;
    if (hits + misses > 0 && mr_place_mark(&store->place, &ignored) == MR_OK) {
        mr_env_change_note(store->index, prefix, sizeof prefix, add_to_note, &note);
    }
}

mr_store_key mr_store_key_of(mr_hash128 prefix, const uint64_t identity[2]) {
    const uint64_t words[4] = {prefix.low, prefix.high, identity[0], identity[1]};
    mr_hash128 item = mr_hash(words, sizeof words);
    mr_store_key key;
    memcpy(key.bytes, &prefix.low, 8);
    memcpy(key.bytes + 8, &item.low, 8);
    memcpy(key.bytes + 16, &item.high, 8);
    return key;
}

/* ---- Finding ---- */
struct mr_store_reader {
    mr_store *store;
    mr_env_reader *index; /* opened when first needed */
    mr_segment *segment;  /* held */
    mr_pending *held;
    uint16_t stamp; /* that what was found had before */
};

mr_store_reader *mr_store_reader_new(mr_store *store) {
    mr_store_reader *reader = mr_zalloc(1, sizeof *reader);
    if (reader) {
        reader->store = store;
    }
    return reader;
}

void mr_store_reader_free(mr_store_reader *reader) {
    if (reader) {
        mr_store_done(reader);
        mr_env_reader_free(reader->index);
        mr_free(reader);
    }
}

static void release_segment(mr_store *store, mr_segment *segment) {
    pthread_mutex_lock(&store->holding);
    mr_segments_release(store->segments, segment);
    pthread_mutex_unlock(&store->holding);
}

void mr_store_done(mr_store_reader *reader) {
    if (reader->segment) {
        release_segment(reader->store, reader->segment);
        reader->segment = NULL;
    }
    if (reader->held) {
        mr_pending_release(reader->store, reader->held);
        reader->held = NULL;
    }
}

static bool hold_pending(mr_store_reader *reader, const mr_store_key *key) {
    mr_store *store = reader->store;
    if (atomic_load_explicit(&store->n_pending, memory_order_acquire) == 0) {
        return false;
    }
    pthread_mutex_lock(&store->lock);
    mr_pending *pending = mr_pending_find(store, key);
    if (pending && pending->record) {
        pending->readers++;
        reader->held = pending;
    }
    pthread_mutex_unlock(&store->lock);
    return reader->held != NULL;
}

/* An entry that leads to nothing would keep a new one from its place: the writer deletes it, and
 * until then nobody follows it again. More than there is room for are found once more. Locked. */
static bool is_in_unwanted(const mr_store *store, const mr_store_key *key) {
    bool found = false;
    for (int32_t i = 0; i < store->n_unwanted && !found; i++) {
        found = memcmp(&store->unwanted[i], key, sizeof *key) == 0;
    }
    return found;
}

static bool is_unwanted(mr_store *store, const mr_store_key *key) {
    if (atomic_load_explicit(&store->n_unwanted, memory_order_relaxed) == 0) {
        return false;
    }
    pthread_mutex_lock(&store->lock);
    bool found = is_in_unwanted(store, key);
    pthread_mutex_unlock(&store->lock);
    return found;
}

/* False: it was noted already. */
static bool note_unwanted(mr_store *store, const mr_store_key *key) {
    pthread_mutex_lock(&store->lock);
    bool is_new = !is_in_unwanted(store, key);
    if (is_new && store->n_unwanted < MR_MAX_UNWANTED) {
        store->unwanted[store->n_unwanted++] = *key;
    }
    pthread_mutex_unlock(&store->lock);
    return is_new;
}

static bool ask_index(mr_store_reader *reader, const mr_store_key *key, mr_location *out) {
    const void *data = NULL;
    size_t size = 0;
    unsigned char bytes[MR_LOCATION_BYTES];
    if (!reader->index) {
        reader->index = mr_env_reader_new(reader->store->index);
    }
    if (!reader->index || !mr_env_begin(reader->index)) {
        return false;
    }
    bool found = mr_env_find(reader->index, key, &data, &size) && size == sizeof bytes &&
                 mr_guard_copy(bytes, data, sizeof bytes);
    mr_env_end(reader->index);
    if (found) {
        *out = mr_location_load(bytes);
    }
    return found;
}

/* Asks the index and holds the segment. */
static mr_segment *hold_value(mr_store_reader *reader, const mr_store_key *key,
                              mr_location *location) {
    mr_store *store = reader->store;
    if (is_unwanted(store, key) || !ask_index(reader, key, location)) {
        return NULL;
    }
    pthread_mutex_lock(&store->holding);
    mr_segment *segment = mr_segments_hold(store->segments, location);
    pthread_mutex_unlock(&store->holding);
    if (!segment) {
        (void)note_unwanted(store, key);
    }
    return segment;
}

/* Looks a key up; what it gave lives until mr_store_done. */
static bool look_up(mr_store_reader *reader, const mr_store_key *key, const void **data,
                    size_t *size) {
    mr_location location;
    if (hold_pending(reader, key)) {
        *data = reader->held->record->bytes;
        *size = reader->held->record->used;
        return true;
    }
    reader->segment = hold_value(reader, key, &location);
    *data = reader->segment ? mr_segment_view(reader->segment, &location) : NULL;
    *size = *data ? (size_t)location.length : 0;
    return *data != NULL;
}

bool mr_store_find(mr_store_reader *reader, const mr_store_key *key, mr_record *record,
                   mr_arena *arena) {
    mr_store *store = reader->store;
    const void *data = NULL;
    size_t size = 0;
    mr_use_expect(&store->use, key);
    bool found = look_up(reader, key, &data, &size);
    mr_status status = found ? mr_record_open(record, key, data, size, arena) : MR_E_NOT_FOUND;
    if (status == MR_OK) {
        reader->stamp = mr_use_touch(&store->use, key, (uint16_t)atomic_load(&store->round));
        return true;
    }
    mr_store_done(reader);
    if (status == MR_E_CORRUPT) {
        mr_store_doubt(store, key);
    }
    return false;
}

bool mr_store_was_there(const mr_store_reader *reader, int32_t plan) {
    return plan >= 0 && !reader->held &&
           mr_use_is_older(reader->stamp, (uint16_t)atomic_load(&reader->store->plans[plan].first));
}

bool mr_store_has(mr_store_reader *reader, const mr_store_key *key) {
    mr_location location;
    bool found = hold_pending(reader, key);
    if (!found) {
        reader->segment = hold_value(reader, key, &location);
        found = reader->segment != NULL;
    }
    if (reader->segment) {
        mr_segment_fetch(reader->segment, &location);
    }
    mr_store_done(reader);
    return found;
}

static void note_damage(mr_store *store) {
    mr_error err = MR_ERROR_INIT;
    mr_fail(&err, MR_E_CORRUPT, "a value was damaged");
    mr_store_note_trouble(store, &err);
}

void mr_store_doubt(mr_store *store, const mr_store_key *key) {
    if (note_unwanted(store, key)) { /* a worker and one that helps may meet the same value */
        atomic_fetch_add(&store->damaged, 1);
    }
    note_damage(store);
}

/* ---- Locations ---- */
bool mr_store_locate(mr_store_reader *reader, const mr_store_key *key, mr_store_location *out) {
    mr_location location;
    mr_segment *segment = hold_value(reader, key, &location);
    if (!segment) {
        return false;
    }
    *out = (mr_store_location){segment, mr_segment_file(segment), (int64_t)location.offset,
                               (size_t)location.length, location.sum};
    return true;
}

_Static_assert(MR_STORE_BRING_ROOM == MR_BRING_ROOM, "one room");

static mr_location place_of(const mr_store_location *location) {
    return (mr_location){.offset = (uint64_t)location->offset, .length = location->size};
}

mr_status mr_store_read(const mr_store_location *location, void *bytes, mr_error *err) {
    const mr_location where = place_of(location);
    return mr_segment_read(location->segment, &where, bytes, err);
}

mr_status mr_store_bring(const mr_store_location *location, void *memory, size_t *at,
                         mr_error *err) {
    const mr_location where = place_of(location);
    return mr_segment_bring(location->segment, &where, memory, at, err);
}

mr_value_place mr_store_where(mr_store_reader *reader, const mr_store_key *key,
                              mr_store_location *out) {
    bool pending = hold_pending(reader, key);
    mr_store_done(reader);
    if (pending || !mr_store_locate(reader, key, out)) {
        return pending ? MR_VALUE_IN_MEMORY : MR_VALUE_ABSENT;
    }
    const mr_location where = place_of(out);
    if (mr_segment_is_in_memory(out->segment, &where)) {
        mr_store_let_go(reader->store, out);
        return MR_VALUE_IN_MEMORY;
    }
    return MR_VALUE_ON_DISK;
}

bool mr_store_use(mr_store_reader *reader, const mr_store_key *key) {
    mr_store *store = reader->store;
    if (is_unwanted(store, key)) {
        return false;
    }
    reader->stamp = mr_use_touch(&store->use, key, (uint16_t)atomic_load(&store->round));
    return true;
}

void mr_store_let_go(mr_store *store, mr_store_location *location) {
    if (location->segment) {
        release_segment(store, location->segment);
        location->segment = NULL;
    }
}
