/* SPDX-License-Identifier: Apache-2.0 */
/* test_recycler.c - memory that is given back comes again, and no more is held than was in use. */
#include "core/recycler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(a_piece_comes_again) {
    mr_recycler *recycler = mr_recycler_new();
    const mr_allocator *memory = mr_recycler_allocator(recycler);
    void *first = memory->alloc(memory->user, 400000, 64);
    CHECK((uintptr_t)first % 64 == 0);
    memset(first, 1, 400000);
    memory->release(memory->user, first, 400000);
    void *nearly = memory->alloc(memory->user, 399000, 64); /* of the same step */
    CHECK(nearly == first);
    void *other = memory->alloc(memory->user, 400000, 64);
    CHECK(other != first);
    memset(other, 2, 400000);
    memory->release(memory->user, nearly, 399000);
    memory->release(memory->user, other, 400000);
    mr_recycler_close(recycler);
}

TEST(every_size_is_enough) {
    mr_recycler *recycler = mr_recycler_new();
    const mr_allocator *memory = mr_recycler_allocator(recycler);
    for (size_t size = 1; size < (size_t)9 << 20; size += size / 3 + 1) {
        unsigned char *piece = memory->alloc(memory->user, size, 64);
        CHECK(piece != NULL);
        piece[0] = piece[size - 1] = 1; /* a sanitizer sees where it is too small */
        memory->release(memory->user, piece, size);
    }
    CHECK(memory->alloc(memory->user, SIZE_MAX / 2, 64) == NULL);
    memory->release(memory->user, NULL, 0);
    mr_recycler_close(recycler);
}

/* Idle pieces of another size make room: what is asked for is never refused for their sake. */
TEST(other_sizes_make_room) {
    enum { N = 8, SMALL = 100000, LARGE = 300000 };
    mr_recycler *recycler = mr_recycler_new();
    const mr_allocator *memory = mr_recycler_allocator(recycler);
    void *pieces[N];
    for (int round = 0; round < 6; round++) {
        size_t size = round % 2 ? SMALL : LARGE;
        for (int i = 0; i < N; i++) {
            pieces[i] = memory->alloc(memory->user, size, 64);
            memset(pieces[i], round, size);
        }
        for (int i = 0; i < N; i++) {
            CHECK(((unsigned char *)pieces[i])[size - 1] == round);
            memory->release(memory->user, pieces[i], size);
        }
    }
    mr_recycler_close(recycler);
}

enum { PIECE = 1 << 20 };

static void *take(mr_recycler *recycler) {
    const mr_allocator *memory = mr_recycler_allocator(recycler);
    return memory->alloc(memory->user, PIECE, 64);
}

static void put(mr_recycler *recycler, void *piece) {
    const mr_allocator *memory = mr_recycler_allocator(recycler);
    memory->release(memory->user, piece, PIECE);
}

/* As a batch that outlives its source. */
TEST(nothing_is_idle_when_nobody_asks_any_more) {
    mr_recycler *recycler = mr_recycler_new();
    void *pieces[4];
    for (int i = 0; i < 4; i++) {
        pieces[i] = take(recycler);
    }
    put(recycler, pieces[0]);
    CHECK_INT(mr_recycler_idle(recycler), ==, PIECE);
    mr_recycler_ref(recycler);
    mr_recycler_close(recycler);
    CHECK_INT(mr_recycler_idle(recycler), ==, 0);
    for (int i = 1; i < 4; i++) {
        memset(pieces[i], i, PIECE);
        put(recycler, pieces[i]);
        CHECK_INT(mr_recycler_idle(recycler), ==, 0);
    }
    mr_recycler_unref(recycler);
}

/* As a consumer that gathers batches, uses them and goes on. */
TEST(what_was_kept_once_is_not_held_for_ever) {
    enum { MANY = 50 };
    mr_recycler *recycler = mr_recycler_new();
    void *pieces[MANY];
    for (int i = 0; i < MANY; i++) {
        pieces[i] = take(recycler);
    }
    for (int i = 0; i < MANY; i++) {
        put(recycler, pieces[i]);
    }
    for (int i = 0; i < 12 * MANY; i++) {
        void *first = take(recycler), *second = take(recycler);
        put(recycler, first);
        put(recycler, second);
    }
    CHECK_INT(mr_recycler_idle(recycler), ==, 2 * PIECE);
    mr_recycler_close(recycler);
}

static atomic_bool done;

static void *take_and_put(void *recycler) {
    while (!atomic_load(&done)) {
        put(recycler, take(recycler));
    }
    return NULL;
}

/* The alarm ends a child that waits for a thread that it does not have. */
TEST(a_child_waits_for_no_thread_of_its_parents) {
    enum { CHILDREN = 200 };
    mr_recycler *recycler = mr_recycler_new();
    void *piece = take(recycler);
    pthread_t thread;
    int status = 0;
    pthread_create(&thread, NULL, take_and_put, recycler);
    for (int i = 0; i < CHILDREN && status == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            put(recycler, piece);
            _exit(0);
        }
        CHECK_INT(waitpid(child, &status, 0), ==, child);
    }
    CHECK_INT(status, ==, 0);
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    put(recycler, piece);
    mr_recycler_close(recycler);
}

TEST_MAIN()
