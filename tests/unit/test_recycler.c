/* SPDX-License-Identifier: Apache-2.0 */
/* test_recycler.c - memory that is given back comes again, and no more is held than was in use. */
#include "core/recycler.h"

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
    mr_recycler_free(recycler);
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
    mr_recycler_free(recycler);
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
    mr_recycler_free(recycler);
}

TEST_MAIN()
