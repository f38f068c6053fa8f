/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of .npz files. Members lie inside the file, and there is an end. */
#include <stdlib.h>

#include "codecs/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    mr_npz_member member;
    size_t at = 0, before = 0;
    mr_status status;
    while ((status = mr_npz_next(data, size, &at, &member, &err)) == MR_OK) {
        want(at > before && member.data <= size && member.size <= size - member.data);
        want(member.name[0] != '\0');
        before = at;
    }
    want(status == MR_END || (err.code == status && err.text[0] != '\0'));
    return 0;
}
