/* SPDX-License-Identifier: Apache-2.0 */
/* far_reply.c - see far_reply.h. */
#include "io/far_reply.h"

#include <string.h>

#include "core/letters.h"

/* ---- Words of a line ---- */
typedef struct words {
    const char *at, *end;
} words;

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static words trim(words w) {
    while (w.at < w.end && is_space(*w.at)) {
        w.at++;
    }
    while (w.end > w.at && is_space(w.end[-1])) {
        w.end--;
    }
    return w;
}

static bool is_word(words w, const char *text) {
    size_t n = strlen(text);
    return (size_t)(w.end - w.at) == n && mr_same_letters(w.at, text, n);
}

static bool take_number(words *w, int64_t *out) {
    const char *first = w->at;
    *out = 0;
    for (; w->at < w->end && *w->at >= '0' && *w->at <= '9'; w->at++) {
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *w->at - '0', out)) {
            return false;
        }
    }
    return w->at > first;
}

static bool take(words *w, char c) {
    bool there = w->at < w->end && *w->at == c;
    w->at += there;
    return there;
}

static void copy(char *to, size_t size, words w) {
    size_t n = (size_t)(w.end - w.at) < size ? (size_t)(w.end - w.at) : 0;
    for (size_t i = 0; i < n; i++) { /* visible letters alone: the text is shown and sent back */
        if (w.at[i] < 0x20 || w.at[i] > 0x7e) {
            n = 0;
        }
    }
    memcpy(to, w.at, n);
    to[n] = '\0';
}

/* ---- Lines ---- */
void mr_far_reply_begin(mr_far_reply *reply) {
    *reply = (mr_far_reply){.length = -1, .first = -1, .last = -1, .total = -1, .retry_after = -1};
}

/* "HTTP/1.1 206 Partial Content" */
static void read_status(mr_far_reply *reply, words w) {
    size_t seen = reply->header_bytes;
    int64_t status = 0;
    mr_far_reply_begin(reply);
    reply->header_bytes = seen;
    while (w.at < w.end && *w.at != ' ') {
        w.at++;
    }
    w = trim(w);
    reply->is_malformed = !take_number(&w, &status) || status < 100 || status > 999;
    reply->status = reply->is_malformed ? 0 : (int)status;
}

static void set_once(mr_far_reply *reply, int64_t *to, words w) {
    int64_t value = 0;
    bool good = take_number(&w, &value) && w.at == w.end && (*to < 0 || *to == value);
    reply->is_malformed = reply->is_malformed || !good;
    *to = value;
}

/* "bytes 0-99/200", where "*" stands for what is not known. */
static void read_range(mr_far_reply *reply, words w) {
    int64_t first = -1, last = -1, total = -1;
    bool good = w.end - w.at > 6 && mr_same_letters(w.at, "bytes ", 6);
    w.at += good ? 6 : 0;
    w = trim(w);
    if (good && !take(&w, '*')) {
        good = take_number(&w, &first) && take(&w, '-') && take_number(&w, &last) && first <= last;
    }
    good = good && take(&w, '/');
    if (good && !take(&w, '*')) {
        good = take_number(&w, &total) && last < total;
    }
    reply->is_malformed = reply->is_malformed || !good || w.at != w.end || reply->first >= 0;
    reply->first = first;
    reply->last = last;
    reply->total = total;
}

void mr_far_reply_line(mr_far_reply *reply, const char *line, size_t length) {
    words all = {line, line + length};
    reply->header_bytes += length;
    if (length >= 5 && mr_same_letters(line, "HTTP/", 5)) {
        read_status(reply, trim(all));
        return;
    }
    const char *colon = memchr(line, ':', length);
    words bare = trim(all);
    reply->is_whole = bare.at == bare.end;
    if (!colon) {
        return;
    }
    words name = trim((words){line, colon}), value = trim((words){colon + 1, all.end});
    if (is_word(name, "content-length")) {
        set_once(reply, &reply->length, value);
    } else if (is_word(name, "content-range")) {
        read_range(reply, value);
    } else if (is_word(name, "content-encoding")) {
        reply->is_coded = !is_word(value, "identity") && value.at < value.end;
    } else if (is_word(name, "etag")) {
        copy(reply->tag, sizeof reply->tag, value);
    } else if (is_word(name, "last-modified")) {
        copy(reply->time, sizeof reply->time, value);
    } else if (is_word(name, "retry-after")) {
        if (!take_number(&value, &reply->retry_after) || reply->retry_after > 86400) {
            reply->retry_after = -1; /* a date, which is not worth the reading */
        }
    } else if (is_word(name, "x-amz-request-id") || is_word(name, "x-request-id")) {
        copy(reply->id, sizeof reply->id, value);
    } else if (is_word(name, "x-amz-bucket-region")) {
        copy(reply->region, sizeof reply->region, value);
    }
}

/* ---- Whether it is what was asked for ---- */
static void tell_version(const mr_far_reply *reply, mr_far_pin *out) {
    *out = (mr_far_pin){.size = reply->status == 200 ? reply->length : reply->total};
    if (reply->tag[0]) {
        memcpy(out->tag, reply->tag, sizeof out->tag);
    } else if (reply->time[0]) {
        out->tag[0] = '@';
        memcpy(out->tag + 1, reply->time, sizeof reply->time);
    }
}

/* A server that leaves out what it said before has not changed the object. */
static bool is_another(const mr_far_pin *pin, const mr_far_pin *now) {
    return pin->size >= 0 && ((now->size >= 0 && now->size != pin->size) ||
                              (pin->tag[0] && now->tag[0] && strcmp(pin->tag, now->tag) != 0));
}

static bool is_temporary(int status) {
    return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504;
}

static mr_far_verdict judge_whole(const mr_far_reply *reply, const mr_far_range *range,
                                  int64_t *skip, const char **why) {
    int64_t end = range->length < 0 ? 0 : range->offset + range->length;
    *skip = range->offset; /* a server that knows no ranges sends all of it */
    if (reply->first >= 0) {
        *why = "the server sends a part where it says all";
        return MR_FAR_WRONG;
    }
    if (reply->length >= 0 && reply->length < end) {
        *why = "the server's object is shorter";
        return MR_FAR_WRONG;
    }
    return MR_FAR_TAKE;
}

static mr_far_verdict judge_part(const mr_far_reply *reply, const mr_far_range *range,
                                 const char **why) {
    int64_t last = range->length < 0 ? reply->total - 1 : range->offset + range->length - 1;
    if (reply->first != range->offset || reply->last != last) {
        *why = "the server sends another range than it was asked for";
        return MR_FAR_WRONG;
    }
    if (reply->length >= 0 && reply->length != reply->last - reply->first + 1) {
        *why = "the server's length and range do not agree";
        return MR_FAR_WRONG;
    }
    return MR_FAR_TAKE;
}

mr_far_verdict mr_far_reply_judge(const mr_far_reply *reply, const mr_far_range *range,
                                  int64_t *skip, mr_far_pin *version, const char **why) {
    *skip = 0;
    *why = "";
    tell_version(reply, version);
    if (reply->status == 0 || reply->is_malformed) {
        *why = "the server's answer cannot be read";
        return MR_FAR_WRONG;
    }
    if (reply->status == 412) {
        return MR_FAR_CHANGED;
    }
    if (is_temporary(reply->status)) {
        return MR_FAR_AGAIN;
    }
    if (reply->status == 416) {
        return reply->total >= 0 && is_another(&range->pin, version)             ? MR_FAR_CHANGED
               : reply->total == 0 && range->offset == 0 && range->pin.size <= 0 ? MR_FAR_EMPTY
                                                                                 : MR_FAR_REFUSED;
    }
    if (reply->status != 200 && reply->status != 206) {
        return MR_FAR_REFUSED;
    }
    if (is_another(&range->pin, version)) {
        return MR_FAR_CHANGED;
    }
    if (reply->is_coded) {
        *why = "the server sends the object compressed, which nobody asked for";
        return MR_FAR_WRONG;
    }
    return reply->status == 200 ? judge_whole(reply, range, skip, why)
                                : judge_part(reply, range, why);
}
