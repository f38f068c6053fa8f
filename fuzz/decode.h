/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - what the fuzz targets of the decoders share: header and pixels, in every mode, into
 * memory of exactly the right size. */
#ifndef MR_FUZZ_DECODE_H
#define MR_FUZZ_DECODE_H

#include "codecs/codec.h"
#include "core/memory.h"
#include "core/registry.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline const mr_codec *fuzz_codec(const char *name) {
    for (int32_t i = 0; i < mr_n_codecs(); i++) {
        if (strcmp(mr_codec_at(i)->name, name) == 0) {
            return mr_codec_at(i);
        }
    }
    abort(); /* a target without its codec would find nothing, in silence */
}

static inline void fuzz_pixels(const mr_codec *codec, const uint8_t *data, size_t size,
                               const mr_image_header *header, int32_t channels, bool lenient) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena};
    mr_error err = MR_ERROR_INIT;
    uint8_t *out = malloc((size_t)header->width * (size_t)header->height * (size_t)channels);
    mr_decode_request request = {.width = header->width,
                                 .height = header->height,
                                 .channels = channels,
                                 .lenient = lenient,
                                 .out = out,
                                 .call = &call};
    mr_status status = codec->decode(data, size, &request, &err);
    if (status != MR_OK && (status != err.code || !err.text[0] || status == MR_E_INTERNAL)) {
        abort();
    }
    free(out);
    mr_arena_free(&arena);
}

static inline int fuzz_decode(const char *name, const uint8_t *data, size_t size) {
    const mr_codec *codec = fuzz_codec(name);
    mr_image_header header;
    if (!codec->sniff(data, size) ||
        codec->header(data, size, (int64_t)1 << 20, true, &header, NULL) != MR_OK) {
        return 0;
    }
    if (header.orientation < 1 || header.orientation > 8 ||
        header.width * header.height > (int64_t)1 << 20) {
        abort();
    }
    fuzz_pixels(codec, data, size, &header, 3, false);
    fuzz_pixels(codec, data, size, &header, 1, true);
    return 0;
}

#endif
