/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jpeg_baseline.c - our JPEG decoders, baseline and progressive, against libjpeg-turbo on
 * arbitrary bytes: the whole image and random parts of it, with and without an index. Any
 * difference is a crash. */
#include "../tests/jpeg_rig.h"
#include "core/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!rig_compare(data, size, 3, 1 << 16, mr_hash64(data, size, 0))) {
        abort();
    }
    return 0;
}
