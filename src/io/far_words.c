/* SPDX-License-Identifier: Apache-2.0 */
/* far_words.c - what is said of a request that failed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "io/far_parts.h"

/* What went wrong with which bytes of what, how the server called it, and how often it was tried.
 */
void mr_far_word_failure(mr_far_task *task, mr_status code, const mr_far_attempt *a,
                         const char *what) {
    char range[80] = "", id[100] = "", tries[48] = "";
    if (task->status == MR_OK) {
        if (task->length >= 0 && !task->look) {
            snprintf(range, sizeof range, "bytes %lld to %lld: ", (long long)task->offset,
                     (long long)(task->offset + task->length - 1));
        }
        if (a && a->reply.id[0]) {
            snprintf(id, sizeof id, ", request %s", a->reply.id);
        }
        if (task->tries > 1) {
            snprintf(tries, sizeof tries, ", after %d attempts", (int)task->tries);
        }
        mr_fail(&task->err, code, "%s%s%s%s", range, what, id, tries);
        mr_text_escape(task->err.source, sizeof task->err.source, task->path);
        task->err.offset = task->length >= 0 && !task->look ? task->offset : -1;
        task->status = code;
    }
}

/* What S3 calls it: <Code>NoSuchKey</Code>. */
static void find_code(const char *words, char *out, size_t size) {
    const char *from = strstr(words, "<Code>"), *to = from ? strstr(from, "</Code>") : NULL;
    char code[64] = "";
    out[0] = '\0';
    if (to && (size_t)(to - from - 6) < sizeof code) {
        memcpy(code, from + 6, (size_t)(to - from - 6));
        code[to - from - 6] = '\0';
        out[0] = ' ';
        mr_text_escape(out + 1, size - 1, code);
    }
}

/* What would be a pattern or a folder elsewhere; what is behind a question mark is the server's. */
static bool looks_like_many(const char *path) {
    size_t plain = strcspn(path, "?#");
    return (strncmp(path, "http://", 7) == 0 || strncmp(path, "https://", 8) == 0) &&
           (path[plain - 1] == '/' || strcspn(path, "*[") < plain);
}

void mr_far_word_status(mr_far_task *task, const mr_far_attempt *a) {
    char text[200], code[100];
    int status = a->reply.status;
    find_code(a->words, code, sizeof code);
    snprintf(text, sizeof text, "the server says %d%s", status, code);
    bool gone = status == 404 || status == 410;
    mr_far_word_failure(task, gone ? MR_E_NOT_FOUND : MR_E_IO, a, text);
    task->err.sys = gone ? ENOENT : task->err.sys;
    if (status == 401 || status == 403) {
        mr_hint(&task->err, mr_is_s3(task->path)
                                ? "see which credentials are used: docs/far.md; a region or an "
                                  "endpoint that does not fit is refused like this too"
                                : "the address may have to be signed anew");
    } else if ((status == 301 || status == 307 || status == 400) && a->reply.region[0]) {
        mr_hint(&task->err, "the bucket is in region %s: set AWS_REGION", a->reply.region);
    } else if (gone && looks_like_many(task->path)) {
        mr_hint(&task->err,
                "HTTP has no wildcards and no listings (docs/far.md): name the objects, "
                "with braces (part-{0000..0123}.tar), or in a list");
    } else if (status == 416) {
        mr_hint(&task->err, "the object is shorter than it was said to be");
    }
}
