/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to what a fabric reads from strangers: sealed values, as they are and with a seal
 * that is right; and to the reader of URLs, which may not hang or read past its text. */
#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/redis_url.h"
#include "fabric/seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_sealed(const uint8_t *data, size_t size) {
    size_t n = 0;
    bool memory = false;
    uint8_t *sealed = malloc(MR_SEAL_SIZE + size);
    void *value = mr_seal_open(data, size, "key", 3, &n, &memory);
    want(!value || n + MR_SEAL_SIZE == size);
    mr_free(value);
    mr_seal_write(sealed, "key", 3, data, size);
    if (size > 0) {
        memcpy(sealed + MR_SEAL_SIZE, data, size);
    }
    value = mr_seal_open(sealed, MR_SEAL_SIZE + size, "key", 3, &n, &memory);
    want(value && n == size && (size == 0 || memcmp(value, data, size) == 0));
    mr_free(value);
    want(!mr_seal_open(sealed, MR_SEAL_SIZE + size, "yek", 3, &n, &memory));
    if (size > 0) { /* one bit of it, anywhere */
        sealed[data[0] % (MR_SEAL_SIZE + size)] ^= (uint8_t)(1u << size % 8);
        want(!mr_seal_open(sealed, MR_SEAL_SIZE + size, "key", 3, &n, &memory));
    }
    free(sealed);
}

static void check_url(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    for (const char *at = text; *at;) {
        const char *before = at;
        mr_redis_url url;
        mr_status status = mr_redis_url_read(&at, &url, NULL);
        want(at > before && (status == MR_OK || status == MR_E_PARAM));
        want(status < 0 || (url.host[0] && url.name[0] && strlen(url.port) <= 5));
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_sealed(data, size);
    if (size > 0) {
        check_url(data, size);
    }
    return 0;
}
