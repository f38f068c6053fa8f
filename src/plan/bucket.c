/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.c - see bucket.h. */
#include "plan/bucket.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/order.h"

#include <millrace/millrace.h>

enum { KEPT = 2 };

/* What one lane has of one stretch, sorted. */
typedef struct part {
    bool made;
    uint32_t epoch;
    int64_t stretch;
    int64_t used;    /* the cursor's clock when it was asked for last */
    mr_pick *picks;  /* in the bucket's order */
    uint32_t *place; /* of each in the lane's own order */
} part;

struct mr_bucket_cursor {
    const mr_bucketing *bucket;
    mr_pick_lister lister;
    part *parts; /* KEPT for each lane */
    int64_t clock;
    /* For the making of one part: */
    mr_pick *own;
    uint64_t *keys, *other; /* length above, place below */
    uint32_t *group_of;
    int64_t *next; /* of each group: where its next sample goes */
};

/* Of a lane in a whole stretch, rounded up. */
static size_t room_of(const mr_bucketing *bucket) {
    return (size_t)((bucket->stretch + bucket->lanes - 1) / bucket->lanes);
}

void mr_bucket_widen(const mr_bucketing *bucket, int64_t *first, int64_t *end) {
    int64_t last = *end - 1, epoch = last / bucket->length;
    int64_t behind = (last % bucket->length / bucket->stretch + 1) * bucket->stretch;
    *first -= *first % bucket->length % bucket->stretch;
    *end = epoch * bucket->length + (behind < bucket->length ? behind : bucket->length);
}

/* ---- Sorting ---- */

/* By one byte of the length; what is equal stays in order. */
static void sort_by_byte(const uint64_t *from, uint64_t *to, int64_t n, int shift) {
    int64_t first[257] = {0};
    for (int64_t i = 0; i < n; i++) {
        first[(from[i] >> shift & 255) + 1]++;
    }
    for (int b = 0; b < 256; b++) {
        first[b + 1] += first[b];
    }
    for (int64_t i = 0; i < n; i++) {
        to[first[from[i] >> shift & 255]++] = from[i];
    }
}

/* Bytes in which the lengths do not differ need no pass. */
static void sort_keys(mr_bucket_cursor *cursor, int64_t n) {
    uint64_t differing = 0;
    for (int64_t i = 1; i < n; i++) {
        differing |= cursor->keys[i] ^ cursor->keys[0];
    }
    for (int shift = 32; shift < 64; shift += 8) {
        if (differing >> shift & 255) {
            uint64_t *sorted = cursor->other;
            sort_by_byte(cursor->keys, sorted, n, shift);
            cursor->other = cursor->keys;
            cursor->keys = sorted;
        }
    }
}

static void make_keys(mr_bucket_cursor *cursor, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const mr_pick *pick = &cursor->own[i];
        uint64_t length = cursor->bucket->lengths[pick->child][pick->sample];
        cursor->keys[i] = length << 32 | (uint64_t)i;
    }
}

/* ---- Stretches ---- */

/* Where each of n groups begins, in a lane that has `each` samples of a group. */
static mr_status order_groups(mr_bucket_cursor *cursor, uint32_t epoch, int64_t stretch, int64_t n,
                              int64_t each, mr_error *err) {
    const mr_bucketing *bucket = cursor->bucket;
    mr_order order = {0};
    if (n == 0) {
        return MR_OK;
    }
    MR_TRY(bucket->shuffle ? mr_order_init_keyed(&order, n, bucket->seed, epoch,
                                                 mr_op_word("bucket", 0), (uint64_t)stretch, err)
                           : mr_order_init(&order, n, false, 0, 0, err));
    for (int64_t i = 0; i < n; i++) {
        cursor->next[mr_order_at(&order, i)] = i * each;
    }
    mr_order_free(&order);
    return MR_OK;
}

static void put(part *made, const mr_bucket_cursor *cursor, int64_t from, int64_t to) {
    made->picks[to] = cursor->own[from];
    made->place[to] = (uint32_t)from;
}

/* `count` samples of a lane in n groups of `each`, and what is left over. */
static void deal(mr_bucket_cursor *cursor, part *made, int64_t n, int64_t each, int64_t count) {
    int64_t sorted = n * each;
    make_keys(cursor, sorted);
    sort_keys(cursor, sorted);
    for (int64_t i = 0; i < sorted; i++) {
        cursor->group_of[(uint32_t)cursor->keys[i]] = (uint32_t)(i / each);
    }
    for (int64_t i = 0; i < count; i++) {
        put(made, cursor, i, i < sorted ? cursor->next[cursor->group_of[i]]++ : i);
    }
}

static mr_status make_part(mr_bucket_cursor *cursor, part *made, uint32_t epoch, int64_t stretch,
                           int32_t lane, mr_error *err) {
    const mr_bucketing *bucket = cursor->bucket;
    int64_t lanes = bucket->lanes, first = stretch * bucket->stretch;
    int64_t left = bucket->length - first, length = left < bucket->stretch ? left : bucket->stretch;
    int64_t count = (length - lane + lanes - 1) / lanes;
    int64_t n_groups = length / bucket->group, each = bucket->group / lanes;
    const mr_positions own = {first + lane, count, 1, lanes};
    MR_TRY(cursor->lister.list(cursor->lister.user, epoch, &own, cursor->own, err));
    MR_TRY(order_groups(cursor, epoch, stretch, n_groups, each, err));
    deal(cursor, made, n_groups, each, count);
    made->epoch = epoch;
    made->stretch = stretch;
    made->made = true;
    return MR_OK;
}

static mr_status take_memory(const mr_bucket_cursor *cursor, part *one, mr_error *err) {
    size_t room = room_of(cursor->bucket);
    one->picks = one->picks ? one->picks : mr_zalloc(room, sizeof *one->picks);
    one->place = one->place ? one->place : mr_zalloc(room, sizeof *one->place);
    return one->picks && one->place ? MR_OK : mr_fail_memory(err, room * sizeof *one->picks);
}

/* The part that has a position of an epoch, made in place of the one not asked for longest. */
static mr_status find_part(mr_bucket_cursor *cursor, uint32_t epoch, int64_t position, part **out,
                           mr_error *err) {
    const mr_bucketing *bucket = cursor->bucket;
    int64_t stretch = position / bucket->stretch;
    int32_t lane = (int32_t)(position % bucket->lanes);
    part *parts = cursor->parts + (int64_t)lane * KEPT, *oldest = parts;
    for (int i = 0; i < KEPT; i++) {
        if (parts[i].made && parts[i].epoch == epoch && parts[i].stretch == stretch) {
            parts[i].used = ++cursor->clock;
            *out = &parts[i];
            return MR_OK;
        }
        oldest = parts[i].used < oldest->used ? &parts[i] : oldest;
    }
    oldest->made = false;
    MR_TRY(take_memory(cursor, oldest, err));
    MR_TRY(make_part(cursor, oldest, epoch, stretch, lane, err));
    oldest->used = ++cursor->clock;
    *out = oldest;
    return MR_OK;
}

/* The place of a position in its part. */
static int64_t index_of(const mr_bucketing *bucket, int64_t position) {
    return position % bucket->stretch / bucket->lanes;
}

mr_status mr_bucket_list(mr_bucket_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                         mr_pick *picks, mr_error *err) {
    for (int64_t k = 0; k < positions->count; k++) {
        int64_t position = mr_positions_at(positions, k) % cursor->bucket->length;
        part *one = NULL;
        MR_TRY(find_part(cursor, epoch, position, &one, err));
        picks[k] = one->picks[index_of(cursor->bucket, position)];
    }
    return MR_OK;
}

mr_status mr_bucket_origin(mr_bucket_cursor *cursor, uint32_t epoch, int64_t position, int64_t *out,
                           mr_error *err) {
    const mr_bucketing *bucket = cursor->bucket;
    part *one = NULL;
    MR_TRY(find_part(cursor, epoch, position, &one, err));
    int64_t place = one->place[index_of(bucket, position)];
    *out = position - position % bucket->stretch + place * bucket->lanes + position % bucket->lanes;
    return MR_OK;
}

/* ---- Cursors ---- */

mr_status mr_bucket_cursor_open(mr_bucket_cursor **out, const mr_bucketing *bucket,
                                const mr_pick_lister *lister, mr_error *err) {
    size_t room = room_of(bucket), groups = (size_t)(bucket->stretch / bucket->group);
    mr_bucket_cursor *cursor = mr_zalloc(1, sizeof *cursor);
    if (!cursor) {
        return mr_fail_memory(err, sizeof *cursor);
    }
    cursor->bucket = bucket;
    cursor->lister = *lister;
    cursor->parts = mr_zalloc((size_t)bucket->lanes * KEPT, sizeof *cursor->parts);
    cursor->own = mr_zalloc(room, sizeof *cursor->own);
    cursor->keys = mr_zalloc(room, sizeof *cursor->keys);
    cursor->other = mr_zalloc(room, sizeof *cursor->other);
    cursor->group_of = mr_zalloc(room, sizeof *cursor->group_of);
    cursor->next = mr_zalloc(groups, sizeof *cursor->next);
    if (!cursor->parts || !cursor->own || !cursor->keys || !cursor->other || !cursor->group_of ||
        !cursor->next) {
        mr_bucket_cursor_free(cursor);
        return mr_fail_memory(err, room * sizeof *cursor->own);
    }
    *out = cursor;
    return MR_OK;
}

void mr_bucket_cursor_free(mr_bucket_cursor *cursor) {
    if (!cursor) {
        return;
    }
    for (int64_t i = 0; cursor->parts && i < (int64_t)cursor->bucket->lanes * KEPT; i++) {
        mr_free(cursor->parts[i].picks);
        mr_free(cursor->parts[i].place);
    }
    mr_free(cursor->parts);
    mr_free(cursor->own);
    mr_free(cursor->keys);
    mr_free(cursor->other);
    mr_free(cursor->group_of);
    mr_free(cursor->next);
    mr_free(cursor);
}
