/* SPDX-License-Identifier: Apache-2.0 */
/* far_origin.c - see far_origin.h. Loads are begun in the order of the plan, each once there is
 * memory for it; from then on its pieces come in any order. */
#include "run/read/far_origin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/far_line.h"
#include "io/file.h"
#include "run/read/intake.h"
#include "run/threads.h"

#include <millrace/millrace.h>

enum {
    PIECE = 8 << 20,   /* what is larger is asked for in parts */
    WAIT = 1000,       /* milliseconds, unless woken */
    WAIT_FOR_ROOM = 2, /* likewise, while a load waits for memory */
};

/* A load that is asked for. */
typedef struct question {
    struct question *next;
    mr_far_origin *far;
    mr_load *load;
    mr_far_task *tasks;
    int32_t n_tasks, tasks_left;
    uint64_t started;
} question;

struct mr_far_origin {
    mr_far_line *line;
    mr_track *track;
    mr_threads thread;

    pthread_mutex_t lock; /* of what follows */
    question *first;
    bool stopping;
    mr_far_figures figures;

    question *head; /* the thread's: taken, and waiting for memory */
};

/* ---- Asking ---- */
static bool has_far(const mr_extent *extents, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (mr_is_far(extents[i].path)) {
            return true;
        }
    }
    return false;
}

static mr_answer fail_question(mr_load *load, mr_status code, const char *why) {
    mr_error err = MR_ERROR_INIT;
    mr_fail(&err, code, "%s", why);
    mr_load_fail(load, code, &err);
    return MR_ANSWER_FAILED;
}

/* The oldest first, for memory is always granted to the oldest load alone; what others were asked
 * for before comes later than its turn. With the lock held. False: others were there, and the
 * thread will take all. */
static bool add_question(mr_far_origin *far, question *q) {
    question **at = &far->first;
    const bool is_first = !far->first;
    while (*at && (*at)->load->turn < q->load->turn) {
        at = &(*at)->next;
    }
    q->next = *at;
    *at = q;
    return is_first;
}

static mr_answer ask(void *state, mr_load *load) {
    mr_far_origin *far = state;
    if (!has_far(load->extents, load->n_extents)) {
        return MR_ANSWER_NOT_HERE;
    }
    question *q = mr_zalloc(1, sizeof *q);
    if (!q) {
        return fail_question(load, MR_E_MEMORY, "out of memory");
    }
    q->far = far;
    q->load = load;
    pthread_mutex_lock(&far->lock);
    bool open = !far->stopping, wake = open && add_question(far, q);
    pthread_mutex_unlock(&far->lock);
    if (!open) {
        mr_free(q);
        return fail_question(load, MR_E_CANCELLED, "stopped");
    }
    if (wake) {
        mr_far_line_wake(far->line);
    }
    return MR_ANSWER_LATER;
}

/* ---- Answering ---- */
static void answer(question *q) {
    mr_far_origin *far = q->far;
    mr_load *load = q->load;
    size_t size = 0;
    bool well = atomic_load(&load->status) == MR_OK;
    for (int32_t i = 0; well && i < load->n_extents; i++) {
        size += load->bytes[i].size;
    }
    if (q->started) {
        mr_track_since(far->track, MR_SPAN_READ, q->started, load->block.first, MR_SPAN_NO_BATCH,
                       size);
    }
    mr_free(q->tasks);
    mr_free(q);
    mr_load_answer(load, well ? MR_ANSWER_HERE : MR_ANSWER_FAILED);
}

static void refuse(question *q, mr_status code, const mr_error *err) {
    mr_load_fail(q->load, code, err);
    answer(q);
}

/* ---- Spans of requests ---- */
/* Moments of a task are the monotonic clock's, of which `zero` is a tick's. */
static uint64_t tick_at(mr_tick_rate rate, int64_t zero, int64_t moment) {
    double since = (double)(moment - zero) / rate.ns_per_tick;
    return rate.start + (since > 0 ? (uint64_t)since : 0);
}

static void add_span(const question *q, mr_span_kind kind, uint64_t start, uint64_t end,
                     size_t bytes) {
    const uint32_t size = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    const mr_time_span span = {.start = start,
                               .duration = end > start ? end - start : 0,
                               .item = q->load->block.first,
                               .batch = MR_SPAN_NO_BATCH,
                               .bytes_in = size,
                               .bytes_out = size,
                               .kind = (uint8_t)kind};
    mr_track_add(q->far->track, &span);
}

static void add_spans(const question *q, const mr_far_task *task) {
    static const mr_span_kind kinds[] = {MR_SPAN_REQUEST_WAIT, MR_SPAN_FIRST_BYTE,
                                         MR_SPAN_TRANSFER};
    const int64_t moments[] = {task->begun, task->sent, task->first_byte, task->ended};
    const mr_ticks *clock = q->far->track->clock;
    const mr_tick_rate rate = mr_ticks_rate(clock);
    const int64_t zero = mr_ticks_zero(clock, rate);
    for (int i = 0; i < 3; i++) {
        add_span(q, kinds[i], tick_at(rate, zero, moments[i]), tick_at(rate, zero, moments[i + 1]),
                 task->size);
    }
}

static void task_done(mr_far_task *task) {
    question *q = task->user;
    if (task->status == MR_OK) {
        add_spans(q, task);
    }
    if (task->status < 0) {
        mr_load_fail(q->load, task->status, &task->err);
    }
    if (--q->tasks_left == 0) {
        answer(q);
    }
}

/* ---- Tasks of a load ---- */
/* An object of a known version says how long it is. */
static mr_status settle_length(mr_extent *extent, mr_error *err) {
    mr_far_pin pin;
    mr_open_extent sized;
    mr_far_pin_of(extent->path, &pin);
    if (extent->length >= 0 || pin.size < 0) {
        return MR_OK;
    }
    MR_TRY(mr_extent_check_size(extent, pin.size, &sized, err));
    extent->length = (int64_t)sized.size;
    return MR_OK;
}

/* *known is false for a single object whose size nobody knows yet. */
static mr_status measure(mr_load *load, size_t *total, bool *known, mr_error *err) {
    *total = 0;
    *known = true;
    for (int32_t i = 0; i < load->n_extents; i++) {
        mr_extent *extent = &load->extents[i];
        MR_TRY(settle_length(extent, err));
        *known = extent->length >= 0;
        if (!*known) {
            return load->n_extents == 1
                       ? MR_OK
                       : mr_fail(err, MR_E_INTERNAL, "one of several extents has no length");
        }
        if (extent->length > extent->limit) {
            return mr_fail(err, MR_E_LIMIT, "%lld bytes are more than the limit of %lld",
                           (long long)extent->length, (long long)extent->limit);
        }
        if (__builtin_add_overflow(*total, (size_t)extent->length, total)) {
            return mr_fail(err, MR_E_LIMIT, "a block of too many bytes");
        }
    }
    return MR_OK;
}

/* Neighbours in one object are asked for at once, and are neighbours in memory. */
static int32_t join_neighbours(const mr_load *load, int32_t first, int64_t *length) {
    const mr_extent *extents = load->extents;
    int32_t end = first + 1;
    *length = extents[first].length;
    while (end < load->n_extents && extents[end].path == extents[first].path &&
           extents[end].offset == extents[first].offset + *length) {
        *length += extents[end++].length;
    }
    return end;
}

static int64_t count_tasks(const mr_load *load) {
    int64_t n = 0, length = 0;
    for (int32_t i = 0; i < load->n_extents;) {
        i = join_neighbours(load, i, &length);
        n += (length + PIECE - 1) / PIECE;
    }
    return n;
}

static bool place_object(mr_far_task *task, size_t size) {
    const question *q = task->user;
    mr_load *load = q->load;
    if (!mr_load_reserve(load, size, false)) {
        return false;
    }
    load->one = (mr_bytes){load->buffer, size};
    task->to = load->buffer;
    return true;
}

static void read_near(mr_load *load, const mr_extent *extent, void *to) {
    mr_open_extent open;
    mr_error err;
    mr_error_clear(&err);
    mr_status status = mr_extent_open(extent, &open, &err);
    if (status == MR_OK) {
        status = mr_extent_read(&open, to, &err);
        mr_extent_close(&open);
    }
    if (status < 0) {
        mr_load_fail(load, status, &err);
    }
}

static void add_tasks(question *q) {
    mr_load *load = q->load;
    int64_t length = 0;
    for (int32_t i = 0; i < load->n_extents;) {
        const mr_extent *extent = &load->extents[i];
        char *to = (char *)(uintptr_t)load->bytes[i].data;
        i = join_neighbours(load, i, &length);
        if (!mr_is_far(extent->path)) {
            mr_extent joined = *extent;
            joined.length = length;
            joined.limit = INT64_MAX;
            read_near(load, &joined, to);
            continue;
        }
        for (int64_t from = 0; from < length; from += PIECE) {
            int64_t some = length - from < PIECE ? length - from : PIECE;
            q->tasks[q->n_tasks++] = (mr_far_task){.path = extent->path,
                                                   .offset = extent->offset + from,
                                                   .length = some,
                                                   .to = to + from,
                                                   .done = task_done,
                                                   .user = q};
        }
    }
}

static void start_tasks(question *q) {
    mr_far_line *line = q->far->line;
    int32_t n = q->tasks_left = q->n_tasks;
    mr_far_task *tasks = q->tasks;
    if (n == 0) {
        answer(q);
    }
    for (int32_t i = 0; i < n; i++) {
        mr_far_line_start(line, &tasks[i]);
    }
}

static void begin_unknown(question *q) {
    const mr_extent *extent = &q->load->extents[0];
    q->tasks = mr_zalloc(1, sizeof *q->tasks);
    if (!q->tasks) {
        fail_question(q->load, MR_E_MEMORY, "out of memory");
        answer(q);
        return;
    }
    q->tasks[q->n_tasks++] = (mr_far_task){.path = extent->path,
                                           .length = -1,
                                           .limit = extent->limit,
                                           .place = place_object,
                                           .done = task_done,
                                           .user = q};
    start_tasks(q);
}

/* False: there is no memory for it yet. */
static bool begin(question *q) {
    mr_load *load = q->load;
    size_t total = 0;
    bool known = true;
    mr_error err;
    mr_error_clear(&err);
    q->started = q->started ? q->started : mr_track_now(q->far->track);
    mr_status status = measure(load, &total, &known, &err);
    if (status < 0) {
        mr_text_escape(err.source, sizeof err.source, load->extents[0].path);
        refuse(q, status, &err);
        return true;
    }
    if (!known) {
        begin_unknown(q);
        return true;
    }
    if (!mr_load_reserve(load, total, false)) {
        return false;
    }
    if (!load->buffer) {
        answer(q); /* there is no memory at all, and the load says so */
        return true;
    }
    mr_load_lay_out(load);
    int64_t n = count_tasks(load);
    q->tasks = mr_zalloc((size_t)(n > 0 ? n : 1), sizeof *q->tasks);
    if (!q->tasks) {
        fail_question(load, MR_E_MEMORY, "out of memory");
        answer(q);
        return true;
    }
    add_tasks(q);
    start_tasks(q);
    return true;
}

/* ---- The thread ---- */
static question *take_question(mr_far_origin *far) {
    pthread_mutex_lock(&far->lock);
    question *q = far->first;
    if (q) {
        far->first = q->next;
        q->next = NULL;
    }
    pthread_mutex_unlock(&far->lock);
    return q;
}

static bool note_state(mr_far_origin *far) {
    mr_far_figures now;
    mr_far_line_figures(far->line, &now);
    pthread_mutex_lock(&far->lock);
    bool stopping = far->stopping;
    far->figures = now;
    pthread_mutex_unlock(&far->lock);
    return stopping;
}

/* Something older may have come since there was no memory for it. */
static void put_head_back(mr_far_origin *far) {
    if (far->head) {
        pthread_mutex_lock(&far->lock);
        add_question(far, far->head);
        pthread_mutex_unlock(&far->lock);
        far->head = NULL;
    }
}

static void begin_questions(mr_far_origin *far) {
    do {
        put_head_back(far);
        far->head = take_question(far);
        if (far->head && !begin(far->head)) {
            return;
        }
        bool any = far->head != NULL;
        far->head = NULL;
        if (!any) {
            return;
        }
    } while (true);
}

static void drop_questions(mr_far_origin *far) {
    mr_far_line_cancel(far->line);
    question *q;
    while ((q = far->head ? far->head : take_question(far)) != NULL) {
        far->head = NULL;
        fail_question(q->load, MR_E_CANCELLED, "stopped");
        answer(q);
    }
}

static void *far_main(void *context) {
    mr_far_origin *far = context;
    while (!note_state(far)) {
        begin_questions(far);
        mr_far_line_run(far->line, far->head ? WAIT_FOR_ROOM : WAIT);
    }
    drop_questions(far);
    mr_track_detach(far->track);
    return NULL;
}

/* ---- Opening, ending ---- */
static void stop(void *state) {
    mr_far_origin *far = state;
    pthread_mutex_lock(&far->lock);
    far->stopping = true;
    pthread_mutex_unlock(&far->lock);
    mr_far_line_wake(far->line);
}

static void end(void *state) {
    mr_far_origin *far = state;
    stop(far);
    mr_threads_join(&far->thread);
}

static mr_status open_parts(mr_far_origin *far, const mr_far_limits *limits, mr_tracks *tracks,
                            mr_error *err) {
    far->track = mr_tracks_add(tracks, MR_TRACK_READER);
    if (!far->track) {
        return mr_fail_memory(err, sizeof(mr_track));
    }
    MR_TRY(mr_far_line_open(&far->line, limits, err));
    return mr_threads_start(&far->thread, 1, "mr-far", far_main, far, 0, err);
}

mr_status mr_far_origin_open(mr_far_origin **out, const mr_far_limits *limits, mr_tracks *tracks,
                             mr_error *err) {
    mr_far_origin *far = mr_zalloc(1, sizeof *far);
    if (!far) {
        return mr_fail_memory(err, sizeof *far);
    }
    pthread_mutex_init(&far->lock, NULL);
    *out = far; /* the caller closes it, also where this fails */
    return open_parts(far, limits, tracks, err);
}

void mr_far_origin_close(mr_far_origin *far) {
    if (!far) {
        return;
    }
    if (far->line) {
        end(far);
    }
    mr_far_line_close(far->line);
    pthread_mutex_destroy(&far->lock);
    mr_free(far);
}

void mr_far_origin_figures(mr_far_origin *far, mr_far_figures *out) {
    pthread_mutex_lock(&far->lock);
    *out = far->figures;
    pthread_mutex_unlock(&far->lock);
}

const mr_origin_class mr_object_origin = {.name = "object", .ask = ask, .stop = stop, .end = end};
