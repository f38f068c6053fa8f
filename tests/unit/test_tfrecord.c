/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum of TFRecord files, and messages at their edges; whole files are compared in
 * tests/python/test_sources.py. */
#include <string.h>

#include "codecs/crc32c.h"
#include "codecs/tfexample.h"
#include "test.h"

TEST(checksums_of_rfc_3720) {
    unsigned char zeros[32] = {0}, ones[32], rising[32];
    memset(ones, 0xff, sizeof ones);
    for (unsigned i = 0; i < 32; i++) {
        rising[i] = (unsigned char)i;
    }
    CHECK_INT(mr_crc32c(zeros, 32), ==, 0x8a9136aau);
    CHECK_INT(mr_crc32c(ones, 32), ==, 0x62a8ab43u);
    CHECK_INT(mr_crc32c(rising, 32), ==, 0x46dd794eu);
    CHECK_INT(mr_crc32c("", 0), ==, 0u);
}

TEST(every_way_gives_the_same_checksum) {
    unsigned char bytes[300];
    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 37 + i / 7);
    }
    for (size_t from = 0; from < 9; from++) {
        for (size_t n = 0; from + n <= sizeof bytes; n++) {
            CHECK_INT(mr_crc32c(bytes + from, n), ==, mr_crc32c_scalar(bytes + from, n));
        }
    }
}

static mr_status keep(void *user, const mr_tf_feature *feature, mr_error *err) {
    (void)err;
    *(mr_tf_feature *)user = *feature;
    return MR_OK;
}

static mr_status read_one(const char *bytes, size_t n, mr_tf_feature *out) {
    mr_error err = MR_ERROR_INIT;
    *out = (mr_tf_feature){.kind = MR_TF_EMPTY};
    return mr_tf_each((const unsigned char *)bytes, n, keep, out, &err);
}

TEST(numbers_of_both_ways_of_writing) {
    mr_tf_feature found;
    int64_t numbers[4] = {0}, n = 0;
    /* features { feature { key "a" value { int64_list { value: 1, then packed 2 and 300 } } } } */
    static const char both[] = "\x0a\x12\x0a\x10\x0a\x01"
                               "a\x12\x0b\x1a\x09\x08\x01\x0a\x03\x02\xac\x02\x10\x07";
    CHECK_INT(read_one(both, sizeof both - 1, &found), ==, MR_OK);
    CHECK_INT(found.kind, ==, MR_TF_INT64);
    CHECK_INT(mr_tf_values(&found, numbers, 2, &n, NULL), ==, MR_OK);
    CHECK_INT(n, ==, 3);
    CHECK_INT(numbers[2], ==, 0);
    CHECK_INT(mr_tf_values(&found, numbers, 4, &n, NULL), ==, MR_OK);
    CHECK(numbers[0] == 1 && numbers[1] == 2 && numbers[2] == 300 && numbers[3] == 0);
}

TEST(messages_that_are_cut_off) {
    mr_tf_feature found;
    static const char whole[] = "\x0a\x0c\x0a\x0a\x0a\x01"
                                "a\x12\x05\x0a\x03\x0a\x01"
                                "b";
    CHECK_INT(read_one(whole, sizeof whole - 1, &found), ==, MR_OK);
    CHECK_INT(found.kind, ==, MR_TF_BYTES);
    for (size_t n = 1; n + 1 < sizeof whole; n++) {
        CHECK_INT(read_one(whole, n, &found), ==, MR_E_CORRUPT);
    }
    CHECK_INT(read_one("\x0b", 1, &found), ==, MR_E_CORRUPT);
}

TEST_MAIN()
