/* SPDX-License-Identifier: Apache-2.0 */
/* Values of varying size on their way into a batch: written where they stay, in whatever order they
 * are made, and copied where that cannot be. */
#include "fixture.h"
#include "test.h"

#include "core/memory.h"
#include "run/ring/batch.h"

enum { SAMPLES = 6 };

static const size_t sizes[SAMPLES] = {5, 0, 70, 1, 33, 12};

static mr_pool *make_pool(mr_pipeline **pipeline) {
    mr_pool *pool = NULL;
    *pipeline = fixture_pipeline("{\"source\": {\"files\": {\"path\": \"photos\"}}, \"fields\": "
                                 "[\"image\"]}");
    const mr_pool_config config = {.pipeline = *pipeline,
                                   .capacity = SAMPLES,
                                   .digest = true,
                                   .keep = 4,
                                   .allocator = mr_default_allocator};
    CHECK_INT(mr_pool_new(&pool, &config, NULL), ==, MR_OK);
    return pool;
}

static mr_batch *take(mr_pool *pool) {
    mr_batch *batch = NULL;
    CHECK_INT(mr_pool_take(pool, SAMPLES, &batch, NULL), ==, MR_OK);
    mr_batch_place(batch, 0, 0, SAMPLES);
    return batch;
}

static mr_type bytes_type(size_t size) {
    return (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)size}};
}

static void *make(mr_batch *batch, int64_t i, size_t size, int mark) {
    mr_type type = bytes_type(size);
    void *data = mr_batch_piece(batch, 0, i, &type);
    CHECK(data != NULL);
    memset(data, mark, size);
    return data;
}

/* Every sample is there, with its own bytes. */
static void check_sealed(mr_batch *batch, const size_t *wanted) {
    for (int64_t i = 0; i < SAMPLES; i++) {
        mr_batch_sample_done(batch, i);
    }
    CHECK_INT(mr_batch_seal(batch, NULL), ==, MR_OK);
    const mr_array *array = mr_batch_array(batch, 0);
    int64_t at = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        CHECK_INT(array->offsets[i], ==, at);
        CHECK_INT(array->shapes[i], ==, (int64_t)wanted[i]);
        for (size_t k = 0; k < wanted[i]; k++) {
            CHECK_INT(((const unsigned char *)array->data)[at + (int64_t)k], ==, 1 + i);
        }
        at += (int64_t)wanted[i];
    }
    CHECK_INT(array->offsets[SAMPLES], ==, at);
    CHECK_INT((int64_t)array->size, ==, at);
}

static bool lies_in_array(const mr_batch *batch, const void *data, int64_t i) {
    const mr_array *array = mr_batch_array(batch, 0);
    return data == (const char *)array->data + array->offsets[i];
}

/* Makes a batch in an order of samples; how many lie in the array as they were made. */
static int made_in_place(mr_pool *pool, const int *order) {
    mr_batch *batch = take(pool);
    void *data[SAMPLES];
    int in_place = 0;
    for (int k = 0; k < SAMPLES; k++) {
        data[order[k]] = make(batch, order[k], sizes[order[k]], 1 + order[k]);
    }
    check_sealed(batch, sizes);
    for (int i = 0; i < SAMPLES; i++) {
        in_place += sizes[i] > 0 && lies_in_array(batch, data[i], i);
    }
    mr_batch_unref(batch);
    return in_place;
}

TEST(values_are_written_once) {
    mr_pipeline *pipeline;
    mr_pool *pool = make_pool(&pipeline);
    static const int in_order[] = {0, 1, 2, 3, 4, 5}, swapped[] = {0, 2, 1, 3, 5, 4},
                     backwards[] = {5, 4, 3, 2, 1, 0};
    CHECK_INT(made_in_place(pool, in_order), ==, 0); /* nobody knows yet how much room it takes */
    CHECK_INT(made_in_place(pool, in_order), ==, 5); /* and one is empty */
    CHECK_INT(made_in_place(pool, swapped), ==, 3);
    CHECK_INT(made_in_place(pool, backwards), ==, 1);
    CHECK_INT(made_in_place(pool, in_order), ==, 5);
    mr_pool_unref(pool);
    mr_pipeline_free(pipeline);
}

/* One that fails is replaced by another of another size: what is behind it moves. */
TEST(a_sample_may_be_made_again) {
    mr_pipeline *pipeline;
    mr_pool *pool = make_pool(&pipeline);
    static const int in_order[] = {0, 1, 2, 3, 4, 5};
    made_in_place(pool, in_order);
    for (size_t size = 0; size < 200; size += 37) {
        for (int64_t again = 0; again < SAMPLES; again++) {
            size_t wanted[SAMPLES];
            memcpy(wanted, sizes, sizeof wanted);
            mr_batch *batch = take(pool);
            for (int64_t i = 0; i < SAMPLES; i++) {
                make(batch, i, sizes[i], (int)(1 + i));
                if (i == again + 1 || (i == again && again == SAMPLES - 1)) {
                    mr_batch_clear_sample(batch, again);
                    make(batch, again, size, (int)(1 + again));
                    wanted[again] = size;
                }
            }
            check_sealed(batch, wanted);
            mr_batch_unref(batch);
        }
    }
    mr_pool_unref(pool);
    mr_pipeline_free(pipeline);
}

TEST(lent_values_and_made_ones_meet) {
    mr_pipeline *pipeline;
    mr_pool *pool = make_pool(&pipeline);
    unsigned char elsewhere[100];
    for (int round = 0; round < 8; round++) {
        mr_batch *batch = take(pool);
        for (int64_t i = 0; i < SAMPLES; i++) {
            if ((round >> i % 3 & 1) == 0) {
                make(batch, i, sizes[i], (int)(1 + i));
            }
        }
        for (int64_t i = 0; i < SAMPLES; i++) { /* one after the other: the memory is one */
            if ((round >> i % 3 & 1) != 0) {
                memset(elsewhere, 0, sizeof elsewhere);
                mr_type type = bytes_type(0);
                mr_batch_lend(batch, 0, i, &(mr_view){type, elsewhere, 0});
                make(batch, i, sizes[i], (int)(1 + i));
            }
        }
        check_sealed(batch, sizes);
        mr_batch_unref(batch);
    }
    mr_batch *given_up = take(pool);
    make(given_up, 2, 90, 7);
    mr_batch_unref(given_up);
    mr_pool_unref(pool);
    mr_pipeline_free(pipeline);
}

TEST_MAIN()
