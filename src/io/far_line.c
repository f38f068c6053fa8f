/* SPDX-License-Identifier: Apache-2.0 */
/* far_line.c - see far_line.h. libcurl carries the requests; what to ask for, what to believe and
 * when to ask again is decided here. */
#include "io/far_line.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/far_account.h"

#include <millrace/millrace.h>

enum {
    MOST_REQUESTS = 64,
    FIRST_WIDTH = 32,
    LEAST_WIDTH = 2,
    MOST_REDIRECTS = 5,
    MOST_HEADER_BYTES = 256 << 10,
    MOST_WORDS = 64 << 10, /* of a refusal that are read, so that the connection can go on */
    SAMPLES = 256,         /* times to the first byte that are kept */
};

/* A request under way. */
typedef struct attempt {
    CURL *easy;
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
    struct attempt *next_free;
} attempt;

struct mr_far_line {
    CURLM *multi;
    mr_far_account account;
    attempt attempts[MOST_REQUESTS];
    attempt *free;
    mr_far_task *first, *last; /* that wait to be sent, in their order */
    int64_t n_tasks, n_waiting, n_ended;
    int32_t in_flight, paused;
    int32_t attempts_most;
    int64_t stall; /* seconds without bytes after which a request has failed */
    mr_far_figures figures;
    uint64_t noise; /* for jitter: no byte depends on it */

    /* pace */
    double width, best_rate;
    int64_t window_began, window_bytes;
    int32_t window_done, direction, rest;
    bool was_full;

    double times[SAMPLES]; /* seconds to the first byte */
    int32_t n_times;
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Words ---- */
/* What went wrong with which bytes of what, how the server called it, and how often it was tried.
 */
static void word_failure(mr_far_task *task, mr_status code, const attempt *a, const char *what) {
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

static void word_status(mr_far_task *task, const attempt *a) {
    char text[200], code[100];
    int status = a->reply.status;
    find_code(a->words, code, sizeof code);
    snprintf(text, sizeof text, "the server says %d%s", status, code);
    bool gone = status == 404 || status == 410;
    word_failure(task, gone ? MR_E_NOT_FOUND : MR_E_IO, a, text);
    if (status == 401 || status == 403) {
        mr_hint(&task->err, mr_is_s3(task->path)
                                ? "see which credentials are used: docs/far.md; a region or an "
                                  "endpoint that does not fit is refused like this too"
                                : "the address may have to be signed anew");
    } else if ((status == 301 || status == 307 || status == 400) && a->reply.region[0]) {
        mr_hint(&task->err, "the bucket is in region %s: set AWS_REGION", a->reply.region);
    } else if (status == 416) {
        mr_hint(&task->err, "the object is shorter than it was said to be");
    }
}

/* ---- Ends ---- */
static void unlink_task(mr_far_line *line, mr_far_task *task) {
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
}

static void free_attempt(attempt *a) {
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

static void free_attempts_of(mr_far_line *line, const mr_far_task *task) {
    for (int i = 0; i < MOST_REQUESTS && task->running > 0; i++) {
        if (line->attempts[i].task == task) {
            free_attempt(&line->attempts[i]);
        }
    }
}

static void end_task(mr_far_line *line, mr_far_task *task) {
    free_attempts_of(line, task);
    free(task->address);
    task->address = NULL;
    task->settled = true;
    task->ended = now_ns();
    line->n_tasks--;
    line->n_ended++;
    task->done(task);
}

/* ---- Pace: how many requests at once ----
 * While more tasks wait than are sent, the rate of each window is compared with the best so far: a
 * wider line that brings a twentieth more is widened again, one that does not goes back and rests.
 * A server that says it is busy halves the width. */
static void set_width(mr_far_line *line, double width) {
    line->width = width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_REQUESTS ? MOST_REQUESTS : width;
}

static void begin_window(mr_far_line *line) {
    line->window_began = now_ns();
    line->window_bytes = 0;
    line->window_done = 0;
    line->was_full = true;
}

static void end_window(mr_far_line *line) {
    double seconds = (double)(now_ns() - line->window_began) * 1e-9;
    double rate = (double)line->window_bytes / (seconds > 0 ? seconds : 1e-9);
    if (line->was_full && line->rest > 0) {
        line->rest--;
        line->best_rate = 0.8 * line->best_rate + 0.2 * rate;
    } else if (line->was_full && rate > 1.05 * line->best_rate) {
        line->best_rate = rate;
        set_width(line, line->width * 1.5);
    } else if (line->was_full) {
        set_width(line, line->width / 1.5);
        line->rest = 16;
    }
    begin_window(line);
}

static void note_done(mr_far_line *line, const attempt *a) {
    double seconds = (double)(a->first_byte - a->started) * 1e-9;
    line->figures.bytes += (int64_t)a->got;
    line->window_bytes += (int64_t)a->got;
    line->times[line->n_times++ % SAMPLES] = seconds;
    line->figures.first_byte += 0.1 * (seconds - line->figures.first_byte);
    line->was_full = line->was_full && line->n_waiting > 0;
    if (++line->window_done >= 2 * (int32_t)line->width) {
        end_window(line);
    }
}

static void note_busy(mr_far_line *line) {
    set_width(line, line->width / 2);
    line->best_rate = 0;
    line->rest = 4;
    begin_window(line);
}

/* ---- Slow requests ---- */
static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time to the first byte that one request of a hundred takes longer than. */
static double slow_after(mr_far_line *line) {
    enum { ENOUGH = 32 };
    const double floor = 0.05, unknown = 5;
    double sorted[SAMPLES];
    int32_t n = line->n_times < SAMPLES ? line->n_times : SAMPLES;
    if (n < ENOUGH) {
        return unknown;
    }
    memcpy(sorted, line->times, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_times);
    double time = 2 * sorted[n - 1 - n / 100];
    return time > floor ? time : floor;
}

/* ---- Callbacks of libcurl ---- */
static void judge(attempt *a) {
    if (!a->judged) {
        a->judged = true;
        a->verdict = mr_far_reply_judge(&a->reply, &a->task->range, &a->skip, &a->version, &a->why);
    }
}

static size_t take_header(char *line, size_t size, size_t n, void *user) {
    attempt *a = user;
    mr_far_reply_line(&a->reply, line, size * n);
    a->judged = false;
    return a->reply.header_bytes <= MOST_HEADER_BYTES ? size * n : 0;
}

/* A refusal's words; the connection is given up where there are too many. */
static size_t take_words(attempt *a, const char *data, size_t n) {
    size_t room = sizeof a->words - 1;
    if (a->refused < room) {
        size_t take = n < room - a->refused ? n : room - a->refused;
        memcpy(a->words + a->refused, data, take);
        a->words[a->refused + take] = '\0';
    }
    a->refused += n;
    return a->refused <= MOST_WORDS ? n : 0;
}

/* An object whose size the server keeps to itself. */
static size_t spill(attempt *a, const char *data, size_t n) {
    if (n > (size_t)a->task->limit - a->got) {
        a->too_large = true;
        return 0;
    }
    if (a->spill_capacity - a->got < n) {
        size_t capacity = 2 * a->spill_capacity + n + 65536;
        char *grown = realloc(a->spill, capacity);
        if (!grown) {
            a->no_memory = true;
            return 0;
        }
        a->spill = grown;
        a->spill_capacity = capacity;
    }
    memcpy(a->spill + a->got, data, n);
    a->got += n;
    return n;
}

/* Memory for all of an object, whose size is known now. False: not now, or never. */
static bool place_whole(attempt *a) {
    mr_far_task *task = a->task;
    if (a->version.size > task->limit) {
        a->too_large = true;
        return false;
    }
    if (!task->place(task, (size_t)a->version.size)) {
        a->paused = true;
        a->line->paused++;
        return false;
    }
    task->placed = a->version.size;
    task->range.pin = a->version; /* whatever is asked for again is the same version */
    a->no_memory = task->to == NULL;
    return !a->no_memory;
}

static size_t take_range(attempt *a, const char *data, size_t n) {
    mr_far_task *task = a->task;
    size_t skipped = (uint64_t)a->skip < n ? (size_t)a->skip : n, given = n;
    size_t wanted = task->length >= 0 ? (size_t)task->length : (size_t)a->version.size;
    a->skip -= (int64_t)skipped;
    data += skipped;
    n -= skipped;
    size_t room = wanted - a->got, take = n < room ? n : room;
    if (take > 0 && task->to) {
        memcpy((char *)task->to + a->got, data, take);
    }
    a->got += take;
    a->full = a->got == wanted;
    a->too_long = n > room && (a->reply.status == 206 || task->length < 0);
    return a->too_long || (a->full && a->reply.status == 200 && task->length >= 0) ? 0 : given;
}

static size_t take_body(char *data, size_t size, size_t n, void *user) {
    attempt *a = user;
    mr_far_task *task = a->task;
    n *= size;
    judge(a);
    a->first_byte = a->first_byte ? a->first_byte : now_ns();
    if (a->verdict != MR_FAR_TAKE || task->look) {
        return take_words(a, data, n);
    }
    if (task->length < 0 && a->version.size < 0) {
        return spill(a, data, n);
    }
    if (task->length < 0 && !task->to && a->version.size > 0 && !place_whole(a)) {
        return a->paused ? CURL_WRITEFUNC_PAUSE : 0;
    }
    if (task->length < 0 && task->to && task->placed != a->version.size) {
        a->verdict = MR_FAR_CHANGED;
        return 0;
    }
    return take_range(a, data, n);
}

/* Addresses of the machine's own network segment are where clouds keep their secrets. */
static bool is_link_local(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        uint32_t ip = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
        return ip >> 16 == 0xA9FE;
    }
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *ip =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        struct in6_addr metadata;
        inet_pton(AF_INET6, "fd00:ec2::254", &metadata);
        bool mapped = IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 169 && ip->s6_addr[13] == 254;
        return IN6_IS_ADDR_LINKLOCAL(ip) || mapped || memcmp(ip, &metadata, sizeof metadata) == 0;
    }
    return true;
}

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address) {
    attempt *a = user;
    (void)purpose;
    if (is_link_local(&address->addr)) {
        a->forbidden = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- Documents for far_account.c: the one place where link-local addresses are asked ---- */
typedef struct document {
    char *out;
    size_t n, size;
} document;

static size_t take_document(char *data, size_t size, size_t n, void *user) {
    document *d = user;
    n *= size;
    if (n >= d->size - d->n) {
        return 0;
    }
    memcpy(d->out + d->n, data, n);
    d->n += n;
    d->out[d->n] = '\0';
    return n;
}

static bool get_document(void *user, const char *url, const char *header, bool put, char *out,
                         size_t size) {
    document d = {out, 0, size};
    long status = 0;
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = header ? curl_slist_append(NULL, header) : NULL;
    (void)user;
    out[0] = '\0';
    if (!easy) {
        return false;
    }
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, put ? "PUT" : "GET");
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 1000L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 2000L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_document);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &d);
    bool well = curl_easy_perform(easy) == CURLE_OK &&
                curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
                status == 200;
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    return well && d.n > 0;
}

/* ---- Addresses ---- */
static mr_status refuse_address(mr_far_task *task, mr_status code, const char *why) {
    word_failure(task, code, NULL, why);
    return code;
}

/* Only http and https, no names and passwords in it, and a host that may be reached. */
static mr_status check_address(mr_far_task *task, const char *address) {
    CURLU *url = curl_url();
    char *host = NULL, *scheme = NULL, *user = NULL;
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
    } else if (!mr_far_host_allowed(host)) {
        char text[400], shown[300];
        snprintf(text, sizeof text, "MILLRACE_HOSTS does not have the host %s",
                 mr_text_escape(shown, sizeof shown, host));
        status = refuse_address(task, MR_E_PARAM, text);
    }
    curl_free(host);
    curl_free(scheme);
    curl_free(user);
    curl_url_cleanup(url);
    return status;
}

static mr_status make_address(mr_far_line *line, mr_far_task *task) {
    char address[8192];
    size_t bare = mr_far_bare(task->path);
    if (mr_is_s3(task->path)) {
        mr_far_account_find(&line->account, get_document, line);
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
    return task->address ? check_address(task, address)
                         : refuse_address(task, MR_E_MEMORY, "out of memory");
}

/* ---- Sending ---- */
static void add_header(attempt *a, const char *name, const char *value) {
    char text[4300];
    int n = snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *more =
        n > 0 && (size_t)n < sizeof text ? curl_slist_append(a->headers, text) : NULL;
    a->headers = more ? more : a->headers;
}

static bool is_strong(const char *tag) {
    return tag[0] == '"';
}

static void ask_for_range(attempt *a) {
    const mr_far_task *task = a->task;
    const mr_far_pin *pin = &task->range.pin;
    char range[64];
    if (task->range.length >= 0) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)task->range.offset,
                 (long long)(task->range.offset + task->range.length - 1));
        curl_easy_setopt(a->easy, CURLOPT_RANGE, range);
    }
    if (pin->size >= 0 && is_strong(pin->tag)) {
        add_header(a, "If-Match", pin->tag);
    } else if (pin->size >= 0 && pin->tag[0] == '@') {
        add_header(a, "If-Unmodified-Since", pin->tag + 1);
    }
}

static void sign(attempt *a) {
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

static void set_certificates(attempt *a) {
    static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", NULL};
    for (const char *const *name = names; *name; name++) {
        const char *value = getenv(*name);
        if (value && value[0]) {
            curl_easy_setopt(a->easy, CURLOPT_CAINFO, value);
            return;
        }
    }
}

static void prepare(attempt *a) {
    CURL *easy = a->easy;
    const long stall = (long)a->line->stall;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, a->task->address);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "millrace");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, stall);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, stall);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, a->message);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, a);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, a);
    set_certificates(a);
    sign(a);
    ask_for_range(a);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, a->headers);
}

/* Puts one request for the task on its way. False: libcurl has no memory. */
static bool send_request(mr_far_line *line, mr_far_task *task) {
    attempt *a = line->free;
    if (!a->easy && !(a->easy = curl_easy_init())) {
        return false;
    }
    line->free = a->next_free;
    *a = (attempt){.easy = a->easy, .line = line, .task = task, .started = now_ns()};
    mr_far_reply_begin(&a->reply);
    prepare(a);
    line->in_flight++;
    task->running++;
    task->tries++;
    line->figures.requests++;
    if (curl_multi_add_handle(line->multi, a->easy) != CURLM_OK) {
        free_attempt(a);
        return false;
    }
    return true;
}

static void send_waiting(mr_far_line *line) {
    mr_far_task *task = line->first;
    while (task && line->free && line->in_flight < (int32_t)line->width) {
        mr_far_task *next = task->next;
        if (task->not_before > 0 && task->not_before > now_ns()) {
            task = next;
            continue;
        }
        unlink_task(line, task);
        if ((!task->address && make_address(line, task) < 0)) {
            end_task(line, task);
        } else if (!send_request(line, task)) {
            word_failure(task, MR_E_MEMORY, NULL, "out of memory");
            end_task(line, task);
        }
        task = next;
    }
}

static void put_last(mr_far_line *line, mr_far_task *task) {
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

static void put_first(mr_far_line *line, mr_far_task *task) {
    task->before = NULL;
    task->next = line->first;
    if (line->first) {
        line->first->before = task;
    } else {
        line->last = task;
    }
    line->first = task;
    line->n_waiting++;
}

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
    if (task->tries >= line->attempts_most) {
        return false;
    }
    task->not_before = now_ns() + pause_before(line, task, retry_after);
    task->hedged = false;
    line->figures.retries++;
    put_first(line, task);
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
static bool is_complete(const attempt *a, CURLcode code) {
    const mr_far_task *task = a->task;
    if (!a->judged || a->too_long) {
        return false;
    }
    if (task->look) {
        bool cut = code == CURLE_WRITE_ERROR && a->refused > MOST_WORDS;
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
static bool place_spilled(attempt *a) {
    mr_far_task *task = a->task;
    if (task->length >= 0 || a->full || task->look) {
        return true;
    }
    bool placed = task->to != NULL;
    if (!placed && !task->place(task, a->got)) {
        return false;
    }
    if (placed && task->placed != (int64_t)a->got) {
        word_failure(task, MR_E_CORRUPT, a, "the object changed while it was read");
    } else if (!task->to && a->got > 0) {
        word_failure(task, MR_E_MEMORY, a, "out of memory");
    } else if (a->got > 0 && a->spill) {
        memcpy(task->to, a->spill, a->got);
    }
    return true;
}

static void succeed(attempt *a) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    a->first_byte = a->first_byte ? a->first_byte : now_ns();
    task->size = a->got;
    task->first_byte = a->first_byte;
    task->version = a->version;
    if (a->verdict == MR_FAR_EMPTY || (task->length < 0 && a->version.size < 0)) {
        task->version.size = (int64_t)a->got;
    }
    note_done(line, a);
    end_task(line, task);
}

static void fail(attempt *a, mr_status code, const char *what) {
    mr_far_line *line = a->line;
    word_failure(a->task, code, a, what);
    end_task(line, a->task);
}

static bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* To where the server says, but not out of https; S3's are not followed: what they mean is another
 * region, for which the request is signed wrongly. */
static void follow(attempt *a) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    char *to = NULL;
    curl_easy_getinfo(a->easy, CURLINFO_REDIRECT_URL, &to);
    bool leaves_https =
        to && strncasecmp(task->address, "https:", 6) == 0 && strncasecmp(to, "https:", 6) != 0;
    if (!to || mr_is_s3(task->path)) {
        word_status(task, a);
        end_task(line, task);
    } else if (++task->redirects > MOST_REDIRECTS) {
        fail(a, MR_E_IO, "the server sends us from one address to the next, more than 5 times");
    } else if (leaves_https) {
        fail(a, MR_E_IO, "the server sends us from https to an address without");
    } else {
        char *copy = strdup(to);
        mr_status status =
            copy ? check_address(task, copy) : refuse_address(task, MR_E_MEMORY, "out of memory");
        free_attempts_of(line, task);
        free(task->address);
        task->address = copy;
        if (status < 0) {
            end_task(line, task);
            return;
        }
        task->tries--; /* one question, in several places */
        put_first(line, task);
    }
}

static void judge_breakage(attempt *a, CURLcode code) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    char text[CURL_ERROR_SIZE + 64], shown[CURL_ERROR_SIZE];
    attempt seen = *a;
    const char *said = a->message[0] ? a->message : curl_easy_strerror(code);
    mr_text_escape(shown, sizeof shown, said);
    bool is_short = code == CURLE_OK || (code == CURLE_WRITE_ERROR && a->too_long);
    if (a->reply.header_bytes > MOST_HEADER_BYTES) {
        snprintf(text, sizeof text, "the server sends more than %d KB of headers",
                 MOST_HEADER_BYTES >> 10);
    } else {
        snprintf(text, sizeof text, "%s",
                 a->too_long ? "the server sends more bytes than it said"
                 : is_short  ? "the server sends fewer bytes than it said"
                             : shown);
    }
    free_attempt(a);
    if (!(is_short || is_passing(code)) || !try_again(line, task, -1)) {
        word_failure(task, MR_E_IO, &seen, text);
        end_task(line, task);
    }
}

static void judge_refusal(attempt *a, CURLcode code) {
    mr_far_line *line = a->line;
    mr_far_task *task = a->task;
    if (a->verdict == MR_FAR_CHANGED) {
        word_failure(task, MR_E_CORRUPT, a,
                     "the object is another version than the one that was opened");
        mr_hint(&task->err, "it was replaced since; open the dataset anew");
        end_task(line, task);
    } else if (a->verdict == MR_FAR_WRONG) {
        fail(a, MR_E_CORRUPT, a->why);
    } else if (a->verdict == MR_FAR_AGAIN) {
        attempt seen = *a; /* its words, after it is gone */
        if (seen.reply.status == 429 || seen.reply.status == 503) {
            note_busy(line);
        }
        free_attempt(a);
        if (!try_again(line, task, seen.reply.retry_after)) {
            word_status(task, &seen);
            end_task(line, task);
        }
    } else if (a->verdict == MR_FAR_REFUSED && is_redirect(a->reply.status)) {
        follow(a);
    } else if (a->verdict == MR_FAR_REFUSED || (a->verdict == MR_FAR_EMPTY && code == CURLE_OK)) {
        word_status(task, a);
        end_task(line, task);
    } else {
        judge_breakage(a, code);
    }
}

static void finish_request(attempt *a, CURLcode code) {
    mr_far_task *task = a->task;
    if (code == CURLE_OK && a->reply.is_whole) {
        judge(a);
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
        word_failure(task, MR_E_LIMIT, a, text);
        mr_hint(&task->err, "raise max_file_bytes of the source if the object is what you want");
        end_task(a->line, task);
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

static void finish_requests(mr_far_line *line) {
    CURLMsg *message;
    int left = 0;
    while ((message = curl_multi_info_read(line->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            attempt *a = NULL;
            CURLcode code = message->data.result;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&a);
            if (a && a->task) {
                finish_request(a, code);
            }
        }
    }
}

/* ---- What waits for memory, and what hangs ---- */
static void resume_paused(mr_far_line *line) {
    for (int i = 0; line->paused > 0 && i < MOST_REQUESTS; i++) {
        attempt *a = &line->attempts[i];
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

/* One task of twenty may be asked for twice; and only a version that is pinned: both requests write
 * to one place, and must write the same. */
static void hedge(mr_far_line *line) {
    int64_t now = now_ns();
    double slow = line->figures.slow = slow_after(line);
    for (int i = 0; i < MOST_REQUESTS && line->free; i++) {
        const attempt *a = &line->attempts[i];
        mr_far_task *task = a->task;
        bool hangs = task && !a->first_byte && !task->hedged && task->running == 1 &&
                     (double)(now - a->started) * 1e-9 > slow;
        if (hangs && task->range.pin.size >= 0 && is_strong(task->range.pin.tag) &&
            task->length >= 0 && line->figures.hedges * 20 <= line->figures.requests) {
            task->hedged = true;
            line->figures.hedges += send_request(line, task);
        }
    }
}

/* ---- Public ---- */
static int64_t number_of(const char *name, int64_t fallback, int64_t least, int64_t most) {
    const char *text = getenv(name);
    char *end = NULL;
    long long value = text ? strtoll(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && value >= least && value <= most ? value
                                                                                  : fallback;
}

mr_status mr_far_line_open(mr_far_line **out, mr_error *err) {
    mr_far_line *line = mr_zalloc(1, sizeof *line);
    if (!line) {
        return mr_fail_memory(err, sizeof *line);
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    line->multi = curl_multi_init();
    for (int i = MOST_REQUESTS - 1; i >= 0; i--) {
        line->attempts[i].next_free = line->free;
        line->free = &line->attempts[i];
    }
    line->width = FIRST_WIDTH;
    line->stall = number_of("MILLRACE_FAR_STALL", 20, 1, 3600);
    line->attempts_most = (int32_t)number_of("MILLRACE_FAR_ATTEMPTS", 8, 1, 100);
    line->noise = (uint64_t)now_ns() ^ (uint64_t)getpid() << 32;
    begin_window(line);
    *out = line;
    if (!line->multi) {
        mr_far_line_close(line);
        *out = NULL;
        return mr_fail_memory(err, sizeof *line);
    }
    curl_multi_setopt(line->multi, CURLMOPT_MAXCONNECTS, (long)MOST_REQUESTS);
    return MR_OK;
}

void mr_far_line_start(mr_far_line *line, mr_far_task *task) {
    mr_error_clear(&task->err);
    task->status = MR_OK;
    task->begun = now_ns();
    task->range =
        (mr_far_range){task->look ? 0 : task->offset, task->look ? 1 : task->length, {.size = -1}};
    mr_far_pin_of(task->path, &task->range.pin);
    put_last(line, task);
    line->n_tasks++;
}

/* Sockets end the wait; looking for memory, for what hangs and for what is due again does not. */
static int longest_wait(const mr_far_line *line, int milliseconds) {
    enum { WHILE_PAUSED = 2, WHILE_SENT = 20 };
    int wait = milliseconds;
    if (line->in_flight > 0 && wait > WHILE_SENT) {
        wait = WHILE_SENT;
    }
    if (line->paused > 0 && wait > WHILE_PAUSED) {
        wait = WHILE_PAUSED;
    }
    int64_t now = line->n_waiting > 0 ? now_ns() : 0;
    for (const mr_far_task *task = line->first; task; task = task->next) {
        int64_t left = (task->not_before - now) / 1000000 + 1;
        if (task->not_before > 0 && left < wait) {
            wait = left > 0 ? (int)left : 0;
        }
    }
    return wait;
}

int64_t mr_far_line_run(mr_far_line *line, int milliseconds) {
    int running = 0;
    int64_t before = line->n_ended;
    resume_paused(line);
    send_waiting(line);
    curl_multi_perform(line->multi, &running);
    finish_requests(line);
    hedge(line);
    send_waiting(line);
    if (line->n_ended == before) {
        curl_multi_poll(line->multi, NULL, 0, longest_wait(line, milliseconds), NULL);
    }
    return line->n_tasks;
}

void mr_far_line_wake(mr_far_line *line) {
    curl_multi_wakeup(line->multi);
}

static void cancel_task(mr_far_line *line, mr_far_task *task) {
    word_failure(task, MR_E_CANCELLED, NULL, "stopped");
    end_task(line, task);
}

void mr_far_line_cancel(mr_far_line *line) {
    while (line->first) {
        mr_far_task *task = line->first;
        unlink_task(line, task);
        cancel_task(line, task);
    }
    for (int i = 0; i < MOST_REQUESTS; i++) {
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
    for (int i = 0; i < MOST_REQUESTS; i++) {
        curl_easy_cleanup(line->attempts[i].easy);
    }
    curl_multi_cleanup(line->multi);
    curl_global_cleanup();
    explicit_bzero(&line->account, sizeof line->account);
    mr_free(line);
}

int64_t mr_far_line_free(const mr_far_line *line) {
    return (int64_t)line->width - line->in_flight - line->n_waiting;
}

void mr_far_line_figures(const mr_far_line *line, mr_far_figures *out) {
    *out = line->figures;
    out->in_flight = line->in_flight;
    out->width = (int32_t)line->width;
}
