/* SPDX-License-Identifier: Apache-2.0 */
/* test.h - a test is a function; a test program is a file. Each CHECK prints both values when it
 * fails and the test goes on, so one run shows everything that is wrong.
 *
 *     TEST(order_is_a_permutation) { CHECK_INT(sum, ==, 45); }
 *     TEST_OF_CLOCKS(a_nap_takes_its_time) { ... }
 *     TEST_MAIN()
 *
 * A test of clocks compares times that threads measured one after the other. On a machine whose
 * CPUs are taken away in between they truly differ, so it is run again, a few times, before it
 * counts as failed; each run that differed is told.
 */
#ifndef MR_TEST_H
#define MR_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_case {
    const char *name;
    void (*run)(void);
    int tries;
    struct test_case *next;
} test_case;

static test_case *test_first, **test_last = &test_first;
static int test_failures;

#define TEST(id) TEST_WITH_TRIES(id, 1)
#define TEST_OF_CLOCKS(id) TEST_WITH_TRIES(id, 6)

#define TEST_WITH_TRIES(id, tries)                                                                 \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void test_add_##id(void) {                                 \
        static test_case entry = {#id, test_##id, tries, NULL};                                    \
        *test_last = &entry;                                                                       \
        test_last = &entry.next;                                                                   \
    }                                                                                              \
    static void test_##id(void)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
        }                                                                                          \
    } while (0)

#define CHECK_INT(a, op, b)                                                                        \
    do {                                                                                           \
        int64_t check_a = (int64_t)(a), check_b = (int64_t)(b);                                    \
        if (!(check_a op check_b)) {                                                               \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", %s is %" PRId64 ", wanted %s\n", __FILE__,  \
                    __LINE__, #a, check_a, #b, check_b, #op);                                      \
        }                                                                                          \
    } while (0)

#define CHECK_TEXT(a, b)                                                                           \
    do {                                                                                           \
        const char *check_a = (a), *check_b = (b);                                                 \
        if (!check_a || !check_b || strcmp(check_a, check_b) != 0) {                               \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is \"%s\", wanted \"%s\"\n", __FILE__, __LINE__, #a,        \
                    check_a ? check_a : "(null)", check_b ? check_b : "(null)");                   \
        }                                                                                          \
    } while (0)

#define CHECK_HAS(text, part)                                                                      \
    do {                                                                                           \
        const char *check_a = (text), *check_b = (part);                                           \
        if (!strstr(check_a, check_b)) {                                                           \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: \"%s\" lacks \"%s\"\n", __FILE__, __LINE__, check_a, check_b); \
        }                                                                                          \
    } while (0)

static inline bool test_run(const test_case *t) {
    int before = test_failures;
    for (int i = 1; i <= t->tries; i++) {
        test_failures = before;
        t->run();
        if (test_failures == before) {
            return true;
        }
        fprintf(stderr, "%s: failed in run %d of at most %d\n", t->name, i, t->tries);
    }
    return false;
}

/* Runs all tests, or those whose names contain argv[1]. */
#define TEST_MAIN()                                                                                \
    int main(int argc, char **argv) {                                                              \
        int passed = 0, failed = 0;                                                                \
        for (test_case *t = test_first; t; t = t->next) {                                          \
            if (argc > 1 && !strstr(t->name, argv[1])) {                                           \
                continue;                                                                          \
            }                                                                                      \
            bool ok = test_run(t);                                                                 \
            printf("%s %s\n", ok ? "ok" : "FAILED", t->name);                                      \
            passed += ok;                                                                          \
            failed += !ok;                                                                         \
        }                                                                                          \
        printf("%d passed, %d failed\n", passed, failed);                                          \
        return failed ? 1 : 0;                                                                     \
    }

#endif
