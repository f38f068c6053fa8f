/* SPDX-License-Identifier: Apache-2.0 */
/* "view" and "shuffle" of a document: what is read, what is refused and with which path. */
#include "test.h"

#include "core/json.h"
#include "plan/view_document.h"

static json_t *parse(const char *text) {
    json_t *value = NULL;
    json_error_t error;
    CHECK_INT(mr_json_load(&value, text, strlen(text), JSON_DECODE_ANY, &error), ==, MR_OK);
    return value;
}

static mr_status read_view(mr_view_steps *view, const char *text, mr_error *err) {
    json_t *value = parse(text);
    mr_status status = mr_view_read(view, value, err);
    json_decref(value);
    return status;
}

/* The one fixed form, read again, is itself. */
static void check_view(const char *text, const char *wanted) {
    for (int i = 0; i < 2; i++) {
        mr_view_steps view;
        mr_error err = MR_ERROR_INIT;
        CHECK_INT(read_view(&view, i ? wanted : text, &err), ==, MR_OK);
        CHECK_TEXT(err.text, "");
        json_t *json = mr_view_json(&view);
        char *got = json_dumps(json, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
        CHECK_TEXT(got, wanted);
        free(got);
        json_decref(json);
        mr_view_free(&view);
    }
}

TEST(steps_are_read_in_both_forms) {
    check_view("[]", "[]");
    check_view("[{\"take\": 5}, {\"skip\": {\"count\": 0}}]",
               "[{\"take\": {\"count\": 5}}, {\"skip\": {\"count\": 0}}]");
    check_view("[{\"every\": 4}]", "[{\"every\": {\"offset\": 0, \"step\": 4}}]");
    check_view("[{\"where\": \"x > 1\"}, {\"repeat\": 3}]",
               "[{\"where\": {\"condition\": \"x > 1\"}}, {\"repeat\": {\"times\": 3}}]");
    check_view("[{\"weights\": \"w\"}]", "[{\"weights\": {\"count\": 0, \"field\": \"w\"}}]");
    check_view("[{\"balance\": {\"field\": \"c\", \"count\": 9}}]",
               "[{\"balance\": {\"count\": 9, \"field\": \"c\"}}]");
    check_view("[{\"split\": {\"name\": \"b\", \"parts\": {\"b\": 0.25, \"a\": 0.5}}}]",
               "[{\"split\": {\"name\": \"b\", \"parts\": {\"a\": 0.5, \"b\": 0.25}, \"salt\": "
               "\"\"}}]");
}

TEST(parts_stand_by_name_however_they_are_written) {
    mr_view_steps view;
    CHECK_INT(read_view(&view,
                        "[{\"split\": {\"name\": \"b\", \"salt\": \"s\", \"parts\": {\"c\": 0.25, "
                        "\"b\": 0.25, \"a\": 0.5}}}]",
                        NULL),
              ==, MR_OK);
    CHECK_INT(view.steps[0].n_parts, ==, 3);
    CHECK_TEXT(view.steps[0].parts[0].name, "a");
    CHECK_TEXT(view.steps[0].parts[2].name, "c");
    CHECK_TEXT(view.steps[0].salt, "s");
    CHECK(view.steps[0].parts[0].fraction == 0.5);
    mr_view_free(&view);
}

static void refuse_view(const char *text, const char *where, const char *words, const char *hint) {
    mr_view_steps view = {.n = 7};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(read_view(&view, text, &err), <, 0);
    CHECK_INT(view.n, ==, 7);
    CHECK_TEXT(err.where, where);
    CHECK_HAS(err.text, words);
    CHECK_HAS(err.hint, hint);
    CHECK_INT(read_view(&view, text, NULL), <, 0);
}

TEST(wrong_steps_are_refused_with_their_place) {
    refuse_view("{}", "$.view", "list of at most", "");
    refuse_view("[5]", "$.view[0]", "one key", "{\"take\": 1000}");
    refuse_view("[{\"take\": 1, \"skip\": 2}]", "$.view[0]", "one key", "");
    refuse_view("[{\"take\": 1}, {\"tkae\": 1}]", "$.view[1]", "unknown step \"tkae\"",
                "did you mean \"take\"");
    refuse_view("[{\"zzzzzzzzzz\": 1}]", "$.view[0]", "unknown step", "there are take");
    refuse_view("[{\"take\": 0}]", "$.view[0].take.count", "must be from 1", "");
    refuse_view("[{\"take\": \"x\"}]", "$.view[0].take.count", "whole number", "");
    refuse_view("[{\"every\": {\"stpe\": 1}}]", "$.view[0].every.stpe", "no parameter", "\"step\"");
    refuse_view("[{\"split\": {\"name\": \"a\"}}]", "$.view[0].split.parts", "needs parts", "0.9");
    refuse_view("[{\"split\": {\"name\": \"a\", \"parts\": {\"b\": 1, \"a\": \"x\"}}}]",
                "$.view[0].split.parts.a", "above 0", "");
    refuse_view("[{\"split\": \"a\"}]", "$.view[0].split.parts", "needs parts", "");
    refuse_view("[{\"weights\": {}}]", "$.view[0].weights.field", "needs field", "");
}

static void check_shuffle(const char *text, mr_shuffle wanted, const char *written) {
    json_t *value = text ? parse(text) : NULL;
    mr_shuffle got = {0};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_shuffle_read(&got, value, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(got.on, ==, wanted.on);
    CHECK_INT(got.window_blocks, ==, wanted.window_blocks);
    CHECK_INT(got.window_bytes, ==, wanted.window_bytes);
    CHECK_INT(got.lanes, ==, wanted.lanes);
    json_t *json = mr_shuffle_json(&got);
    char *out = json_dumps(json, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    CHECK_TEXT(out, written);
    free(out);
    json_decref(json);
    json_decref(value);
}

TEST(shuffle_is_read_in_every_form) {
    mr_shuffle on = {.on = true, .window_bytes = MR_SHUFFLE_BYTES, .lanes = MR_SHUFFLE_LANES};
    const char *plain = "{\"lanes\": 8, \"window\": \"256000000B\"}";
    check_shuffle(NULL, on, plain);
    check_shuffle("true", on, plain);
    check_shuffle("{}", on, plain);
    check_shuffle(plain, on, plain);
    check_shuffle("{\"window\": 10}", (mr_shuffle){.on = true, .window_blocks = 10, .lanes = 8},
                  "{\"lanes\": 8, \"window\": 10}");
    check_shuffle("{\"window\": \"2MB\", \"lanes\": 1}",
                  (mr_shuffle){.on = true, .window_bytes = 2000000, .lanes = 1},
                  "{\"lanes\": 1, \"window\": \"2000000B\"}");
    check_shuffle("{\"window\": \"all\", \"lanes\": 3}", (mr_shuffle){.on = true, .lanes = 3},
                  "{\"lanes\": 3, \"window\": \"all\"}");
    on.on = false;
    check_shuffle("false", on, "false");
}

static void refuse_shuffle(const char *text, const char *where, const char *words) {
    json_t *value = parse(text);
    mr_shuffle got;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_shuffle_read(&got, value, &err), <, 0);
    CHECK_TEXT(err.where, where);
    CHECK_HAS(err.text, words);
    json_decref(value);
}

TEST(wrong_shuffles_are_refused_with_their_place) {
    refuse_shuffle("3", "$.shuffle", "true, false or an object");
    refuse_shuffle("{\"windwo\": 3}", "$.shuffle.windwo", "no parameter");
    refuse_shuffle("{\"window\": 0}", "$.shuffle.window", "must be from 1");
    refuse_shuffle("{\"window\": 2.5}", "$.shuffle.window", "whole number");
    refuse_shuffle("{\"window\": \"1XB\"}", "$.shuffle.window", "number of bytes");
    refuse_shuffle("{\"window\": true}", "$.shuffle.window", "whole number");
    refuse_shuffle("{\"lanes\": 0}", "$.shuffle.lanes", "must be from 1");
}

TEST(windows_of_bytes_are_blocks_that_fit) {
    mr_shuffle shuffle = {.on = true, .window_bytes = 1000};
    CHECK_INT(mr_shuffle_window(&shuffle, 300), ==, 3);
    CHECK_INT(mr_shuffle_window(&shuffle, 1001), ==, 1);
    CHECK_INT(mr_shuffle_window(&shuffle, 0), ==, 1000);
    shuffle = (mr_shuffle){.on = true, .window_blocks = 7};
    CHECK_INT(mr_shuffle_window(&shuffle, 300), ==, 7);
    shuffle.window_blocks = 0;
    CHECK_INT(mr_shuffle_window(&shuffle, 300), ==, 0);
}

TEST_MAIN()
