/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to everything that reads what a server or a stranger says about objects: lines of
 * answers, pages of listings, names with versions, profiles. The first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "io/far.h"
#include "io/far_account.h"
#include "io/far_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

/* What is taken is what was asked for. */
static void answer(const char *text, size_t size) {
    const mr_far_range ranges[] = {{10, 5, {.size = 100, .tag = "\"t\""}}, {0, -1, {.size = -1}}};
    mr_far_reply reply;
    mr_far_pin version;
    int64_t skip;
    const char *why;
    mr_far_reply_begin(&reply);
    for (const char *end = text + size; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = stop ? (size_t)(stop - text) + 1 : (size_t)(end - text);
        mr_far_reply_line(&reply, text, n);
        text += n;
    }
    for (int i = 0; i < 2; i++) {
        if (mr_far_reply_judge(&reply, &ranges[i], &skip, &version, &why) == MR_FAR_TAKE) {
            want(reply.status == 200 || reply.status == 206);
            want(reply.status == 200 ? skip == ranges[i].offset : reply.first == ranges[i].offset);
            want(i == 1 || version.size < 0 || version.size == 100);
            want(i == 1 || reply.status == 200 || reply.last == 14);
        }
    }
}

static bool take(void *user, const char *key, size_t n, const mr_far_pin *pin) {
    (void)user;
    want(memchr(key, '\0', n) == NULL && pin->size >= 0 && strlen(pin->tag) < sizeof pin->tag);
    return true;
}

#ifdef MR_HAVE_FAR
static void page(char *text, size_t size) {
    mr_far_page out;
    if (mr_far_parse_page(text, size, &out, take, NULL)) {
        free(out.token);
    }
}
#else
static void page(char *text, size_t size) {
    (void)text;
    (void)size;
    (void)take;
}
#endif

/* A version that was found is found again in the name that is made of it. */
static void name(const char *text) {
    mr_far_pin pin, again;
    char bucket[64], address[512];
    const char *key;
    size_t n;
    mr_far_account account = {.region = "r"};
    size_t bare = mr_far_bare(text);
    want(bare <= strlen(text) && mr_path_public(text) <= bare);
    mr_far_pin_of(text, &pin);
    if (pin.size >= 0) {
        char *made = mr_far_pinned(text, bare, &pin);
        if (made) {
            mr_far_pin_of(made, &again);
            want(mr_far_bare(made) == bare && mr_far_same_version(&pin, &again));
        }
        free(made);
    }
    if (mr_s3_parts(text, bucket, &key, &n)) {
        want(key >= text && key + n <= text + strlen(text));
    }
    mr_far_account_address(&account, text, NULL, address, sizeof address);
}

static void profile(const char *text, size_t size) {
    char out[32];
    if (mr_far_ini(text, size, "default", "key", out, sizeof out)) {
        want(out[0] != '\0' && strlen(out) < sizeof out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    char *text = malloc(size);
    if (!text) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        answer(text, size - 1);
        break;
    case 1:
        page(text, size - 1);
        break;
    case 2:
        name(text);
        break;
    default:
        profile(text, size - 1);
        break;
    }
    free(text);
    return 0;
}
