/* SPDX-License-Identifier: Apache-2.0 */
/* The law where several pipelines are mixed: rows in blocks, rows one by one and rows that need no
 * reading, with views, shuffles and ops of their own, by weights. */
#include "toy_rig.h"

static course whole, other, part;

#define CHILD(weight, source, more) "{\"weight\": " weight ", \"source\": \"" source "\"" more "}"
#define MIX(children, more) "{\"mix\": {\"children\": [" children "]" more "}}"
#define EPOCHS "\"batch\": 8, \"seed\": 3, \"epochs\": 3"

typedef struct case_ {
    const char *source, *settings;
} case_;

static const case_ cases[] = {
    {MIX(CHILD("3", "toy_mapped", "") ", " CHILD("1", "toy_single", ""), ", \"round\": 8"), EPOCHS},
    {MIX(CHILD("2", "toy", ", \"shuffle\": {\"window\": 5, \"lanes\": 1}") ", " //
         CHILD("1", "toy_single", ", \"view\": [{\"take\": 17}]"),
         ", \"round\": 9"),
     EPOCHS},
    /* lanes that line up, and a child that comes round every few batches */
    {MIX(CHILD("2", "toy", "") ", " //
         CHILD("3", "toy", ", \"view\": [{\"take\": 30}]") ", " CHILD("1", "toy_mapped", ""),
         ", \"round\": 12, \"length\": 200"),
     EPOCHS ", \"shuffle\": {\"window\": 4, \"lanes\": 4}"},
    /* lanes that do not */
    {MIX(CHILD("1", "toy", ", \"shuffle\": {\"window\": 4, \"lanes\": 4}") ", " //
         CHILD("1", "toy", ", \"shuffle\": {\"window\": 4, \"lanes\": 2}"),
         ""),
     EPOCHS ", \"remainder\": \"pad\""},
    {MIX(CHILD("1", "toy", "") ", " CHILD("1", "toy_single", ""), ""),
     EPOCHS ", \"shuffle\": false, \"remainder\": \"drop\""},
    {MIX(CHILD("1", "toy", ", \"view\": [{\"take\": 3}]"), ""), EPOCHS ", \"remainder\": \"pad\""},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void run_case(course *out, int i, mr_options options, int steps) {
    toy_source = cases[i].source;
    run(out, cases[i].settings, options, steps);
}

TEST(make_files) {
    write_files(fixture_folder());
}

TEST(threads_and_ways_of_reading_do_not_matter) {
    static const uint32_t counts[] = {1, 2, 3, 8};
    for (int c = 0; c < N_CASES; c++) {
        for (size_t i = 0; i < 4; i++) {
            mr_options options = with_threads(counts[i]);
            options.io = i == 1 ? MR_IO_PREAD : MR_IO_AUTO;
            options.reads_in_flight = i == 2 ? 1 : 8;
            options.batches_ahead = i == 3 ? 40 : 0;
            run_case(i == 0 ? &whole : &other, c, options, -1);
            CHECK(i == 0 || same(&whole, &other));
        }
        CHECK(whole.n > 0);
    }
}

TEST(a_run_goes_on_at_any_step) {
    for (int c = 0; c < N_CASES; c++) {
        run_case(&whole, c, with_threads(2), -1);
        for (int steps = 1; steps < whole.n_batches; steps += 5) {
            mr_options options = with_threads(2);
            run_case(&part, c, options, steps);
            options.state = part.state;
            options.state_size = strlen(part.state);
            run_case(&other, c, options, -1);
            int taken = whole.batch_end[steps - 1];
            CHECK_INT(part.n + other.n, ==, whole.n);
            CHECK(memcmp(part.digests, whole.digests, (size_t)taken * 8) == 0);
            CHECK(memcmp(other.digests, whole.digests + taken, (size_t)other.n * 8) == 0);
        }
    }
}

static uint64_t sum_of(const course *c) {
    uint64_t sum = 0;
    for (int i = 0; i < c->n; i++) {
        sum += c->digests[i];
    }
    return sum;
}

TEST(worlds_do_not_matter) {
    static const uint32_t worlds[] = {2, 4, 8};
    for (int c = 0; c < N_CASES; c++) {
        run_case(&whole, c, with_threads(1), -1);
        for (size_t w = 0; w < 3; w++) {
            uint64_t sum = 0;
            int n = 0;
            for (uint32_t rank = 0; rank < worlds[w]; rank++) {
                mr_options options = with_threads(2);
                options.world = worlds[w];
                options.rank = rank;
                run_case(&other, c, options, -1);
                n += other.n;
                sum += sum_of(&other);
            }
            CHECK_INT(n, ==, whole.n);
            CHECK(sum == sum_of(&whole));
        }
    }
}

/* A state of one world and batch goes on with another. */
TEST(another_world_and_another_batch_go_on) {
    run_case(&whole, 2, with_threads(2), -1);
    run_case(&part, 2, with_threads(2), 7);
    mr_options options = with_threads(2);
    options.state = part.state;
    options.state_size = strlen(part.state);
    options.batch = 6;
    run_case(&other, 2, options, -1);
    CHECK_INT(part.n + other.n, ==, whole.n);
    CHECK(sum_of(&part) + sum_of(&other) == sum_of(&whole));
    uint64_t sum = sum_of(&part);
    options.world = 3;
    for (options.rank = 0; options.rank < 3; options.rank++) {
        run_case(&other, 2, options, -1);
        sum += sum_of(&other);
    }
    CHECK(sum == sum_of(&whole));
}

TEST(every_round_holds_each_child_by_its_weight) {
    int64_t n = own.first[BLOCKS];
    run_case(&whole, 0, with_threads(2), -1);
    for (int at = 0; at + 8 <= whole.n; at += 8) {
        int of_second = 0;
        for (int i = at; i < at + 8; i++) {
            of_second += whole.samples[i] >= n;
        }
        CHECK_INT(of_second, ==, 2);
    }
}

TEST(children_draw_apart_and_each_gives_all_of_its_rows) {
    int seen[BLOCKS * 11 * 2] = {0};
    int64_t n = own.first[BLOCKS];
    run_case(&whole, 0, with_threads(2), -1);
    for (int i = 0; i < whole.n; i++) {
        seen[whole.samples[i]]++;
    }
    int least = 1 << 30, most = 0;
    for (int64_t i = 0; i < n; i++) { /* three quarters of 6 n positions: 4.5 epochs */
        least = seen[i] < least ? seen[i] : least;
        most = seen[i] > most ? seen[i] : most;
    }
    CHECK_INT(least, >=, 4);
    CHECK_INT(most, <=, 5);
}

TEST(a_bad_block_is_replaced_by_its_own_child) {
    char settings[256];
    own.bad_block = 5;
    toy_source = cases[1].source;
    run(&whole, cases[1].settings, with_threads(2), -1);
    CHECK_INT(whole.err.code, ==, MR_E_CORRUPT);
    snprintf(settings, sizeof settings, "%s, \"on_error\": \"skip\"", cases[1].settings);
    run(&whole, settings, with_threads(1), -1);
    CHECK(whole.skipped > 0);
    run(&other, settings, with_threads(3), -1);
    CHECK(same(&whole, &other));
    own.bad_block = -1;
}

static void refused(const char *source, const char *settings, const char *text, const char *where) {
    toy *user = &own;
    const mr_source_class single = table_of_single("toy_single", true, user),
                          *sources[] = {&single, NULL};
    const mr_tables tables = {sizeof tables, NULL, sources};
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    char json[2048];
    snprintf(json, sizeof json, "{\"source\": %s%s}", source, settings);
    CHECK_INT(mr_pipeline_parse_with(&pipeline, json, strlen(json), &tables, &err), <, 0);
    CHECK_HAS(err.text, text);
    CHECK_TEXT(err.where, where);
    mr_pipeline_free(pipeline);
}

#define AT "$.source.mix"
#define FOLLOWED "{\"source\": {\"segments\": {\"path\": \"x\", \"follow\": true}}}"
TEST(what_is_wrong_is_named_where_it_stands) {
    const char *good = MIX(CHILD("1", "toy_single", ""), "");
    refused("{\"mix\": []}", "", "must be an object", AT);
    refused(MIX("", ""), "", "1 to 1024", AT ".children");
    refused(MIX("1", ""), "", "must be an object", AT ".children[0]");
    refused(MIX(CHILD("0", "toy_single", ""), ""), "", "above 0", AT ".children[0].weight");
    refused(MIX(CHILD("1", "toy_single", ", \"batch\": 3"), ""), "", "unknown key",
            AT ".children[0].batch");
    refused(MIX(CHILD("1", "nothing", ""), ""), "", "nothing", AT ".children[0].source");
    refused(MIX(CHILD("1", "toy_single", ", \"ops\": [\"nothing\"]"), ""), "", "nothing",
            AT ".children[0].ops[0]");
    refused(MIX(CHILD("1", "toy_single", ", \"ops\": [\"drop\"]"), ""), ", \"ops\": [\"nothing\"]",
            "", AT ".children[0].ops[0].drop.fields");
    refused(good, ", \"ops\": [\"nothing\"]", "nothing", "$.ops[0]");
    refused(good, ", \"view\": [{\"take\": 3}]", "no view", "$.view");
    refused(MIX(CHILD("1", "toy_single", "") ", {\"source\": {\"synthetic\": {}}}", ""), "",
            "child 0", AT);
    refused(good, ", \"rehearse\": {\"size\": 9}", "no rehearse", "$.rehearse");
    refused(good, ", \"pace\": {}", "no pace", "$.pace");
    refused(MIX(CHILD("1", "toy_single", "") ", " FOLLOWED, ""), ", \"shuffle\": true",
            "a stream that is followed cannot be a child", AT ".children[1].source");
    refused(MIX("{\"source\": {\"mix\": {}}}", ""), "", "cannot be a child",
            AT ".children[0].source");
    refused(MIX(CHILD("1", "toy_single", ""), ", \"rounds\": 3"), "", "rounds", AT ".rounds");
}

TEST(the_canonical_document_is_the_same_pipeline) {
    toy *user = &own;
    const mr_source_class single = table_of_single("toy_single", true, user),
                          *sources[] = {&single, NULL};
    const mr_tables tables = {sizeof tables, NULL, sources};
    mr_pipeline *first = NULL, *second = NULL;
    const char *json = "{\"source\": " MIX(
        CHILD("0.3", "toy_single", ", \"view\": [{\"take\": 3}]") ", " CHILD("1", "toy_single", ""),
        "") ", \"fields\": [\"value\"]}";
    CHECK_INT(mr_pipeline_parse_with(&first, json, strlen(json), &tables, NULL), ==, MR_OK);
    const char *again = mr_pipeline_json(first);
    CHECK_INT(mr_pipeline_parse_with(&second, again, strlen(again), &tables, NULL), ==, MR_OK);
    CHECK_TEXT(mr_pipeline_json(first), mr_pipeline_json(second));
    CHECK_TEXT(mr_pipeline_fingerprint(first), mr_pipeline_fingerprint(second));
    mr_pipeline_free(first);
    mr_pipeline_free(second);
}

TEST(ending_at_any_time_leaks_nothing) {
    for (int steps = 0; steps < 12; steps++) {
        run_case(&part, steps % N_CASES, with_threads(3), steps);
    }
    char *slash = strrchr(own.paths[0], '/');
    *slash = '\0';
    fixture_remove(own.paths[0]);
}

TEST_MAIN()
