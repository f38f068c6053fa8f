/* SPDX-License-Identifier: Apache-2.0 */
/* consume.c - see consume.h. The thread sleeps: an accelerator works without the CPU's help. */
#include "consume.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* "12ms", "1.5 s", "300us"; *end is what follows. Returns nanoseconds, or -1. */
static int64_t read_time(const char *text, const char **end) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *after = NULL;
    double number = strtod(text, &after);
    after += strspn(after, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].unit);
        if (strncmp(after, units[i].unit, length) == 0 && !isalnum((unsigned char)after[length]) &&
            isdigit((unsigned char)text[0]) && number >= 0 && number * units[i].ns < 1e15) {
            *end = after + length;
            return (int64_t)(number * units[i].ns + 0.5);
        }
    }
    return -1;
}

static mr_status bad_time(const char *what, mr_error *err) {
    mr_fail(err, MR_E_PARAM,
            "--consume wants a time such as 12ms, or a file of times, not \"%.60s\"", what);
    mr_hint(err, "a time is a number and a unit (us, ms or s), and no file has that name");
    return MR_E_PARAM;
}

static mr_status read_lines(mr_consume *out, const char *lines, const char *name, mr_error *err) {
    for (const char *at = lines + strspn(lines, " \t\r\n"); *at; at += strspn(at, " \t\r\n")) {
        const char *end = NULL;
        int64_t time = read_time(at, &end);
        int64_t *larger = realloc(out->ns, (size_t)(out->n + 1) * sizeof *larger);
        if (!larger) {
            return mr_fail(err, MR_E_MEMORY, "out of memory");
        }
        out->ns = larger;
        if (time < 0) {
            mr_fail(err, MR_E_PARAM, "line %lld of %s is not a time", (long long)out->n + 1, name);
            mr_hint(err, "each line is a time such as 12ms");
            return MR_E_PARAM;
        }
        out->ns[out->n++] = time;
        at = end;
    }
    return out->n > 0 ? MR_OK : mr_fail(err, MR_E_PARAM, "%s has no times", name);
}

mr_status mr_consume_read(mr_consume *out, const char *text, mr_error *err) {
    const size_t limit = 64 << 20;
    const char *end = NULL;
    char *lines = NULL;
    size_t size = 0;
    if (!text) {
        return MR_OK;
    }
    if (read_time(text, &end) >= 0 && *end == '\0') {
        return read_lines(out, text, "--consume", err);
    }
    if (isdigit((unsigned char)text[0]) || access(text, F_OK) != 0) {
        return bad_time(text, err);
    }
    mr_status status = mr_file_load(text, limit, &lines, &size, err);
    if (status == MR_OK) {
        status = read_lines(out, lines, text, err);
    }
    mr_free(lines);
    return status;
}

void mr_consume_free(mr_consume *consume) {
    free(consume->ns);
}

void mr_consume_step(const mr_consume *consume, int64_t step, const mr_stop *stop) {
    const int64_t slice = 50000000; /* how long a signal may have to wait */
    int64_t left = consume->n > 0 ? consume->ns[step % consume->n] : 0;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    while (left > 0 && !atomic_load(&stop->signal)) {
        int64_t ns = until.tv_nsec + (left < slice ? left : slice);
        until = (struct timespec){until.tv_sec + ns / 1000000000, ns % 1000000000};
        left -= left < slice ? left : slice;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
    }
}
