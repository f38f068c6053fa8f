/* SPDX-License-Identifier: Apache-2.0 */
/* bench_order - nanoseconds per index of the shuffled order, for datasets of several sizes, and
 * whether a sample of the indexes has a duplicate (it must not). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plan/order.h"

enum { LOOKUPS = 1 << 20, REPEATS = 5 };

/* CPU time of this thread: other work on the machine disturbs it less than it does the clock. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t count_duplicates(int64_t *values, int64_t n) {
    int64_t duplicates = 0;
    qsort(values, (size_t)n, sizeof *values, compare);
    for (int64_t i = 1; i < n; i++) {
        duplicates += values[i] == values[i - 1];
    }
    return duplicates;
}

/* Independent lookups overlap in the CPU, as they do in a run; a chain, where each position is
 * the index before it, shows the time of one lookup by itself. */
static double time_independent(const mr_order *order, int64_t *out, int64_t n) {
    double start = now();
    for (int64_t i = 0; i < n; i++) {
        out[i] = mr_order_at(order, i);
    }
    return (now() - start) / (double)n;
}

static double time_chain(const mr_order *order, int64_t n) {
    double start = now();
    int64_t position = 0;
    for (int64_t i = 0; i < n; i++) {
        position = mr_order_at(order, position);
    }
    double seconds = now() - start;
    return position >= 0 ? seconds / (double)n : 0;
}

static int bench(int64_t n, int64_t *out) {
    mr_order order;
    double start = now();
    if (mr_order_init(&order, n, true, 1, 0, NULL) < 0) {
        fprintf(stderr, "bench_order: cannot make an order of %" PRId64 " samples\n", n);
        return 1;
    }
    double made = now() - start;
    int64_t lookups = n < LOOKUPS ? n : LOOKUPS;
    double independent = 1, chain = 1;
    for (int i = 0; i < REPEATS; i++) {
        independent = fmin(independent, time_independent(&order, out, lookups));
        chain = fmin(chain, time_chain(&order, lookups));
    }
    int64_t duplicates = count_duplicates(out, lookups);
    printf("%15" PRId64 " %12.1f %15.1f %17.1f %12" PRId64 "\n", n, made * 1e6, independent * 1e9,
           chain * 1e9, duplicates);
    mr_order_free(&order);
    return duplicates != 0;
}

int main(void) {
    static const int64_t sizes[] = {50000,     65536,      100000,        1280000,
                                    100000000, 1000000000, (1 << 30) + 1, 1000000000000};
    int64_t *out = malloc(LOOKUPS * sizeof *out);
    int failed = !out;
    printf("order: %d rounds above %" PRId64 " samples; best of %d\n", MR_FEISTEL_ROUNDS,
           MR_ORDER_TABLE_MAX, REPEATS);
    printf("%15s %12s %15s %17s %12s\n", "samples", "open us", "ns per index", "ns in a chain",
           "duplicates");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !failed; i++) {
        failed = bench(sizes[i], out);
    }
    free(out);
    return failed;
}
