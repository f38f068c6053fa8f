/* SPDX-License-Identifier: Apache-2.0 */
/* far_receive.c - what libcurl calls while an answer comes in: headers and bytes go where they
 * belong, and nothing is taken that was not asked for. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/far_parts.h"

void mr_far_judge(mr_far_attempt *a) {
    if (!a->judged) {
        a->judged = true;
        a->verdict = mr_far_reply_judge(&a->reply, &a->task->range, &a->skip, &a->version, &a->why);
    }
}

static size_t take_header(char *line, size_t size, size_t n, void *user) {
    mr_far_attempt *a = user;
    mr_far_reply_line(&a->reply, line, size * n);
    a->judged = false;
    return a->reply.header_bytes <= MR_FAR_MOST_HEADERS ? size * n : 0;
}

/* A refusal's words; the connection is given up where there are too many. */
static size_t take_words(mr_far_attempt *a, const char *data, size_t n) {
    size_t room = sizeof a->words - 1;
    if (a->refused < room) {
        size_t take = n < room - a->refused ? n : room - a->refused;
        memcpy(a->words + a->refused, data, take);
        a->words[a->refused + take] = '\0';
    }
    a->refused += n;
    return a->refused <= MR_FAR_MOST_WORDS ? n : 0;
}

/* An object whose size the server keeps to itself. */
static size_t spill(mr_far_attempt *a, const char *data, size_t n) {
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
static bool place_whole(mr_far_attempt *a) {
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

static size_t take_range(mr_far_attempt *a, const char *data, size_t n) {
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
    mr_far_attempt *a = user;
    mr_far_task *task = a->task;
    n *= size;
    mr_far_judge(a);
    a->first_byte = a->first_byte ? a->first_byte : mr_far_now();
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
    mr_far_attempt *a = user;
    (void)purpose;
    if (is_link_local(&address->addr)) {
        a->forbidden = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void mr_far_listen(mr_far_attempt *a) {
    curl_easy_setopt(a->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(a->easy, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(a->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(a->easy, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(a->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(a->easy, CURLOPT_OPENSOCKETDATA, a);
}
