/* SPDX-License-Identifier: Apache-2.0 */
/* far_account.c - see far_account.h. */
#include "io/far_account.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/json.h"
#include "core/letters.h"
#include "io/far_name.h"
#include "io/file.h"

static bool copy_text(char *to, size_t size, const char *text, size_t length) {
    if (length >= size || memchr(text, '\0', length)) {
        return false;
    }
    memcpy(to, text, length);
    to[length] = '\0';
    return length > 0;
}

static bool from_environment(const char *name, char *to, size_t size) {
    const char *value = getenv(name);
    return value && copy_text(to, size, value, strlen(value));
}

/* ---- Shared files ---- */
typedef struct line_of {
    const char *at, *end;
} line_of;

static line_of trimmed(line_of l) {
    while (l.at < l.end && (*l.at == ' ' || *l.at == '\t')) {
        l.at++;
    }
    while (l.end > l.at && (l.end[-1] == ' ' || l.end[-1] == '\t' || l.end[-1] == '\r')) {
        l.end--;
    }
    return l;
}

static bool same(line_of l, const char *text) {
    size_t n = strlen(text);
    return (size_t)(l.end - l.at) == n && memcmp(l.at, text, n) == 0;
}

/* "[name]" and "[profile name]". */
static bool is_section(line_of l, const char *section) {
    const size_t word = strlen("profile ");
    line_of name = trimmed((line_of){l.at + 1, l.end - 1});
    if ((size_t)(name.end - name.at) > word && memcmp(name.at, "profile ", word) == 0) {
        name = trimmed((line_of){name.at + word, name.end});
    }
    return same(name, section);
}

bool mr_far_ini(const char *text, size_t size, const char *section, const char *name, char *out,
                size_t out_size) {
    const char *end = text + size;
    bool inside = false;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        line_of l = trimmed((line_of){text, stop ? stop : end});
        const char *equals = memchr(l.at, '=', (size_t)(l.end - l.at));
        text = stop ? stop + 1 : end;
        if (l.end - l.at >= 2 && l.at[0] == '[' && l.end[-1] == ']') {
            inside = is_section(l, section);
        } else if (inside && equals && same(trimmed((line_of){l.at, equals}), name)) {
            line_of value = trimmed((line_of){equals + 1, l.end});
            return copy_text(out, out_size, value.at, (size_t)(value.end - value.at));
        }
    }
    return false;
}

typedef struct shared_file {
    char *text;
    size_t size;
} shared_file;

static shared_file load_shared(const char *variable, const char *name) {
    char path[4096];
    shared_file file = {NULL, 0};
    mr_error ignored = MR_ERROR_INIT;
    const char *home = getenv("HOME");
    bool named = from_environment(variable, path, sizeof path);
    if (!named && home) {
        int n = snprintf(path, sizeof path, "%s/.aws/%s", home, name);
        named = n > 0 && (size_t)n < sizeof path;
    }
    if (!named || mr_is_far(path) ||
        mr_file_load(path, 1 << 20, &file.text, &file.size, &ignored) < 0) {
        file = (shared_file){NULL, 0};
    }
    return file;
}

static bool find_in(const shared_file *file, const char *name, char *out, size_t size) {
    char profile[128] = "default";
    if (!from_environment("AWS_PROFILE", profile, sizeof profile)) {
        from_environment("AWS_DEFAULT_PROFILE", profile, sizeof profile);
    }
    return file->text && mr_far_ini(file->text, file->size, profile, name, out, size);
}

static bool credentials_in(const shared_file *file, mr_far_account *a) {
    a->token[0] = '\0';
    bool both = find_in(file, "aws_access_key_id", a->key, sizeof a->key) &&
                find_in(file, "aws_secret_access_key", a->secret, sizeof a->secret);
    if (both) {
        find_in(file, "aws_session_token", a->token, sizeof a->token);
    }
    return both;
}

/* ---- From servers on this machine ---- */
static bool text_in(const json_t *from, const char *name, char *out, size_t size) {
    const char *value = json_string_value(json_object_get(from, name));
    return value && copy_text(out, size, value, strlen(value));
}

static bool credentials_of(mr_far_account *a, const char *document) {
    char until[64];
    json_error_t ignored;
    struct tm time = {0};
    json_t *from = NULL;
    mr_json_load(&from, document, strlen(document), 0, &ignored);
    bool whole = from && text_in(from, "AccessKeyId", a->key, sizeof a->key) &&
                 text_in(from, "SecretAccessKey", a->secret, sizeof a->secret);
    if (whole) {
        a->token[0] = '\0';
        text_in(from, "Token", a->token, sizeof a->token);
    }
    if (whole && text_in(from, "Expiration", until, sizeof until) &&
        strptime(until, "%Y-%m-%dT%H:%M:%S", &time)) {
        a->expires = (int64_t)timegm(&time);
    }
    json_decref(from);
    return whole;
}

/* The token of a container may go to a server on this machine, or by https, and nowhere else. */
static bool is_near(const char *url) {
    static const char *const near[] = {"https://",
                                       "http://127.0.0.1",
                                       "http://localhost",
                                       "http://169.254.170.2",
                                       "http://169.254.170.23",
                                       "http://[fd00:ec2::23]",
                                       "http://[::1]",
                                       NULL};
    for (const char *const *one = near; *one; one++) {
        size_t n = strlen(*one);
        if (strncmp(url, *one, n) == 0 &&
            (one == near || url[n] == ':' || url[n] == '/' || url[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool from_container(mr_far_account *a, mr_far_get *get, void *user) {
    char url[1024], relative[900], token[4096], header[4200] = "", document[16384], path[4096];
    bool named = from_environment("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, sizeof url);
    if (from_environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", relative, sizeof relative)) {
        snprintf(url, sizeof url, "http://169.254.170.2%s", relative);
        named = true;
    }
    bool has_token = from_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN", token, sizeof token);
    if (from_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, sizeof path)) {
        mr_error ignored = MR_ERROR_INIT;
        char *text = NULL;
        size_t size = 0;
        if (mr_file_load(path, sizeof token - 1, &text, &size, &ignored) == MR_OK) {
            has_token = copy_text(token, sizeof token, text, strcspn(text, "\r\n"));
        }
        free(text);
    }
    if (has_token) {
        snprintf(header, sizeof header, "Authorization: %s", token);
    }
    return named && is_near(url) && !strpbrk(header, "\r\n") &&
           get(user, url, has_token ? header : NULL, false, document, sizeof document) &&
           credentials_of(a, document);
}

static bool from_instance(mr_far_account *a, mr_far_get *get, void *user) {
    const char *path = "latest/meta-data/iam/security-credentials/";
    char base[512] = "http://169.254.169.254", url[1024], token[512], header[600];
    char role[256], document[16384], off[16];
    if (from_environment("AWS_EC2_METADATA_DISABLED", off, sizeof off) &&
        mr_same_word(off, "true")) {
        return false;
    }
    from_environment("AWS_EC2_METADATA_SERVICE_ENDPOINT", base, sizeof base);
    snprintf(url, sizeof url, "%s/latest/api/token", base);
    if (!get(user, url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", true, token, sizeof token)) {
        return false;
    }
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token);
    snprintf(url, sizeof url, "%s/%s", base, path);
    if (strpbrk(header, "\r\n") || !get(user, url, header, false, role, sizeof role)) {
        return false;
    }
    role[strcspn(role, "\r\n")] = '\0';
    snprintf(url, sizeof url, "%s/%s%s", base, path, role);
    return get(user, url, header, false, document, sizeof document) && credentials_of(a, document);
}

/* ---- All of it ---- */
static void find_place(mr_far_account *a, const shared_file *config) {
    a->path_style = true; /* what servers other than Amazon's know */
    if (!from_environment("AWS_ENDPOINT_URL_S3", a->endpoint, sizeof a->endpoint) &&
        !from_environment("AWS_ENDPOINT_URL", a->endpoint, sizeof a->endpoint) &&
        !find_in(config, "endpoint_url", a->endpoint, sizeof a->endpoint)) {
        a->endpoint[0] = '\0';
        a->path_style = false;
    }
    if (!from_environment("AWS_REGION", a->region, sizeof a->region) &&
        !from_environment("AWS_DEFAULT_REGION", a->region, sizeof a->region) &&
        !find_in(config, "region", a->region, sizeof a->region)) {
        snprintf(a->region, sizeof a->region, "us-east-1");
    }
    size_t length = strlen(a->endpoint);
    if (length > 0 && a->endpoint[length - 1] == '/') {
        a->endpoint[length - 1] = '\0';
    }
}

static bool wants_nobody(void) {
    char value[16];
    return from_environment("AWS_NO_SIGN_REQUEST", value, sizeof value) &&
           (mr_same_word(value, "yes") || mr_same_word(value, "true") || strcmp(value, "1") == 0);
}

static bool in_environment(mr_far_account *a) {
    bool both = from_environment("AWS_ACCESS_KEY_ID", a->key, sizeof a->key) &&
                from_environment("AWS_SECRET_ACCESS_KEY", a->secret, sizeof a->secret);
    a->token[0] = '\0';
    if (both) {
        from_environment("AWS_SESSION_TOKEN", a->token, sizeof a->token);
    }
    return both;
}

static void find_anew(mr_far_account *a, mr_far_get *get, void *user) {
    shared_file keys = load_shared("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    shared_file config = load_shared("AWS_CONFIG_FILE", "config");
    *a = (mr_far_account){.is_known = true};
    find_place(a, &config);
    if (wants_nobody() ||
        (!in_environment(a) && !credentials_in(&keys, a) && !credentials_in(&config, a) &&
         !from_container(a, get, user) && !from_instance(a, get, user))) {
        a->key[0] = a->secret[0] = a->token[0] = '\0';
    }
    free(keys.text);
    free(config.text);
}

/* New ones are asked for before the old ones run out; whoever does not answer then is asked again
 * soon, and the old ones serve meanwhile. */
void mr_far_account_find(mr_far_account *a, mr_far_get *get, void *user) {
    enum { EARLY = 300, SOON = 30 }; /* seconds */
    int64_t now = (int64_t)time(NULL);
    bool serves = a->is_known && (a->expires == 0 || a->expires > now);
    if (serves && (a->expires == 0 || a->expires - EARLY > now || a->asked_at + SOON > now)) {
        return;
    }
    mr_far_account found;
    find_anew(&found, get, user);
    if (found.key[0] || !serves) {
        *a = found;
    }
    a->asked_at = now;
}

/* ---- Addresses ---- */
/* Buckets with dots do not fit the certificate of their host. */
bool mr_far_account_address(const mr_far_account *a, const char *path, const char *query, char *out,
                            size_t size) {
    char bucket[64];
    const char *key;
    size_t key_length, at;
    int n;
    if (!mr_s3_parts(path, bucket, &key, &key_length)) {
        return false;
    }
    const char *china = strncmp(a->region, "cn-", 3) == 0 ? ".cn" : "";
    if (a->endpoint[0]) {
        n = snprintf(out, size, "%s/%s/", a->endpoint, bucket);
    } else if (a->path_style || strchr(bucket, '.')) {
        n = snprintf(out, size, "https://s3.%s.amazonaws.com%s/%s/", a->region, china, bucket);
    } else {
        n = snprintf(out, size, "https://%s.s3.%s.amazonaws.com%s/", bucket, a->region, china);
    }
    if (n < 0 || (size_t)n >= size) {
        return false;
    }
    at = (size_t)n;
    if (!mr_far_encode(out, size, &at, key, key_length, "/")) {
        return false;
    }
    n = query ? snprintf(out + at, size - at, "?%s", query) : 0;
    return n >= 0 && (size_t)n < size - at;
}

static bool host_fits(const char *host, const char *one, size_t length) {
    size_t n = strlen(host);
    if (length > 2 && one[0] == '*' && one[1] == '.') {
        return n > length - 1 && mr_same_letters(host + n - (length - 1), one + 1, length - 1);
    }
    return n == length && mr_same_letters(host, one, length);
}

bool mr_far_host_allowed(const char *host) {
    const char *list = getenv("MILLRACE_HOSTS");
    for (const char *at = list; at && *at;) {
        size_t length = strcspn(at, ", ");
        if (length > 0 && host_fits(host, at, length)) {
            return true;
        }
        at += length + (at[length] != '\0');
    }
    return list == NULL;
}
