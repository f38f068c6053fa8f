/* SPDX-License-Identifier: Apache-2.0 */
/* Fields: as many as a table has, at the cost of those that somebody wants. */
#include "table_rig.h"

#include "fixture.h"
#include "plan/pipeline.h"
#include "core/cpu.h"
#include "kernels/kernels.h"
#include "run/chain/chain.h"
#include "run/chain/follow.h"

#include <math.h>

typedef struct rig {
    table_rig *table;
    mr_source_class source;
    mr_pipeline *pipeline;
    mr_loader *loader;
} rig;

static void open_rig(rig *r, int32_t n_columns, const char *json) {
    mr_error err = MR_ERROR_INIT;
    mr_options options = MR_OPTIONS_INIT;
    options.digest = true;
    r->table = table_new(n_columns);
    r->source = table_source(r->table);
    CHECK_INT(table_parse(&r->pipeline, &r->source, json, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(mr_loader_open(&r->loader, r->pipeline, &options, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
}

static void close_rig(rig *r) {
    mr_loader_close(r->loader);
    mr_pipeline_free(r->pipeline);
    free(r->table);
}

static float value_at(const mr_batch *batch, const char *name, int64_t i) {
    float value = -1;
    const mr_array *array = mr_batch_find(batch, name);
    CHECK(array != NULL);
    if (array) {
        memcpy(&value, (const char *)array->data + i * 4, sizeof value);
    }
    return value;
}

TEST(a_table_of_two_thousand_columns_is_delivered) {
    rig r = {0};
    open_rig(&r, TABLE_COLUMNS, "{\"source\": \"table\", \"batch\": 10, \"shuffle\": false}");
    mr_batch *batch = NULL;
    int64_t seen = 0;
    CHECK_INT(mr_pipeline_n_fields(r.pipeline), ==, TABLE_COLUMNS);
    while (mr_loader_next(r.loader, &batch, NULL) == MR_OK) {
        CHECK_INT(mr_batch_n_arrays(batch), ==, TABLE_COLUMNS);
        for (int64_t i = 0; i < mr_batch_size(batch); i++, seen++) {
            CHECK(value_at(batch, "c0", i) == table_value(seen, 0));
            CHECK(value_at(batch, "c999", i) == table_value(seen, 999));
            CHECK(value_at(batch, "c1999", i) == table_value(seen, 1999));
        }
        mr_batch_unref(batch);
    }
    CHECK_INT(seen, ==, TABLE_SAMPLES);
    CHECK_INT(r.table->filled, ==, TABLE_SAMPLES * TABLE_COLUMNS);
    close_rig(&r);
}

/* c1500 is delivered, c7 is used by an op and by nobody else. */
TEST(what_nobody_wants_is_not_filled) {
    rig r = {0};
    open_rig(&r, TABLE_COLUMNS,
             "{\"source\": \"table\", \"batch\": 10, \"shuffle\": false, "
             "\"fields\": [\"c1500\"], \"ops\": [{\"cast\": {\"field\": "
             "\"c7\", \"dtype\": \"float16\"}}]}");
    mr_batch *batch = NULL;
    int64_t seen = 0;
    while (mr_loader_next(r.loader, &batch, NULL) == MR_OK) {
        CHECK_INT(mr_batch_n_arrays(batch), ==, 1);
        for (int64_t i = 0; i < mr_batch_size(batch); i++, seen++) {
            CHECK(value_at(batch, "c1500", i) == table_value(seen, 1500));
        }
        mr_batch_unref(batch);
    }
    CHECK_INT(r.table->filled, ==, TABLE_SAMPLES * 2);
    close_rig(&r);
}

TEST(two_columns_of_one_name_are_refused) {
    table_rig *table = table_new(300);
    mr_source_class source = table_source(table);
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    table->fields[299].name = "c3";
    CHECK_INT(table_parse(&pipeline, &source, "{\"source\": \"table\"}", &err), ==, MR_E_INTERNAL);
    CHECK_HAS(err.text, "two fields are called \"c3\"");
    table->n_columns = 0;
    CHECK_INT(table_parse(&pipeline, &source, "{\"source\": \"table\"}", &err), ==, MR_E_INTERNAL);
    CHECK_HAS(err.text, "a sample of 0 fields");
    free(table);
}

static void run_with_cache(const char *json, char digest[33], int64_t *filled) {
    rig r = {0};
    open_rig(&r, 700, json);
    mr_batch *batch = NULL;
    while (mr_loader_next(r.loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_digest(r.loader, digest);
    *filled = r.table->filled;
    close_rig(&r);
}

/* A record of 700 fields: the second run is made of it alone. */
TEST(a_cache_keeps_hundreds_of_fields) {
    char folder[] = "/tmp/mr_fields_XXXXXX", json[512], first[33], second[33];
    int64_t filled = 0, again = -1;
    if (!mr_op_find("cache")) {
        puts("skipped: a cache of hundreds of fields: this build has no store");
        return;
    }
    CHECK(mkdtemp(folder) != NULL);
    snprintf(json, sizeof json,
             "{\"source\": \"table\", \"batch\": 10, \"ops\": [{\"cache\": {\"path\": \"%s\", "
             "\"size\": \"100MB\"}}]}",
             folder);
    run_with_cache(json, first, &filled);
    run_with_cache(json, second, &again);
    CHECK_INT(filled, ==, 700 * TABLE_SAMPLES);
    CHECK_INT(again, ==, 0);
    CHECK_TEXT(first, second);
    fixture_remove(folder);
}

/* ---- Ops on several fields ---- */
static mr_pipeline *pair_pipeline(table_rig *table, mr_source_class *source, const char *json) {
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    for (int32_t c = 0; c < table->n_columns; c++) {
        table->fields[c].type = (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    }
    *source = table_source(table);
    CHECK_INT(table_parse(&pipeline, source, json, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    return pipeline;
}

static const char pair_document[] =
    "{\"source\": \"table\", \"kinds\": {\"c1\": \"mask\"}, \"ops\": [{\"decode_image\": "
    "{\"field\": \"c[01]\"}}, {\"random_resized_crop\": {\"size\": 8, \"field\": [\"c1\", "
    "\"c0\"]}}, {\"random_flip\": {\"field\": [\"c0\", \"c1\"]}}, \"normalize\"]}";

/* As they stand in the document no two ops of one field follow each other. */
TEST(ops_of_each_field_are_brought_together_and_fused) {
    static const char *const wanted[] = {
        "decode_image", "random_resized_crop", "random_flip", "normalize",
        "decode_image", "random_resized_crop", "random_flip"};
    table_rig *table = table_new(2);
    mr_source_class source;
    mr_pipeline *p = pair_pipeline(table, &source, pair_document);
    CHECK_INT(p->n_ops, ==, 7);
    for (int32_t i = 0; i < 7; i++) {
        CHECK_TEXT(p->ops[i].class->name, wanted[i]);
        CHECK_TEXT(p->ops[i].field_name, i < 4 ? "c0" : "c1");
    }
    CHECK_INT(p->ops[0].fused_length, ==, 4);
    CHECK_INT(p->ops[4].fused_length, ==, 3);
    CHECK_INT(p->ops[1].op_word, ==, p->ops[5].op_word);
    CHECK_INT(p->ops[2].op_word, ==, p->ops[6].op_word);
    CHECK_HAS(mr_pipeline_stage(p, 6)->params, "\"filter\":\"nearest\"");
    CHECK_HAS(mr_pipeline_warning(p, 0), "decode_image: on a mask, rgb");
    CHECK(mr_pipeline_warning(p, 1) == NULL);
    mr_pipeline_free(p);
    free(table);
}

TEST(ops_on_several_fields_are_written_out_as_they_were) {
    table_rig *table = table_new(2);
    mr_source_class source;
    mr_pipeline *p = pair_pipeline(table, &source, pair_document);
    mr_pipeline *again = pair_pipeline(table, &source, mr_pipeline_json(p));
    CHECK_HAS(mr_pipeline_json(p), "\"field\":\"c[01]\"");
    CHECK_HAS(mr_pipeline_json(p), "\"filter\":\"bilinear\",\"field\":[\"c1\",\"c0\"]");
    CHECK_HAS(mr_pipeline_json(p), "\"kinds\":{\"c1\":\"mask\"}");
    CHECK_TEXT(mr_pipeline_json(p), mr_pipeline_json(again));
    CHECK_TEXT(mr_pipeline_fingerprint(p), mr_pipeline_fingerprint(again));
    mr_pipeline_free(p);
    mr_pipeline_free(again);
    free(table);
}

TEST(random_ops_that_draw_apart_are_told) {
    table_rig *table = table_new(3);
    mr_source_class source;
    mr_pipeline *p =
        pair_pipeline(table, &source,
                      "{\"source\": \"table\", \"ops\": [{\"decode_image\": {\"field\": \"*\"}}, "
                      "\"random_flip\", {\"random_flip\": {\"field\": [\"c1\", \"c2\"]}}]}");
    CHECK_HAS(mr_pipeline_warning(p, 0), "random_flip is given twice, for c0 and for c1");
    CHECK_HAS(mr_pipeline_warning(p, 0), "{\"random_flip\": {\"field\": [\"c0\", \"c1\"], ...}}");
    CHECK(mr_pipeline_warning(p, 1) == NULL);
    mr_pipeline_free(p);
    free(table);
}

TEST(kinds_of_no_field_are_refused_with_those_there_are) {
    table_rig *table = table_new(3);
    mr_source_class source = table_source(table);
    mr_pipeline *p = NULL;
    mr_error err = MR_ERROR_INIT;
    const char *json = "{\"source\": \"table\", \"kinds\": {\"c7\": \"mask\"}}";
    CHECK_INT(table_parse(&p, &source, json, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.text, "kinds has \"c7\", but there is no such field");
    CHECK_HAS(err.hint, "fields: c0, c1, c2");
    CHECK_TEXT(err.where, "$.kinds.c7");
    free(table);
}

TEST(fields_that_cannot_be_are_refused) {
    static const char *const documents[][2] = {
        {"{\"random_flip\": {\"field\": [\"c0\", 3]}}", "field must be a string or a list"},
        {"{\"random_flip\": {\"field\": []}}", "field is an empty list"},
        {"{\"random_flip\": {\"field\": \"x*\"}}", "there is no field \"x*\""},
        {"{\"cache\": {\"field\": \"*\"}}", "takes one field at most"},
    };
    size_t n = sizeof documents / sizeof *documents - (mr_op_find("cache") ? 0 : 1);
    for (size_t i = 0; i < n; i++) {
        table_rig *table = table_new(2);
        mr_source_class source = table_source(table);
        mr_pipeline *pipeline = NULL;
        mr_error err = MR_ERROR_INIT;
        char json[256];
        snprintf(json, sizeof json, "{\"source\": \"table\", \"ops\": [%s]}", documents[i][0]);
        CHECK_INT(table_parse(&pipeline, &source, json, &err), ==, MR_E_PARAM);
        CHECK_HAS(err.text, documents[i][1]);
        free(table);
    }
}

/* ---- Boxes and points ---- */
static int64_t follow(mr_kind kind, const mr_motion *motion, const mr_view *in, void *out) {
    int64_t kept = -1;
    CHECK_INT(mr_follow(kind, motion, in, out, &kept, NULL), ==, MR_OK);
    return kept;
}

TEST(boxes_that_are_none_are_dropped_and_points_are_not) {
    double rows[4][4] = {{1, 1, 3, 3}, {NAN, 0, 1, 1}, {2, 2, 2, 5}, {-1e9, -1e9, 1e9, 1e9}};
    const mr_motion motion = {{1, 0, 1, 0, 1, 0}, 3, 9, 0, MR_BOX_CORNERS, "boxes"};
    mr_view in = {{MR_F64, MR_PLAIN, 2, {4, 4}}, rows, sizeof rows};
    double out[4][4];
    CHECK_INT(follow(MR_KIND_BOXES, &motion, &in, out), ==, 2);
    CHECK(out[0][0] == 2 && out[0][1] == 1 && out[0][2] == 3 && out[0][3] == 3);
    CHECK(out[1][0] == 0 && out[1][1] == 0 && out[1][2] == 3 && out[1][3] == 9);
    CHECK_INT(follow(MR_KIND_POINTS, &motion, &in, out), ==, 4);
    CHECK(out[2][0] == 3 && out[2][1] == 2 && out[2][2] == 2 && out[2][3] == 5);
    in.type.dims[0] = 0;
    CHECK_INT(follow(MR_KIND_BOXES, &motion, &in, out), ==, 0);
}

TEST(boxes_keep_their_format) {
    double rows[3][4] = {{1, 1, 3, 3}, {1, 1, 2, 2}, {2, 2, 2, 2}}, out[4];
    for (int format = MR_BOX_CORNERS; format <= MR_BOX_CENTER; format++) {
        const mr_motion motion = {{2, 0, 0, 0, 2, 0},    5,      9, 0,
                                  (mr_box_format)format, "boxes"}; /* cut off at x = 5 */
        const double want[3][4] = {{2, 2, 5, 6}, {2, 2, 3, 4}, {3.5, 4, 3, 4}};
        mr_view in = {{MR_F64, MR_PLAIN, 2, {1, 4}}, rows[format], sizeof rows[format]};
        CHECK_INT(follow(MR_KIND_BOXES, &motion, &in, out), ==, 1);
        CHECK(memcmp(out, want[format], sizeof out) == 0);
    }
}

TEST(one_box_is_never_dropped_and_lies_inside_of_the_image) {
    double row[5] = {10, 1, 12, 3, 7}, out[5];
    const mr_motion motion = {{1, 0, 0, 0, 1, 0}, 3, 9, 0, MR_BOX_CORNERS, "bbox"};
    mr_view in = {{MR_F64, MR_PLAIN, 1, {5}}, row, sizeof row};
    const double want[5] = {3, 1, 3, 3, 7};
    CHECK_INT(follow(MR_KIND_BOXES, &motion, &in, out), ==, 1);
    CHECK(memcmp(out, want, sizeof out) == 0);
}

TEST(boxes_that_end_before_they_begin_are_refused_with_advice) {
    double rows[2][4] = {{1, 1, 3, 3}, {50, 60, 10, 20}}, out[2][4];
    const mr_motion motion = {{1, 0, 0, 0, 1, 0}, 99, 99, 0, MR_BOX_CORNERS, "objects"};
    mr_view in = {{MR_F64, MR_PLAIN, 2, {2, 4}}, rows, sizeof rows};
    mr_error err = MR_ERROR_INIT;
    int64_t kept = 0;
    CHECK_INT(mr_follow(MR_KIND_BOXES, &motion, &in, out, &kept, &err), ==, MR_E_CORRUPT);
    CHECK_HAS(err.text, "box 1 of objects is [50, 60, 10, 20]: as left, top, right, bottom");
    CHECK_HAS(err.hint, "\"kinds\": {\"objects\": \"boxes_xywh\"}");
}

/* ---- Many samples at once ---- */
static const char rows_document[] =
    "{\"source\": \"table\", \"batch\": 50, \"shuffle\": false, \"fields\": [\"c2\", \"x\", "
    "\"c3\"], \"ops\": [{\"cast\": {\"field\": [\"c3\", \"c4\"], \"dtype\": \"float16\"}}, "
    "{\"cast\": {\"field\": \"c4\", \"dtype\": \"float32\"}}, {\"stack\": {\"field\": [\"c1\", "
    "\"c4\"], \"name\": \"x\"}}, {\"cast\": {\"field\": \"x\", \"dtype\": \"bfloat16\"}}]}";

/* The columns that a source would gather, c2 in its place in the batch already. */
static void fill_columns(const mr_pipeline *p, mr_batch *batch, float *values, mr_column *columns) {
    for (int32_t c = 0; c < p->n_source_fields; c++) {
        float *to = c == 2 ? mr_batch_slot(batch, 0, 0) : values + (size_t)c * TABLE_SAMPLES;
        columns[c] = (mr_column){.type = {.dtype = MR_F32}, .data = to, .stride = sizeof *to};
        for (int64_t s = 0; s < TABLE_SAMPLES && p->wanted[c]; s++) {
            to[s] = table_value(s, c);
        }
    }
}

static void run_rows(const mr_pipeline *p, mr_chain *chain, char digest[33]) {
    enum { COLUMNS = 6 };
    mr_pool *pool = NULL;
    mr_batch *batch = NULL;
    mr_error err = MR_ERROR_INIT;
    static float values[COLUMNS * TABLE_SAMPLES];
    mr_column columns[COLUMNS + 1];
    const mr_pool_config config = {p, TABLE_SAMPLES, true, true, 0, mr_default_allocator};
    CHECK_INT(mr_pool_new(&pool, &config, &err), ==, MR_OK);
    CHECK_INT(mr_pool_take(pool, TABLE_SAMPLES, &batch, &err), ==, MR_OK);
    fill_columns(p, batch, values, columns);
    CHECK(chain->takes_rows);
    CHECK_INT(mr_chain_run_rows(chain, batch, 0, TABLE_SAMPLES, columns, &err), ==, MR_OK);
    CHECK_INT(mr_batch_seal(batch, &err), ==, MR_OK);
    snprintf(digest, 33, "%s", mr_batch_digest(batch));
    mr_batch_unref(batch);
    mr_pool_unref(pool);
}

TEST(a_chain_takes_many_samples_at_once) {
    rig r = {0};
    mr_batch *batch = NULL;
    mr_chain chain = {0};
    mr_tracks tracks = {0};
    mr_error err = MR_ERROR_INIT;
    char digest[33];
    open_rig(&r, 6, rows_document);
    CHECK_INT(mr_loader_next(r.loader, &batch, NULL), ==, MR_OK);
    CHECK(mr_tracks_init(&tracks, 1, r.pipeline->n_ops, 1, 0));
    const mr_log log = {NULL, NULL};
    mr_child child = {.pipeline = r.pipeline};
    CHECK_INT(mr_dataset_open(&child.dataset, r.pipeline, &(mr_dataset_terms){"", 0}, &log, &err),
              ==, MR_OK);
    CHECK_INT(mr_chain_open(&chain, &child, mr_kernels_for(0),
                            mr_tracks_add(&tracks, MR_TRACK_WORKER), &err),
              ==, MR_OK);
    run_rows(r.pipeline, &chain, digest);
    CHECK_TEXT(digest, mr_batch_digest(batch));
    mr_chain_close(&chain);
    mr_dataset_close(&child.dataset);
    mr_tracks_free(&tracks);
    mr_batch_unref(batch);
    close_rig(&r);
}

TEST_MAIN()
