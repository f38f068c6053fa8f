/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - reading JSON text: what is JSON, what is not, and where it is wrong. That nothing
 * goes missing while memory runs out is in tests/fault. */
#include "test.h"

#include "core/json.h"

static mr_status load(const char *text, size_t flags, char *shown, size_t size,
                      json_error_t *error) {
    json_t *value = NULL;
    mr_status status = mr_json_load(&value, text, strlen(text), flags, error);
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(shown, size, "%s", dumped ? dumped : "");
    free(dumped);
    json_decref(value);
    return status;
}

static void accepts(const char *text, size_t flags, const char *as) {
    char shown[256];
    json_error_t error;
    CHECK_INT(load(text, flags, shown, sizeof shown, &error), ==, MR_OK);
    CHECK_TEXT(shown, as);
}

static void refuses(const char *text, size_t flags, int line, int column) {
    char shown[256];
    json_error_t error;
    CHECK_INT(load(text, flags, shown, sizeof shown, &error), ==, MR_E_PARAM);
    CHECK_INT(error.line, ==, line);
    CHECK_INT(error.column, ==, column);
    CHECK(error.text[0] != '\0');
}

TEST(documents_are_read) {
    accepts("{\"a\": [1, 2.5, \"x\", null, true]}", 0, "{\"a\":[1,2.5,\"x\",null,true]}");
    accepts("[]", 0, "[]");
    accepts(" \n{}\n ", 0, "{}");
    accepts("{\"a long name, longer than any buffer starts with\": 1.0}", 0,
            "{\"a long name, longer than any buffer starts with\":1.0}");
}

TEST(values_alone_are_read_where_asked) {
    accepts("7", JSON_DECODE_ANY, "7");
    accepts("\"x\"", JSON_DECODE_ANY, "\"x\"");
    accepts("[0.75, 1.3333333333333333]", JSON_DECODE_ANY, "[0.75,1.3333333333333333]");
    refuses("7", 0, 1, 1);
}

TEST(mistakes_are_placed_in_the_text_itself) {
    refuses("", 0, 1, 0);
    refuses("{\"a\": }", 0, 1, 7);
    refuses("{\n  \"a\": 1,\n  \"b\": x\n}", 0, 3, 8);
    refuses("{\"a\": 1", 0, 1, 7);
}

TEST(text_that_would_fit_the_frame_around_it_is_refused) {
    refuses("{}, {}", 0, 1, 3);
    refuses("{}]", 0, 1, 3);
    refuses("1], [2", JSON_DECODE_ANY, 1, 2);
    refuses("\"", JSON_DECODE_ANY, 1, 1);
}

TEST(names_given_twice_are_refused_where_asked) {
    accepts("{\"a\": 1, \"a\": 2}", 0, "{\"a\":2}");
    refuses("{\"a\": 1, \"a\": 2}", JSON_REJECT_DUPLICATES, 1, 12);
}

TEST_MAIN()
