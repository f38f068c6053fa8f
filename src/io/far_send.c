/* SPDX-License-Identifier: Apache-2.0 */
/* far_send.c - a request as it is sent: its address, who asks, which bytes of which version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "io/far_parts.h"

/* ---- Addresses ---- */
static mr_status refuse_address(mr_far_task *task, mr_status code, const char *why) {
    mr_far_word_failure(task, code, NULL, why);
    return code;
}

/* What a gateway reads is allowed by its scheme: "gs://". */
static bool is_allowed(const mr_far_task *task, const char *host, char *shown, size_t size) {
    char scheme[80];
    snprintf(scheme, sizeof scheme, "%.*s://", (int)mr_far_scheme(task->path), task->path);
    bool foreign = mr_is_foreign(task->path);
    mr_text_escape(shown, size, foreign ? scheme : host);
    return mr_far_host_allowed(foreign ? scheme : host);
}

/* Only http and https, no names and passwords in it, and a host that may be reached. */
mr_status mr_far_check_address(mr_far_task *task, const char *address) {
    CURLU *url = curl_url();
    char *host = NULL, *scheme = NULL, *user = NULL, shown[300];
    mr_status status = MR_OK;
    if (!url || curl_url_set(url, CURLUPART_URL, address, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK) {
        status = refuse_address(task, MR_E_PARAM, "this is no address that can be read");
    } else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
        status = refuse_address(task, MR_E_PARAM, "only http and https are followed");
    } else if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK) {
        status = refuse_address(task, MR_E_PARAM, "this address has no host");
    } else if (curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK) {
        status = refuse_address(task, MR_E_PARAM, "addresses may not have a name and a password");
    } else if (!is_allowed(task, host, shown, sizeof shown)) {
        char text[400];
        snprintf(text, sizeof text, "MILLRACE_HOSTS does not have %s", shown);
        status = refuse_address(task, MR_E_PARAM, text);
    }
    curl_free(host);
    curl_free(scheme);
    curl_free(user);
    curl_url_cleanup(url);
    return status;
}

/* A gateway answers as S3 does, without signatures: GATEWAY/SCHEME/BUCKET/KEY. */
static mr_status ask_gateway(mr_far_task *task, char *address, size_t size) {
    const char *gateway = getenv("MILLRACE_GATEWAY");
    mr_far_account account = {.path_style = true};
    if (!gateway || !gateway[0]) {
        refuse_address(task, MR_E_UNSUPPORTED, "this kind of address is not read");
        mr_hint(&task->err, "from Python it is, where fsspec knows it: docs/far.md");
        return MR_E_UNSUPPORTED;
    }
    snprintf(account.endpoint, sizeof account.endpoint, "%s/%.*s", gateway,
             (int)mr_far_scheme(task->path), task->path);
    return mr_far_account_address(&account, task->path, task->query, address, size)
               ? MR_OK
               : refuse_address(task, MR_E_PARAM, "this is no name of a bucket and a key");
}

static mr_status make_address(mr_far_line *line, mr_far_task *task) {
    char address[8192];
    size_t bare = mr_far_bare(task->path);
    if (mr_is_foreign(task->path)) {
        MR_TRY(ask_gateway(task, address, sizeof address));
    } else if (mr_is_s3(task->path)) {
        mr_far_account_find(&line->account, mr_far_get_document, line);
        if (!mr_far_account_address(&line->account, task->path, task->query, address,
                                    sizeof address)) {
            return refuse_address(task, MR_E_PARAM, "this is no name of a bucket and a key");
        }
    } else if (bare < sizeof address) {
        memcpy(address, task->path, bare);
        address[bare] = '\0';
    } else {
        return refuse_address(task, MR_E_PARAM, "this address is too long");
    }
    free(task->address);
    task->address = strdup(address);
    return task->address ? mr_far_check_address(task, address)
                         : refuse_address(task, MR_E_MEMORY, "out of memory");
}

/* ---- Sending ---- */
static void add_header(mr_far_attempt *a, const char *name, const char *value) {
    char text[4300];
    int n = snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *more =
        n > 0 && (size_t)n < sizeof text ? curl_slist_append(a->headers, text) : NULL;
    a->headers = more ? more : a->headers;
}

bool mr_far_is_strong(const char *tag) {
    return tag[0] == '"';
}

static void ask_for_range(mr_far_attempt *a) {
    const mr_far_task *task = a->task;
    const mr_far_pin *pin = &task->range.pin;
    char range[64];
    if (task->range.length >= 0) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)task->range.offset,
                 (long long)(task->range.offset + task->range.length - 1));
        curl_easy_setopt(a->easy, CURLOPT_RANGE, range);
    }
    if (pin->size >= 0 && mr_far_is_strong(pin->tag)) {
        add_header(a, "If-Match", pin->tag);
    } else if (pin->size >= 0 && pin->tag[0] == '@') {
        add_header(a, "If-Unmodified-Since", pin->tag + 1);
    }
}

static void sign(mr_far_attempt *a) {
    const mr_far_account *account = &a->line->account;
    char text[600];
    if (!mr_is_s3(a->task->path) || !account->key[0]) {
        return;
    }
    snprintf(text, sizeof text, "aws:amz:%s:s3", account->region);
    curl_easy_setopt(a->easy, CURLOPT_AWS_SIGV4, text);
    curl_easy_setopt(a->easy, CURLOPT_USERNAME, account->key);
    curl_easy_setopt(a->easy, CURLOPT_PASSWORD, account->secret);
    add_header(a, "x-amz-content-sha256",
               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"); /* of nothing */
    if (account->token[0]) {
        add_header(a, "x-amz-security-token", account->token);
    }
}

static void set_certificates(mr_far_attempt *a) {
    static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", NULL};
    for (const char *const *name = names; *name; name++) {
        const char *value = getenv(*name);
        if (value && value[0]) {
            curl_easy_setopt(a->easy, CURLOPT_CAINFO, value);
            return;
        }
    }
}

static void prepare(mr_far_attempt *a) {
    CURL *easy = a->easy;
    const long stall = (long)a->line->limits.stall;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, a->task->address);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "millrace");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L << 10); /* the most it takes */
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, stall);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, stall);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, a->message);
    if (mr_is_foreign(a->task->path)) {
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*"); /* a gateway is on this machine */
    }
    mr_far_listen(a);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, a);
    set_certificates(a);
    sign(a);
    ask_for_range(a);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, a->headers);
}

/* Puts one request for the task on its way. False: libcurl has no memory. */
bool mr_far_send(mr_far_line *line, mr_far_task *task) {
    mr_far_attempt *a = line->free;
    if (!a->easy && !(a->easy = curl_easy_init())) {
        return false;
    }
    line->free = a->next_free;
    *a = (mr_far_attempt){.easy = a->easy, .line = line, .task = task, .started = mr_far_now()};
    mr_far_reply_begin(&a->reply);
    prepare(a);
    line->in_flight++;
    task->running++;
    task->first_sent = task->first_sent ? task->first_sent : a->started;
    task->tries++;
    line->figures.requests++;
    if (curl_multi_add_handle(line->multi, a->easy) != CURLM_OK) {
        mr_far_free_attempt(a);
        return false;
    }
    return true;
}

void mr_far_send_waiting(mr_far_line *line) {
    mr_far_task *task = line->first;
    while (task && line->free && line->in_flight < (int32_t)line->pace.width) {
        mr_far_task *next = task->next;
        if (task->not_before > 0 && task->not_before > mr_far_now()) {
            task = next;
            continue;
        }
        mr_far_unlink(line, task);
        if ((!task->address && make_address(line, task) < 0)) {
            mr_far_end_task(line, task);
        } else if (!mr_far_send(line, task)) {
            mr_far_word_failure(task, MR_E_MEMORY, NULL, "out of memory");
            mr_far_end_task(line, task);
        }
        task = next;
    }
}
