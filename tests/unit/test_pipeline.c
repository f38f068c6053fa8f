/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline documents: what is accepted, what is refused, and with which words. */
#include "fixture.h"
#include "test.h"

static mr_error parse_error(const char *json) {
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_status status = mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err);
    CHECK_INT(status, <, 0);
    CHECK(pipeline == NULL);
    mr_pipeline_free(pipeline);
    return err;
}

#define FILES "\"source\": {\"files\": {\"path\": \"photos\"}}"

TEST(a_document_is_completed_and_read_back) {
    const char *json = "{" FILES ", \"ops\": [\"decode_image\", {\"resize\": {\"size\": 32}}]}";
    mr_pipeline *first = fixture_pipeline(json);
    mr_pipeline *second = fixture_pipeline(mr_pipeline_json(first));
    CHECK_TEXT(mr_pipeline_json(first), mr_pipeline_json(second));
    CHECK_TEXT(mr_pipeline_fingerprint(first), mr_pipeline_fingerprint(second));
    CHECK_HAS(mr_pipeline_json(first), "\"batch\":32");
    CHECK_INT(mr_pipeline_n_stages(first), ==, 3);
    CHECK_TEXT(mr_pipeline_stage(first, 2)->name, "resize");
    CHECK(mr_pipeline_stage(first, 3) == NULL);
    CHECK_INT(mr_pipeline_n_fields(first), ==, 2);
    CHECK_TEXT(mr_pipeline_field(first, 1)->name, "label");
    mr_pipeline_free(first);
    mr_pipeline_free(second);
}

static void check_fingerprints(const char *a, const char *b, bool equal) {
    mr_pipeline *first = fixture_pipeline(a), *second = fixture_pipeline(b);
    bool same = strcmp(mr_pipeline_fingerprint(first), mr_pipeline_fingerprint(second)) == 0;
    if (same != equal) {
        fprintf(stderr, "%s\n%s\n", a, b);
    }
    CHECK(same == equal);
    mr_pipeline_free(first);
    mr_pipeline_free(second);
}

TEST(the_fingerprint_is_of_what_determines_the_bytes) {
    const char *base = "{" FILES ", \"ops\": [\"decode_image\", {\"resize\": {\"size\": 32}}]}";
    check_fingerprints(base,
                       "{\"ops\": [{\"decode_image\": {}}, {\"resize\": {\"size\": [32]}}], "
                       "\"source\": {\"files\": {\"path\": \"elsewhere\"}}, \"batch\": 9}",
                       true);
    check_fingerprints(
        base, "{" FILES ", \"ops\": [\"decode_image\", {\"resize\": {\"size\": 33}}]}", false);
    check_fingerprints(base, "{" FILES ", \"ops\": [\"decode_image\"]}", false);
    check_fingerprints(base,
                       "{" FILES ", \"fields\": [\"image\"], \"ops\": [\"decode_image\", "
                       "{\"resize\": {\"size\": 32}}]}",
                       false);
}

TEST(wrong_names_suggest_the_right_ones) {
    mr_error err = parse_error("{" FILES ", \"ops\": [{\"decode_imgae\": {}}]}");
    CHECK_HAS(err.text, "unknown op \"decode_imgae\"");
    CHECK_HAS(err.hint, "\"decode_image\"");
    CHECK_TEXT(err.where, "$.ops[0]");
    err = parse_error("{" FILES ", \"ops\": [\"decode_image\", {\"resize\": {\"siz\": 3}}]}");
    CHECK_HAS(err.hint, "\"size\"");
    CHECK_TEXT(err.where, "$.ops[1].resize.siz");
    err = parse_error("{\"source\": {\"file\": {\"path\": \"x\"}}}");
    CHECK_HAS(err.hint, "\"files\"");
    err = parse_error("{" FILES ", \"bach\": 3}");
    CHECK_HAS(err.hint, "\"batch\"");
    err = parse_error("{" FILES ", \"ops\": [{\"qqqqqqqqq\": {}}]}");
    CHECK_HAS(err.hint, "millrace ops");
}

TEST(wrong_values_say_what_is_allowed) {
    mr_error err = parse_error("{" FILES ", \"batch\": 0}");
    CHECK_HAS(err.text, "batch is 0");
    CHECK_TEXT(err.where, "$.batch");
    err = parse_error("{" FILES ", \"batch\": \"many\"}");
    CHECK_HAS(err.text, "must be a whole number, not \"many\"");
    err = parse_error("{" FILES ", \"batch\": 1.5}");
    CHECK_HAS(err.text, "must be a whole number, not 1.5");
    err = parse_error("{" FILES
                      ", \"fields\": [\"a field\", 3, \"of a list that is long\", \"too long\"]}");
    CHECK_HAS(err.text, "a string or a list of them, not [\"a field\",3,\"of a list");
    err = parse_error("{" FILES ", \"shuffle\": 1}");
    CHECK_HAS(err.text, "true, false or an object");
    err = parse_error("{" FILES ", \"remainder\": \"lose\"}");
    CHECK_HAS(err.text, "\"keep\", \"drop\", \"pad\", \"even\", not \"lose\"");
    err = parse_error("{" FILES ", \"ops\": [\"decode_image\", \"resize\"]}");
    CHECK_HAS(err.text, "op resize needs size");
    err = parse_error("{" FILES ", \"fields\": [\"imag\"]}");
    CHECK_HAS(err.hint, "image, label, path, index");
    err = parse_error("{" FILES ", \"fields\": [\"label\", \"label\"]}");
    CHECK_HAS(err.text, "twice");
    err = parse_error(
        "{\"source\": {\"files\": {\"path\": \"x\", \"max_file_bytes\": \"3 parsecs\"}}}");
    CHECK_HAS(err.text, "64MB");
}

TEST(ops_that_do_not_fit_are_refused) {
    mr_error err = parse_error("{" FILES ", \"ops\": [{\"resize\": {\"size\": 3}}]}");
    CHECK_INT(err.code, ==, MR_E_TYPE);
    CHECK_TEXT(err.op, "resize");
    err = parse_error("{" FILES ", \"ops\": [{\"decode_image\": {\"field\": \"label\"}}]}");
    CHECK_INT(err.code, ==, MR_E_TYPE);
}

TEST(what_is_not_a_document) {
    CHECK_HAS(parse_error("").text, "not valid JSON");
    CHECK_HAS(parse_error("{\"batch\": 3,\n  oops}").text, "line 2");
    CHECK_HAS(parse_error("[]").text, "JSON object");
    CHECK_HAS(parse_error("{}").text, "no source");
    CHECK_HAS(parse_error("{\"source\": 3}").text, "one key");
    CHECK_HAS(parse_error("{\"source\": {\"files\": 3}}").text, "JSON object");
    CHECK_HAS(parse_error("{\"source\": {\"files\": {}}}").text, "path or a list");
    CHECK_HAS(parse_error("{" FILES ", \"batch\": 3, \"batch\": 4}").text, "duplicate");
    CHECK_HAS(parse_error("{" FILES ", \"ops\": {}}").text, "list");
    CHECK_HAS(parse_error("{" FILES ", \"ops\": [3]}").text, "one key");
}

TEST(sizes_in_words) {
    mr_pipeline *pipeline = fixture_pipeline(
        "{\"source\": {\"files\": {\"path\": \"x\", \"max_file_bytes\": \"2MiB\"}}}");
    CHECK_HAS(mr_pipeline_json(pipeline), "\"max_file_bytes\":2097152");
    mr_pipeline_free(pipeline);
}

TEST(messages_read_like_a_compilers) {
    char text[1024];
    mr_error err = MR_ERROR_INIT;
    mr_fail(&err, MR_E_CORRUPT, "cannot decode");
    mr_hint(&err, "look at it");
    err.sample = 4;
    err.offset = 17;
    strcpy(err.op, "decode_image");
    strcpy(err.source, "a/b.jpg");
    size_t length = mr_error_format(&err, text, sizeof text);
    CHECK_INT(length, ==, strlen(text));
    CHECK_TEXT(text, "error: cannot decode\n  file: a/b.jpg (sample 4, byte 17)\n"
                     "  op: decode_image\n  hint: look at it\n");
    CHECK_INT(mr_error_format(&err, text, 10), ==, length);
    CHECK_TEXT(text, "error: ca");
}

TEST_MAIN()
