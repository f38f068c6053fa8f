/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - the values of a page, in each of the format's encodings.
 *
 * Values come out in the physical form: numbers and fixed bytes as they are stored, booleans as
 * bytes, strings as pointer and length. */
#include <string.h>

#include "parquet/parts.h"

#define SOME                                                                                       \
    1024 /* indices that are unpacked before they are looked up: they stay in the cache            \
          */

mr_status mr_pq_damaged(mr_pq_chunk_state *state, int32_t encoding) {
    return mr_fail(state->err, MR_E_CORRUPT, "a page in encoding %s is damaged",
                   mr_pq_encoding_name(encoding));
}

/* ---- PLAIN ---- */
/* Strings that are all of the first one's length lie where that says: none waits for the length of
 * the one before. false: they are not, and `out` is not to be used. */
static bool even_strings(mr_pq_bytes bytes, mr_pq_bytes *out, int64_t n) {
    uint32_t size = n > 0 && bytes.size >= 4 ? mr_pq_load_u32(bytes.data) : 0, differ = 0;
    size_t step = (size_t)size + 4, whole;
    if (__builtin_mul_overflow((size_t)n, step, &whole) || whole != bytes.size) {
        return false;
    }
    const uint8_t *at = bytes.data;
    for (int64_t i = 0; i < n; i++, at += step) {
        differ |= mr_pq_load_u32(at) ^ size;
        out[i] = (mr_pq_bytes){at + 4, size};
    }
    return differ == 0;
}

static bool plain_strings(mr_pq_bytes bytes, mr_pq_bytes *out, int64_t n) {
    const uint8_t *at = bytes.data, *end = at + bytes.size;
    if (even_strings(bytes, out, n)) {
        return true;
    }
    for (int64_t i = 0; i < n; i++) {
        if (end - at < 4) {
            return false;
        }
        uint32_t size = mr_pq_load_u32(at);
        at += 4;
        if (size > (size_t)(end - at)) {
            return false;
        }
        out[i] = (mr_pq_bytes){at, size};
        at += size;
    }
    return true;
}

static bool plain(const mr_pq_chunk_state *state, mr_pq_bytes bytes, void *out, int64_t n) {
    size_t count = (size_t)n, size;
    if (state->column->physical == MR_PQ_BYTES) {
        return plain_strings(bytes, out, n);
    }
    if (state->column->physical == MR_PQ_BOOLEAN) {
        if ((count + 7) / 8 > bytes.size) {
            return false;
        }
        state->decoder->kernels->unpack_bits(out, bytes.data, count);
        return true;
    }
    if (__builtin_mul_overflow(count, state->width, &size) || size > bytes.size) {
        return false;
    }
    if (size > 0) {
        memcpy(out, bytes.data, size);
    }
    return true;
}

/* ---- Dictionaries ---- */
/* Two indices are loaded at once: one by one they take as many loads as the entries. The gather
 * instructions of AVX2 and AVX-512 take 1.5 to 2 times as long as this. */
static inline __attribute__((always_inline)) void
look_up_width(uint8_t *out, const uint8_t *table, const uint32_t *index, size_t n, size_t width) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4, out += 4 * width) {
        uint64_t two, next;
        memcpy(&two, index + i, sizeof two);
        memcpy(&next, index + i + 2, sizeof next);
        memcpy(out, table + (uint32_t)two * width, width);
        memcpy(out + width, table + (two >> 32) * width, width);
        memcpy(out + 2 * width, table + (uint32_t)next * width, width);
        memcpy(out + 3 * width, table + (next >> 32) * width, width);
    }
    for (; i < n; i++, out += width) {
        memcpy(out, table + index[i] * width, width);
    }
}

static void look_up(const mr_pq_chunk_state *state, uint8_t *out, const uint32_t *index, size_t n) {
    const uint8_t *table = state->dictionary;
    switch (state->width) {
    case 4:
        look_up_width(out, table, index, n, 4);
        break;
    case 8:
        look_up_width(out, table, index, n, 8);
        break;
    case 16:
        look_up_width(out, table, index, n, 16);
        break;
    default:
        look_up_width(out, table, index, n, state->width);
    }
}

/* The same entry n times: copies that double, up to what the nearest cache holds. */
static void repeat(uint8_t *out, const uint8_t *entry, size_t width, size_t n) {
    size_t all = n * width, done = width, most = width > 4096 ? width : 4096 - 4096 % width;
    memcpy(out, entry, width);
    while (done < all) {
        size_t here = done < most ? done : most;
        here = here < all - done ? here : all - done;
        memcpy(out + done, out, here);
        done += here;
    }
}

mr_status mr_pq_move_dictionary(mr_pq_chunk_state *state) {
    size_t size = (size_t)(state->in_place ? state->n_dictionary : 0) * state->width;
    uint8_t *memory =
        state->in_place ? mr_pq_scratch_take(&state->decoder->dictionary, size) : NULL;
    if (!state->in_place) {
        return MR_OK;
    }
    if (!memory) {
        return mr_fail_memory(state->err, size);
    }
    state->dictionary = memcpy(memory, state->dictionary, size);
    state->in_place = false;
    return MR_OK;
}

/* Whether entries `index` are those that lie at `to` already. A writer numbers values as they come
 * up, so a column whose values are all different is its dictionary. */
static bool is_there(const mr_pq_chunk_state *state, const uint8_t *to, const uint32_t *index,
                     size_t n) {
    size_t place = (size_t)(to - (const uint8_t *)state->dictionary) / state->width;
    return state->decoder->kernels->counts_up(index, n, (uint32_t)place) &&
           place + n <= (size_t)state->n_dictionary;
}

/* n entries of the dictionary, which is not the place that they go to. False: there are not so
 * many. */
static bool copy_entries(const mr_pq_chunk_state *state, uint8_t *to, const uint32_t *index,
                         size_t n) {
    uint64_t entries = state->n_dictionary < 0 ? 0 : (uint64_t)state->n_dictionary;
    if (state->decoder->kernels->largest(index, n) >= entries) {
        return false;
    }
    look_up(state, to, index, n);
    return true;
}

static mr_status packed_entries(mr_pq_chunk_state *state, mr_pq_runs *runs, uint8_t *to,
                                int64_t n) {
    uint32_t index[SOME];
    if (!mr_pq_runs_u32(runs, index, n)) {
        return mr_pq_damaged(state, MR_PQ_RLE_DICTIONARY);
    }
    if (state->in_place && is_there(state, to, index, (size_t)n)) {
        return MR_OK;
    }
    MR_TRY(mr_pq_move_dictionary(state));
    return copy_entries(state, to, index, (size_t)n) ? MR_OK
                                                     : mr_pq_damaged(state, MR_PQ_RLE_DICTIONARY);
}

static mr_status repeated_entry(mr_pq_chunk_state *state, mr_pq_runs *runs, uint8_t *to,
                                int64_t n) {
    if (runs->value >= (uint64_t)(state->n_dictionary < 0 ? 0 : state->n_dictionary)) {
        return mr_pq_damaged(state, MR_PQ_RLE_DICTIONARY);
    }
    MR_TRY(mr_pq_move_dictionary(state));
    repeat(to, (const uint8_t *)state->dictionary + runs->value * state->width, state->width,
           (size_t)n);
    runs->left -= n;
    return MR_OK;
}

static mr_status dictionary(mr_pq_chunk_state *state, mr_pq_bytes bytes, void *out, int64_t n) {
    uint8_t *to = out;
    if (n == 0) {
        return MR_OK;
    }
    if (bytes.size < 1) {
        return mr_pq_damaged(state, MR_PQ_RLE_DICTIONARY);
    }
    mr_pq_runs runs = mr_pq_runs_of((mr_pq_bytes){bytes.data + 1, bytes.size - 1}, bytes.data[0],
                                    state->decoder->kernels);
    while (n > 0) {
        if (!mr_pq_runs_next(&runs)) {
            return mr_pq_damaged(state, MR_PQ_RLE_DICTIONARY);
        }
        int64_t here = n < runs.left ? n : runs.left;
        here = runs.packed && here > SOME ? SOME : here;
        MR_TRY(runs.packed ? packed_entries(state, &runs, to, here)
                           : repeated_entry(state, &runs, to, here));
        to += (size_t)here * state->width;
        n -= here;
    }
    return MR_OK;
}

/* ---- RLE: booleans, behind their length ---- */
static bool rle_booleans(const mr_pq_chunk_state *state, mr_pq_bytes bytes, void *out, int64_t n) {
    if (state->column->physical != MR_PQ_BOOLEAN || bytes.size < 4) {
        return n == 0;
    }
    uint32_t size = mr_pq_load_u32(bytes.data);
    if (size > bytes.size - 4) {
        return false;
    }
    mr_pq_runs runs =
        mr_pq_runs_of((mr_pq_bytes){bytes.data + 4, size}, 1, state->decoder->kernels);
    if (!mr_pq_runs_u8(&runs, out, n)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        ((uint8_t *)out)[i] &= 1; /* a run's value has a whole byte */
    }
    return true;
}

/* ---- Differences ---- */
static bool delta_integers(const mr_pq_chunk_state *state, mr_pq_bytes bytes, void *out,
                           int64_t n) {
    const uint8_t *at = bytes.data;
    bool integer = state->column->physical == MR_PQ_INT32 || state->column->physical == MR_PQ_INT64;
    return integer && mr_pq_delta(state->decoder->kernels, &at, at + bytes.size,
                                  (int32_t)state->width, out, n);
}

/* Lengths, then all bytes. *at goes behind the lengths; false: damaged, or no memory. */
static const int32_t *take_lengths(const mr_pq_chunk_state *state, mr_pq_scratch *scratch,
                                   const uint8_t **at, const uint8_t *end, int64_t n) {
    int32_t *lengths = (int32_t *)(void *)mr_pq_scratch_take(scratch, (size_t)n * sizeof *lengths);
    return lengths && mr_pq_delta(state->decoder->kernels, at, end, 4, lengths, n) ? lengths : NULL;
}

static bool delta_lengths(const mr_pq_chunk_state *state, mr_pq_bytes bytes, mr_pq_bytes *out,
                          int64_t n) {
    const uint8_t *at = bytes.data, *end = at + bytes.size;
    if (state->column->physical != MR_PQ_BYTES) {
        return false;
    }
    const int32_t *lengths = take_lengths(state, &state->decoder->lengths, &at, end, n);
    for (int64_t i = 0; lengths && i < n; i++) {
        if (lengths[i] < 0 || lengths[i] > end - at) {
            return false;
        }
        out[i] = (mr_pq_bytes){at, (size_t)lengths[i]};
        at += lengths[i];
    }
    return lengths;
}

/* Each string is the beginning of the one before and bytes of its own; so strings are made anew, in
 * memory whose size the lengths tell. */
typedef struct fronts {
    const int32_t *prefix, *suffix;
    const uint8_t *at, *end;
    uint64_t total;
} fronts;

static bool check_fronts(fronts *f, int64_t n) {
    int64_t before = 0, own = 0;
    for (int64_t i = 0; i < n; i++) {
        if (f->prefix[i] < 0 || f->suffix[i] < 0 || f->prefix[i] > before) {
            return false;
        }
        before = (int64_t)f->prefix[i] + f->suffix[i];
        own += f->suffix[i];
        f->total += (uint64_t)before;
    }
    return own <= f->end - f->at;
}

static mr_status delta_strings(mr_pq_chunk_state *state, mr_pq_bytes bytes, void *out, int64_t n) {
    fronts f = {.at = bytes.data, .end = bytes.data + bytes.size};
    bool fixed = state->column->physical == MR_PQ_FIXED;
    f.prefix = take_lengths(state, &state->decoder->prefixes, &f.at, f.end, n);
    f.suffix = f.prefix ? take_lengths(state, &state->decoder->lengths, &f.at, f.end, n) : NULL;
    if ((!fixed && state->column->physical != MR_PQ_BYTES) || !f.suffix || !check_fronts(&f, n)) {
        return mr_pq_damaged(state, MR_PQ_DELTA_BYTE_ARRAY);
    }
    uint8_t *to = fixed ? out : mr_pq_own(state, (size_t)f.total + 1, 1);
    const uint8_t *before = to;
    if (!to) {
        return MR_E_MEMORY;
    }
    for (int64_t i = 0; i < n; i++) {
        size_t prefix = (size_t)f.prefix[i], suffix = (size_t)f.suffix[i];
        if (fixed && prefix + suffix != state->width) {
            return mr_pq_damaged(state, MR_PQ_DELTA_BYTE_ARRAY);
        }
        memmove(to, before, prefix);
        memcpy(to + prefix, f.at, suffix);
        if (!fixed) {
            ((mr_pq_bytes *)out)[i] = (mr_pq_bytes){to, prefix + suffix};
        }
        f.at += suffix;
        before = to;
        to += prefix + suffix;
    }
    return MR_OK;
}

static bool split_bytes(const mr_pq_chunk_state *state, mr_pq_bytes bytes, void *out, int64_t n) {
    mr_pq_physical physical = state->column->physical;
    size_t size;
    if (physical == MR_PQ_BOOLEAN || physical == MR_PQ_INT96 || physical == MR_PQ_BYTES ||
        __builtin_mul_overflow((size_t)n, state->width, &size) || size != bytes.size) {
        return false;
    }
    state->decoder->kernels->join_bytes(out, bytes.data, (size_t)n, state->width);
    return true;
}

mr_status mr_pq_values(mr_pq_chunk_state *state, int32_t encoding, mr_pq_bytes bytes, void *out,
                       int64_t n) {
    bool right = false;
    switch (encoding) {
    case MR_PQ_PLAIN:
        right = plain(state, bytes, out, n);
        break;
    case MR_PQ_PLAIN_DICTIONARY:
    case MR_PQ_RLE_DICTIONARY:
        return dictionary(state, bytes, out, n);
    case MR_PQ_RLE:
        right = rle_booleans(state, bytes, out, n);
        break;
    case MR_PQ_DELTA_BINARY_PACKED:
        right = delta_integers(state, bytes, out, n);
        break;
    case MR_PQ_DELTA_LENGTH_BYTE_ARRAY:
        right = delta_lengths(state, bytes, out, n);
        break;
    case MR_PQ_DELTA_BYTE_ARRAY:
        return delta_strings(state, bytes, out, n);
    case MR_PQ_BYTE_STREAM_SPLIT:
        right = split_bytes(state, bytes, out, n);
        break;
    default:
        return mr_fail(state->err, MR_E_UNSUPPORTED, "values are in encoding %s (%d)",
                       mr_pq_encoding_name(encoding), encoding);
    }
    return right ? MR_OK : mr_pq_damaged(state, encoding);
}
