/* SPDX-License-Identifier: Apache-2.0 */
/* What a store should keep of photos: the model, in situations that this machine is not in. */
#include "plan/keep.h"
#include "test.h"

/* A million photos of 500 x 375. */
static mr_keep_facts photos(void) {
    return (mr_keep_facts){.samples = 1000000,
                           .image_bytes = 562500,
                           .epochs = 90,
                           .room = (int64_t)2000000000000,
                           .memory = (int64_t)64000000000,
                           .threads = 16};
}

TEST(images_that_fit_in_memory_are_kept) {
    mr_keep_facts f = photos();
    f.memory = (int64_t)2000000000000;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_IMAGES);
    CHECK(mr_keep_images_cost(&f) * 4 < mr_keep_files_cost(&f));
}

TEST(images_that_a_disk_would_have_to_bring_are_not) {
    mr_keep_facts f = photos();
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_NO_FILES);
    f.is_far = true;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_FILES);
}

TEST(one_epoch_is_not_worth_decoding_more_than_it_shows) {
    mr_keep_facts f = photos();
    f.memory = (int64_t)2000000000000;
    f.epochs = 1;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_NO_FILES);
    f.epochs = 3;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_IMAGES);
}

TEST(what_does_not_fit_in_the_store_is_not_kept) {
    mr_keep_facts f = photos();
    f.memory = f.room;
    f.room = 20000000000;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_NO_FILES);
}

TEST(images_that_are_there_already_are_used) {
    mr_keep_facts f = photos();
    f.epochs = 1;
    f.is_kept = true;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_IMAGES);
}

TEST(images_of_unknown_size_are_not_kept) {
    mr_keep_facts f = photos();
    f.image_bytes = 0;
    CHECK_INT(mr_keep_choose(&f), ==, MR_KEEP_NO_FILES);
}

TEST_MAIN()
