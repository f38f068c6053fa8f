/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_rig.h - two ways to decode the same JPEG: with our codecs before libjpeg-turbo, and with
 * libjpeg-turbo alone. Whole, in parts, with and without an index, with and without SIMD, the
 * answers must be the same: status, message, byte, pixels. Shared by the unit test and the fuzzer.
 */
#ifndef MR_JPEG_RIG_H
#define MR_JPEG_RIG_H

#include "codecs/codec.h"
#include "core/cpu.h"
#include "core/memory.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Codecs of ours, to be left out. */
#define RIG_OURS "jpeg_baseline,jpeg_progressive"

/* ---- Numbers from a seed (SplitMix64) ---- */
static inline uint64_t rig_draw(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* From 0 to n - 1. */
static inline int64_t rig_below(uint64_t *state, int64_t n) {
    return (int64_t)(rig_draw(state) % (uint64_t)n);
}

/* ---- One answer ---- */
typedef struct rig_way {
    const char *without;
    uint32_t cpu;
    bool lenient, verify;
    int32_t channels;
    int64_t max_pixels;
    const mr_region *part; /* NULL: the whole image at once */
    mr_index index;
    bool wants_better;
} rig_way;

typedef struct rig_answer {
    mr_status status;
    mr_error err;
    mr_image_header header;
    uint8_t *pixels; /* NULL unless MR_OK */
    size_t size;
    uint8_t *better; /* NULL: none */
    size_t better_size;
} rig_answer;

static inline void rig_free(rig_answer *answer) {
    free(answer->pixels);
    free(answer->better);
}

typedef struct rig_rows {
    uint8_t *out;
    size_t row_size;
    int64_t next, end;
    bool in_order;
} rig_rows;

static inline mr_status rig_take_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    rig_rows *rows = user;
    (void)err;
    rows->in_order = rows->in_order && y == rows->next && y < rows->end;
    if (rows->in_order) {
        memcpy(rows->out, pixels, rows->row_size);
        rows->out += rows->row_size;
        rows->next++;
    }
    return MR_OK;
}

static inline void rig_pixels(const mr_image_file *file, const rig_way *way, rig_answer *a) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena, .kernels = mr_kernels_for(way->cpu)};
    mr_index better = {0};
    mr_decode_request request = {.width = a->header.width,
                                 .height = a->header.height,
                                 .channels = way->channels,
                                 .lenient = way->lenient,
                                 .verify = way->verify,
                                 .call = &call,
                                 .index = way->index,
                                 .better = way->wants_better ? &better : NULL};
    const mr_region all = {.width = a->header.width, .height = a->header.height};
    const mr_region *part = way->part ? way->part : &all;
    a->size = (size_t)(part->width * part->height) * (size_t)way->channels;
    a->pixels = malloc(a->size);
    memset(a->pixels, 0xA5, a->size);
    if (way->part) {
        rig_rows rows = {a->pixels, (size_t)part->width * (size_t)way->channels, part->y,
                         part->y + part->height, true};
        const mr_rows to = {.row = rig_take_row, .user = &rows};
        a->status = mr_image_file_part(file, &request, part, &to, &a->err);
        if (!rows.in_order || (a->status == MR_OK && rows.next != rows.end)) {
            a->status = MR_E_INTERNAL;
        }
    } else {
        request.out = a->pixels;
        a->status = mr_image_file_decode(file, &request, &a->err);
    }
    if (better.size > 0) {
        a->better = malloc(better.size);
        memcpy(a->better, better.data, better.size);
        a->better_size = better.size;
    }
    mr_arena_free(&arena);
}

static inline rig_answer rig_decode(const uint8_t *bytes, size_t size, const rig_way *way) {
    rig_answer a = {.err = MR_ERROR_INIT};
    mr_image_file file = {.bytes = bytes, .size = size, .without = way->without};
    a.status = mr_image_file_open(&file, way->max_pixels, way->lenient, &a.err);
    if (a.status == MR_OK) {
        a.header = file.header;
        rig_pixels(&file, way, &a);
    }
    if (a.status != MR_OK) {
        free(a.pixels);
        a.pixels = NULL;
    }
    return a;
}

static inline bool rig_same_header(const mr_image_header *a, const mr_image_header *b) {
    return a->width == b->width && a->height == b->height && a->orientation == b->orientation;
}

static inline bool rig_same(const rig_answer *a, const rig_answer *b) {
    return a->status == b->status && rig_same_header(&a->header, &b->header) &&
           (a->status == MR_OK
                ? memcmp(a->pixels, b->pixels, a->size) == 0
                : strcmp(a->err.text, b->err.text) == 0 && a->err.offset == b->err.offset);
}

/* ---- All ways ---- */
static inline uint32_t rig_cpu(void) {
    uint32_t cpu = 0;
    mr_cpu_features(NULL, &cpu, NULL);
    return cpu;
}

static inline void rig_complain(const char *what, const rig_way *way, const rig_answer *expected,
                                const rig_answer *actual) {
    const mr_region none = {0}, *p = way->part ? way->part : &none;
    size_t at = 0;
    while (expected->status == MR_OK && actual->status == MR_OK && at < expected->size &&
           expected->pixels[at] == actual->pixels[at]) {
        at++;
    }
    fprintf(stderr,
            "%s: %lld x %lld, part %lld,%lld %lldx%lld, channels %d, cpu %u, lenient %d, verify "
            "%d: libjpeg says %d \"%s\" at %lld, ours %d \"%s\" at %lld, byte %zu\n",
            what, (long long)expected->header.width, (long long)expected->header.height,
            (long long)p->x, (long long)p->y, (long long)p->width, (long long)p->height,
            way->channels, way->cpu, way->lenient, way->verify, expected->status,
            expected->err.text, (long long)expected->err.offset, actual->status, actual->err.text,
            (long long)actual->err.offset, at);
}

static inline mr_region rig_part(uint64_t *state, const mr_image_header *header) {
    mr_region r;
    r.x = rig_below(state, header->width);
    r.y = rig_below(state, header->height);
    r.width = 1 + rig_below(state, header->width - r.x);
    r.height = 1 + rig_below(state, header->height - r.y);
    return r;
}

/* Whether an index of some quality changes the answer. */
static inline bool rig_compare_indexed(const uint8_t *bytes, size_t size, rig_way way,
                                       const rig_answer *expected, rig_answer *first,
                                       uint64_t *state) {
    size_t index_size = first->better_size;
    uint8_t *index = malloc(index_size + 1);
    memcpy(index, first->better, index_size);
    bool same = true;
    for (int kind = 0; kind < 4; kind++) { /* whole, with a flipped bit, cut off, whole again */
        size_t at = (size_t)rig_below(state, (int64_t)index_size);
        uint8_t flip = (uint8_t)(kind == 1 ? 1u << rig_below(state, 8) : 0);
        index[at] ^= flip;
        way.index = (mr_index){index, kind == 2 ? at : index_size};
        way.wants_better = kind == 3;
        rig_answer again = rig_decode(bytes, size, &way);
        if (!rig_same(expected, &again)) {
            rig_complain(kind == 0 ? "with index" : "with damaged index", &way, expected, &again);
            same = false;
        }
        rig_free(&again);
        index[at] ^= flip;
    }
    free(index);
    return same;
}

/* One way, with libjpeg-turbo alone and with our codecs; with an index where there is one. */
static inline bool rig_compare_way(const uint8_t *bytes, size_t size, rig_way way,
                                   uint64_t *state) {
    way.without = RIG_OURS;
    rig_answer expected = rig_decode(bytes, size, &way);
    way.without = NULL;
    way.wants_better = true;
    rig_answer actual = rig_decode(bytes, size, &way);
    bool same = rig_same(&expected, &actual);
    if (!same) {
        rig_complain(way.part ? "part" : "whole", &way, &expected, &actual);
    } else if (actual.better) {
        same = rig_compare_indexed(bytes, size, way, &expected, &actual, state);
    }
    rig_free(&expected);
    rig_free(&actual);
    return same;
}

/* An index made for the whole file, used for a part of it. */
static inline bool rig_compare_packed(const uint8_t *bytes, size_t size, rig_way way) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena, .kernels = mr_kernels_for(way.cpu)};
    mr_image_file file = {.bytes = bytes, .size = size};
    mr_index index = {0};
    bool same = true;
    if (mr_image_file_open(&file, way.max_pixels, way.lenient, NULL) == MR_OK &&
        mr_image_file_index(&file, &call, &index, NULL) == MR_OK) {
        way.without = RIG_OURS;
        rig_answer expected = rig_decode(bytes, size, &way);
        way.without = NULL;
        way.index = index;
        rig_answer actual = rig_decode(bytes, size, &way);
        same = rig_same(&expected, &actual);
        if (!same) {
            rig_complain("with packed index", &way, &expected, &actual);
        }
        rig_free(&expected);
        rig_free(&actual);
    }
    mr_arena_free(&arena);
    return same;
}

/* `parts` random parts, and the whole, each in a mode of its own. */
static inline bool rig_compare(const uint8_t *bytes, size_t size, int parts, int64_t max_pixels,
                               uint64_t state) {
    mr_image_file file = {.bytes = bytes, .size = size, .without = RIG_OURS};
    bool same = true, readable = mr_image_file_open(&file, max_pixels, true, NULL) == MR_OK;
    for (int i = 0; same && i <= (readable ? parts : 0); i++) {
        uint64_t mode = rig_draw(&state);
        rig_way way = {.cpu = mode & 3 ? rig_cpu() : 0,
                       .lenient = mode >> 2 & 1,
                       .verify = mode >> 3 & 1,
                       .channels = mode >> 4 & 3 ? 3 : 1,
                       .max_pixels = max_pixels};
        mr_region part;
        if (i > 0) {
            part = rig_part(&state, &file.header);
            way.part = &part;
        }
        same = rig_compare_way(bytes, size, way, &state) &&
               (i != 1 || rig_compare_packed(bytes, size, way));
    }
    return same;
}

#endif
