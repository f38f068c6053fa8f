/* SPDX-License-Identifier: Apache-2.0 */
/* hash_bucket.c - the op hash_bucket: words or ids to one of n numbers, without a vocabulary. */
#include "ops/numbers.h"
#include "ops/words.h"

#include "core/hash.h"

typedef struct hash_bucket_params {
    int64_t buckets;
    int64_t seed;
} hash_bucket_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    if (!mr_is_whole(in->dtype)) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs words (uint8) or whole numbers, not %s",
                       mr_type_text(in, text, sizeof text));
    }
    if (in->dtype == MR_U8) {
        return mr_words_plan(in, out, err);
    }
    *out = *in;
    out->dtype = MR_I64;
    out->layout = MR_PLAIN;
    return MR_OK;
}

static int64_t bucket_of(const hash_bucket_params *p, const void *bytes, size_t size) {
    return (int64_t)(mr_hash64(bytes, size, (uint64_t)p->seed) % (uint64_t)p->buckets);
}

static void hash_words(int64_t *out, const mr_view *in, size_t n, const hash_bucket_params *p) {
    for (size_t i = 0; i < n; i++) {
        mr_word word = mr_word_at(in, i);
        out[i] = bucket_of(p, word.bytes, word.size);
    }
}

static void hash_numbers(int64_t *out, mr_dtype dtype, const void *in, size_t n,
                         const hash_bucket_params *p) {
    for (size_t i = 0; i < n; i++) {
        int64_t value = mr_load_whole(dtype, in, i);
        out[i] = bucket_of(p, &value, sizeof value);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)call;
    (void)err;
    if (in->type.dtype == MR_U8) {
        hash_words(out->data, in, mr_words_count(in), params);
    } else {
        hash_numbers(out->data, in->type.dtype, in->data, mr_count(in), params);
    }
    return MR_OK;
}

/* x % d by multiplication, a tenth of the time: the quotient comes out right or one too small. */
static uint64_t remainder_of(uint64_t x, uint64_t d, uint64_t reciprocal) {
    uint64_t quotient = (uint64_t)((unsigned __int128)x * reciprocal >> 64),
             rest = x - quotient * d;
    return rest >= d ? rest - d : rest;
}

/* Rows that are a word each. */
static void hash_pieces(const hash_bucket_params *p, int64_t n, const mr_piece *in,
                        const mr_column *out) {
    enum { TILE = 256 };
    uint64_t hashes[TILE], d = (uint64_t)p->buckets, reciprocal = UINT64_MAX / d;
    unsigned char *to = out->data;
    for (int64_t first = 0; first < n; first += TILE) {
        size_t count = (size_t)(n - first < TILE ? n - first : TILE);
        mr_hash64_pieces(in + first, count, (uint64_t)p->seed, hashes);
        for (size_t i = 0; i < count; i++, to += out->stride) {
            uint64_t bucket = remainder_of(hashes[i], d, reciprocal);
            memcpy(to, &bucket, sizeof bucket);
        }
    }
}

/* A word is a row, a number is by itself. */
static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    if (in->pieces && in->type.dtype == MR_U8 && in->type.n_dims == 1) {
        hash_pieces(params, n, in->pieces, out);
        return MR_OK;
    }
    return mr_run_each(run, in->type.dtype != MR_U8, params, call, n, in, out, err);
}

static const mr_param rows[] = {
    {.name = "buckets",
     .kind = MR_PARAM_INT,
     .offset = offsetof(hash_bucket_params, buckets),
     .min = 1,
     .max = 9007199254740992.0,
     .doc = "How many numbers there are: results go from 0 to one less."},
    {.name = "seed",
     .kind = MR_PARAM_INT,
     .offset = offsetof(hash_bucket_params, seed),
     .fallback = "0",
     .min = 0,
     .max = 9007199254740992.0,
     .doc = "Another seed, another hash."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"buckets\": 1000}", "bytes:6d696c6c72616365", "90620ac79adaf2a177e51ce8c08a54ca"},
    {"{\"buckets\": 1000, \"seed\": 7}", "uint8:3x8", "7c927020f130009d338a68246e304e66"},
    {"{\"buckets\": 97}", "int32:5", "4000ca8c95a3d02d3b2cf3146d73e505"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_hash_bucket = {
    MR_OP_HEADER,
    .name = "hash_bucket",
    .summary = "Turns words or ids into one of n numbers by their hash.",
    .doc = "XXH3's 64 bits with the seed, modulo buckets; equal to the xxhash package's "
           "xxh3_64_intdigest(word, seed) % buckets. uint8[n] is one word; uint8[..., w] are words "
           "filled up with zeros, which are left out. Whole numbers are hashed as 8 little-endian "
           "bytes.",
    .flags = MR_OP_TOTAL,
    .version = 1,
    .param_size = sizeof(hash_bucket_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
