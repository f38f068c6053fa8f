/* SPDX-License-Identifier: Apache-2.0 */
/* far_list.c - listings of S3: pages of names with their sizes and tags, one after the other. Keys
 * come percent-encoded (encoding-type=url), so that the page is plain text whatever they have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/far.h"
#include "io/far_line.h"

#include <millrace/millrace.h>

enum { MOST_PAGE = 16 << 20, WAIT = 1000 };

/* ---- A page ---- */
/* The text between <name> and </name> from `from` on, before `end`. */
static bool element(char *from, char *end, const char *name, char **text, size_t *length) {
    char open[64], close[64];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    char *at = memmem(from, (size_t)(end - from), open, strlen(open));
    if (!at) {
        return false;
    }
    at += strlen(open);
    char *stop = memmem(at, (size_t)(end - at), close, strlen(close));
    *text = at;
    *length = stop ? (size_t)(stop - at) : 0;
    return stop != NULL;
}

/* The five marks of XML, and those by number; in place. */
static size_t decode_marks(char *text, size_t n) {
    static const struct {
        const char *mark;
        char is;
    } marks[] = {{"&quot;", '"'}, {"&#34;", '"'}, {"&amp;", '&'},   {"&#38;", '&'},
                 {"&lt;", '<'},   {"&gt;", '>'},  {"&apos;", '\''}, {"&#39;", '\''},
                 {"&#x22;", '"'}, {"&#x26;", '&'}};
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        size_t used = 1;
        char c = text[i];
        for (size_t k = 0; c == '&' && k < sizeof marks / sizeof *marks; k++) {
            size_t length = strlen(marks[k].mark);
            if (n - i >= length && memcmp(text + i, marks[k].mark, length) == 0) {
                c = marks[k].is;
                used = length;
                break;
            }
        }
        text[to++] = c;
        i += used;
    }
    return to;
}

static bool parse_size(const char *text, size_t n, int64_t *out) {
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || i > 17) {
            return false;
        }
        *out = *out * 10 + (text[i] - '0');
    }
    return n > 0;
}

/* A key is "+" for a space where it is url-encoded. */
static size_t decode_key(char *text, size_t n) {
    n = decode_marks(text, n);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '+') {
            text[i] = ' ';
        }
    }
    return mr_far_decode(text, n);
}

static bool parse_entry(char *from, char *end, mr_far_entry *entry, void *user) {
    char *key, *size, *tag;
    size_t key_length, size_length, tag_length;
    mr_far_pin pin = {.size = -1};
    if (!element(from, end, "Key", &key, &key_length) ||
        !element(from, end, "Size", &size, &size_length) ||
        !parse_size(size, size_length, &pin.size)) {
        return false;
    }
    if (element(from, end, "ETag", &tag, &tag_length)) {
        tag_length = decode_marks(tag, tag_length);
        if (tag_length < sizeof pin.tag && !memchr(tag, '\0', tag_length)) {
            memcpy(pin.tag, tag, tag_length);
            pin.tag[tag_length] = '\0';
        }
    }
    key_length = decode_key(key, key_length);
    return !memchr(key, '\0', key_length) && entry(user, key, key_length, &pin);
}

bool mr_far_parse_page(char *text, size_t size, mr_far_page *page, mr_far_entry *entry,
                       void *user) {
    char *end = text + size, *word, *token;
    size_t length, token_length;
    page->token = NULL;
    if (!memmem(text, size, "<ListBucketResult", strlen("<ListBucketResult")) ||
        !memmem(text, size, "</ListBucketResult>", strlen("</ListBucketResult>"))) {
        return false;
    }
    bool truncated = element(text, end, "IsTruncated", &word, &length) && length == 4 &&
                     memcmp(word, "true", 4) == 0;
    if (truncated) {
        if (!element(text, end, "NextContinuationToken", &token, &token_length)) {
            return false;
        }
        page->token = strndup(token, token_length);
        if (!page->token) {
            return false;
        }
        page->token[decode_marks(page->token, strlen(page->token))] = '\0';
    }
    while (element(text, end, "Contents", &word, &length)) {
        if (!parse_entry(word, word + length, entry, user)) {
            free(page->token);
            page->token = NULL;
            return false;
        }
        text = word + length;
    }
    return true;
}

/* ---- All pages ---- */
typedef struct listing {
    const char *path;
    char bucket[64];
    mr_far_visit *visit;
    void *user;
    mr_error *err;
    mr_status status;
    char *page;
    size_t page_size;
    char name[2048];
} listing;

/* Keys that end in a slash stand for folders in consoles: they have no bytes. */
static bool take_entry(void *user, const char *key, size_t key_length, const mr_far_pin *pin) {
    listing *l = user;
    if (key_length == 0 || (key[key_length - 1] == '/' && pin->size == 0)) {
        return true;
    }
    int n = snprintf(l->name, sizeof l->name, "%.*s://%s/%.*s", (int)mr_far_scheme(l->path),
                     l->path, l->bucket, (int)key_length, key);
    if (n < 0 || (size_t)n >= sizeof l->name) {
        return false;
    }
    char *pinned = mr_far_pinned(l->name, (size_t)n, pin);
    l->status = pinned ? l->visit(l->user, pinned, l->err) : mr_fail_memory(l->err, (size_t)n);
    free(pinned);
    return l->status == MR_OK;
}

static bool place_page(mr_far_task *task, size_t size) {
    listing *l = task->user;
    free(l->page);
    l->page = malloc(size + 1);
    l->page_size = size;
    task->to = l->page;
    return true;
}

static void ignore(mr_far_task *task) {
    (void)task;
}

/* In the order of their names, as the signature wants them. */
static bool make_query(char *out, size_t size, const char *token, const char *prefix,
                       size_t prefix_length) {
    static const char first[] = "continuation-token=",
                      second[] = "encoding-type=url&list-type=2&prefix=";
    size_t at = 0;
    if (token) {
        memcpy(out, first, strlen(first));
        at = strlen(first);
        if (!mr_far_encode(out, size - sizeof second - 2, &at, token, strlen(token), "")) {
            return false;
        }
        out[at++] = '&';
    }
    memcpy(out + at, second, sizeof second);
    at += strlen(second);
    return mr_far_encode(out, size, &at, prefix, prefix_length, "");
}

static mr_status list_page(mr_far_line *line, listing *l, const char *token, const char *prefix,
                           size_t prefix_length, mr_far_page *page) {
    char query[8192], bucket[128];
    snprintf(bucket, sizeof bucket, "%.*s://%s", (int)mr_far_scheme(l->path), l->path, l->bucket);
    if (!make_query(query, sizeof query, token, prefix, prefix_length)) {
        return mr_fail(l->err, MR_E_LIMIT, "the beginning of keys is too long");
    }
    mr_far_task task = {.path = bucket,
                        .query = query,
                        .length = -1,
                        .limit = MOST_PAGE,
                        .place = place_page,
                        .done = ignore,
                        .user = l};
    mr_far_line_start(line, &task);
    while (mr_far_line_run(line, WAIT) > 0) {
    }
    if (task.status < 0) {
        *l->err = task.err;
        return task.status;
    }
    if (!l->page || !mr_far_parse_page(l->page, l->page_size, page, take_entry, l)) {
        mr_error_at_sample(l->err, -1, l->path);
        return l->status < 0 ? l->status
                             : mr_fail(l->err, MR_E_CORRUPT, "the listing cannot be read");
    }
    return MR_OK;
}

static mr_status list_pages(mr_far_line *line, listing *l, const char *prefix,
                            size_t prefix_length) {
    mr_far_page page = {NULL};
    mr_status status;
    do {
        char *token = page.token;
        status = list_page(line, l, token, prefix, prefix_length, &page);
        if (status == MR_OK && token && page.token && strcmp(token, page.token) == 0) {
            status = mr_fail(l->err, MR_E_CORRUPT, "the server gives one page of the list again");
            mr_error_at_sample(l->err, -1, l->path);
        }
        free(token);
    } while (status == MR_OK && page.token);
    free(page.token);
    return status;
}

mr_status mr_far_list(const char *path, mr_far_visit *visit, void *user, mr_error *err) {
    mr_error own = MR_ERROR_INIT;
    listing l = {.path = path, .visit = visit, .user = user, .err = err ? err : &own};
    const char *prefix;
    size_t prefix_length;
    mr_far_line *line;
    if (!mr_s3_parts(path, l.bucket, &prefix, &prefix_length)) {
        mr_fail(err, MR_E_PARAM, "only s3://bucket/prefix can be listed");
        mr_hint(err, "name the objects, with braces (part-{0000..0123}.tar), or in a list");
        mr_error_at_sample(err, -1, path);
        return MR_E_PARAM;
    }
    MR_TRY(mr_far_line_open(&line, NULL, err));
    mr_status status = list_pages(line, &l, prefix, prefix_length);
    mr_far_line_close(line);
    free(l.page);
    return status;
}
