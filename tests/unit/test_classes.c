/* SPDX-License-Identifier: Apache-2.0 */
/* Classes as a user gives them: what is refused, numbers of names, columns of a table. */
#include <stdlib.h>
#include <string.h>

#include "sources/classes.h"
#include "sources/labels.h"
#include "test.h"

static bool refuses(const char *param, const char *said) {
    mr_error err = MR_ERROR_INIT;
    return mr_classes_check(param, &err) == MR_E_PARAM && strstr(err.text, said);
}

TEST(what_is_no_list_of_names_is_refused) {
    CHECK(refuses("7", "a list of names"));
    CHECK(refuses("true", "a list of names"));
    CHECK(refuses("[\"a\", 3]", "a list of names"));
    CHECK(refuses("[\"a\", [\"b\"]]", "a list of names"));
    CHECK(refuses("[\"a\", \"\"]", "class 1 has no name"));
    CHECK(refuses("[\"a\", \"b\", \"a\"]", "class a is listed twice"));
    CHECK(refuses("{\"label\": 7}", "a list of names"));
    CHECK(refuses("{\"label\": [\"a\", \"a\"]}", "class a is listed twice"));
    const char *const allowed[] = {"null",
                                   "[]",
                                   "{}",
                                   "[\"a\"]",
                                   "\"names.txt\"",
                                   "{\"label\": [\"a\"], \"kind\": \"kinds.txt\", \"x\": null}"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        CHECK(mr_classes_check(allowed[i], NULL) == MR_OK);
    }
}

TEST(names_are_numbered_as_they_are_listed) {
    mr_classes classes;
    CHECK(mr_classes_load(&classes, "[\"d\", \"b\", \"a\"]", "label", NULL) == MR_OK);
    CHECK(classes.given && classes.n == 3);
    CHECK_INT(mr_classes_number(&classes, "a"), ==, 2);
    CHECK_INT(mr_classes_number(&classes, "b"), ==, 1);
    CHECK_INT(mr_classes_number(&classes, "c"), ==, -1);
    CHECK_INT(mr_classes_number(&classes, "d"), ==, 0);
    mr_classes_free(&classes);
    CHECK(mr_classes_load(&classes, "{\"kind\": [\"x\"]}", "label", NULL) == MR_OK);
    CHECK(!classes.given && classes.n == 0);
    mr_classes_free(&classes);
    CHECK(mr_classes_load(&classes, "[]", "label", NULL) == MR_OK && !classes.given);
    CHECK(mr_classes_load(&classes, NULL, "label", NULL) == MR_OK && !classes.given);
}

static bool name_no_field(const char *param) {
    bool out = false;
    CHECK(mr_classes_name_no_field(param, &out, NULL) == MR_OK);
    return out;
}

TEST(a_list_or_a_file_is_of_any_field) {
    CHECK(name_no_field("[\"a\"]") && name_no_field("\"none.txt\""));
    CHECK(!name_no_field(NULL) && !name_no_field("null") && !name_no_field("[]"));
    CHECK(!name_no_field("{\"label\": [\"a\"]}"));
}

TEST(sorted_names_know_their_places) {
    const char *const names[] = {"b", "a", "c", "a", "b"};
    mr_sorted sorted;
    CHECK(mr_sorted_make(&sorted, names, 3, NULL) == MR_OK);
    CHECK_INT(mr_sorted_find(&sorted, "a"), ==, 1);
    CHECK_INT(mr_sorted_find(&sorted, "c"), ==, 2);
    CHECK_INT(mr_sorted_find(&sorted, "d"), ==, -1);
    CHECK(!mr_sorted_twin(&sorted));
    mr_sorted_free(&sorted);
    CHECK(mr_sorted_make(&sorted, names, 5, NULL) == MR_OK);
    CHECK_INT(mr_sorted_twin(&sorted)->place, ==, 3);
    mr_sorted_free(&sorted);
    CHECK(mr_sorted_make(&sorted, names, 0, NULL) == MR_OK);
    CHECK(mr_sorted_find(&sorted, "a") == -1 && !mr_sorted_twin(&sorted));
    mr_sorted_free(&sorted);
}

static mr_status parse(mr_labels **labels, const char *classes, const char *table, mr_error *err) {
    const mr_labels_origin from = {.path = "table.csv", .classes = classes};
    char *text = strdup(table);
    mr_status status = text ? mr_labels_parse(labels, &from, text, err) : MR_E_MEMORY;
    free(text);
    return status;
}

TEST(columns_of_names_have_these_numbers) {
    mr_labels *l = NULL;
    const char *table = "file,sort,kind,size\n0,cow,big,3\n1,ant,small,4\n2,cow,big,5\n";
    CHECK(parse(&l, "{\"sort\": [\"cow\", \"bee\", \"ant\"]}", table, NULL) == MR_OK);
    const int64_t *sort = l->columns[0].whole, *kind = l->columns[1].whole;
    CHECK(sort[0] == 0 && sort[1] == 2 && sort[2] == 0 && l->columns[0].n_classes == 3);
    CHECK(kind[0] == 0 && kind[1] == 1 && kind[2] == 0 && l->columns[1].n_classes == 2);
    CHECK(strcmp(l->columns[0].classes[1], "bee") == 0);
    mr_labels_free(l);
}

TEST(a_name_that_is_none_of_them_is_told_with_its_line) {
    mr_error err = MR_ERROR_INIT;
    mr_labels *l = NULL;
    const char *one = "file,sort\n0,cow\n1,ants\n2,cow\n";
    CHECK(parse(&l, "[\"ant\", \"cow\"]", one, &err) == MR_E_PARAM);
    CHECK(strstr(err.text, "line 3") && strstr(err.text, "\"ants\"") &&
          strstr(err.hint, "\"ant\""));
    CHECK(parse(&l, "{\"size\": [\"ant\"]}", one, &err) == MR_E_PARAM);
    CHECK(strstr(err.text, "no column \"size\" of names"));
    CHECK(parse(&l, "[\"ant\"]", "file,n\n0,1\n", &err) == MR_E_PARAM);
    CHECK(strstr(err.text, "no column of names"));
    CHECK(parse(&l, "[\"ant\"]", "file,a,b\n0,x,y\n", &err) == MR_E_PARAM);
    CHECK(strstr(err.text, "several columns of names"));
}

TEST(a_first_line_without_an_end_is_no_header) {
    mr_error err = MR_ERROR_INIT;
    mr_labels *l = NULL;
    enum { LIMIT = 1 << 20 };
    char *text = malloc(LIMIT + 8);
    CHECK(text != NULL);
    memset(text, ',', LIMIT);
    memcpy(text + LIMIT, "\n0,x\n", 6);
    const mr_labels_origin from = {.path = "table.csv"};
    CHECK(mr_labels_parse(&l, &from, text, &err) == MR_E_PARAM);
    CHECK(strstr(err.text, "line 1 of table.csv has more than a million columns"));
    free(text);
}

TEST_MAIN()
