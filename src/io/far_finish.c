/* SPDX-License-Identifier: Apache-2.0 */
/* far_finish.c - what came of a request: the task is done, is asked for again or elsewhere, or has
 * failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/letters.h"
#include "io/far_parts.h"

/* ---- Trying again ---- */
static uint64_t draw(mr_far_line *line) {
    line->noise = line->noise * 6364136223846793005u + 1442695040888963407u;
    return line->noise >> 33;
}

/* Twice as long each time, and anything below that, so that many do not come back at once. */
static int64_t pause_before(mr_far_line *line, const mr_far_task *task, int64_t retry_after) {
    const int64_t most = 5000000000, asked_most = 30000000000;
    int64_t step = 50000000;
    for (int32_t i = 1; i < task->tries && step < most; i++) {
        step *= 2;
    }
    step = step < most ? step : most;
    int64_t pause = step / 2 + (int64_t)(draw(line) % (uint64_t)(step / 2 + 1));
    int64_t asked = retry_after > 0 ? retry_after * 1000000000 : 0;
    asked = asked < asked_most ? asked : asked_most;
    return pause > asked ? pause : asked;
}

/* True: the task is asked for again, by another request or later. */
static bool try_again(mr_far_line *line, mr_far_task *task, int64_t retry_after) {
    if (task->running > 0) {
        return true; /* the second request goes on */
    }
    int64_t next = mr_far_now() + pause_before(line, task, retry_after);
    if (task->tries >= line->limits.attempts ||
        next - task->first_sent > line->limits.seconds * 1000000000) {
        return false;
    }
    task->not_before = next;
    line->figures.retries++;
    mr_far_put_first(line, task);
    return true;
}

static bool is_passing(CURLcode code) {
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
        return true;
    default:
        return false;
    }
}

/* ---- What came of a request ---- */
static bool is_complete(const mr_far_attempt *a, CURLcode code) {
    const mr_far_task *task = a->task;
    if (!a->judged || a->too_long) {
        return false;
    }
    if (task->look) {
        bool cut = code == CURLE_WRITE_ERROR && a->refused > MR_FAR_MOST_WORDS;
        return (a->verdict == MR_FAR_TAKE && (code == CURLE_OK || cut)) ||
               (a->verdict == MR_FAR_EMPTY && code == CURLE_OK);
    }
    if (a->verdict == MR_FAR_EMPTY) {
        return code == CURLE_OK && task->length <= 0;
    }
    if (a->verdict != MR_FAR_TAKE) {
        return false;
    }
    if (task->length < 0 && a->version.size <= 0) {
        return code == CURLE_OK;
    }
    return a->full && (code == CURLE_OK || code == CURLE_WRITE_ERROR);
}

/* Bytes that were kept aside go where they belong. False: not now. */
static bool place_spilled(mr_far_attempt *a) {
    mr_far_task *task = a->task;
    if (task->length >= 0 || a->full || task->look) {
        return true;
    }
    bool placed = task->to != NULL;
    if (!placed && !task->place(task, a->got)) {
        return false;
    }
    if (placed && task->placed != (int64_t)a->got) {
        mr_far_word_failure(task, MR_E_CORRUPT, a, "the object changed while it was read");
    } else if (!task->to && a->got > 0) {
        mr_far_word_failure(task, MR_E_MEMORY, a, "out of memory");
    } else if (a->got > 0 && a->spill) {
        memcpy(task->to, a->spill, a->got);
    }
    return true;
}

static void note_done(mr_far_line *line, const mr_far_attempt *a) {
    double seconds = (double)(a->first_byte - a->started) * 1e-9;
    line->figures.bytes += (int64_t)a->got;
    line->figures.first_byte += 0.1 * (seconds - line->figures.first_byte);
    mr_far_pace_done(&line->pace, a->got, seconds, line->n_waiting > 0, mr_far_now());
}

static void succeed(mr_far_attempt *a) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    a->first_byte = a->first_byte ? a->first_byte : mr_far_now();
    task->size = a->got;
    task->sent = a->started;
    task->first_byte = a->first_byte;
    task->version = a->version;
    if (a->verdict == MR_FAR_EMPTY || (task->length < 0 && a->version.size < 0)) {
        task->version.size = (int64_t)a->got;
    }
    note_done(line, a);
    mr_far_end_task(line, task);
}

static void fail(mr_far_attempt *a, mr_status code, const char *what) {
    mr_far_line *line = a->line;
    mr_far_word_failure(a->task, code, a, what);
    mr_far_end_task(line, a->task);
}

static bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* To where the server says, but not out of https; S3's are not followed: what they mean is another
 * region, for which the request is signed wrongly. */
static void follow(mr_far_attempt *a) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    char *to = NULL;
    curl_easy_getinfo(a->easy, CURLINFO_REDIRECT_URL, &to);
    bool leaves_https =
        to && mr_same_letters(task->address, "https:", 6) && !mr_same_letters(to, "https:", 6);
    if (!to || mr_has_bucket(task->path)) {
        mr_far_word_status(task, a);
        mr_far_end_task(line, task);
    } else if (++task->redirects > MR_FAR_MOST_REDIRECTS) {
        fail(a, MR_E_IO, "the server sends us from one address to the next, more than 5 times");
    } else if (leaves_https) {
        fail(a, MR_E_IO, "the server sends us from https to an address without");
    } else {
        char *copy = strdup(to);
        if (copy) {
            mr_far_check_address(task, copy);
        } else {
            mr_far_word_failure(task, MR_E_MEMORY, a, "out of memory");
        }
        mr_far_free_attempts_of(line, task);
        free(task->address);
        task->address = copy;
        if (task->status < 0) {
            mr_far_end_task(line, task);
            return;
        }
        task->tries--; /* one question, in several places */
        mr_far_put_first(line, task);
    }
}

static void judge_breakage(mr_far_attempt *a, CURLcode code) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    char text[CURL_ERROR_SIZE + 64], shown[CURL_ERROR_SIZE];
    mr_far_attempt seen = *a;
    const char *said = a->message[0] ? a->message : curl_easy_strerror(code);
    mr_text_escape(shown, sizeof shown, said);
    bool is_short = code == CURLE_OK || (code == CURLE_WRITE_ERROR && a->too_long);
    if (a->reply.header_bytes > MR_FAR_MOST_HEADERS) {
        snprintf(text, sizeof text, "the server sends more than %d KB of headers",
                 MR_FAR_MOST_HEADERS >> 10);
    } else {
        snprintf(text, sizeof text, "%s",
                 a->too_long ? "the server sends more bytes than it said"
                 : is_short  ? "the server sends fewer bytes than it said"
                             : shown);
    }
    mr_far_free_attempt(a);
    if (!(is_short || is_passing(code)) || !try_again(line, task, -1)) {
        mr_far_word_failure(task, MR_E_IO, &seen, text);
        mr_far_end_task(line, task);
    }
}

static void judge_refusal(mr_far_attempt *a, CURLcode code) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    if (a->verdict == MR_FAR_CHANGED) {
        mr_far_word_failure(task, MR_E_CORRUPT, a,
                            "the object is another version than the one that was opened");
        mr_hint(&task->err, "it was replaced since; open the dataset anew");
        mr_far_end_task(line, task);
    } else if (a->verdict == MR_FAR_WRONG) {
        fail(a, MR_E_CORRUPT, a->why);
    } else if (a->verdict == MR_FAR_AGAIN) {
        mr_far_attempt seen = *a; /* its words, after it is gone */
        if (seen.reply.status == 429 || seen.reply.status == 503) {
            line->figures.busy++;
            mr_far_pace_busy(&line->pace, mr_far_now());
        }
        mr_far_free_attempt(a);
        if (!try_again(line, task, seen.reply.retry_after)) {
            mr_far_word_status(task, &seen);
            mr_far_end_task(line, task);
        }
    } else if (a->verdict == MR_FAR_REFUSED && is_redirect(a->reply.status)) {
        follow(a);
    } else if (a->verdict == MR_FAR_REFUSED || (a->verdict == MR_FAR_EMPTY && code == CURLE_OK)) {
        mr_far_word_status(task, a);
        mr_far_end_task(line, task);
    } else {
        judge_breakage(a, code);
    }
}

static void finish_request(mr_far_attempt *a, CURLcode code) {
    mr_far_task *task = a->task;
    if (code == CURLE_OK && a->reply.is_whole) {
        mr_far_judge(a);
    }
    if (is_complete(a, code)) {
        if (place_spilled(a)) {
            succeed(a);
        } else {
            a->paused = true; /* asked again by resume_paused */
            a->line->paused++;
        }
    } else if (a->too_large) {
        char text[128];
        snprintf(text, sizeof text, "the object has more bytes than the limit of %lld",
                 (long long)task->limit);
        mr_far_word_failure(task, MR_E_LIMIT, a, text);
        mr_hint(&task->err, "raise max_file_bytes of the source if the object is what you want");
        mr_far_end_task(a->line, task);
    } else if (a->no_memory) {
        fail(a, MR_E_MEMORY, "out of memory");
    } else if (a->forbidden) {
        fail(a, MR_E_PARAM, "addresses of the link-local network are not read");
    } else if (a->judged && a->verdict != MR_FAR_TAKE) {
        judge_refusal(a, code);
    } else {
        judge_breakage(a, code);
    }
}

void mr_far_finish_requests(mr_far_line *line) {
    CURLMsg *message;
    int left = 0;
    while ((message = curl_multi_info_read(line->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            mr_far_attempt *a = NULL;
            CURLcode code = message->data.result;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&a);
            if (a && a->task) {
                finish_request(a, code);
            }
        }
    }
}

/* ---- What waits for memory ---- */
void mr_far_resume_paused(mr_far_line *line) {
    for (int i = 0; line->paused > 0 && i < MR_FAR_MOST_REQUESTS; i++) {
        mr_far_attempt *a = &line->attempts[i];
        if (!a->task || !a->paused) {
            continue;
        }
        a->paused = false;
        line->paused--;
        if (a->spill || a->version.size <= 0) {
            finish_request(a, CURLE_OK);
        } else {
            curl_easy_pause(a->easy, CURLPAUSE_CONT); /* take_body asks for memory again */
        }
    }
}
