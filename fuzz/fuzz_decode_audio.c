/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_decode_audio.c - the op decode_audio on arbitrary bytes. */
#include "op.h"

/* libsndfile forgets what libvorbis and others hold when they refuse a damaged header. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libsndfile\nleak:libvorbis\nleak:libogg\nleak:libopus\nleak:libmpg123\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_op("decode_audio", "{\"max_samples\": 200000}", data, size);
    fuzz_op("decode_audio", "{\"max_samples\": 200000, \"mono\": true, \"dtype\": \"int16\"}", data,
            size);
    return 0;
}
