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

/* How long its scheme and host are, where nobody can read them in two ways: letters, digits, points
 * and dashes, perhaps a port, and a path behind them. 0: libcurl must say what the host is. */
static size_t origin_length(const char *address) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    size_t scheme = strncmp(address, "http://", 7) == 0    ? 7
                    : strncmp(address, "https://", 8) == 0 ? 8
                                                           : 0;
    size_t host = strspn(address + scheme, plain), n = scheme + host;
    n += address[n] == ':' ? 1 + strspn(address + n + 1, "0123456789") : 0;
    bool is_plain = scheme > 0 && host > 0 && address[n] == '/';
    for (const char *c = address + n; is_plain && *c; c++) {
        is_plain = *c > ' ' && *c < 0x7f && *c != '\\';
    }
    return is_plain && n < sizeof((mr_far_line *)NULL)->checked ? n : 0;
}

/* Objects are many and hosts are few: what was right for one address of a host is for the next. */
static mr_status check_object(mr_far_line *line, mr_far_task *task) {
    size_t n = mr_is_foreign(task->path) ? 0 : origin_length(task->address);
    if (n > 0 && strlen(line->checked) == n && memcmp(line->checked, task->address, n) == 0) {
        return MR_OK;
    }
    MR_TRY(mr_far_check_address(task, task->address));
    memcpy(line->checked, task->address, n);
    line->checked[n] = '\0';
    return MR_OK;
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
    return task->address ? check_object(line, task)
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
    snprintf(range, sizeof range, "%lld-%lld", (long long)task->range.offset,
             (long long)(task->range.offset + task->range.length - 1));
    curl_easy_setopt(a->easy, CURLOPT_RANGE, task->range.length >= 0 ? range : NULL);
    if (pin->size >= 0 && mr_far_is_strong(pin->tag)) {
        add_header(a, "If-Match", pin->tag);
    } else if (pin->size >= 0 && pin->tag[0] == '@') {
        add_header(a, "If-Unmodified-Since", pin->tag + 1);
    }
}

/* False: it is sent as nobody's. */
static bool sign(mr_far_attempt *a) {
    const mr_far_account *account = &a->line->account;
    char text[600];
    if (!mr_is_s3(a->task->path) || !account->key[0]) {
        return false;
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
    return true;
}

static const char *first_in_environment(const char *const *names) {
    const char *value = NULL;
    for (; *names && !(value && value[0]); names++) {
        value = getenv(*names);
    }
    return value && value[0] ? value : NULL;
}

/* libcurl looks for proxies and certificates at each request, we once. */
static void set_surroundings(CURL *easy) {
    static const char *const bundles[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", NULL};
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                          "all_proxy",  "ALL_PROXY",   NULL};
    const char *bundle = first_in_environment(bundles);
    if (bundle) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, bundle);
    }
    if (!first_in_environment(proxies)) {
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    }
}

/* What is the same for all requests. */
static void set_always(mr_far_attempt *a) {
    CURL *easy = a->easy;
    const long stall = (long)a->line->limits.stall;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "millrace");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, stall);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, stall);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, a->message);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, a);
    set_surroundings(easy);
    mr_far_listen(a);
}

/* The most that libcurl takes, for what is much larger: memory of that size goes back to the kernel
 * after each request, and comes page by page. */
static long buffer_size(const mr_far_task *task) {
    return task->range.length < 0 || task->range.length > 1 << 20 ? 512 << 10 : 128 << 10;
}

/* Options stay for the next request, but not those that say who asks: that one may be for another
 * host. */
static void prepare(mr_far_attempt *a) {
    bool foreign = mr_is_foreign(a->task->path);
    if (!a->is_set) {
        set_always(a);
    }
    curl_easy_setopt(a->easy, CURLOPT_URL, a->task->address);
    curl_easy_setopt(a->easy, CURLOPT_BUFFERSIZE, buffer_size(a->task));
    if (foreign) {
        curl_easy_setopt(a->easy, CURLOPT_NOPROXY, "*"); /* a gateway is on this machine */
    }
    a->is_set = !sign(a) && !foreign;
    ask_for_range(a);
    curl_easy_setopt(a->easy, CURLOPT_HTTPHEADER, a->headers);
}

/* Puts one request for the task on its way. False: libcurl has no memory. */
bool mr_far_send(mr_far_line *line, mr_far_task *task) {
    mr_far_attempt *a = line->free;
    if (!a->easy && !(a->easy = curl_easy_init())) {
        return false;
    }
    line->free = a->next_free;
    *a = (mr_far_attempt){
        .easy = a->easy, .is_set = a->is_set, .line = line, .task = task, .started = mr_far_now()};
    mr_far_reply_begin(&a->reply);
    prepare(a);
    line->in_flight++;
    task->running++;
    task->first_sent = task->first_sent ? task->first_sent : a->started;
    task->last_sent = a->started;
    line->figures.requests++;
    if (curl_multi_add_handle(line->multi, a->easy) != CURLM_OK) {
        mr_far_free_attempt(a);
        return false;
    }
    return true;
}

void mr_far_send_waiting(mr_far_line *line) {
    mr_far_task *task = line->first;
    while (task && mr_far_has_room(line)) {
        mr_far_task *next = task->next;
        if (task->not_before > 0 && task->not_before > mr_far_now()) {
            task = next;
            continue;
        }
        mr_far_unlink(line, task);
        task->tries++;
        task->beside = 0;
        if ((!task->address && make_address(line, task) < 0)) {
            mr_far_end_task(line, task);
        } else if (!mr_far_send(line, task)) {
            mr_far_word_failure(task, MR_E_MEMORY, NULL, "out of memory");
            mr_far_end_task(line, task);
        }
        task = next;
    }
}
