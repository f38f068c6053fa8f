/* SPDX-License-Identifier: Apache-2.0 */
/* far_document.c - small documents for far_account.c: the one place where link-local addresses are
 * asked. */
#include <string.h>

#include "io/far_parts.h"

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

bool mr_far_get_document(void *user, const char *url, const char *header, bool put, char *out,
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
