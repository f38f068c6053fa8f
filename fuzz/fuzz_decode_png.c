/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_decode_png.c - the png codec on arbitrary bytes. */
#include "decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_decode("png", data, size);
}
