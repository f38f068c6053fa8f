/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_extract_text.c - the op extract_text on arbitrary bytes. What comes out is UTF-8. */
#include "op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_op("extract_text", "{\"part\": \"all\", \"max_depth\": 50}", data, size);
    fuzz_op("extract_text", "{\"min_length\": 5}", data, size);
    return 0;
}
