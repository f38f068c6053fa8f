/* SPDX-License-Identifier: Apache-2.0 */
/* Shared values: made once by one of many threads, processes and nodes, found by all the others
 * with the same bytes, whatever happens to store, server and makers. */
#include "fixture.h"
#include "redis_rig.h"

#include <errno.h>
#include <millrace/shared.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { KEYS = 40 };

static _Atomic int64_t *makings; /* of all processes */

__attribute__((constructor)) static void share_counter(void) {
    makings =
        mmap(NULL, sizeof *makings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* ---- Values ---- */
static size_t size_of(int key) {
    return (size_t)key * 1777;
}

static unsigned char byte_of(int key, size_t i) {
    return (unsigned char)(i * 31 + (size_t)key);
}

static mr_status make(void *user, void **value, size_t *size, mr_error *err) {
    int key = *(int *)user;
    unsigned char *bytes = malloc(size_of(key) + 1);
    (void)err;
    for (size_t i = 0; i < size_of(key); i++) {
        bytes[i] = byte_of(key, i);
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* so that others come meanwhile */
    atomic_fetch_add(makings, 1);
    *value = bytes;
    *size = size_of(key);
    return MR_OK;
}

static bool is_right(int key, const unsigned char *value, size_t size) {
    bool right = size == size_of(key);
    for (size_t i = 0; right && i < size; i++) {
        right = value[i] == byte_of(key, i);
    }
    return right;
}

/* How many of all values came out wrong or not at all. */
static int use_all(mr_shared *shared) {
    int wrong = 0;
    for (int key = 0; key < KEYS; key++) {
        mr_error err = MR_ERROR_INIT;
        void *value = NULL;
        size_t size = 0;
        mr_status status =
            mr_shared_get_or_make(shared, &key, sizeof key, make, &key, &value, &size, &err);
        wrong += status != MR_OK || !is_right(key, value, size);
        mr_free(value);
    }
    return wrong;
}

static int count_there(mr_shared *shared) {
    int there = 0;
    for (int key = 0; key < KEYS; key++) {
        mr_error err = MR_ERROR_INIT;
        void *value = NULL;
        size_t size = 0;
        there += mr_shared_get(shared, &key, sizeof key, &value, &size, &err) == MR_OK &&
                 is_right(key, value, size);
        mr_free(value);
    }
    return there;
}

/* ---- Objects ---- */
/* folder: of a store, or NULL: none. port: of a server, or 0: none. */
static mr_shared *open_shared(const char *folder, int port, double patience) {
    char store[256], url[64];
    mr_error err = MR_ERROR_INIT;
    mr_shared *shared = NULL;
    snprintf(store, sizeof store, "{\"path\": \"%s\", \"size\": \"20MB\"}", folder ? folder : "");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    const mr_shared_config config = {.size = (uint32_t)sizeof config,
                                     .store = folder ? store : NULL,
                                     .fabric = port ? url : NULL,
                                     .space = "test",
                                     .patience = patience};
    mr_shared_open(&shared, &config, &err);
    CHECK_TEXT(err.text, "");
    return shared;
}

static mr_shared_stats stats_of(mr_shared *shared) {
    mr_shared_stats stats = {.size = (uint32_t)sizeof stats};
    mr_shared_stats_now(shared, &stats);
    return stats;
}

static char *store_folder(void) {
    const char *parent = fixture_folder();
    char *folder = malloc(strlen(parent) + 8);
    sprintf(folder, "%s/store", parent);
    return folder;
}

static void remove_store(char *folder) {
    *strrchr(folder, '/') = '\0';
    fixture_remove(folder);
    free(folder);
}

/* ---- Threads and processes ---- */
static void *use_in_thread(void *shared) {
    return (void *)(intptr_t)use_all(shared);
}

static void use_in_threads(mr_shared *shared) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, use_in_thread, shared);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(wrong == NULL);
    }
}

TEST(is_made_once_among_threads) {
    char *folder = store_folder();
    mr_shared *shared = open_shared(folder, 0, 0);
    int64_t before = *makings;
    use_in_threads(shared);
    CHECK_INT(*makings - before, ==, KEYS);
    CHECK_INT(stats_of(shared).made, ==, KEYS);
    CHECK_INT(stats_of(shared).from_store, ==, 3 * KEYS);
    mr_shared_close(shared);
    remove_store(folder);
}

/* Three processes; each has the store that it is given. */
static void use_in_processes(char *const folders[3], int port) {
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            mr_shared *shared = open_shared(folders[i], port, 0);
            int wrong = use_all(shared);
            mr_shared_close(shared);
            _exit(wrong);
        }
    }
    for (int i = 0; i < 3; i++) {
        int status;
        waitpid(children[i], &status, 0);
        CHECK_INT(status, ==, 0);
    }
}

TEST(is_made_once_among_processes) {
    char *folder = store_folder();
    int64_t before = *makings;
    use_in_processes((char *[]){folder, folder, folder}, 0);
    CHECK_INT(*makings - before, ==, KEYS);
    mr_shared *later = open_shared(folder, 0, 0);
    CHECK_INT(count_there(later), ==, KEYS);
    mr_shared_close(later);
    remove_store(folder);
}

TEST(is_made_once_among_nodes) {
    if (!redis_can_run()) {
        return; /* test_redis says so */
    }
    char *folders[3] = {store_folder(), store_folder(), NULL};
    redis_server server = redis_begin("--maxmemory", "100mb");
    int64_t before = *makings;
    use_in_processes(folders, server.port);
    CHECK_INT(*makings - before, ==, KEYS);
    mr_shared *third = open_shared(NULL, server.port, 0);
    CHECK_INT(count_there(third), ==, KEYS);
    CHECK_INT(stats_of(third).from_fabric, ==, KEYS);
    mr_shared_close(third);
    redis_end(&server);
    mr_shared *own = open_shared(folders[0], 0, 0);
    CHECK_INT(count_there(own), ==, KEYS); /* what came from the fabric stays here */
    mr_shared_close(own);
    remove_store(folders[0]);
    remove_store(folders[1]);
}

/* ---- Trouble ---- */
TEST(a_server_that_is_gone_means_making_it_here) {
    if (!redis_can_run()) {
        return;
    }
    redis_server server = redis_begin("--maxmemory", "100mb");
    mr_shared *shared = open_shared(NULL, server.port, 0);
    int64_t before = *makings;
    CHECK_INT(use_all(shared), ==, 0);
    redis_stop(&server);
    CHECK_INT(use_all(shared), ==, 0);
    CHECK_INT(*makings - before, ==, 2 * KEYS);
    CHECK_INT(count_there(shared), ==, 0);
    mr_shared_close(shared);
    redis_end(&server);
}

static mr_status fail_to_make(void *user, void **value, size_t *size, mr_error *err) {
    (void)user;
    (void)value;
    (void)size;
    return mr_fail(err, MR_E_IO, "no such day");
}

static void check_failing(mr_shared *shared) {
    mr_error err = MR_ERROR_INIT;
    void *value = NULL;
    size_t size = 0;
    int key = 7;
    int64_t before = *makings;
    CHECK_INT(
        mr_shared_get_or_make(shared, &key, sizeof key, fail_to_make, NULL, &value, &size, &err),
        ==, MR_E_IO);
    CHECK_TEXT(err.text, "no such day");
    CHECK(mr_shared_get_or_make(shared, &key, sizeof key, make, &key, &value, &size, &err) ==
              MR_OK &&
          is_right(key, value, size));
    CHECK_INT(*makings - before, ==, 1);
    mr_free(value);
}

TEST(a_failure_is_passed_on_and_nobody_waits_for_it) {
    char *folder = store_folder();
    mr_shared *shared = open_shared(folder, 0, 3600);
    check_failing(shared);
    mr_shared_close(shared);
    if (redis_can_run()) {
        redis_server server = redis_begin("--maxmemory", "100mb");
        shared = open_shared(NULL, server.port, 3600);
        check_failing(shared);
        mr_shared_close(shared);
        redis_end(&server);
    }
    remove_store(folder);
}

static mr_status hang(void *user, void **value, size_t *size, mr_error *err) {
    (void)value;
    (void)size;
    (void)err;
    atomic_store((_Atomic int64_t *)user, 1);
    while (getppid() != 1) {
        pause();
    }
    return MR_E_CANCELLED;
}

/* A child that begins to make value 3 and never ends. */
static pid_t start_hanging(const char *folder, int port, _Atomic int64_t *begun) {
    pid_t child = fork();
    if (child == 0) {
        mr_shared *shared = open_shared(folder, port, 1);
        int key = 3;
        void *value;
        size_t size;
        mr_shared_get_or_make(shared, &key, sizeof key, hang, begun, &value, &size, NULL);
        _exit(1);
    }
    while (atomic_load(begun) == 0) {
        redis_nap();
    }
    return child;
}

static void check_death(const char *folder, int port, double patience, bool killed) {
    _Atomic int64_t *begun =
        mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = start_hanging(folder, port, begun);
    if (killed) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    mr_shared *shared = open_shared(folder, port, patience);
    CHECK_INT(use_all(shared), ==, 0);
    mr_shared_close(shared);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap((void *)begun, sizeof *begun);
}

TEST(a_maker_that_died_or_hangs_is_not_waited_for_without_end) {
    char *folder = store_folder();
    check_death(folder, 0, 3600, true);
    remove_store(folder);
    folder = store_folder();
    check_death(folder, 0, 0.2, false);
    remove_store(folder);
    if (redis_can_run()) {
        redis_server server = redis_begin("--maxmemory", "100mb");
        check_death(NULL, server.port, 3600, true); /* its claim ends by itself */
        redis_tell(&server, "FLUSHALL");
        check_death(NULL, server.port, 0.2, false);
        redis_end(&server);
    }
}

/* ---- Use ---- */
TEST(what_is_put_is_found) {
    char *folder = store_folder();
    mr_shared *shared = open_shared(folder, 0, 0);
    mr_error err = MR_ERROR_INIT;
    void *value = NULL;
    size_t size = 0;
    CHECK_INT(mr_shared_get(shared, "a", 1, &value, &size, &err), ==, MR_LATER);
    CHECK_INT(mr_shared_put(shared, "a", 1, "first", 5, &err), ==, MR_OK);
    CHECK_INT(mr_shared_put(shared, "a", 1, "other", 5, &err), ==, MR_OK);
    CHECK_INT(mr_shared_get(shared, "a", 1, &value, &size, &err), ==, MR_OK);
    CHECK(size == 5 && memcmp(value, "first", 5) == 0);
    mr_free(value);
    CHECK_INT(mr_shared_put(shared, "", 0, "", 0, &err), ==, MR_OK);
    CHECK_INT(mr_shared_get(shared, "", 0, &value, &size, &err), ==, MR_OK);
    CHECK_INT(size, ==, 0);
    mr_free(value);
    mr_shared_close(shared);
    remove_store(folder);
}

TEST(a_child_is_told_to_open_its_own) {
    char *folder = store_folder();
    mr_shared *shared = open_shared(folder, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        void *value;
        size_t size;
        mr_error err = MR_ERROR_INIT;
        bool refused = mr_shared_get(shared, "a", 1, &value, &size, &err) == MR_E_FORKED;
        mr_shared_close(shared);
        _exit(!refused);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_INT(status, ==, 0);
    CHECK_INT(mr_shared_put(shared, "a", 1, "x", 1, NULL), ==, MR_OK);
    mr_shared_close(shared);
    remove_store(folder);
}

TEST(wrong_configurations_are_refused) {
    mr_shared *shared = NULL;
    const mr_shared_config wrong[] = {
        {.size = (uint32_t)sizeof wrong[0], .store = "{\"sise\": 1}"},
        {.size = (uint32_t)sizeof wrong[0], .fabric = "carrier://pigeon"},
        {.size = (uint32_t)sizeof wrong[0], .store = "{}", .patience = -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mr_error err = MR_ERROR_INIT;
        CHECK(mr_shared_open(&shared, &wrong[i], &err) < 0);
        CHECK(shared == NULL && err.text[0]);
    }
}

TEST_MAIN()
