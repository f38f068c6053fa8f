/* SPDX-License-Identifier: Apache-2.0 */
/* far.c - see far.h. Each call has a line of its own: opening is rare, and nothing is shared. */
#include "io/far.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/far_line.h"

#include <millrace/millrace.h>

enum { WAIT = 1000, PIECE = 8 << 20 };

static void run_all(mr_far_line *line) {
    while (mr_far_line_run(line, WAIT) > 0) {
    }
}

static void ignore(mr_far_task *task) {
    (void)task;
}

/* The first failure of several tasks. */
static mr_status first_failure(const mr_far_task *tasks, int64_t n, mr_error *err) {
    for (int64_t i = 0; i < n; i++) {
        if (tasks[i].status < 0) {
            if (err) {
                *err = tasks[i].err;
            }
            return tasks[i].status;
        }
    }
    return MR_OK;
}

/* ---- Versions ---- */
static mr_status pin_name(char **name, const mr_far_task *task, mr_error *err) {
    if (task->version.size < 0) {
        mr_fail(err, MR_E_UNSUPPORTED, "the server does not say how large the object is");
        mr_error_at_sample(err, -1, *name);
        return MR_E_UNSUPPORTED;
    }
    char *pinned = mr_far_pinned(*name, strlen(*name), &task->version);
    if (!pinned) {
        return mr_fail_memory(err, strlen(*name));
    }
    free(*name);
    *name = pinned;
    return MR_OK;
}

static bool wants_pin(const char *name) {
    return mr_is_far(name) && name[mr_far_bare(name)] == '\0';
}

static mr_status pin_by(mr_far_line *line, mr_far_task *tasks, char **names, int32_t n,
                        mr_error *err) {
    for (int32_t i = 0; i < n; i++) {
        if (wants_pin(names[i])) {
            tasks[i] = (mr_far_task){.path = names[i], .length = 1, .look = true, .done = ignore};
            mr_far_line_start(line, &tasks[i]);
        }
    }
    run_all(line);
    MR_TRY(first_failure(tasks, n, err));
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < n; i++) {
        status = tasks[i].path ? pin_name(&names[i], &tasks[i], err) : MR_OK;
    }
    return status;
}

/* So many at a time: a task takes more memory than a name. */
mr_status mr_far_pin_names(char **names, int32_t n, const mr_far_limits *limits, mr_error *err) {
    enum { GROUP = 1024 };
    int32_t wanting = 0;
    for (int32_t i = 0; i < n; i++) {
        wanting += wants_pin(names[i]);
    }
    if (wanting == 0) {
        return MR_OK;
    }
    mr_far_line *line;
    MR_TRY(mr_far_line_open(&line, limits, err));
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < n; i += GROUP) {
        int32_t some = n - i < GROUP ? n - i : GROUP;
        mr_far_task *tasks = mr_zalloc((size_t)some, sizeof *tasks);
        status = tasks ? pin_by(line, tasks, names + i, some, err)
                       : mr_fail_memory(err, (size_t)some * sizeof *tasks);
        mr_free(tasks);
    }
    mr_far_line_close(line);
    return status;
}

/* ---- Bytes ---- */
static mr_status read_pieces(mr_far_line *line, const char *path, int64_t offset, size_t size,
                             char *to, mr_error *err) {
    size_t n = (size + PIECE - 1) / PIECE;
    mr_far_task *tasks = mr_zalloc(n, sizeof *tasks);
    if (!tasks) {
        return mr_fail_memory(err, n * sizeof *tasks);
    }
    for (size_t i = 0; i < n; i++) {
        size_t from = i * PIECE, length = size - from < PIECE ? size - from : PIECE;
        tasks[i] = (mr_far_task){.path = path,
                                 .offset = offset + (int64_t)from,
                                 .length = (int64_t)length,
                                 .to = to + from,
                                 .done = ignore};
        mr_far_line_start(line, &tasks[i]);
    }
    run_all(line);
    mr_status status = first_failure(tasks, (int64_t)n, err);
    mr_free(tasks);
    return status;
}

mr_status mr_far_read(const char *path, int64_t offset, size_t size, void *to,
                      const mr_far_limits *limits, mr_error *err) {
    mr_far_line *line;
    if (size == 0) {
        return MR_OK;
    }
    MR_TRY(mr_far_line_open(&line, limits, err));
    mr_status status = read_pieces(line, path, offset, size, to, err);
    mr_far_line_close(line);
    return status;
}
