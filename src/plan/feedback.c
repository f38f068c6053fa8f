/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.c - see feedback.h. One piece of memory holds the head and all lists. */
#include "plan/feedback.h"

#include <endian.h>
#include <millrace/millrace.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

enum { HEAD = 5 }; /* words */

static bool is_too_much(int64_t n, bool has_values, int64_t width) {
    return n < 0 || width < 0 || n > MR_FEEDBACK_MAX / 16 || width > MR_FEEDBACK_MAX / 4 ||
           (n > 0 && (4 * width + 8 + 8 * (int64_t)has_values) > MR_FEEDBACK_MAX / n);
}

mr_status mr_said_new(mr_said **out, int64_t n, bool has_values, int64_t width, mr_error *err) {
    *out = NULL;
    if (is_too_much(n, has_values, width)) {
        return mr_fail(err, MR_E_LIMIT, "feedback of so many samples at once is too much");
    }
    size_t ids = (size_t)n * sizeof(uint64_t), values = has_values ? ids : 0;
    size_t size = sizeof(mr_said) + ids + values + (size_t)(n * width) * sizeof(float);
    mr_said *said = mr_zalloc(1, size);
    if (!said) {
        return mr_fail_memory(err, size);
    }
    said->n = n;
    said->width = width;
    said->has_values = has_values;
    said->ids = (uint64_t *)(said + 1);
    said->values = (double *)(said->ids + n);
    said->extra = (float *)((char *)said->values + values);
    *out = said;
    return MR_OK;
}

void mr_said_free(mr_said *said) {
    mr_free(said);
}

size_t mr_said_bytes(const mr_said *said) {
    return 8 * (size_t)(HEAD + said->n * (1 + said->has_values)) +
           4 * (size_t)(said->n * said->width);
}

static unsigned char *put64(unsigned char *out, uint64_t word) {
    word = htole64(word);
    memcpy(out, &word, sizeof word);
    return out + sizeof word;
}

static uint64_t get64(const unsigned char **at) {
    uint64_t word;
    memcpy(&word, *at, sizeof word);
    *at += sizeof word;
    return le64toh(word);
}

void mr_said_save(const mr_said *said, unsigned char *out) {
    out = put64(out, (uint64_t)said->step);
    out = put64(out, (uint64_t)said->after);
    out = put64(out, (uint64_t)said->n);
    out = put64(out, (uint64_t)said->width);
    out = put64(out, said->has_values);
    for (int64_t i = 0; i < said->n; i++) {
        out = put64(out, said->ids[i]);
    }
    for (int64_t i = 0; said->has_values && i < said->n; i++) {
        uint64_t bits;
        memcpy(&bits, &said->values[i], sizeof bits);
        out = put64(out, bits);
    }
    for (int64_t i = 0; i < said->n * said->width; i++, out += 4) {
        uint32_t bits;
        memcpy(&bits, &said->extra[i], sizeof bits);
        bits = htole32(bits);
        memcpy(out, &bits, sizeof bits);
    }
}

static void load_lists(mr_said *said, const unsigned char *at) {
    for (int64_t i = 0; i < said->n; i++) {
        said->ids[i] = get64(&at);
    }
    for (int64_t i = 0; said->has_values && i < said->n; i++) {
        uint64_t bits = get64(&at);
        memcpy(&said->values[i], &bits, sizeof bits);
    }
    for (int64_t i = 0; i < said->n * said->width; i++, at += 4) {
        uint32_t bits;
        memcpy(&bits, at, sizeof bits);
        bits = le32toh(bits);
        memcpy(&said->extra[i], &bits, sizeof bits);
    }
}

mr_status mr_said_load(mr_said **out, const void *bytes, size_t size, mr_error *err) {
    const unsigned char *at = bytes;
    *out = NULL;
    if (size < 8 * (size_t)HEAD) {
        return mr_fail(err, MR_E_CORRUPT, "an entry of %zu bytes is no feedback", size);
    }
    int64_t step = (int64_t)get64(&at), after = (int64_t)get64(&at);
    int64_t n = (int64_t)get64(&at), width = (int64_t)get64(&at);
    uint64_t has_values = get64(&at);
    if (step < 0 || after < -1 || has_values > 1 || is_too_much(n, has_values == 1, width) ||
        8 * (size_t)(HEAD + n * (1 + (int64_t)has_values)) + 4 * (size_t)(n * width) != size) {
        return mr_fail(err, MR_E_CORRUPT, "an entry of %zu bytes is no feedback", size);
    }
    mr_status status = mr_said_new(out, n, has_values == 1, width, err);
    if (*out) {
        (*out)->step = step;
        (*out)->after = after;
        load_lists(*out, at);
    }
    return status;
}
