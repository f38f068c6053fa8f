/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of HDF5: its structure, the indexes of chunks, and the filters. Chunks
 * lie inside the file, each once, and unpack to their size and no further. Checksums of structures
 * are not looked at in this build. */
#include <stdlib.h>

#include "codecs/hdf5.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_chunks(const mr_h5_dataset *d, const uint8_t *data, size_t size) {
    enum { MOST_BYTES = 1 << 20, MOST = 16 };
    int64_t bytes = mr_h5_chunk_bytes(d);
    unsigned char *out = bytes <= MOST_BYTES ? malloc((size_t)bytes) : NULL;
    for (int64_t i = 0; i < d->n_chunks; i++) {
        const mr_h5_chunk *c = &d->chunks[i];
        mr_error err = MR_ERROR_INIT;
        want(c->address >= 0 && c->size >= 0 && c->address + c->size <= (int64_t)size);
        want(mr_h5_chunk_at(d, c->number) == c);
        if (out && i < MOST) {
            mr_status status = mr_h5_unpack(d, c, data + c->address, (size_t)c->size, out, &err);
            want(status == MR_OK || err.code == status);
        }
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    mr_h5_file file;
    mr_status status = mr_h5_open(&file, data, size, &err);
    want(status == MR_OK || (err.code == status && err.text[0] != '\0'));
    for (int32_t i = 0; status == MR_OK && i < file.n_datasets; i++) {
        mr_h5_dataset *d = &file.datasets[i];
        if (d->why[0] == '\0' && d->layout == MR_H5_CHUNKED &&
            mr_h5_find_chunks(&file, d, &err) == MR_OK) {
            check_chunks(d, data, size);
        }
    }
    mr_h5_close(&file);
    return 0;
}
