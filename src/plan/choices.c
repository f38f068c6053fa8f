/* SPDX-License-Identifier: Apache-2.0 */
/* choices.c - see choices.h. Little-endian words of 64 bits: step, places, draws; then each. */
#include "plan/choices.h"

#include <endian.h>
#include <millrace/millrace.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

enum { HEAD = 3 };

static size_t words_of(int64_t n_places, int64_t n_draws) {
    return HEAD + (size_t)n_places + 2 * (size_t)n_draws;
}

/* One piece of memory: the struct and its three lists. */
mr_status mr_choices_new(mr_choices **out, int64_t n_places, int64_t n_draws, mr_error *err) {
    const int64_t most = MR_CHOICES_MAX / 32;
    *out = NULL;
    if (n_places < 0 || n_draws < 0 || n_places > most || n_draws > most) {
        return mr_fail(err, MR_E_LIMIT, "a step with more than %lld samples", (long long)most);
    }
    size_t size = sizeof(mr_choices) + words_of(n_places, n_draws) * sizeof(uint64_t);
    mr_choices *c = mr_zalloc(1, size);
    if (!c) {
        return mr_fail_memory(err, size);
    }
    c->n_places = n_places;
    c->n_draws = n_draws;
    c->places = (int64_t *)(c + 1);
    c->draws = c->places + n_places;
    c->weights = (double *)(c->draws + n_draws);
    *out = c;
    return MR_OK;
}

void mr_choices_free(mr_choices *choices) {
    mr_free(choices);
}

size_t mr_choices_bytes(const mr_choices *c) {
    return words_of(c->n_places, c->n_draws) * sizeof(uint64_t);
}

/* ---- As bytes ---- */
static unsigned char *put(unsigned char *at, const void *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)words + i * sizeof word, sizeof word);
        word = htole64(word);
        memcpy(at + i * sizeof word, &word, sizeof word);
    }
    return at + n * sizeof(uint64_t);
}

void mr_choices_save(const mr_choices *c, unsigned char *out) {
    const int64_t head[HEAD] = {c->step, c->n_places, c->n_draws};
    unsigned char *at = put(out, head, HEAD);
    at = put(at, c->places, (size_t)c->n_places);
    at = put(at, c->draws, (size_t)c->n_draws);
    put(at, c->weights, (size_t)c->n_draws);
}

static const unsigned char *get(const unsigned char *at, void *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, at + i * sizeof word, sizeof word);
        word = le64toh(word);
        memcpy((unsigned char *)words + i * sizeof word, &word, sizeof word);
    }
    return at + n * sizeof(uint64_t);
}

mr_status mr_choices_load(mr_choices **out, const void *bytes, size_t size, mr_error *err) {
    int64_t head[HEAD] = {-1, -1, -1};
    const int64_t most = (int64_t)(size / sizeof(uint64_t));
    *out = NULL;
    if (size >= sizeof head) {
        get(bytes, head, HEAD);
    }
    if (head[0] < 0 || head[1] < 0 || head[2] < 0 || head[1] > most || head[2] > most ||
        words_of(head[1], head[2]) * sizeof(uint64_t) != size) {
        return mr_fail(err, MR_E_CORRUPT, "an entry of %zu bytes has no choices", size);
    }
    mr_choices *c = NULL;
    mr_status status = mr_choices_new(&c, head[1], head[2], err);
    if (!c) {
        return status;
    }
    const unsigned char *at = (const unsigned char *)bytes + sizeof head;
    c->step = head[0];
    at = get(at, c->places, (size_t)head[1]);
    at = get(at, c->draws, (size_t)head[2]);
    get(at, c->weights, (size_t)head[2]);
    *out = c;
    return MR_OK;
}
