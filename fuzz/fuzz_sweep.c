/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of sweeps: each is refused with a reason, or every text of it is made.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *words = calloc(1, size + 1), *text = NULL;
    mr_error err = MR_ERROR_INIT;
    want(words != NULL);
    memcpy(words, data, size);
    mr_status first = mr_sweep_text(words, MR_SWEEP_TABLE, &text, &err);
    want(first == MR_OK || err.text[0] != '\0');
    mr_free(text);
    for (int kind = MR_SWEEP_CSV; kind <= MR_SWEEP_CONCLUSION && first == MR_OK; kind++) {
        want(mr_sweep_text(words, (mr_sweep_text_kind)kind, &text, NULL) == MR_OK);
        mr_free(text);
    }
    free(words);
    return 0;
}
