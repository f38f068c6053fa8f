/* SPDX-License-Identifier: Apache-2.0 */
/* megatron.c - see megatron.h. */
#include "codecs/megatron.h"

#include <string.h>

#include "core/error.h"

enum { MAGIC = 9, HEAD = MAGIC + 8 + 1 + 8 + 8 };

static int64_t number_at(const unsigned char *data) {
    int64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static int32_t length_at(const mr_megatron *index, int64_t i) {
    int32_t value;
    memcpy(&value, index->lengths + 4 * i, sizeof value);
    return value;
}

static mr_status damaged(mr_error *err, int64_t offset, const char *what) {
    mr_fail(err, MR_E_CORRUPT, "%s", what);
    if (err) {
        err->offset = offset;
    }
    return MR_E_CORRUPT;
}

static bool parse_dtype(unsigned char code, mr_dtype *out) {
    switch (code) {
    case 1:
        *out = MR_U8;
        return true;
    case 4:
        *out = MR_I32;
        return true;
    case 5:
        *out = MR_I64;
        return true;
    case 8:
        *out = MR_U16;
        return true;
    default:
        return false;
    }
}

/* Lengths are not negative, and each sequence begins where the one before ends. */
static mr_status check_sequences(mr_megatron *index, const unsigned char *file,
                                 const unsigned char *pointers, mr_error *err) {
    int64_t each = (int64_t)mr_dtype_size(index->dtype);
    for (int64_t i = 0; i < index->n_sequences; i++) {
        if (length_at(index, i) < 0 || number_at(pointers + 8 * i) != index->n_tokens * each) {
            return damaged(err, pointers + 8 * i - file,
                           "a sequence does not begin where the one before ends");
        }
        index->n_tokens += length_at(index, i);
    }
    return MR_OK;
}

static mr_status check_documents(const mr_megatron *index, const unsigned char *file,
                                 mr_error *err) {
    int64_t before = 0;
    for (int64_t i = 0; i <= index->n_documents; i++) {
        int64_t first = number_at(index->documents + 8 * i);
        bool wrong = i == 0 ? first != 0 : first < before;
        if (wrong || first > index->n_sequences) {
            return damaged(err, index->documents + 8 * i - file,
                           "documents do not follow each other");
        }
        before = first;
    }
    return before == index->n_sequences
               ? MR_OK
               : damaged(err, index->documents - file, "sequences that belong to no document");
}

mr_status mr_megatron_parse(const unsigned char *file, size_t size, mr_megatron *out,
                            mr_error *err) {
    *out = (mr_megatron){.n_tokens = 0};
    if (size < HEAD || memcmp(file, "MMIDIDX\0\0", MAGIC) != 0 || number_at(file + MAGIC) != 1) {
        return damaged(err, 0, "not an index of Megatron's, version 1");
    }
    if (!parse_dtype(file[MAGIC + 8], &out->dtype)) {
        mr_fail(err, MR_E_UNSUPPORTED, "tokens are not uint8, uint16, int32 or int64");
        return MR_E_UNSUPPORTED;
    }
    int64_t room = (int64_t)size - HEAD, n = number_at(file + MAGIC + 9);
    int64_t m = number_at(file + MAGIC + 17); /* one more than there are documents */
    if (n < 0 || m < 1 || n > room / 12 || m > room / 8 || 12 * n + 8 * m != room) {
        return damaged(err, MAGIC + 9, "the index has another size than it says");
    }
    out->n_sequences = n;
    out->n_documents = m - 1;
    out->lengths = file + HEAD;
    out->documents = file + HEAD + 12 * n;
    MR_TRY(check_sequences(out, file, file + HEAD + 4 * n, err));
    return check_documents(out, file, err);
}

int64_t mr_megatron_next(const mr_megatron *index, int64_t document, int64_t *sequence) {
    int64_t end = number_at(index->documents + 8 * (document + 1)), n = 0;
    for (; *sequence < end; (*sequence)++) {
        n += length_at(index, *sequence);
    }
    return n;
}
