/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_index_image.c - photos with something behind them that may be an index: making one of
 * arbitrary bytes, and decoding with whatever index they end with. */
#include "op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_op("index_image", "{}", data, size);
    fuzz_op("decode_image", "{\"max_pixels\": 65536}", data, size);
    fuzz_op("decode_image", "{\"mode\": \"grey16\", \"max_pixels\": 65536}", data, size);
    return 0;
}
