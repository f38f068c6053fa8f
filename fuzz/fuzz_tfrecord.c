/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of tf.train.Example, and of the records around it. Features lie inside
 * the record, and the number of their values is the same whether they are counted or taken. */
#include <stdlib.h>

#include "codecs/tfexample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

typedef struct record {
    const uint8_t *data;
    size_t size;
} record;

static mr_status check_feature(void *user, const mr_tf_feature *feature, mr_error *err) {
    const record *r = user;
    int64_t n = 0, again = 0;
    union {
        int64_t numbers[8];
        float floats[8];
        mr_tf_bytes bytes[8];
    } few;
    (void)err;
    if (feature->kind != MR_TF_EMPTY) {
        want(feature->list >= r->data && feature->list + feature->size <= r->data + r->size);
    }
    mr_error own = MR_ERROR_INIT;
    mr_status status = mr_tf_values(feature, NULL, 0, &n, &own);
    want(mr_tf_values(feature, &few, 8, &again, &own) == status && n == again);
    want(n <= (int64_t)feature->size);
    for (int64_t i = 0; status == MR_OK && feature->kind == MR_TF_BYTES && i < n && i < 8; i++) {
        want(few.bytes[i].data + few.bytes[i].size <= r->data + r->size);
    }
    return MR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    record whole = {data, size};
    int64_t bytes = 0;
    mr_status status = mr_tf_each(data, size, check_feature, &whole, &err);
    want(status == MR_OK || (err.code == status && err.offset >= 0 && err.text[0] != '\0'));
    if (mr_tfrecord_next(data, size, 0, &bytes, &err) == MR_OK) {
        want(bytes >= 0 && bytes + MR_TFRECORD_HEAD + MR_TFRECORD_TAIL <= (int64_t)size);
        mr_tfrecord_verify(data + MR_TFRECORD_HEAD, (size_t)bytes, &err);
    }
    return 0;
}
