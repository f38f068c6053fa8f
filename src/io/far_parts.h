/* SPDX-License-Identifier: Apache-2.0 */
/* far_parts.h - what the files of a line share: the line itself, and requests under way. For
 * far_line.c, far_send.c, far_receive.c, far_wait.c, far_finish.c, far_words.c and far_document.c
 * alone. */
#ifndef MR_IO_FAR_PARTS_H
#define MR_IO_FAR_PARTS_H

#include <curl/curl.h>

#include "io/far_account.h"
#include "io/far_line.h"
#include "io/far_pace.h"

#include <millrace/millrace.h>

enum {
    MR_FAR_MOST_REDIRECTS = 5,
    MR_FAR_MOST_HEADERS = 256 << 10, /* bytes */
    MR_FAR_MOST_WORDS = 64 << 10, /* of a refusal that are read, so that the connection can go on */
};

/* A request under way. */
typedef struct mr_far_attempt {
    CURL *easy;
    bool is_set; /* it has the options that all requests have, and none that only some have */
    mr_far_line *line;
    mr_far_task *task; /* NULL: idle */
    struct curl_slist *headers;
    mr_far_reply reply;
    mr_far_verdict verdict;
    const char *why;
    mr_far_pin version;
    int64_t skip, started, first_byte;
    size_t got, refused; /* bytes: of the range; of a refusal */
    bool judged, paused, full, too_long, too_large, no_memory, forbidden;
    char *spill; /* bytes of an object whose size nobody said */
    size_t spill_capacity;
    char words[512], message[CURL_ERROR_SIZE];
    struct mr_far_attempt *next_free;
} mr_far_attempt;

struct mr_far_line {
    CURLM *multi;
    int waker;              /* see far_wait.c */
    struct pollfd *sockets; /* likewise */
    int32_t n_sockets, room;
    int64_t due; /* the moment libcurl wants to be called at; INT64_MAX: none */
    mr_far_account account;
    char checked[300]; /* scheme and host of the last address that may be asked */
    mr_far_limits limits;
    mr_far_attempt attempts[MR_FAR_MOST_REQUESTS];
    mr_far_attempt *free;
    mr_far_task *first, *last; /* that wait to be sent, in their order */
    int64_t n_tasks, n_waiting, n_ended;
    int64_t n_delayed; /* of those that wait: with a moment before which they are not sent */
    int64_t hedge_at;  /* no sooner is looked for what hangs */
    int32_t in_flight, paused;
    mr_far_figures figures;
    mr_far_pace pace;
    uint64_t noise; /* for jitter: no byte depends on it */
};

int64_t mr_far_now(void); /* nanoseconds of the monotonic clock */

/* Whether one more request may be sent. */
static inline bool mr_far_has_room(const mr_far_line *line) {
    return line->free && line->in_flight < (int32_t)line->pace.width;
}

/* far_line.c: tasks. */
void mr_far_put_last(mr_far_line *line, mr_far_task *task);
void mr_far_put_first(mr_far_line *line, mr_far_task *task);
void mr_far_unlink(mr_far_line *line, mr_far_task *task);
void mr_far_free_attempt(mr_far_attempt *a);
void mr_far_free_attempts_of(mr_far_line *line, const mr_far_task *task);
void mr_far_end_task(mr_far_line *line, mr_far_task *task);

/* far_words.c: the task has failed, the first failure counts. a: the request that did, or NULL. */
void mr_far_word_failure(mr_far_task *task, mr_status code, const mr_far_attempt *a,
                         const char *what);
void mr_far_word_status(mr_far_task *task, const mr_far_attempt *a);

/* far_send.c. mr_far_send puts one request for the task on its way; false: libcurl has no memory.
 */
mr_status mr_far_check_address(mr_far_task *task, const char *address);
bool mr_far_is_strong(const char *tag);
bool mr_far_send(mr_far_line *line, mr_far_task *task);
void mr_far_send_waiting(mr_far_line *line);

/* far_receive.c. */
void mr_far_listen(mr_far_attempt *a); /* sets what libcurl calls */
void mr_far_judge(mr_far_attempt *a);  /* the headers are there */

/* far_wait.c. mr_far_wait waits for so many milliseconds at most, and lets libcurl do what can be
 * done then. */
mr_status mr_far_wait_open(mr_far_line *line, mr_error *err);
void mr_far_wait_close(mr_far_line *line);
void mr_far_wait(mr_far_line *line, int milliseconds);

/* far_finish.c. */
void mr_far_finish_requests(mr_far_line *line);
void mr_far_resume_paused(mr_far_line *line); /* those that wait for memory */

/* far_document.c: see mr_far_get. */
bool mr_far_get_document(void *user, const char *url, const char *header, bool put, char *out,
                         size_t size);

#endif
