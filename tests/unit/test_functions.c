/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions: ranges that ascend and lie apart whatever assemblers marked, and files that
 * are opened only where they are what was loaded. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/record/functions.h"
#include "run/record/symbols.h"

/* 256 bytes that are never run, with a function marked inside, as assemblers' macros do. */
void test_outer(void);
__asm__(".text\n"
        ".globl test_outer\n"
        ".type test_outer,%function\n"
        "test_outer:\n"
        ".fill 64,1,0\n"
        ".type test_inner,%function\n"
        "test_inner:\n"
        ".fill 16,1,0\n"
        ".size test_inner,.-test_inner\n"
        ".fill 176,1,0\n"
        ".size test_outer,.-test_outer\n");

static const char *text_of(const json_t *function, const char *key) {
    const char *text = json_string_value(json_object_get(function, key));
    return text ? text : "";
}

static int64_t number_of(const json_t *function, const char *key) {
    return json_integer_value(json_object_get(function, key));
}

TEST(a_function_inside_another_is_a_part_of_it) {
    uint64_t at = (uint64_t)(uintptr_t)test_outer;
    const uint64_t addresses[] = {at + 10, at + 70, at + 100, at + 200};
    json_t *array = mr_functions_json(addresses, 4);
    CHECK_INT(json_array_size(array), ==, 1);
    const json_t *function = json_array_get(array, 0);
    CHECK_TEXT(text_of(function, "name"), "test_outer");
    CHECK_INT(number_of(function, "from"), ==, (int64_t)at);
    CHECK_INT(number_of(function, "to"), ==, (int64_t)at + 256);
    json_decref(array);
}

/* One function with a size, an unsized one behind it, and one that ends before the next begins. */
void test_sized(void);
__asm__(".text\n"
        ".balign 64\n"
        ".globl test_sized\n"
        ".type test_sized,%function\n"
        "test_sized:\n"
        ".fill 32,1,0\n"
        ".size test_sized,.-test_sized\n"
        ".type test_unsized,%function\n"
        "test_unsized:\n"
        ".fill 32,1,0\n"
        ".type test_short,%function\n"
        "test_short:\n"
        ".fill 16,1,0\n"
        ".size test_short,.-test_short\n"
        ".fill 48,1,0\n"
        ".type test_after,%function\n"
        "test_after:\n"
        ".fill 16,1,0\n"
        ".size test_after,.-test_after\n");

static const char *name_at(uint64_t offset) {
    static char name[64];
    const uint64_t address = (uint64_t)(uintptr_t)test_sized + offset;
    json_t *array = mr_functions_json(&address, 1);
    snprintf(name, sizeof name, "%s", text_of(json_array_get(array, 0), "name"));
    json_decref(array);
    return name;
}

/* Whichever are wanted, the others still tell where each ends. */
TEST(what_is_wanted_alone_has_the_same_name) {
    CHECK_TEXT(name_at(8), "test_sized");
    CHECK_TEXT(name_at(40), "test_unsized");
    CHECK_TEXT(name_at(70), "test_short");
    CHECK_TEXT(name_at(100), ""); /* behind test_short, where test_unsized does not reach */
    CHECK_TEXT(name_at(130), "test_after");
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Every 64 bytes of code in two object files, the program's and the C library's. */
TEST(functions_ascend_and_lie_apart) {
    enum { EACH = 500 };
    uint64_t addresses[2 * EACH];
    for (uint64_t i = 0; i < EACH; i++) {
        addresses[i] = (uint64_t)(uintptr_t)test_outer + 64 * i;
        addresses[EACH + i] = (uint64_t)(uintptr_t)qsort + 64 * i;
    }
    qsort(addresses, 2 * EACH, sizeof *addresses, ascending);
    json_t *array = mr_functions_json(addresses, 2 * EACH), *function;
    int64_t last = 0;
    size_t i;
    CHECK_INT(json_array_size(array), >, 20);
    json_array_foreach(array, i, function) {
        CHECK_INT(number_of(function, "from"), >=, last);
        CHECK_INT(number_of(function, "to"), >, number_of(function, "from"));
        last = number_of(function, "to");
    }
    json_decref(array);
}

/* The kernel's own object has a name that is no path; a pipe of that name would never end. */
TEST(no_file_of_the_current_folder_is_opened) {
    uint64_t kernels_own = getauxval(AT_SYSINFO_EHDR) + 0xa00;
    char folder[] = "/tmp/millrace-functions-XXXXXX";
    CHECK(mkdtemp(folder) && chdir(folder) == 0 && mkfifo("linux-vdso.so.1", 0600) == 0);
    alarm(20); /* ends the program if the pipe is waited for */
    json_t *array = mr_functions_json(&kernels_own, 1);
    alarm(0);
    CHECK(array != NULL);
    json_decref(array);
    CHECK(unlink("linux-vdso.so.1") == 0 && chdir("/") == 0 && rmdir(folder) == 0);
}

TEST(names_come_from_the_same_build_alone) {
    mr_symbols s = {0};
    mr_build build = {.size = 16};
    char program[4096] = "";
    mr_offsets wanted = {0};
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    CHECK(mr_symbols_open(&s, program, NULL, &wanted));
    mr_symbols_free(&s);
    CHECK(!mr_symbols_open(&s, program, &build, &wanted)); /* 16 zero bytes: another build */
    CHECK(!mr_symbols_open(&s, program, &(mr_build){.size = 0}, &wanted));
    CHECK(!mr_symbols_open(&s, "/tmp", NULL, &wanted));
    CHECK(!mr_symbols_open(&s, "/dev/zero", NULL, &wanted));
    CHECK_INT(s.n, ==, 0);
}

TEST_MAIN()
