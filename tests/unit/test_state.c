/* SPDX-License-Identifier: Apache-2.0 */
/* Saved states: what is written is read back, and whatever was changed on the way is refused. */
#include "test.h"

#include "core/philox.h"
#include "plan/state.h"

static const mr_state example = {
    .pipeline = "0123456789abcdef0123456789abcdef",
    .dataset = "fedcba98765432100000000000000000",
    .seed = 1,
    .samples = 1281167,
    .shuffle = true,
    .epoch = 3,
    .position = 12800,
};

static const char example_text[] =
    "{\"millrace_state\": 1, \"pipeline\": \"0123456789abcdef0123456789abcdef\", "
    "\"dataset\": \"fedcba98765432100000000000000000\", \"seed\": 1, \"shuffle\": true, "
    "\"samples\": 1281167, \"epoch\": 3, \"position\": 12800, \"check\": \"21e701304a8ed517\"}";

static bool same(const mr_state *a, const mr_state *b) {
    return strcmp(a->pipeline, b->pipeline) == 0 && strcmp(a->dataset, b->dataset) == 0 &&
           a->seed == b->seed && a->samples == b->samples && a->shuffle == b->shuffle &&
           a->epoch == b->epoch && a->position == b->position;
}

static mr_status read_text(mr_state *out, const char *text) {
    return mr_state_read(out, text, strlen(text), NULL);
}

/* ---- Round trip ---- */

TEST(the_text_never_changes) {
    char text[MR_STATE_MAX];
    CHECK_INT(mr_state_write(&example, text, sizeof text, NULL), ==, MR_OK);
    CHECK_TEXT(text, example_text);
}

TEST(without_a_stream_nothing_is_apart) {
    char text[MR_STATE_MAX];
    mr_piece letters;
    CHECK_INT(mr_state_write_apart(&example, text, &letters, NULL), ==, MR_OK);
    CHECK_TEXT(text, example_text);
    CHECK(!letters.data);
}

static void check_round_trip(const mr_state *state) {
    char text[MR_STATE_MAX], again[MR_STATE_MAX];
    mr_state back = {0};
    CHECK_INT(mr_state_write(state, text, sizeof text, NULL), ==, MR_OK);
    CHECK_INT(read_text(&back, text), ==, MR_OK);
    CHECK(same(state, &back));
    CHECK_INT(mr_state_write(&back, again, sizeof again, NULL), ==, MR_OK);
    CHECK_TEXT(again, text);
}

TEST(states_come_back_as_they_were) {
    static const int64_t seeds[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    static const int64_t samples[] = {1, 1000, MR_MAX_SAMPLES};
    static const int64_t epochs[] = {0, 89, UINT32_MAX};
    for (size_t i = 0; i < 5 * 3 * 3 * 2 * 3; i++) {
        mr_state state = example;
        state.seed = seeds[i % 5];
        state.samples = samples[i / 5 % 3];
        state.epoch = epochs[i / 15 % 3];
        state.shuffle = i / 45 % 2;
        state.position = state.samples / 2 * (int64_t)(i / 90);
        check_round_trip(&state);
    }
}

TEST(white_space_and_the_order_of_keys_do_not_matter) {
    mr_state back;
    char text[MR_STATE_MAX];
    snprintf(text, sizeof text,
             "\n {\"check\":\"21e701304a8ed517\",\n "
             "\"position\":12800,\"epoch\":3,\t\"samples\":1281167, "
             "\"shuffle\":true,\"seed\":1,\"dataset\":\"%s\",\"pipeline\":\"%s\", "
             "\"millrace_state\":1}\r\n",
             example.dataset, example.pipeline);
    CHECK_INT(read_text(&back, text), ==, MR_OK);
    CHECK(same(&back, &example));
}

TEST(a_buffer_too_small_is_refused_and_left_alone) {
    char text[MR_STATE_MAX];
    mr_error err = MR_ERROR_INIT;
    size_t length = sizeof example_text - 1;
    memset(text, 'x', sizeof text);
    CHECK_INT(mr_state_write(&example, text, length, &err), ==, MR_E_PARAM);
    CHECK_INT(mr_state_write(&example, text, 0, NULL), ==, MR_E_PARAM);
    CHECK_INT(text[0], ==, 'x');
    CHECK_HAS(err.text, "buffer");
    CHECK_INT(mr_state_write(&example, text, length + 1, NULL), ==, MR_OK);
    CHECK_INT(text[length], ==, '\0');
    CHECK_INT(text[length + 1], ==, 'x');
}

TEST(states_that_cannot_be_are_not_written) {
    char text[MR_STATE_MAX];
    mr_state bad[6] = {example, example, example, example, example, example};
    bad[0].position = bad[0].samples + 1;
    bad[1].position = -1;
    bad[2].samples = 0;
    bad[3].epoch = -1;
    bad[4].pipeline[3] = '"';
    bad[5].dataset[31] = '\0';
    for (int i = 0; i < 6; i++) {
        CHECK_INT(mr_state_write(&bad[i], text, sizeof text, NULL), ==, MR_E_INTERNAL);
    }
}

/* ---- Damage ---- */

TEST(every_change_of_one_byte_is_refused_or_means_the_same) {
    char text[sizeof example_text];
    int64_t accepted = 0;
    for (size_t at = 0; at < sizeof text - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, example_text, sizeof text);
            text[at] = (char)byte;
            mr_state back = {0};
            if (mr_state_read(&back, text, sizeof text - 1, NULL) == MR_OK) {
                accepted++;
                CHECK(same(&back, &example));
            } else {
                CHECK_INT(back.samples, ==, 0);
            }
        }
    }
    /* Each byte as it is, and the 17 spaces as any of the other three kinds of white space. */
    CHECK_INT(accepted, ==, (int64_t)sizeof text - 1 + 17 * 3);
}

TEST(every_byte_more_or_less_is_refused_or_means_the_same) {
    char text[sizeof example_text + 1];
    size_t length = sizeof example_text - 1;
    for (size_t at = 0; at <= length; at++) {
        for (int byte = 0; byte < 256; byte++) {
            mr_state back = example;
            memcpy(text, example_text, at);
            text[at] = (char)byte;
            memcpy(text + at + 1, example_text + at, length - at);
            CHECK(mr_state_read(&back, text, length + 1, NULL) < 0 || same(&back, &example));
        }
    }
    for (size_t at = 0; at < length; at++) {
        mr_state back = example;
        memcpy(text, example_text, at);
        memcpy(text + at, example_text + at + 1, length - at - 1);
        CHECK(mr_state_read(&back, text, length - 1, NULL) < 0 || same(&back, &example));
    }
}

TEST(every_truncation_is_refused) {
    for (size_t size = 0; size < sizeof example_text - 1; size++) {
        mr_error err = MR_ERROR_INIT;
        mr_state back;
        CHECK_INT(mr_state_read(&back, example_text, size, &err), ==, MR_E_STATE);
        CHECK_HAS(err.text, "not a saved state");
    }
}

/* ---- Refusals that say why ---- */

static void check_refused(const char *text, const char *why) {
    mr_error err = MR_ERROR_INIT;
    mr_state back;
    CHECK_INT(mr_state_read(&back, text, strlen(text), &err), ==, MR_E_STATE);
    CHECK_INT(err.code, ==, MR_E_STATE);
    CHECK_HAS(err.text, why);
    CHECK(err.hint[0] != '\0');
}

TEST(refusals_name_the_reason) {
    check_refused("", "not a saved state");
    check_refused("[]", "not a saved state");
    check_refused("null", "not a saved state");
    check_refused("{}", "not a saved state");
    check_refused("{\"batch\": 1}", "not a saved state");
    check_refused("{\"millrace_state\": \"1\"}", "not a saved state");
    check_refused("{\"millrace_state\": 1.0}", "not a saved state");
    check_refused("{\"millrace_state\": 0}", "not a saved state");
    check_refused("{\"millrace_state\": 1}", "an entry is missing");
    check_refused("{\"millrace_state\": 2}", "written by a newer millrace");
    check_refused("{\"millrace_state\": 2, \"mix\": []}", "written by a newer millrace");
    check_refused("{\"millrace_state\": 1, \"millrace_state\": 1}", "duplicate");
    check_refused("{\"\x01\xff\": 1}", "not a saved state");
}

static void check_edit_refused(const char *from, const char *to, const char *why) {
    char text[2 * MR_STATE_MAX];
    const char *at = strstr(example_text, from);
    CHECK(at != NULL);
    if (at) {
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - example_text), example_text, to,
                 at + strlen(from));
        check_refused(text, why);
    }
}

TEST(edits_are_refused) {
    check_edit_refused("\"position\": 12800", "\"position\": 12801", "check does not fit");
    check_edit_refused("\"seed\": 1", "\"seed\": 2", "check does not fit");
    check_edit_refused("true", "false", "check does not fit");
    check_edit_refused("true", "1", "of another type");
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3.0", "of another type");
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3, \"more\": 0", "unknown entry");
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3, \"epoch\": 3", "duplicate");
    check_edit_refused("\"epoch\": 3, ", "", "an entry is missing");
    check_edit_refused("0123456789abcdef", "0123456789ABCDEF", "check does not fit");
    check_edit_refused("\"seed\": 1", "\"seed\": 99999999999999999999", "not a saved state");
    check_edit_refused("}", "} }", "not a saved state");
}

TEST(long_texts_are_refused) {
    mr_state back;
    CHECK_INT(mr_state_read(&back, example_text, MR_STATE_TEXT_MAX, NULL), ==, MR_E_STATE);
}

/* Values no run can have, under a check that fits them. */
TEST(impossible_values_are_refused_even_with_a_good_check) {
    check_refused("{\"millrace_state\": 1, \"pipeline\": \"0123456789abcdef0123456789abcdef\", "
                  "\"dataset\": \"fedcba98765432100000000000000000\", \"seed\": 1, "
                  "\"shuffle\": true, \"samples\": 10, \"epoch\": 3, \"position\": 11, "
                  "\"check\": \"ff4c86def34b14f8\"}",
                  "damaged");
}

/* ---- Matching ---- */

static void check_differs(const mr_state *current, const char *text, const char *hint) {
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_state_match(&example, current, &err), ==, MR_E_STATE);
    CHECK_HAS(err.text, text);
    CHECK_HAS(err.hint, hint);
    CHECK_INT(mr_state_match(&example, current, NULL), ==, MR_E_STATE);
}

TEST(epoch_and_position_need_not_match) {
    mr_state current = example;
    current.epoch = current.position = 0;
    CHECK_INT(mr_state_match(&example, &current, NULL), ==, MR_OK);
}

TEST(a_difference_is_named_with_what_to_do) {
    mr_state current = example;
    current.seed = 2;
    check_differs(&current, "saved with seed 1, this run has seed 2", "--seed 1");
    current = example;
    current.shuffle = false;
    check_differs(&current, "saved with shuffling, this run is without it", "\"shuffle\": true");
    current = example;
    current.samples = 1000;
    check_differs(&current, "a dataset of 1281167 samples, this one has 1000", "dataset");
    current = example;
    current.dataset[0] = '0';
    check_differs(&current, "another dataset: its fingerprint is fedc", "dataset");
    current = example;
    current.pipeline[0] = 'f';
    check_differs(&current, "another pipeline: its fingerprint is 0123", "pipeline");
}

/* ---- Classes ---- */
static char pets[] = "{\"kind\":[\"a\"],\"label\":[\"cat\",\"dog\"]}";

static mr_state with_classes(char *classes) {
    mr_state state = example;
    state.classes = classes;
    return state;
}

TEST(classes_are_in_the_text_and_come_back) {
    char text[2 * MR_STATE_MAX], again[2 * MR_STATE_MAX];
    mr_state state = with_classes(pets), back = {0};
    CHECK_INT(mr_state_write(&state, text, sizeof text, NULL), ==, MR_OK);
    CHECK_HAS(text, "\"position\": 12800, \"classes\": {\"kind\":[\"a\"],\"label\":"
                    "[\"cat\",\"dog\"]}, \"check\": ");
    CHECK_INT(read_text(&back, text), ==, MR_OK);
    CHECK(same(&state, &back) && back.classes && strcmp(back.classes, pets) == 0);
    CHECK_INT(mr_state_write(&back, again, sizeof again, NULL), ==, MR_OK);
    CHECK_TEXT(again, text);
    mr_state_free(&back);
    *strstr(text, "dog") = 'h';
    CHECK_INT(read_text(&back, text), ==, MR_E_STATE);
}

TEST(classes_that_are_no_names_are_refused) {
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3, \"classes\": [\"cat\"]", "no lists of names");
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3, \"classes\": {\"label\": [1]}",
                       "no lists of names");
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3, \"classes\": {\"label\": \"cat\"}",
                       "no lists of names");
    check_edit_refused("\"epoch\": 3", "\"epoch\": 3, \"classes\": {}", "check does not fit");
}

static void check_classes_differ(char *now, const char *text) {
    mr_state saved = with_classes(pets), current = with_classes(now);
    mr_error err = MR_ERROR_INIT;
    current.dataset[0] = '0'; /* as it is when classes are others */
    current.samples += 1;
    CHECK_INT(mr_state_match(&saved, &current, &err), ==, MR_E_STATE);
    CHECK_HAS(err.text, text);
    CHECK_HAS(err.hint, "bring back the dataset");
}

TEST(classes_that_differ_are_named) {
    char other[] = "{\"kind\":[\"a\"],\"label\":[\"cat\",\"cow\"]}";
    char more[] = "{\"kind\":[\"a\"],\"label\":[\"cat\",\"dog\",\"emu\"]}";
    char fewer[] = "{\"kind\":[\"a\"],\"label\":[\"cat\"]}";
    char gone[] = "{\"label\":[\"cat\",\"dog\"]}";
    check_classes_differ(other, "label had 2, and has 2; class 1 was dog and is cow");
    check_classes_differ(more, "label had 2, and has 3; class 2 was (none) and is emu");
    check_classes_differ(fewer, "label had 2, and has 1; class 1 was dog and is (none)");
    check_classes_differ(gone, "kind had 1, and has 0; class 0 was a and is (none)");
    mr_state saved = with_classes(pets), without = with_classes(NULL);
    CHECK_INT(mr_state_match(&saved, &saved, NULL), ==, MR_OK);
    CHECK_INT(mr_state_match(&saved, &without, NULL), ==, MR_OK); /* older ones have none */
    CHECK_INT(mr_state_match(&without, &saved, NULL), ==, MR_OK);
}

TEST_MAIN()
