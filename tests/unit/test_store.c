/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a store by themselves: the guard, claims, stamps of use, the folder, the index
 * and the segments. */
#include "cache_rig.h"
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

#include "core/hash.h"
#include "store/claim.h"
#include "store/env.h"
#include "store/segment.h"
#include "store/guard.h"
#include "store/use.h"

/* ---- A place of its own for each test ---- */
static char folder[64];
static mr_place place;

static const mr_log silent;

static mr_store_params params(int64_t size) {
    return (mr_store_params){.size = size, .path = folder};
}

static void begin(int64_t size) {
    mr_error err = MR_ERROR_INIT;
    mr_store_params p = params(size);
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    CHECK_INT(mr_place_open(&place, &p, &silent, &err), ==, MR_OK);
    if (err.text[0]) {
        fprintf(stderr, "%s\n", err.text);
    }
}

static void end(void) {
    mr_place_close(&place);
    fixture_remove(folder);
}

static mr_store_key key_of(uint64_t n) {
    mr_store_key key;
    mr_hash128 hash = mr_hash(&n, sizeof n);
    memset(&key, 0, sizeof key);
    memcpy(key.bytes + 8, &hash, sizeof hash);
    return key;
}

/* Runs in a child; its exit code comes back, or 128 and the signal that ended it. */
static int in_child(int (*run)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(run());
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- The guard ---- */
typedef struct mapped {
    int fd;
    unsigned char *map;
} mapped;

enum { MAPPED = 65536 };

static mapped map_file(void) {
    char path[] = "/tmp/millrace-guard-XXXXXX";
    mapped m = {.fd = mkstemp(path)};
    unlink(path);
    CHECK_INT(ftruncate(m.fd, MAPPED), ==, 0);
    m.map = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, m.fd, 0);
    return m;
}

static void unmap_file(mapped *m) {
    munmap(m->map, MAPPED);
    close(m->fd);
}

TEST(a_guarded_copy_survives_a_file_cut_short) {
    static unsigned char to[MAPPED];
    uint64_t hash = 0;
    mapped m = map_file();
    mr_guard_install();
    CHECK(mr_guard_copy(to, m.map, MAPPED));
    CHECK(mr_guard_copy_hashed(to, m.map, MAPPED, &hash));
    CHECK(hash == mr_hash64(to, MAPPED, 0));
    CHECK(mr_guard_copy_hashed(NULL, m.map, MAPPED, &hash));
    CHECK(hash == mr_hash64(to, MAPPED, 0));
    CHECK_INT(ftruncate(m.fd, 8192), ==, 0);
    for (int i = 0; i < 1000; i++) { /* again and again: no mask is left behind */
        CHECK(!mr_guard_copy(to, m.map, MAPPED));
        CHECK(!mr_guard_copy_hashed(to, m.map, MAPPED, &hash));
        CHECK(!mr_guard_copy_hashed(NULL, m.map, MAPPED, &hash));
        CHECK(mr_guard_copy(to, m.map, 8192));
    }
    mr_guard_remove();
    unmap_file(&m);
}

TEST(copies_of_every_length_are_hashed_right) {
    static unsigned char from[4500], to[4502];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(i * 31 + i / 97);
    }
    for (size_t size = 0; size < sizeof from - 2; size++) {
        const unsigned char *end = from + sizeof from - size % 3, *begin = end - size;
        uint64_t copied = 1, only_read = 1;
        memset(to, 0xEE, sizeof to);
        CHECK(mr_guard_copy_hashed(to + 1, begin, size, &copied));
        CHECK(mr_guard_copy_hashed(NULL, begin, size, &only_read));
        CHECK(copied == mr_hash64(begin, size, 0) && only_read == copied);
        CHECK(memcmp(to + 1, begin, size) == 0 && to[0] == 0xEE && to[size + 1] == 0xEE);
    }
}

/* What CPUs without AVX2 do, around the ends of its blocks. */
TEST(copies_in_blocks_are_hashed_right) {
    static unsigned char from[3 * 8192], to[3 * 8192 + 1];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(i * 31 + i / 97);
    }
    for (size_t size = 0; size <= sizeof from; size += size % 8192 < 8190 && size > 2 ? 91 : 1) {
        memset(to, 0xEE, sizeof to);
        CHECK(mr_hash64_copy_blocks(to, from, size) == mr_hash64(from, size, 0));
        CHECK(memcmp(to, from, size) == 0 && to[size] == 0xEE);
    }
}

static void escape(void *user) {
    (void)user;
    mr_guard_escape();
    *(int *)user = 1;
}

TEST(an_escape_ends_the_guarded_call_alone) {
    int reached = 0;
    CHECK(!mr_guard_call(escape, &reached));
    CHECK_INT(reached, ==, 0);
    mr_guard_escape(); /* returns */
}

static volatile sig_atomic_t own_faults;
static sigjmp_buf own_jump;

static void own_handler(int number) {
    (void)number;
    own_faults++;
    siglongjmp(own_jump, 1);
}

static void touch_beyond(const mapped *m) {
    if (sigsetjmp(own_jump, 1) == 0) {
        volatile unsigned char byte = m->map[MAPPED - 1];
        (void)byte;
    }
}

/* A program's own handler gets what is not the store's, before, during and after. */
static int with_own_handler(void) {
    unsigned char to[16];
    struct sigaction action = {.sa_handler = own_handler}, now;
    mapped m = map_file();
    sigaction(SIGBUS, &action, NULL);
    if (ftruncate(m.fd, 0) != 0) {
        return 1;
    }
    mr_guard_install();
    touch_beyond(&m);
    bool copied = mr_guard_copy(to, m.map, sizeof to);
    touch_beyond(&m);
    mr_guard_remove();
    touch_beyond(&m);
    sigaction(SIGBUS, NULL, &now);
    unmap_file(&m);
    return own_faults == 3 && !copied && now.sa_handler == own_handler ? 0 : 2;
}

TEST(faults_that_are_not_the_stores_go_to_the_programs_handler) {
    CHECK_INT(in_child(with_own_handler), ==, 0);
}

static struct sigaction below_mine;
static volatile sig_atomic_t passed_through;

/* As well-behaved handlers do: passes on what it does not know. */
static void passing_handler(int number, siginfo_t *info, void *context) {
    if (++passed_through > 10) {
        _exit(3); /* a circle */
    }
    if (below_mine.sa_flags & SA_SIGINFO) {
        below_mine.sa_sigaction(number, info, context);
    }
    siglongjmp(own_jump, 1);
}

static int with_a_handler_above(void) {
    unsigned char to[16];
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
    action.sa_sigaction = passing_handler;
    mapped m = map_file();
    if (ftruncate(m.fd, 0) != 0) {
        return 1;
    }
    mr_guard_install();
    sigaction(SIGBUS, &action, &below_mine);
    mr_guard_remove();
    mr_guard_install(); /* another store, later */
    bool copied = mr_guard_copy(to, m.map, sizeof to);
    mr_guard_remove();
    unmap_file(&m);
    return copied ? 2 : 0;
}

TEST(a_handler_put_over_the_stores_does_not_make_a_circle) {
    CHECK_INT(in_child(with_a_handler_above), ==, 0);
}

static int without_a_guard(void) {
    mapped m = map_file();
    signal(SIGBUS, SIG_DFL); /* a sanitizer has its own */
    mr_guard_install();
    if (ftruncate(m.fd, 0) != 0) {
        return 1;
    }
    volatile unsigned char byte = m.map[0];
    return byte;
}

TEST(a_fault_outside_ends_the_program_as_ever) {
    CHECK_INT(in_child(without_a_guard), ==, 128 + SIGBUS);
}

/* ---- Claims ---- */
static int claims_fd;

static int try_claim_elsewhere(void) {
    mr_place other = place;
    int fd = mr_claims_open(&other);
    mr_store_key key = key_of(1), another = key_of(2);
    bool taken = mr_claim_take(fd, &key), free_one = mr_claim_take(fd, &another);
    return (taken ? 1 : 0) + (free_one ? 2 : 0);
}

static int claim_and_die(void) {
    int fd = mr_claims_open(&place);
    mr_store_key key = key_of(3);
    if (!mr_claim_take(fd, &key)) {
        return 1;
    }
    raise(SIGKILL);
    return 2;
}

TEST(a_claim_is_one_processs_and_dies_with_it) {
    begin(8000000);
    claims_fd = mr_claims_open(&place);
    mr_store_key key = key_of(1), third = key_of(3);
    CHECK(mr_claim_take(claims_fd, &key));
    CHECK_INT(in_child(try_claim_elsewhere), ==, 2);
    mr_claim_drop(claims_fd, &key);
    CHECK_INT(in_child(try_claim_elsewhere), ==, 3);
    CHECK_INT(in_child(claim_and_die), ==, 128 + SIGKILL);
    CHECK(mr_claim_take(claims_fd, &third));
    close(claims_fd);
    end();
}

TEST(without_a_file_of_claims_everything_is_ones_own) {
    mr_store_key key = key_of(1);
    CHECK(mr_claim_take(-1, &key));
    mr_claim_drop(-1, &key);
}

/* ---- Stamps ---- */
TEST(stamps_of_use) {
    begin(8000000);
    mr_use use, second;
    mr_store_key key = key_of(1), other = key_of(2);
    mr_use_open(&use, &place);
    CHECK(use.map != NULL);
    CHECK_INT(mr_use_stamp(&use, &key), ==, 0);
    uint16_t round = mr_use_next_round(&use);
    mr_use_touch(&use, &key, round);
    mr_use_open(&second, &place); /* what another process sees */
    CHECK_INT(mr_use_stamp(&second, &key), ==, round);
    CHECK_INT(mr_use_round(&second), ==, round);
    CHECK_INT(mr_use_stamp(&second, &other), ==, 0);
    mr_use_clear(&second, &key);
    CHECK_INT(mr_use_stamp(&use, &key), ==, 0);
    for (int i = 0; i < 70000; i++) {
        CHECK(mr_use_next_round(&use) != 0); /* also when the counter comes round */
    }
    mr_use_close(&second);
    mr_use_close(&use);
    CHECK_INT(mr_use_round(&use), ==, 1); /* none: everything counts as never used */
    mr_use_touch(&use, &key, 5);
    end();
}

TEST(stamps_survive_a_table_cut_short) {
    begin(8000000);
    mr_use use;
    char path[128];
    mr_store_key key = key_of(1);
    mr_guard_install();
    mr_use_open(&use, &place);
    snprintf(path, sizeof path, "%s/use", folder);
    CHECK_INT(truncate(path, 0), ==, 0);
    mr_use_touch(&use, &key, 7);
    CHECK_INT(mr_use_stamp(&use, &key), ==, 0);
    CHECK_INT(mr_use_next_round(&use), ==, 1);
    mr_use_close(&use);
    mr_guard_remove();
    end();
}

/* ---- The folder ---- */
static int open_elsewhere(void) {
    mr_place other;
    mr_store_params p = params(4000000); /* asks for less */
    mr_status status = mr_place_open(&other, &p, &silent, NULL);
    bool good = status == MR_OK && other.size == 8000000 && mr_place_has_others(&other) &&
                !mr_place_be_alone(&other);
    return good ? 0 : 1;
}

TEST(a_store_in_use_keeps_its_size) {
    begin(8000000);
    CHECK_INT(in_child(open_elsewhere), ==, 0);
    CHECK(!mr_place_has_others(&place));
    CHECK(mr_place_be_alone(&place));
    mr_place_share(&place);
    end();
}

static int mark_often(void) {
    mr_place other;
    mr_store_params p = params(0);
    for (int i = 0; i < 50; i++) {
        if (mr_place_open(&other, &p, &silent, NULL) != MR_OK ||
            mr_place_mark(&other, NULL) != MR_OK) {
            return 1;
        }
        mr_place_close(&other);
    }
    return 0;
}

TEST(several_processes_mark_at_once) {
    enum { JOBS = 4 };
    pid_t children[JOBS];
    begin(8000000);
    fflush(NULL);
    for (int i = 0; i < JOBS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(mark_often());
        }
    }
    for (int i = 0; i < JOBS; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        CHECK_INT(status, ==, 0);
    }
    end();
}

TEST(a_mark_that_cannot_be_written_is_an_error) {
    char path[128];
    begin(8000000);
    mr_error err = MR_ERROR_INIT;
    snprintf(path, sizeof path, "%s/unsynced", folder);
    CHECK_INT(mkdir(path, 0700), ==, 0); /* in its way */
    CHECK_INT(mr_place_mark(&place, &err), <, 0);
    CHECK(err.text[0] != '\0');
    CHECK_INT(rmdir(path), ==, 0);
    CHECK_INT(mr_place_mark(&place, &err), ==, MR_OK);
    CHECK(access(path, F_OK) == 0);
    mr_place_unmark(&place);
    CHECK(access(path, F_OK) != 0);
    end();
}

TEST(a_link_is_not_followed) {
    char target[64], link[80];
    mr_place other;
    mr_error err = MR_ERROR_INIT;
    snprintf(target, sizeof target, "%s", fixture_folder());
    snprintf(link, sizeof link, "%s-link", target);
    CHECK_INT(symlink(target, link), ==, 0);
    mr_store_params p = {.size = 8000000, .path = link};
    CHECK_INT(mr_place_open(&other, &p, &silent, &err), <, 0);
    CHECK_HAS(err.hint, "is a link");
    mr_place_close(&other);
    unlink(link);
    fixture_remove(target);
}

static void check_path(const char *given, const char *meant) {
    const mr_store_params p = {.path = given};
    char *path = mr_place_path(&p, NULL);
    CHECK_TEXT(path, meant);
    free(path);
}

TEST(a_path_may_begin_at_home) {
    const char *home = getenv("HOME");
    char before[256];
    snprintf(before, sizeof before, "%s", home ? home : "");
    setenv("HOME", "/some/home", 1);
    check_path("~/stores/a", "/some/home/stores/a");
    check_path("~/.stores", "/some/home/.stores");
    check_path("~other/store", "~other/store"); /* a name like any other */
    check_path("a/~/b", "a/~/b");
    setenv("HOME", before, 1);
}

/* It would become private, and go with the store. */
TEST(the_home_folder_itself_is_no_store) {
    static const char *const paths[] = {"~", "~/", "~//", "~/.", "~/./"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const mr_store_params p = {.path = paths[i]};
        mr_error err = MR_ERROR_INIT;
        char *path = mr_place_path(&p, &err);
        CHECK(path == NULL);
        CHECK_HAS(err.text, "home folder");
        CHECK_HAS(err.hint, "name a folder in it");
        free(path);
    }
}

/* ---- The index ---- */
enum { SMALL_INDEX = 600000, VALUE = 32 };

static mr_env *open_env(int64_t size) {
    mr_env *env = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_env_open(&env, &place, size, &err), ==, MR_OK);
    return env;
}

static mr_env_result put(mr_env *env, uint64_t n) {
    mr_store_key key = key_of(n);
    mr_error err = MR_ERROR_INIT;
    unsigned char value[VALUE];
    memset(value, (int)n, sizeof value);
    const mr_env_item item = {&key, value, sizeof value};
    return mr_env_put(env, &item, 1, &err);
}

static bool has(mr_env_reader *reader, uint64_t n) {
    const void *data = NULL;
    size_t found = 0;
    mr_store_key key = key_of(n);
    bool there = mr_env_begin(reader) && mr_env_find(reader, &key, &data, &found);
    bool right = there && found == VALUE && ((const unsigned char *)data)[VALUE - 1] == (n & 0xFF);
    mr_env_end(reader);
    return right;
}

static bool count_one(void *user, const mr_store_key *key, const void *data, size_t size) {
    (void)key;
    (void)data;
    (void)size;
    ++*(int64_t *)user;
    return true;
}

static int64_t count(mr_env *env) {
    int64_t n = 0;
    CHECK_INT(mr_env_walk(env, count_one, &n, NULL), ==, MR_OK);
    return n;
}

TEST(an_index_keeps_entries) {
    begin(8000000);
    mr_guard_install();
    mr_env *env = open_env(4000000);
    mr_env_reader *reader = mr_env_reader_new(env);
    for (uint64_t i = 0; i < 100; i++) {
        CHECK_INT(put(env, i), ==, MR_ENV_OK);
    }
    for (uint64_t i = 0; i < 100; i++) {
        CHECK(has(reader, i));
    }
    CHECK(!has(reader, 100));
    const mr_store_key gone[] = {key_of(7), key_of(8), key_of(1000)};
    CHECK_INT(mr_env_remove(env, gone, 3, NULL), ==, MR_OK);
    CHECK(has(reader, 6) && !has(reader, 7) && !has(reader, 8));
    CHECK_INT(count(env), ==, 98);
    CHECK_INT(mr_env_count(env), ==, 98);
    CHECK(mr_env_is_sound(env));
    CHECK(mr_env_sync(env));
    mr_env_reader_free(reader);
    mr_env_close(env);
    env = open_env(4000000);
    CHECK_INT(count(env), ==, 98);
    mr_env_close(env);
    mr_guard_remove();
    end();
}

static bool choose_every(void *user, const mr_store_key *key, const void *data, size_t size) {
    int64_t *n = user;
    (void)key;
    (void)data;
    CHECK_INT(size, ==, VALUE);
    return (*n)++ % 2 == 0;
}

/* Also of the fullest index something can be deleted, and then it takes more. */
TEST(a_full_index_takes_more_after_deleting) {
    begin(8000000);
    mr_env *env = open_env(SMALL_INDEX);
    uint64_t n = 0;
    for (int round = 0; round < 10; round++) {
        mr_env_result result = MR_ENV_OK;
        while (n < 100000 && (result = put(env, n)) == MR_ENV_OK) {
            n++;
        }
        CHECK_INT(result, ==, MR_ENV_FULL);
        int64_t deleted = 0, seen = 0, before = count(env);
        CHECK_INT(mr_env_delete(env, choose_every, &seen, &deleted, NULL), ==, MR_OK);
        CHECK_INT(deleted, ==, (before + 1) / 2);
        CHECK_INT(count(env), ==, before - deleted);
        CHECK_INT(mr_env_bytes(env), <=, SMALL_INDEX);
    }
    CHECK_INT(n, >, 1000);
    mr_env_close(env);
    end();
}

/* A process that is killed while it reads holds on to what it read, until somebody looks. */
static pid_t start_reader(int ready[2]) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        mr_env *env = open_env(SMALL_INDEX);
        mr_env_reader *reader = mr_env_reader_new(env);
        bool reading = reader && mr_env_begin(reader);
        (void)!write(ready[1], reading ? "y" : "n", 1);
        alarm(30);
        pause();
        _exit(0);
    }
    return child;
}

TEST(a_dead_reader_does_not_keep_pages) {
    begin(8000000);
    int ready[2];
    char reading = 'n';
    uint64_t n = 0;
    CHECK_INT(pipe(ready), ==, 0);
    pid_t child = start_reader(ready);
    CHECK_INT(read(ready[0], &reading, 1), ==, 1);
    CHECK_INT(reading, ==, 'y');
    mr_env *env = open_env(SMALL_INDEX);
    while (put(env, n) == MR_ENV_OK) {
        n++;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 200; i++) { /* what one transaction frees, the one after the next uses */
        int64_t deleted = 0, seen = 0;
        int tries = 0;
        while (tries++ < 4 && put(env, n) != MR_ENV_OK) {
            mr_env_delete(env, choose_every, &seen, &deleted, NULL);
        }
        CHECK_INT(tries, <=, 4);
        n++;
    }
    mr_env_close(env);
    close(ready[0]);
    close(ready[1]);
    end();
}

/* Every way into an index whose file was cut short: no crash, and doubt from then on. */
static void cut_short(int64_t length) {
    char path[128];
    begin(8000000);
    mr_guard_install();
    mr_env *env = open_env(4000000);
    mr_env_reader *reader = mr_env_reader_new(env);
    for (uint64_t i = 0; i < 2000; i++) {
        CHECK_INT(put(env, i), ==, MR_ENV_OK);
    }
    snprintf(path, sizeof path, "%s/%s", folder, MR_INDEX_FILE);
    CHECK_INT(truncate(path, length), ==, 0);
    for (uint64_t i = 0; i < 100; i++) {
        unsigned char copy[VALUE];
        const void *data = NULL;
        size_t size = 0;
        mr_store_key key = key_of(i);
        if (mr_env_begin(reader) && mr_env_find(reader, &key, &data, &size)) {
            mr_guard_copy(copy, data, size);
        }
        mr_env_end(reader);
        if (i % 3 == 0) {
            mr_env_is_sound(env);
        }
    }
    int64_t n = 0, seen = 0;
    mr_env_delete(env, choose_every, &seen, &n, NULL);
    put(env, 5000);
    mr_env_walk(env, count_one, &n, NULL);
    mr_env_sync(env);
    CHECK(mr_env_is_doubtful(env));
    CHECK(!mr_env_begin(reader));
    CHECK_INT(put(env, 5001), ==, MR_ENV_FAILED);
    CHECK(!mr_env_reader_new(env));
    mr_env_reader_free(reader);
    mr_env_close(env);
    mr_guard_remove();
    end();
}

TEST(an_index_cut_short) {
    static const int64_t lengths[] = {0, 1, 4096, 8191, 8192, 8193, 12288, 20480, 65536, 100000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        cut_short(lengths[i]);
    }
}

/* ---- Damaged pages ---- */
enum { PAGE = 4096 };

/* Bytes of a leaf that LMDB goes by: flags and marks, places, and what nodes say of themselves. */
static int structure_of(const unsigned char *page, int16_t *out) {
    int n = 0;
    uint16_t lower, place_of_node;
    memcpy(&lower, page + 12, sizeof lower);
    for (int i = 10; i < lower; i++) {
        out[n++] = (int16_t)i;
    }
    for (int i = 16; i < lower; i += 2) {
        memcpy(&place_of_node, page + i, sizeof place_of_node);
        for (int k = 0; k < 8; k++) {
            out[n++] = (int16_t)(place_of_node + k);
        }
    }
    return n;
}

/* A page of the tree as it is now, and where it lies in the file: it begins with its number. */
static int64_t find_leaf(mr_env *env, unsigned char *page) {
    const void *data = NULL;
    size_t size = 0;
    uint64_t number = 0;
    mr_store_key key = key_of(5);
    mr_env_reader *reader = mr_env_reader_new(env);
    if (mr_env_begin(reader) && mr_env_find(reader, &key, &data, &size)) {
        const char *at = data;
        memcpy(page, at - (uintptr_t)at % PAGE, PAGE);
        memcpy(&number, page, sizeof number);
    }
    mr_env_end(reader);
    mr_env_reader_free(reader);
    return (int64_t)number * PAGE;
}

TEST(a_damaged_page_is_seen_before_anything_is_changed) {
    static const unsigned char flips[] = {1, 2, 0x10, 0x80};
    unsigned char page[PAGE];
    static int16_t structure[PAGE];
    char path[128];
    begin(8000000);
    mr_guard_install();
    mr_env *env = open_env(4000000);
    for (uint64_t i = 0; i < 200; i++) {
        CHECK_INT(put(env, i), ==, MR_ENV_OK);
    }
    CHECK(mr_env_sync(env));
    int64_t at = find_leaf(env, page);
    mr_env_close(env);
    snprintf(path, sizeof path, "%s/%s", folder, MR_INDEX_FILE);
    int fd = open(path, O_RDWR | O_CLOEXEC), unseen = 0;
    int n = structure_of(page, structure);
    CHECK_INT(n, >, 100);
    for (int i = 0; i < n; i++) {
        unsigned char flipped = page[structure[i]] ^ flips[i % 4];
        CHECK_INT(pwrite(fd, &flipped, 1, at + structure[i]), ==, 1);
        env = NULL;
        if (mr_env_open(&env, &place, 4000000, NULL) == MR_OK && mr_env_is_sound(env)) {
            unseen++;
        }
        mr_env_close(env);
        CHECK_INT(pwrite(fd, &page[structure[i]], 1, at + structure[i]), ==, 1);
    }
    CHECK_INT(unseen, ==, 0);
    env = open_env(4000000);
    CHECK(mr_env_is_sound(env));
    mr_env_close(env);
    close(fd);
    mr_guard_remove();
    end();
}

/* Makes all that pages above the leaves lead to the same page; how many there are. */
static int lead_all_to_one(int fd) {
    enum { FLAGS_AT = 10, LOWER_AT = 12, HEADER = 16, BRANCH = 1, POINTER = 6 };
    unsigned char page[PAGE];
    int changed = 0;
    for (off_t at = 2 * PAGE; pread(fd, page, PAGE, at) == PAGE; at += PAGE) {
        uint16_t flags, lower, first, node;
        memcpy(&flags, page + FLAGS_AT, sizeof flags);
        memcpy(&lower, page + LOWER_AT, sizeof lower);
        memcpy(&first, page + HEADER, sizeof first);
        for (int i = HEADER; flags == BRANCH && i < lower; i += 2) {
            memcpy(&node, page + i, sizeof node);
            memcpy(page + node, page + first, POINTER);
        }
        changed += flags == BRANCH;
        CHECK_INT(pwrite(fd, page, PAGE, at), ==, PAGE);
    }
    return changed;
}

TEST(a_tree_that_leads_to_a_page_twice_is_not_walked) {
    enum { ENTRIES = 1000 };
    char path[128];
    begin(8000000);
    mr_guard_install();
    mr_env *env = open_env(4000000);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        CHECK_INT(put(env, i), ==, MR_ENV_OK);
    }
    CHECK(mr_env_sync(env));
    mr_env_close(env);
    snprintf(path, sizeof path, "%s/%s", folder, MR_INDEX_FILE);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_INT(lead_all_to_one(fd), >, 0);
    close(fd);
    env = open_env(4000000);
    int64_t n = 0;
    CHECK_INT(mr_env_walk(env, count_one, &n, NULL), ==, MR_E_CORRUPT);
    CHECK_INT(n, <, ENTRIES / 2);
    mr_env_close(env);
    env = open_env(4000000);
    CHECK(!mr_env_is_sound(env));
    mr_env_close(env);
    mr_guard_remove();
    end();
}

/* ---- Notes ---- */
static void add_one(void *user, char note[MR_NOTE_BYTES]) {
    (void)user;
    note[0]++;
}

TEST(notes_are_changed_in_one_go_and_are_no_entries) {
    begin(8000000);
    char note[MR_NOTE_BYTES] = {0};
    mr_env *env = open_env(4000000);
    CHECK(!mr_env_read_note(env, "abcdefgh", 8, note));
    for (int i = 0; i < 3; i++) {
        CHECK(mr_env_change_note(env, "abcdefgh", 8, add_one, NULL));
    }
    CHECK(mr_env_read_note(env, "abcdefgh", 8, note));
    CHECK_INT(note[0], ==, 3);
    CHECK_INT(count(env), ==, 0);
    int64_t n = 0, seen = 0;
    mr_env_delete(env, choose_every, &seen, &n, NULL);
    CHECK_INT(n, ==, 0);
    CHECK(mr_env_read_note(env, "abcdefgh", 8, note));
    mr_env_close(env);
    end();
}

/* ---- Segments ---- */
enum { MOST = 2000000, N_VALUES = 100 };

static mr_store_key prefixed_key(uint64_t prefix, uint64_t n) {
    mr_store_key key = key_of(n);
    memcpy(key.bytes, &prefix, sizeof prefix);
    return key;
}

static size_t size_of_value(uint64_t n) {
    return 50 + 97 * n;
}

static void fill_value(unsigned char *bytes, uint64_t n) {
    for (size_t i = 0; i < size_of_value(n); i++) {
        bytes[i] = (unsigned char)(n * 31 + i * 7);
    }
}

static mr_status append_value(mr_segments *segments, uint64_t prefix, uint64_t n,
                              mr_location *location) {
    unsigned char bytes[12000];
    mr_store_key key = prefixed_key(prefix, n);
    fill_value(bytes, n);
    const mr_segment_item item = {&key, bytes, size_of_value(n)};
    mr_status status = mr_segments_append(segments, &item, MOST, location, NULL);
    if (status == MR_LATER) {
        mr_segments_filed(segments);
        status = mr_segments_append(segments, &item, MOST, location, NULL);
    }
    return status;
}

static bool reads_back(mr_segments *segments, const mr_location *location, uint64_t n) {
    unsigned char wanted[12000], bytes[12000];
    fill_value(wanted, n);
    mr_segment *segment = mr_segments_hold(segments, location);
    if (!segment) {
        return false;
    }
    const void *view = mr_segment_view(segment, location);
    bool same = location->length == size_of_value(n) &&
                mr_segment_read(segment, location, bytes, NULL) == MR_OK &&
                memcmp(bytes, wanted, size_of_value(n)) == 0 && view &&
                memcmp(view, wanted, size_of_value(n)) == 0;
    mr_segments_release(segments, segment);
    return same;
}

TEST(segments_give_back_what_was_appended) {
    begin(8000000);
    mr_segments *segments = mr_segments_open(&place);
    mr_location locations[N_VALUES];
    for (uint64_t i = 0; i < N_VALUES; i++) {
        CHECK_INT(append_value(segments, i % 3, i, &locations[i]), ==, MR_OK);
        CHECK(reads_back(segments, &locations[i], i));
    }
    mr_segments_close(segments);
    segments = mr_segments_open(&place); /* another process would see the same */
    size_t n = 0;
    mr_segment_info *list = mr_segments_list(segments, &n);
    CHECK_INT(n, >=, N_VALUES * 4800 / 65536);
    for (size_t i = 0; i < n; i++) {
        CHECK(!list[i].is_written && list[i].prefix[0] < 3);
        CHECK_INT(list[i].bytes, <=, mr_segments_target(MOST));
    }
    free(list);
    for (uint64_t i = 0; i < N_VALUES; i++) {
        CHECK(reads_back(segments, &locations[i], i));
    }
    mr_segment *held = mr_segments_hold(segments, &locations[5]);
    mr_segments_drop(segments, locations[5].segment);
    CHECK(mr_segment_view(held, &locations[5]) != NULL); /* who holds it keeps it */
    mr_segments_release(segments, held);
    CHECK(!mr_segments_hold(segments, &locations[5]));
    mr_location odd = {.segment = locations[6].segment, .offset = UINT64_MAX - 5, .length = 10};
    CHECK(!mr_segments_hold(segments, &odd));
    mr_segments_close(segments);
    end();
}

/* Past the page cache or through it: which values go which way is the segment's to know. */
static bool is_brought(mr_segments *segments, const mr_location *location, uint64_t n) {
    unsigned char wanted[12000];
    size_t at = 0, room = size_of_value(n) + MR_BRING_ROOM;
    unsigned char *memory = malloc(room);
    fill_value(wanted, n);
    mr_segment *segment = mr_segments_hold(segments, location);
    bool same = segment && mr_segment_bring(segment, location, memory, &at, NULL) == MR_OK &&
                at + size_of_value(n) <= room && memcmp(memory + at, wanted, size_of_value(n)) == 0;
    if (segment) {
        mr_segments_release(segments, segment);
    }
    free(memory);
    return same;
}

TEST(values_are_brought_whatever_memory_there_is) {
    static const int64_t memories[] = {INT64_MAX / 131072, 0, 4096, 400000, 1};
    begin(8000000);
    mr_segments *segments = mr_segments_open(&place);
    mr_location locations[N_VALUES];
    for (uint64_t i = 0; i < N_VALUES; i++) {
        CHECK_INT(append_value(segments, 1, i, &locations[i]), ==, MR_OK);
    }
    for (size_t m = 0; m < sizeof memories / sizeof *memories; m++) {
        mr_segments_fit(segments, memories[m]);
        for (uint64_t i = 0; i < N_VALUES; i++) {
            CHECK(is_brought(segments, &locations[i], i));
        }
    }
    mr_location beyond = locations[7];
    beyond.offset += 4096 * 64;
    CHECK(!is_brought(segments, &beyond, 7));
    mr_segments_close(segments);
    end();
}

TEST(segments_take_no_more_than_they_may) {
    begin(8000000);
    mr_segments *segments = mr_segments_open(&place);
    mr_location location;
    int64_t n = 0;
    while (n < 10000 && append_value(segments, 1, 99, &location) == MR_OK) {
        n++;
    }
    CHECK_INT(n, >, MOST / 2 / 9653);
    CHECK_INT(mr_segments_bytes(&place), <=, MOST);
    mr_segments_drop(segments, location.segment);
    CHECK_INT(append_value(segments, 1, 99, &location), ==, MR_OK);
    mr_segments_close(segments);
    end();
}

TEST(a_segment_that_was_left_half_full_is_gone_on_with) {
    begin(8000000);
    mr_location first, second, third;
    mr_segments *a = mr_segments_open(&place), *b = mr_segments_open(&place);
    CHECK_INT(append_value(a, 1, 1, &first), ==, MR_OK);
    CHECK_INT(append_value(b, 1, 2, &second), ==, MR_OK);
    CHECK(first.segment != second.segment); /* that one is being written to */
    mr_segments_close(a);
    mr_segments_pause(b);
    CHECK_INT(append_value(b, 1, 3, &third), ==, MR_OK);
    CHECK(third.segment == first.segment || third.segment == second.segment);
    CHECK(reads_back(b, &first, 1) && reads_back(b, &second, 2) && reads_back(b, &third, 3));
    mr_segments_close(b);
    end();
}

typedef struct found {
    mr_location list[N_VALUES];
    int64_t n;
} found;

static bool note_frame(void *user, const mr_store_key *key, const mr_location *location) {
    found *f = user;
    (void)key;
    f->list[f->n++] = *location;
    return f->n < N_VALUES;
}

/* Whatever is cut off, torn or turned over: what is found by scanning is what was written, and what
 * lies before the damage is found. */
TEST(scanning_finds_what_is_whole) {
    enum { FEW = 12 };
    begin(8000000);
    char path[160];
    mr_location locations[FEW];
    mr_segments *segments = mr_segments_open(&place);
    for (uint64_t i = 0; i < FEW; i++) {
        CHECK_INT(append_value(segments, 1, i, &locations[i]), ==, MR_OK);
    }
    snprintf(path, sizeof path, "%s/%016llx.seg", folder, (unsigned long long)locations[0].segment);
    char *whole = NULL;
    size_t size = 0;
    CHECK_INT(mr_file_load(path, 1 << 20, &whole, &size, NULL), ==, MR_OK);
    for (size_t at = 0; at < size; at += 17) {
        for (int kind = 0; kind < 3; kind++) {
            char *copy = malloc(size);
            memcpy(copy, whole, size);
            size_t length = kind == 0 ? at : size; /* cut off, torn, a bit turned over */
            memset(copy + at, 0, kind == 1 ? (size - at < 512 ? size - at : 512) : 0);
            copy[at] = (char)(copy[at] ^ (kind == 2 ? 0x10 : 0));
            int fd = open(path, O_WRONLY | O_TRUNC);
            CHECK_INT(write(fd, copy, length), ==, length);
            close(fd);
            free(copy);
            found f = {.n = 0};
            mr_segment_scan(segments, locations[0].segment, note_frame, &f);
            int64_t before = 0, wrong = 0;
            for (int64_t i = 0; i < FEW; i++) {
                before += locations[i].offset + locations[i].length <= at;
            }
            for (int64_t i = 0; i < f.n; i++) {
                bool known = false;
                for (int k = 0; k < FEW; k++) {
                    known = known || memcmp(&f.list[i], &locations[k], sizeof locations[k]) == 0;
                }
                wrong += !known;
            }
            CHECK_INT(wrong, ==, 0);
            CHECK_INT(f.n, >=, before - (at < MR_FRAME_BYTES));
        }
    }
    mr_free(whole);
    mr_segments_close(segments);
    end();
}

TEST_MAIN()
