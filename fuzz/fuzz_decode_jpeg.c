/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_decode_jpeg.c - the jpeg codec on arbitrary bytes. */
#include "decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_decode("jpeg", data, size);
}
