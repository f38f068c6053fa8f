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
} said;

static void note(void *user, const char *text) {
    said *s = user;
    size_t used = strlen(s->text);
    s->lines++;
    snprintf(s->text + used, sizeof s->text - used, "%s\n", text);
}

/* rig_run, with what was said. */
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
    if (!is_right(&result) || !is_right(&after) || !told) {
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

static bool mount_small_disk(void) {
    char options[32];
    snprintf(options, sizeof options, "size=%d", DISK);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mkdir(store, 0700) == 0 && mount("tmpfs", store, "tmpfs", 0, options) == 0;
}

static void use_larger_samples(const char *cache) {
    char json[1024];
    int n = snprintf(json, sizeof json,
                     "{\"source\": {\"synthetic\": {\"samples\": 400, \"shape\": [20000]}}, "
                     "\"ops\": [%s {\"cast\": {\"dtype\": \"float16\"}}], \"batch\": 8, "
                     "\"epochs\": 2}",
                     cache);
    rig_file("pipeline.json", json, (size_t)n);
}

/* The reserve of the file system stays free, but for what one transaction may add. */
static int fill_disk(const fault *occupied) {
    char cache[256], path[128];
    said s = {0};
    struct statvfs info;
    forget_store();
    if (!mount_small_disk()) {
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
    use_larger_samples("");
    expected = rig_run();
    snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s\", \"size\": \"64MB\"}},", store);
    use_larger_samples(cache);
    outcome result = run_noting(&s);
    bool free_left =
        statvfs(store, &info) == 0 && (int64_t)info.f_bavail * (int64_t)info.f_frsize >=
                                          (occupied->at > 0 ? 0 : DISK / 20 - 131072);
    if (!is_right(&result) || s.lines != 1 || !free_left) {
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

TEST_MAIN()
