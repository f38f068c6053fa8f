/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_store.c - a store whose files cannot be opened, written or synced, whose writes come
 * short, whose disk is full, or for which there is no memory: the stream is the same, and what went
 * wrong is said once. */
#include "rig.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <time.h>

static outcome expected;
static char store[96];

typedef struct said {
    int lines;
    char text[2048];
    mr_cache_stats cache;
} said;

static void note(void *user, const char *text) {
    said *s = user;
    size_t used = strlen(s->text);
    s->lines++;
    snprintf(s->text + used, sizeof s->text - used, "%s\n", text);
}

/* rig_run, with what was said and counted. */
static outcome run_noting(said *s) {
    outcome result = {.status = MR_END, .err = MR_ERROR_INIT};
    char path[256];
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.io = MR_IO_PREAD;
    options.digest = true;
    options.log = (mr_log){note, s};
    rig_path(path, sizeof path, "pipeline.json");
    result.status = mr_pipeline_load(&pipeline, path, NULL, &result.err);
    if (result.status == MR_OK) {
        result.status = mr_loader_open(&loader, pipeline, &options, &result.err);
    }
    if (result.status == MR_OK) {
        result.status = rig_consume(loader, &result.err);
        mr_loader_digest(loader, result.digest);
        mr_loader_flush(loader);
        s->cache.size = (uint32_t)sizeof s->cache;
        mr_loader_cache(loader, 0, &s->cache);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return result;
}

static void forget_store(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", store);
    if (system(command) != 0) {
        fprintf(stderr, "could not remove %s\n", store);
    }
}

/* The tiny dataset with a store: what it is worth is known from a run without. */
static void with_store(void (*test)(void)) {
    char cache[256];
    const struct timespec settle = {0, 80000000}; /* files of just now are not kept */
    rig_make("fail");
    expected = rig_run();
    snprintf(store, sizeof store, "%s/store", rig_folder);
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s\", \"size\": \"8MB\"}},", store);
    rig_write_pipeline("fail", cache);
    nanosleep(&settle, NULL);
    CHECK_INT(expected.status, ==, MR_END);
    outcome kept = rig_run();
    CHECK_TEXT(kept.digest, expected.digest);
    test();
    rig_remove();
}

/* ---- System calls ---------------------------------------------------------------------------- */

static bool is_right(const outcome *result) {
    return result->status == MR_END && strcmp(result->digest, expected.digest) == 0;
}

static bool was_cold; /* there was something to store */

/* A run with the fault, then one without, on what the first left behind. */
static int run_through(const fault *wanted) {
    said first = {0}, second = {0};
    fault_within("/store");
    fault_arm(wanted);
    outcome result = run_noting(&first);
    int64_t struck = fault_disarm();
    outcome after = run_noting(&second);
    bool lost = wanted->kind == FAULT_LASTING && wanted->at == 1 && was_cold;
    bool told = first.lines <= 1 && (!lost || !struck || first.lines == 1);
    /* A write that fails is no damage: what was there before is there still. */
    bool kept = was_cold || wanted->calls != FAULT_WRITE || second.cache.misses == 0;
    if (!is_right(&result) || !is_right(&after) || !told || !kept) {
        rig_show(wanted, &result, "with a store that fails");
        fprintf(stderr, "said %d: %safterwards %s: %s", first.lines, first.text, after.digest,
                second.text);
        return CHILD_BAD;
    }
    return struck ? CHILD_GOOD : CHILD_NO_STRIKE;
}

/* Lets each such call on the store's files fail in turn, with the store cold or warm. */
static void fail_each(unsigned calls, fault_kind kind, int error, bool warm, int64_t least) {
    int verdict = CHILD_GOOD;
    int64_t at = 0;
    while (verdict == CHILD_GOOD && at < 1000) {
        const fault wanted = {calls, kind, ++at, error};
        forget_store();
        was_cold = !warm;
        if (warm) {
            outcome kept = rig_run();
            CHECK(is_right(&kept));
        }
        verdict = rig_child(run_through, &wanted);
    }
    CHECK_INT(verdict, ==, CHILD_NO_STRIKE);
    CHECK_INT(at, >, least);
}

static void each_call_fails(void) {
    for (int warm = 0; warm < 2; warm++) {
        fail_each(FAULT_OPEN, FAULT_ONCE, EMFILE, warm, 5);
        fail_each(FAULT_OPEN, FAULT_LASTING, EACCES, warm, 5);
        fail_each(FAULT_WRITE, FAULT_ONCE, ENOSPC, warm, 1);
        fail_each(FAULT_WRITE, FAULT_LASTING, EIO, warm, 1);
        fail_each(FAULT_SYNC, FAULT_ONCE, EIO, warm, 1);
        fail_each(FAULT_SYNC, FAULT_LASTING, EIO, warm, 1);
        fail_each(FAULT_RENAME, FAULT_ONCE, EROFS, warm, 0);
        fail_each(FAULT_READ, FAULT_ONCE, EIO, warm, 1);
        fail_each(FAULT_READ, FAULT_LASTING, EIO, warm, 1);
        fail_each(FAULT_STAT, FAULT_ONCE, EIO, warm, 1);
    }
}

TEST(each_call_on_the_stores_files_fails) {
    with_store(each_call_fails);
}

static void writes_come_short(void) {
    for (int warm = 0; warm < 2; warm++) {
        const fault partial = {FAULT_WRITE, FAULT_SHORT, 1, 0};
        const fault nothing = {FAULT_READ, FAULT_EOF, 1, 0};
        was_cold = !warm;
        forget_store();
        if (warm) {
            rig_run();
        }
        CHECK_INT(rig_child(run_through, &partial), ==, CHILD_GOOD);
        CHECK_INT(rig_child(run_through, &nothing), ==, CHILD_GOOD);
    }
}

TEST(short_writes_and_reads_change_nothing) {
    with_store(writes_come_short);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int run_without_memory(const fault *wanted) {
    said s = {0};
    int64_t before = fault_live_blocks();
    fault_arm(wanted);
    outcome result = run_noting(&s);
    int64_t struck = fault_disarm(), leaked = fault_live_blocks() - before;
    bool refused = rig_is_clean_error(&result) && result.status == MR_E_MEMORY;
    if ((!is_right(&result) && !refused) || leaked != 0 || s.lines > 1) {
        rig_show(wanted, &result, "without memory");
        fprintf(stderr, "%" PRId64 " blocks more than before, said %d: %s\n", leaked, s.lines,
                s.text);
        return CHILD_BAD;
    }
    return struck ? CHILD_GOOD : CHILD_NO_STRIKE;
}

static void lose_memory(fault_kind kind, bool warm) {
    int verdict = CHILD_GOOD, bad = 0;
    int64_t at = 0;
    while (verdict != CHILD_NO_STRIKE && bad < 5 && at < 50000) {
        const fault wanted = {FAULT_ALLOC, kind, ++at, ENOMEM};
        if (!warm) {
            forget_store();
        }
        verdict = rig_child(run_without_memory, &wanted);
        bad += verdict == CHILD_BAD || verdict == CHILD_DIED;
    }
    CHECK_INT(bad, ==, 0);
    CHECK_INT(at, >, 100);
}

static void each_allocation_fails(void) {
    lose_memory(FAULT_ONCE, false);
    forget_store();
    rig_run();
    lose_memory(FAULT_ONCE, true);
    lose_memory(FAULT_LASTING, true);
}

TEST(each_allocation_fails_once) {
    with_store(each_allocation_fails);
}

/* ---- A disk that is really full -------------------------------------------------------------- */

enum { DISK = 3 << 20 };

static bool mount_disk(int bytes) {
    char options[32];
    forget_store();
    snprintf(options, sizeof options, "size=%d", bytes);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mkdir(store, 0700) == 0 && mount("tmpfs", store, "tmpfs", 0, options) == 0;
}

static void use_samples(int samples, int bytes, const char *cache) {
    char json[1024];
    int n = snprintf(json, sizeof json,
                     "{\"source\": {\"synthetic\": {\"samples\": %d, \"shape\": [%d]}}, "
                     "\"ops\": [%s {\"cast\": {\"dtype\": \"float16\"}}], \"batch\": 8, "
                     "\"epochs\": 2}",
                     samples, bytes, cache);
    rig_file("pipeline.json", json, (size_t)n);
}

/* The reserve of the file system stays free, but for what one transaction may add. */
static int fill_disk(const fault *occupied) {
    char cache[256], path[128];
    said s = {0};
    struct statvfs info;
    if (!mount_disk(DISK)) {
        return CHILD_NO_STRIKE;
    }
    if (occupied->at > 0) {
        snprintf(path, sizeof path, "%s/users", store); /* a name it knows */
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        if (posix_fallocate(fd, 0, (off_t)occupied->at) != 0) {
            fprintf(stderr, "could not fill the disk\n");
        }
        close(fd);
    }
    use_samples(400, 20000, "");
    expected = rig_run();
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s\", \"size\": \"64MB\"}},", store);
    use_samples(400, 20000, cache);
    outcome result = run_noting(&s);
    bool free_left =
        statvfs(store, &info) == 0 && (int64_t)info.f_bavail * (int64_t)info.f_frsize >=
                                          (occupied->at > 0 ? 0 : DISK / 20 - 131072);
    bool counted = s.cache.misses <= s.cache.stored + s.cache.refused;
    if (!is_right(&result) || s.lines != 1 || !free_left || !counted) {
        rig_show(occupied, &result, "on a full disk");
        fprintf(stderr, "said %d: %s%lld bytes free\n", s.lines, s.text,
                (long long)info.f_bavail * (long long)info.f_frsize);
        return CHILD_BAD;
    }
    return CHILD_GOOD;
}

static void run_on_small_disk(void) {
    static const int64_t occupied[] = {0, DISK - 4096, DISK - 65536, DISK - 500000};
    for (size_t i = 0; i < sizeof occupied / sizeof *occupied; i++) {
        const fault amount = {.at = occupied[i]};
        int verdict = rig_child(fill_disk, &amount);
        if (verdict == CHILD_NO_STRIKE) {
            printf("skipped: a store on a full disk (none could be mounted)\n");
            return;
        }
        CHECK_INT(verdict, ==, CHILD_GOOD);
    }
}

TEST(a_full_disk_is_said_once) {
    with_store(run_on_small_disk);
}

/* ---- A disk that others fill, or that becomes read-only ---------------------------------------
 */

enum { VALUES = 100 };

/* The store in a folder of the disk, with all that the pipeline wants; beside it there is room. */
static bool fill_store_on_disk(const char *size) {
    char cache[256];
    said s = {0};
    use_samples(VALUES, 20000, "");
    expected = rig_run();
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s/s\", \"size\": \"%s\"}},", store,
             size);
    use_samples(VALUES, 20000, cache);
    outcome result = run_noting(&s);
    return is_right(&result) && s.lines == 0;
}

static void fill_rest_of_disk(void) {
    static const char zeros[4096];
    char path[128];
    snprintf(path, sizeof path, "%s/ballast", store);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    while (write(fd, zeros, sizeof zeros) > 0) {
    }
    close(fd);
}

static int64_t clear_pipeline(const char *params, mr_error *err) {
    char path[256], prefix[17];
    int64_t deleted = -1;
    mr_pipeline *pipeline = NULL;
    rig_path(path, sizeof path, "pipeline.json");
    if (mr_pipeline_load(&pipeline, path, NULL, err) == MR_OK &&
        mr_pipeline_cache_prefix(pipeline, 1, prefix) == MR_OK &&
        mr_store_clear(params, prefix, &deleted, err) < 0) {
        deleted = -1;
    }
    mr_pipeline_free(pipeline);
    return deleted;
}

/* Reading and looking need no room, nor does asking for more, nor deleting a part. */
static bool look_at_full_disk(void) {
    char params[128];
    said s = {0};
    mr_error err = MR_ERROR_INIT;
    mr_store_info info = {.size = (uint32_t)sizeof info};
    int64_t checked = 0, damaged = 0;
    if (!mount_disk(4 * DISK)) {
        return false;
    }
    CHECK(fill_store_on_disk("6MB"));
    fill_rest_of_disk();
    snprintf(params, sizeof params, "{\"path\": \"%s/s\"}", store);
    CHECK_INT(mr_store_stat(params, NULL, &info, &err), ==, MR_OK);
    CHECK_INT(info.entries, ==, VALUES);
    CHECK_INT(mr_store_verify(params, NULL, &checked, &damaged, &err), ==, MR_OK);
    CHECK_INT(checked, ==, VALUES);
    CHECK_INT(damaged, ==, 0);
    char cache[256];
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s/s\", \"size\": \"7MB\"}},", store);
    use_samples(VALUES, 20000, cache);
    outcome result = run_noting(&s);
    CHECK(is_right(&result));
    CHECK_INT(s.cache.hits, ==, 2 * VALUES);
    CHECK_INT(clear_pipeline(params, &err), ==, VALUES);
    CHECK_INT(mr_store_clear(params, NULL, &checked, &err), ==, MR_OK);
    CHECK_INT(checked, ==, 0);
    return true;
}

/* Locks need write access, and the message says so. */
static bool look_at_read_only_disk(void) {
    char params[128];
    said s = {0};
    mr_error err = MR_ERROR_INIT;
    mr_store_info info = {.size = (uint32_t)sizeof info};
    if (!mount_disk(4 * DISK)) {
        return false;
    }
    CHECK(fill_store_on_disk("6MB"));
    if (mount(NULL, store, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        return false;
    }
    snprintf(params, sizeof params, "{\"path\": \"%s/s\"}", store);
    CHECK_INT(mr_store_stat(params, NULL, &info, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "Read-only file system");
    CHECK_HAS(err.hint, "write access");
    outcome result = run_noting(&s);
    CHECK(is_right(&result));
    CHECK_INT(s.lines, ==, 1);
    return true;
}

static int64_t free_above_reserve(void) {
    struct statvfs info;
    return statvfs(store, &info) == 0
               ? ((int64_t)info.f_bavail - (int64_t)info.f_blocks / 20) * (int64_t)info.f_frsize
               : INT64_MIN;
}

/* The disk, not the store's size, is the limit: an old pipeline's values make room for a new one's.
 */
static bool exchange_on_small_disk(void) {
    char cache[256];
    said s[2] = {{0}, {0}};
    if (!mount_disk(16 * DISK)) {
        return false;
    }
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s/s\", \"size\": \"100MB\"}},", store);
    for (int i = 0; i < 2; i++) {
        use_samples(15000, 3000 + i, "");
        expected = rig_run();
        use_samples(15000, 3000 + i, cache);
        outcome result = run_noting(&s[i]);
        CHECK(is_right(&result));
        CHECK_INT(s[i].cache.stored, >, 1000);
        CHECK_INT(s[i].cache.refused, >, 0);
        CHECK_INT(free_above_reserve(), >=, 0);
    }
    CHECK_INT(s[0].cache.evicted, ==, 0);
    CHECK_INT(s[1].cache.evicted, >, 1000);
    return true;
}

/* Values of another size do not fit into the places of the old ones: they make room all the same,
 * the reserve stays free, and the way back is open. */
static bool exchange_sizes_on_small_disk(void) {
    enum { SMALL = 500, LARGE = 300, SMALL_BYTES = 30000, LARGE_BYTES = 100000 };
    static const bool large[] = {false, false, true, true, true, false, false};
    enum { RUNS = sizeof large / sizeof *large };
    char cache[256];
    said s[RUNS] = {{0}};
    if (!mount_disk(5 * DISK)) {
        return false;
    }
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s/s\", \"size\": \"100MB\"}},", store);
    for (int i = 0; i < RUNS; i++) {
        use_samples(large[i] ? LARGE : SMALL, large[i] ? LARGE_BYTES : SMALL_BYTES, "");
        expected = rig_run();
        use_samples(large[i] ? LARGE : SMALL, large[i] ? LARGE_BYTES : SMALL_BYTES, cache);
        outcome result = run_noting(&s[i]);
        CHECK(is_right(&result));
        CHECK_INT(free_above_reserve(), >=, 0);
    }
    CHECK_INT(s[0].cache.stored * SMALL_BYTES, >, 3 * DISK);
    CHECK_INT(s[1].cache.hits, >=, 2 * s[0].cache.stored);
    CHECK_INT(s[4].cache.hits / 2 * LARGE_BYTES, >, 2 * DISK);
    CHECK_INT(s[6].cache.hits / 2 * SMALL_BYTES, >, 2 * DISK);
    return true;
}

static bool (*test_on_disk)(void); /* false: there is none */

static int run_in_child(const fault *none) {
    int before = test_failures;
    (void)none;
    if (!test_on_disk()) {
        return CHILD_NO_STRIKE;
    }
    return test_failures == before ? CHILD_GOOD : CHILD_BAD;
}

static void on_a_disk(bool (*test)(void), const char *what) {
    const fault none = {.at = 0};
    test_on_disk = test;
    int verdict = rig_child(run_in_child, &none);
    if (verdict == CHILD_NO_STRIKE) {
        printf("skipped: %s (none could be mounted)\n", what);
        return;
    }
    CHECK_INT(verdict, ==, CHILD_GOOD);
}

static void run_on_disks(void) {
    on_a_disk(look_at_full_disk, "looking at a store on a full disk");
    on_a_disk(look_at_read_only_disk, "a store on a read-only disk");
    on_a_disk(exchange_on_small_disk, "a store that its disk limits");
    on_a_disk(exchange_sizes_on_small_disk, "values of another size on a disk that limits");
}

TEST(disks_that_are_full_or_read_only) {
    with_store(run_on_disks);
}

TEST_MAIN()
