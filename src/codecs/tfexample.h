/* SPDX-License-Identifier: Apache-2.0 */
/* tfexample.h - records of a TFRecord file in memory, and the features of a tf.train.Example. */
#ifndef MR_CODECS_TFEXAMPLE_H
#define MR_CODECS_TFEXAMPLE_H

#include <millrace/types.h>

enum { MR_TFRECORD_HEAD = 12, MR_TFRECORD_TAIL = 4 };

/* The record at `at`: its data is *bytes bytes at at + MR_TFRECORD_HEAD. The length's checksum is
 * verified, the data's is not. MR_END: the file ends there. err->offset is the byte. */
mr_status mr_tfrecord_next(const unsigned char *file, size_t size, int64_t at, int64_t *bytes,
                           mr_error *err);

/* Verifies the checksum of a record's data. */
mr_status mr_tfrecord_verify(const unsigned char *data, size_t bytes, mr_error *err);

typedef enum mr_tf_kind { MR_TF_EMPTY, MR_TF_BYTES, MR_TF_FLOAT, MR_TF_INT64 } mr_tf_kind;

typedef struct mr_tf_feature {
    const char *name; /* not terminated */
    size_t name_length;
    mr_tf_kind kind;
    const unsigned char *list; /* the message with its values */
    size_t size;
} mr_tf_feature;

/* Calls visit for each feature; one that fails ends it. err->offset is the byte in data. */
typedef mr_status (*mr_tf_visit)(void *user, const mr_tf_feature *feature, mr_error *err);
mr_status mr_tf_each(const unsigned char *data, size_t size, mr_tf_visit visit, void *user,
                     mr_error *err);

/* The values of a feature: their number, and as many of them as there is room for in `out` (NULL:
 * only the number), which has int64_t, float or mr_tf_bytes, as the kind is. */
typedef struct mr_tf_bytes {
    const unsigned char *data;
    size_t size;
} mr_tf_bytes;

mr_status mr_tf_values(const mr_tf_feature *feature, void *out, int64_t capacity, int64_t *n,
                       mr_error *err);

#endif
