/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to what unpacks whole files, and packs them: what was packed unpacks to the same. The
 * first byte says how. Never more than the limit comes out. */
#include <stdlib.h>
#include <string.h>

#include "codecs/packer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 1 << 20 };

typedef struct packed {
    unsigned char bytes[2 * LIMIT];
    size_t n;
} packed;

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static mr_status keep(void *user, const void *bytes, size_t n, mr_error *err) {
    packed *all = user;
    (void)err;
    want(all->n + n <= sizeof all->bytes);
    if (n > 0) {
        memcpy(all->bytes + all->n, bytes, n);
    }
    all->n += n;
    return MR_OK;
}

static void unpack(mr_packing packing, const uint8_t *data, size_t size, bool head) {
    mr_error err = MR_ERROR_INIT;
    unsigned char *out = NULL;
    size_t n = 0;
    mr_status status = mr_unpack_file(packing, data, size, LIMIT, head, &out, &n, &err);
    want(n <= LIMIT && (status == MR_OK || (!out && err.code == status && err.text[0] != '\0')));
    free(out);
}

static void there_and_back(mr_packing packing, const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    mr_packer *packer = NULL;
    packed *all = calloc(1, sizeof *all);
    unsigned char *out = NULL;
    size_t n = 0, half = size / 2;
    if (!all || mr_packer_open(&packer, packing, keep, all, &err) != MR_OK) {
        free(all);
        return;
    }
    want(mr_packer_put(packer, data, half, &err) == MR_OK);
    want(mr_packer_put(packer, data + half, size - half, &err) == MR_OK);
    want(mr_packer_end(packer, &err) == MR_OK);
    want(mr_unpack_file(packing, all->bytes, all->n, LIMIT, false, &out, &n, &err) == MR_OK);
    want(n == size && (n == 0 || memcmp(out, data, n) == 0));
    mr_packer_close(packer);
    free(out);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const mr_packing packings[] = {MR_GZIP, MR_ZSTD, MR_LZ4};
    if (size == 0 || size > LIMIT) {
        return 0;
    }
    mr_packing packing = packings[data[0] / 2 % 3];
    unpack(packing, data + 1, size - 1, data[0] % 2);
    if (packing != MR_GZIP) {
        there_and_back(packing, data + 1, size - 1);
    }
    return 0;
}
