/* SPDX-License-Identifier: Apache-2.0 */
/* far_line.c - see far_line.h. libcurl carries the requests (far_send.c, far_receive.c,
 * far_wait.c); what came of them is decided in far_finish.c, how many there may be in far_pace.c.
 */
#include "io/far_line.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/far_parts.h"

int64_t mr_far_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Tasks that wait, and their ends ---- */
void mr_far_put_last(mr_far_line *line, mr_far_task *task) {
    task->next = NULL;
    task->before = line->last;
    if (line->last) {
        line->last->next = task;
    } else {
        line->first = task;
    }
    line->last = task;
    line->n_waiting++;
}

void mr_far_put_first(mr_far_line *line, mr_far_task *task) {
    task->before = NULL;
    task->next = line->first;
    if (line->first) {
        line->first->before = task;
    } else {
        line->last = task;
    }
    line->first = task;
    line->n_waiting++;
    line->n_delayed += task->not_before > 0;
}

void mr_far_unlink(mr_far_line *line, mr_far_task *task) {
    if (task->before) {
        task->before->next = task->next;
    } else {
        line->first = task->next;
    }
    if (task->next) {
        task->next->before = task->before;
    } else {
        line->last = task->before;
    }
    task->next = task->before = NULL;
    line->n_waiting--;
    line->n_delayed -= task->not_before > 0;
}

void mr_far_free_attempt(mr_far_attempt *a) {
    mr_far_line *line = a->line;
    curl_multi_remove_handle(line->multi, a->easy);
    curl_slist_free_all(a->headers);
    free(a->spill);
    line->paused -= a->paused;
    line->in_flight--;
    a->task->running--;
    a->headers = NULL;
    a->spill = NULL;
    a->task = NULL;
    a->next_free = line->free;
    line->free = a;
}

void mr_far_free_attempts_of(mr_far_line *line, const mr_far_task *task) {
    for (int i = 0; i < MR_FAR_MOST_REQUESTS && task->running > 0; i++) {
        if (line->attempts[i].task == task) {
            mr_far_free_attempt(&line->attempts[i]);
        }
    }
}

void mr_far_end_task(mr_far_line *line, mr_far_task *task) {
    mr_far_free_attempts_of(line, task);
    free(task->address);
    task->address = NULL;
    task->settled = true;
    task->ended = mr_far_now();
    line->n_tasks--;
    line->n_ended++;
    task->done(task);
}

/* ---- What hangs ---- */
/* Both requests write to one place, and must write the same: ranges of a version that is pinned. Of
 * a look nothing is written. */
static bool may_be_asked_twice(const mr_far_task *task) {
    const mr_far_pin *pin = &task->range.pin;
    return task->look || (task->length >= 0 && pin->size >= 0 && mr_far_is_strong(pin->tag));
}

static bool is_coming(const mr_far_line *line, const mr_far_task *task) {
    for (int i = 0; i < MR_FAR_MOST_REQUESTS; i++) {
        if (line->attempts[i].task == task && line->attempts[i].first_byte) {
            return true;
        }
    }
    return false;
}

/* The one that was sent last has brought nothing, as those before it. */
static bool hangs(const mr_far_line *line, const mr_far_attempt *a, int64_t now) {
    enum { MOST = 3 }; /* beside the first; with no end to them an attempt would have none */
    const mr_far_task *task = a->task;
    return task && !a->first_byte && a->started == task->last_sent && task->beside < MOST &&
           (double)(now - a->started) * 1e-9 > line->figures.slow && !is_coming(line, task);
}

/* One task of twenty, or fewer more than once: a second request may hang as the first. None is slow
 * after less than 20 ms, so it is enough to look now and then. */
static void hedge(mr_far_line *line) {
    enum { EVERY = 5000000 };
    int64_t now = mr_far_now();
    if (now < line->hedge_at) {
        return;
    }
    line->hedge_at = now + EVERY;
    line->figures.slow = mr_far_pace_slow(&line->pace);
    for (int i = 0; i < MR_FAR_MOST_REQUESTS && line->free; i++) {
        const mr_far_attempt *a = &line->attempts[i];
        if (hangs(line, a, now) && may_be_asked_twice(a->task) &&
            line->figures.hedges * 20 <= line->figures.requests) {
            bool sent = mr_far_send(line, a->task);
            a->task->beside += sent;
            line->figures.hedges += sent;
        }
    }
}

/* ---- Public ---- */
mr_status mr_far_line_open(mr_far_line **out, const mr_far_limits *limits, mr_error *err) {
    mr_far_line *line = mr_zalloc(1, sizeof *line);
    *out = NULL;
    if (!line) {
        return mr_fail_memory(err, sizeof *line);
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    line->multi = curl_multi_init();
    for (int i = MR_FAR_MOST_REQUESTS - 1; i >= 0; i--) {
        line->attempts[i].next_free = line->free;
        line->free = &line->attempts[i];
    }
    line->limits = mr_far_limits_settle(limits);
    line->noise = (uint64_t)mr_far_now() ^ (uint64_t)getpid() << 32;
    mr_far_pace_begin(&line->pace, mr_far_now());
    line->waker = -1;
    mr_status status =
        line->multi ? mr_far_wait_open(line, err) : mr_fail_memory(err, sizeof *line);
    if (status < 0) {
        mr_far_line_close(line);
        return status;
    }
    curl_multi_setopt(line->multi, CURLMOPT_MAXCONNECTS, (long)MR_FAR_MOST_REQUESTS);
    *out = line;
    return MR_OK;
}

void mr_far_line_start(mr_far_line *line, mr_far_task *task) {
    mr_error_clear(&task->err);
    task->status = MR_OK;
    task->begun = mr_far_now();
    task->range =
        (mr_far_range){task->look ? 0 : task->offset, task->look ? 1 : task->length, {.size = -1}};
    mr_far_pin_of(task->path, &task->range.pin);
    mr_far_put_last(line, task);
    line->n_tasks++;
}

/* Sockets end the wait; looking for memory, for what hangs and for what is due again does not. That
 * matters only where it could be sent: else a request ends first. */
static int longest_wait(const mr_far_line *line, int milliseconds) {
    enum { WHILE_PAUSED = 2, WHILE_SENT = 20 };
    int wait = milliseconds;
    if (line->in_flight > 0 && wait > WHILE_SENT) {
        wait = WHILE_SENT;
    }
    if (line->paused > 0 && wait > WHILE_PAUSED) {
        wait = WHILE_PAUSED;
    }
    int64_t unseen = mr_far_has_room(line) ? line->n_delayed : 0,
            now = unseen > 0 ? mr_far_now() : 0;
    for (const mr_far_task *task = line->first; task && unseen > 0; task = task->next) {
        int64_t left = (task->not_before - now) / 1000000 + 1;
        if (task->not_before > 0) {
            wait = left >= wait ? wait : left > 0 ? (int)left : 0;
            unseen--;
        }
    }
    return wait;
}

int64_t mr_far_line_run(mr_far_line *line, int milliseconds) {
    int64_t before = line->n_ended;
    mr_far_resume_paused(line);
    mr_far_send_waiting(line);
    mr_far_wait(line, line->n_ended == before ? longest_wait(line, milliseconds) : 0);
    mr_far_finish_requests(line);
    hedge(line);
    mr_far_send_waiting(line);
    return line->n_tasks;
}

static void cancel_task(mr_far_line *line, mr_far_task *task) {
    mr_far_word_failure(task, MR_E_CANCELLED, NULL, "stopped");
    mr_far_end_task(line, task);
}

void mr_far_line_cancel(mr_far_line *line) {
    while (line->first) {
        mr_far_task *task = line->first;
        mr_far_unlink(line, task);
        cancel_task(line, task);
    }
    for (int i = 0; i < MR_FAR_MOST_REQUESTS; i++) {
        if (line->attempts[i].task) {
            cancel_task(line, line->attempts[i].task);
        }
    }
}

void mr_far_line_close(mr_far_line *line) {
    if (!line) {
        return;
    }
    mr_far_line_cancel(line);
    for (int i = 0; i < MR_FAR_MOST_REQUESTS; i++) {
        curl_easy_cleanup(line->attempts[i].easy);
    }
    curl_multi_cleanup(line->multi);
    mr_far_wait_close(line);
    curl_global_cleanup();
    explicit_bzero(&line->account, sizeof line->account);
    mr_free(line);
}

void mr_far_line_figures(const mr_far_line *line, mr_far_figures *out) {
    *out = line->figures;
    out->in_flight = line->in_flight;
    out->narrowed = line->pace.narrowed;
    out->width = (int32_t)line->pace.width;
}
