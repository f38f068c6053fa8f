/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps from constructed measurements: medians, which is fastest, where more stops paying, and
 * that no text of a document breaks what is made of it. */
#include "test.h"

#include "trace/sweep.h"

/* Two threads are twice as fast as one, four no faster than two; 32 reads no faster than 8. */
static const char levels_off[] =
    "{\"what\":\"p.json\",\"axes\":{\"threads\":[1,2,4],\"reads\":[8,32]},\"runs\":["
    "{\"set\":{\"threads\":4,\"reads\":8},\"rounds\":[{\"seconds\":0.49,"
    "\"samples\":1000,\"cpu\":1.5,\"memory\":200000000.0}],"
    "\"title\":\"decode-bound\",\"ops\":[{\"name\":\"decode\",\"seconds\":0.002,"
    "\"cpu\":0.0015,\"counters\":{\"cycles\":7}}]},"
    "{\"set\":{\"threads\":4,\"reads\":32},\"rounds\":[{\"seconds\":0.5,"
    "\"samples\":1000,\"cpu\":1.5,\"memory\":200000000.0}]},"
    "{\"set\":{\"threads\":1,\"reads\":8},\"rounds\":[{\"seconds\":1.2,"
    "\"samples\":1000,\"cpu\":1.0,\"memory\":200000000.0},{\"seconds\":1.0,"
    "\"samples\":1000,\"cpu\":1.0,\"memory\":200000000.0},{\"seconds\":0.6,"
    "\"samples\":1000,\"cpu\":1.0,\"memory\":200000000.0}],"
    "\"title\":\"decode-bound\",\"ops\":[{\"name\":\"decode\",\"seconds\":0.002,"
    "\"cpu\":0.001,\"counters\":{\"cycles\":7}}]},"
    "{\"set\":{\"threads\":1,\"reads\":32},\"rounds\":[{\"seconds\":1.1,"
    "\"samples\":1000,\"cpu\":1.0,\"memory\":200000000.0}]},"
    "{\"set\":{\"threads\":2,\"reads\":8},\"rounds\":[{\"seconds\":0.5,"
    "\"samples\":1000,\"cpu\":1.1,\"memory\":200000000.0}],"
    "\"title\":\"decode-bound\",\"ops\":[{\"name\":\"decode\",\"seconds\":0.002,"
    "\"cpu\":0.0011,\"counters\":{\"cycles\":7}}]},"
    "{\"set\":{\"threads\":2,\"reads\":32},\"rounds\":[{\"seconds\":0.51,"
    "\"samples\":1000,\"cpu\":1.1,\"memory\":200000000.0}]}]}";

static char *text_of(const char *measurements, mr_sweep_text_kind kind) {
    mr_error err = MR_ERROR_INIT;
    char *text = NULL;
    CHECK_INT(mr_sweep_text(measurements, kind, &text, &err), ==, MR_OK);
    return text ? text : strdup("");
}

static int lines_in(const char *text) {
    int n = 0;
    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

TEST(medians_and_the_curve_beside_the_best) {
    mr_sweep s;
    int32_t curve[6];
    CHECK_INT(mr_sweep_read(&s, levels_off, NULL), ==, MR_OK);
    CHECK_TEXT(s.axis, "threads");
    CHECK_INT(s.n, ==, 6);
    CHECK_INT(s.best, ==, 0);
    CHECK_INT(s.runs[2].rate, ==, 1000); /* the median of three rounds */
    CHECK_INT(1000 * s.runs[2].spread, ==, 300);
    CHECK_INT(mr_sweep_curve(&s, curve), ==, 3);
    CHECK_INT(curve[0], ==, 2);
    CHECK_INT(curve[1], ==, 4);
    CHECK_INT(curve[2], ==, 0);
    mr_sweep_free(&s);
}

TEST(where_more_stops_paying) {
    char *text = text_of(levels_off, MR_SWEEP_CONCLUSION);
    CHECK_HAS(text, "Fastest: threads 4, reads 8, 2041 samples/s.");
    CHECK_HAS(text,
              "Beyond threads 2 more does not pay: 4 gives +2 %. The verdict there: decode-bound.");
    CHECK_HAS(text, "1.000 ms at threads 1, 1.500 ms at 4 (+50 %)");
    mr_free(text);
}

TEST(more_may_pay_to_the_end) {
    char *text = text_of("{\"axes\":{\"n\":[1,2]},\"runs\":["
                         "{\"set\":{\"n\":1},\"rounds\":[{\"seconds\":2,\"samples\":10}]},"
                         "{\"set\":{\"n\":2},\"rounds\":[{\"seconds\":1,\"samples\":10}],"
                         "\"title\":\"op-bound\"}]}",
                         MR_SWEEP_TABLE);
    CHECK_HAS(text, "More still pays at the end: n 2 gives +100 % over 1. The verdict there: "
                    "op-bound.\n");
    mr_free(text);
}

TEST(a_table_has_every_run_and_op) {
    char *text = text_of(levels_off, MR_SWEEP_TABLE);
    CHECK_INT(lines_in(text), ==, 1 + 6 + 1 + 2 + 1 + 1 + 3);
    CHECK_HAS(text,
              "decode                      2.000 /   1.000    2.000 /   1.100    2.000 /   1.500");
    mr_free(text);
}

TEST(csv_has_a_row_for_each_run_and_columns_for_each_op) {
    char *text = text_of(levels_off, MR_SWEEP_CSV);
    CHECK_INT(lines_in(text), ==, 7);
    CHECK_HAS(text, "\"threads\",\"reads\",rounds,seconds,spread,samples,samples_per_second,");
    CHECK_HAS(
        text,
        "bound,\"decode seconds\",\"decode cpu_seconds\",\"decode share\",\"decode cycles\"\n");
    CHECK_HAS(text, "\"1\",\"8\",3,1,0.3,1000,1000,1,200000000,\"decode-bound\",0.002,0.001,1,7\n");
    mr_free(text);
}

TEST(a_page_has_three_charts) {
    char *text = text_of(levels_off, MR_SWEEP_PAGE);
    CHECK_HAS(text, "End-to-end time");
    CHECK_HAS(text, "CPU seconds of the job");
    CHECK_HAS(text, "CPU time of a sample by op");
    CHECK_HAS(text, "</table></html>\n");
    mr_free(text);
}

/* Where lines end at the same height, as those of 8 and 32 reads do here. */
TEST(labels_of_a_chart_are_apart) {
    char *text = text_of(levels_off, MR_SWEEP_PAGE);
    int n = 0;
    for (const char *chart = text; (chart = strstr(chart, "<figure>")); chart++) {
        const char *end = strstr(chart, "</figure>"), *at = chart;
        double last = 1e9, x, y;
        while ((at = strstr(at, "font-size=\"11\"")) && at < end) {
            CHECK_INT(sscanf(at, "font-size=\"11\" x=\"%lf\" y=\"%lf\"", &x, &y), ==, 2);
            CHECK(y <= last - 12);
            last = y;
            at++;
            n++;
        }
    }
    CHECK_INT(n, ==, 2 + 2 + 1);
    mr_free(text);
}

/* Names come from users: of ops, of settings, of files. */
TEST(names_are_data) {
    static const char hostile[] =
        "{\"what\":\"<script>\",\"axes\":{\"a\\\"<b\":[1,2]},\"runs\":["
        "{\"set\":{\"a\\\"<b\":1},\"title\":\"<i>\",\"rounds\":[{\"seconds\":2,\"samples\":10}],"
        "\"ops\":[{\"name\":\"<x>\\\"\",\"seconds\":1}]},"
        "{\"set\":{\"a\\\"<b\":2},\"title\":\"<i>\",\"rounds\":[{\"seconds\":2,\"samples\":10}]}]}";
    char *page = text_of(hostile, MR_SWEEP_PAGE), *csv = text_of(hostile, MR_SWEEP_CSV);
    CHECK(!strstr(page, "<script>") && !strstr(page, "<i>") && !strstr(page, "<x>"));
    CHECK(!strstr(page, "a\"<b"));
    CHECK_HAS(csv, "\"a\"\"<b\",rounds");
    mr_free(page);
    mr_free(csv);
}

TEST(a_run_that_failed_says_why) {
    char *text = text_of("{\"axes\":{\"n\":[1]},\"runs\":[{\"set\":{\"n\":1},\"error\":\"no such "
                         "file\"}]}",
                         MR_SWEEP_TABLE);
    CHECK_HAS(text, "no such file");
    CHECK_HAS(text, "Nothing could be measured.");
    mr_free(text);
}

TEST(what_is_no_sweep_is_refused) {
    static const char *const bad[] = {
        "", "[]", "{}", "{\"axes\":{},\"runs\":[]}", "{\"runs\":[{}]}", "nothing"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mr_error err = MR_ERROR_INIT;
        char *text = NULL;
        CHECK(mr_sweep_text(bad[i], MR_SWEEP_TABLE, &text, &err) < 0);
        CHECK(err.text[0] != '\0' && !text);
    }
}

TEST_MAIN()
