/* SPDX-License-Identifier: Apache-2.0 */
/* toy_rig.h - sources of a test's own, over the same rows: in uneven blocks in two files, read by
 * several extents and unpacked in parts; each row for itself; and without reading. And runs over
 * them that are easy to compare. */
#ifndef MR_TOY_RIG_H
#define MR_TOY_RIG_H

#include "fixture.h"
#include "test.h"

#include <stdatomic.h>

enum { BLOCKS = 23, PARTS = 3, MOST = 8192 };

/* ---- A source: block b has 1 + b * 7 % 11 rows of 8 bytes, b in file b % 2 ---- */
typedef struct toy {
    char paths[2][128];
    int64_t first[BLOCKS + 1];
    int64_t offset[BLOCKS];
    int64_t bad_block; /* -1: none */
    atomic_int unpacked, dropped, lent, returned;
    bool gathers, lends;
    uint32_t cpu; /* that it was opened with */
} toy;

typedef struct toy_params {
    toy *own;
} toy_params;

static inline int64_t rows_of(int64_t block) {
    return 1 + block * 7 % 11;
}

static inline uint64_t value_of(int64_t sample) {
    return (uint64_t)sample * 0x9e3779b97f4a7c15u;
}

static const mr_field own_fields[] = {
    {.name = "value", .type = {.dtype = MR_U64}},
    {.name = "text", .type = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}}},
};

static inline mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n,
                                 mr_error *err) {
    (void)p;
    (void)err;
    return mr_describe_fields(own_fields, 2, fields, capacity, n);
}

static inline mr_status describe_fixed(const void *p, mr_field *fields, int32_t capacity,
                                       int32_t *n, mr_error *err) {
    (void)p;
    (void)err;
    return mr_describe_fields(own_fields, 1, fields, capacity, n);
}

static inline mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    toy *t = ((const toy_params *)p)->own;
    (void)err;
    t->cpu = wanted->cpu;
    *state = t;
    return MR_OK;
}

static inline void close_(void *state) {
    (void)state;
}

static inline void shape(const void *state, mr_shape *out) {
    const toy *t = state;
    out->samples = t->first[BLOCKS];
    out->blocks = BLOCKS;
    out->parts = PARTS;
    out->fingerprint[0] = 11;
}

static inline int64_t first_sample(const void *state, int64_t block) {
    return ((const toy *)state)->first[block];
}

static inline void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    (void)state;
    snprintf(buffer, size, "row %lld", (long long)sample);
}

/* Two extents: the first row, and the others. */
static inline mr_status locate(const void *state, int64_t block, mr_extent *extents,
                               int32_t capacity, int32_t *n, mr_error *err) {
    const toy *t = state;
    (void)err;
    *n = 2;
    if (capacity >= 2) {
        extents[0] = (mr_extent){.path = t->paths[block % 2],
                                 .offset = t->offset[block],
                                 .length = 8,
                                 .limit = 1000,
                                 .object = 1 + (int32_t)(block % 2)};
        extents[1] = extents[0];
        extents[1].offset += 8;
        extents[1].length = 8 * rows_of(block) - 8;
    }
    return MR_OK;
}

/* Part k has rows k, k + PARTS, ... */
static inline mr_status unpack(const void *state, const mr_block *block, int32_t part, void **out,
                               mr_error *err) {
    toy *t = (toy *)(uintptr_t)state;
    int64_t rows = rows_of(block->number), n = 0;
    uint64_t *values = calloc((size_t)rows + 1, sizeof *values);
    CHECK_INT(block->n_bytes, ==, 2);
    CHECK_INT(block->bytes[1].size, ==, 8 * rows - 8);
    for (int64_t row = part; row < rows; row += PARTS) {
        const char *from =
            row == 0 ? block->bytes[0].data : (const char *)block->bytes[1].data + 8 * (row - 1);
        memcpy(&values[n++], from, 8);
    }
    atomic_fetch_add(&t->unpacked, 1);
    *out = values;
    if (block->number == t->bad_block && part == 1) {
        return mr_fail(err, MR_E_CORRUPT, "a bad block");
    }
    return MR_OK;
}

static inline void drop(const void *state, int32_t part, void *unpacked) {
    toy *t = (toy *)(uintptr_t)state;
    (void)part;
    atomic_fetch_add(&t->dropped, 1);
    free(unpacked);
}

static const uint64_t *row_at(const mr_block *block, int64_t sample) {
    int64_t row = sample - block->first;
    return (const uint64_t *)block->parts[row % PARTS] + row / PARTS;
}

static inline void fill_text(int64_t sample, mr_view *field) {
    static const char text[] = "abcdefghij";
    field->data = (void *)(uintptr_t)text;
    field->size = (size_t)(sample % 11);
    field->type.dims[0] = sample % 11;
}

static inline mr_status fill(const void *state, const mr_block *block, int64_t sample,
                             mr_view *fields, mr_error *err) {
    const uint64_t *value = row_at(block, sample);
    (void)state;
    (void)err;
    memcpy(fields[0].data, value, sizeof *value);
    fill_text(sample, &fields[1]);
    return MR_OK;
}

static inline mr_status fill_fixed(const void *state, const mr_block *block, int64_t sample,
                                   mr_view *fields, mr_error *err) {
    (void)state;
    (void)err;
    memcpy(fields[0].data, row_at(block, sample), 8);
    return MR_OK;
}

static inline mr_status gather(const void *state, const mr_block *const *blocks,
                               const int64_t *samples, int64_t n, const mr_column *columns,
                               mr_error *err) {
    (void)state;
    (void)err;
    for (int64_t i = 0; columns[0].data && i < n; i++) { /* else it was lent */
        memcpy((char *)columns[0].data + (size_t)i * columns[0].stride,
               row_at(blocks[i], samples[i]), 8);
    }
    return MR_OK;
}

typedef struct toy_loan {
    _Alignas(64) uint64_t values[16];
    toy *own;
} toy_loan;

static inline void give_back(void *owner) {
    toy_loan *loan = owner;
    atomic_fetch_add(&loan->own->returned, 1);
    free(loan);
}

static inline bool lend(const void *state, const mr_block *block, int32_t field, int64_t sample,
                        int64_t n, mr_loan *out) {
    toy *t = (toy *)(uintptr_t)state;
    toy_loan *loan = aligned_alloc(64, sizeof *loan);
    loan->own = t;
    CHECK_INT(field, ==, 0);
    CHECK(sample >= block->first && sample + n <= block->first + rows_of(block->number));
    for (int64_t i = 0; i < n; i++) {
        loan->values[i] = *row_at(block, sample + i);
    }
    atomic_fetch_add(&t->lent, 1);
    *out = (mr_loan){loan->values, loan, give_back};
    return true;
}

static inline mr_source_class table_of(const toy *t, toy *const *user) {
    return (mr_source_class){MR_SOURCE_HEADER,
                             .name = "toy",
                             .summary = "",
                             .param_size = sizeof(toy_params),
                             .describe = t->gathers ? describe_fixed : describe,
                             .open = open_,
                             .close = close_,
                             .shape = shape,
                             .first_sample = first_sample,
                             .sample_name = sample_name,
                             .locate = locate,
                             .unpack = unpack,
                             .drop = drop,
                             .fill = t->gathers ? fill_fixed : fill,
                             .gather = t->gathers ? gather : NULL,
                             .lend = t->lends ? lend : NULL,
                             .user = *user};
}

/* ---- Rows one by one: block 0 to 22 have theirs in a row ---- */
static inline int64_t block_of(const toy *t, int64_t sample) {
    int64_t b = 0;
    while (t->first[b + 1] <= sample) {
        b++;
    }
    return b;
}

static inline void shape_single(const void *state, mr_shape *out) {
    const toy *t = state;
    out->samples = t->first[BLOCKS];
    out->fingerprint[0] = 12;
}

static inline mr_status locate_single(const void *state, int64_t sample, mr_extent *extents,
                                      int32_t capacity, int32_t *n, mr_error *err) {
    const toy *t = state;
    int64_t b = block_of(t, sample);
    (void)err;
    *n = 1;
    if (capacity >= 1) {
        extents[0] = (mr_extent){.path = t->paths[b % 2],
                                 .offset = t->offset[b] + 8 * (sample - t->first[b]),
                                 .length = 8,
                                 .limit = 8,
                                 .object = 1 + (int32_t)(b % 2)};
    }
    return MR_OK;
}

static inline mr_status fill_single(const void *state, const mr_block *block, int64_t sample,
                                    mr_view *fields, mr_error *err) {
    uint64_t value = value_of(sample);
    (void)state;
    (void)err;
    memcpy(fields[0].data, block ? block->bytes[0].data : &value, 8);
    fill_text(sample, &fields[1]);
    return MR_OK;
}

static inline mr_source_class table_of_single(const char *name, bool is_read, toy *user) {
    return (mr_source_class){MR_SOURCE_HEADER,
                             .name = name,
                             .summary = "",
                             .param_size = sizeof(toy_params),
                             .describe = describe,
                             .open = open_,
                             .close = close_,
                             .shape = shape_single,
                             .sample_name = sample_name,
                             .locate = is_read ? locate_single : NULL,
                             .fill = fill_single,
                             .user = user};
}

static toy own = {.bad_block = -1};
static const char *toy_source = "\"toy\""; /* of a run's document */

static inline void write_files(const char *folder) {
    FILE *files[2];
    int64_t at[2] = {0, 0};
    for (int f = 0; f < 2; f++) {
        snprintf(own.paths[f], sizeof own.paths[f], "%s/%d", folder, f);
        files[f] = fopen(own.paths[f], "wb");
    }
    for (int64_t b = 0; b < BLOCKS; b++) {
        own.offset[b] = at[b % 2];
        own.first[b + 1] = own.first[b] + rows_of(b);
        for (int64_t s = own.first[b]; s < own.first[b + 1]; s++) {
            uint64_t value = value_of(s);
            fwrite(&value, 8, 1, files[b % 2]);
        }
        at[b % 2] += 8 * rows_of(b);
    }
    fclose(files[0]);
    fclose(files[1]);
}

/* ---- Runs ---- */
typedef struct course {
    int n, n_batches, wrong;
    uint64_t digests[MOST];
    int64_t samples[MOST];
    int batch_end[MOST];
    int64_t skipped;
    char state[MR_STATE_MAX];
    mr_error err;
} course;

static inline void take(course *out, const mr_batch *batch) {
    const uint64_t *values = mr_batch_find(batch, "value")->data;
    for (int64_t i = 0; i < mr_batch_size(batch) && out->n < MOST; i++) {
        out->samples[out->n] = mr_batch_samples(batch)[i];
        out->wrong += values[i] != value_of(out->samples[out->n] % own.first[BLOCKS]);
        out->digests[out->n++] = mr_batch_sample_digest(batch, i);
    }
    out->batch_end[out->n_batches++] = out->n;
}

static inline void run(course *out, const char *settings, mr_options options, int steps) {
    char json[4096];
    toy *user = &own;
    const mr_source_class table = table_of(&own, &user),
                          single = table_of_single("toy_single", true, user),
                          mapped = table_of_single("toy_mapped", false, user),
                          *sources[] = {&table, &single, &mapped, NULL};
    const mr_tables tables = {sizeof tables, NULL, sources};
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    snprintf(json, sizeof json, "{\"source\": %s, %s}", toy_source, settings);
    atomic_store(&own.unpacked, 0);
    atomic_store(&own.dropped, 0);
    atomic_store(&own.lent, 0);
    atomic_store(&own.returned, 0);
    options.digest = true;
    CHECK_INT(mr_pipeline_parse_with(&pipeline, json, strlen(json), &tables, &out->err), ==, MR_OK);
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &out->err), ==, MR_OK);
    CHECK_TEXT(out->err.text, "");
    while (loader && steps-- != 0 && mr_loader_next(loader, &batch, &out->err) == MR_OK) {
        take(out, batch);
        mr_batch_unref(batch);
    }
    mr_stats stats = {.size = sizeof stats};
    mr_loader_stats(loader, &stats);
    out->skipped = stats.skipped;
    CHECK_INT(mr_loader_save(loader, out->state, sizeof out->state, NULL), ==, MR_OK);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_INT(atomic_load(&own.unpacked), ==, atomic_load(&own.dropped));
    CHECK_INT(atomic_load(&own.lent), ==, atomic_load(&own.returned));
    CHECK_INT(out->wrong, ==, 0);
}

static inline mr_options with_threads(uint32_t threads) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = threads;
    return options;
}

static inline bool same(const course *a, const course *b) {
    return a->n == b->n && a->n_batches == b->n_batches &&
           memcmp(a->digests, b->digests, (size_t)a->n * sizeof *a->digests) == 0 &&
           memcmp(a->samples, b->samples, (size_t)a->n * sizeof *a->samples) == 0;
}

#endif
