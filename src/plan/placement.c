/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - the table of buckets, and how much of its items each holder keeps.
 *
 * An item's hash has two uses: its upper bits choose the bucket, its lower 32 say how soon the item
 * is left out where a holder has too little room. A holder keeps its items whose lower bits are
 * below its limit, which is a multiple of 1/1024 of all: the largest for which they fit. */
#include "plan/placement.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

enum { BUCKETS_PER_HOLDER = 64, MIN_BUCKET_BITS = 12, BIN_BITS = 10, BINS = 1 << BIN_BITS };

struct mr_placement {
    int32_t holders, replicas, bucket_bits;
    uint64_t salt;
    int32_t *bucket; /* its holder */
    uint64_t *limit; /* of each holder: lower bits below it are kept; 2^32: all */
};

/* ---- Hashes ---- */

static const uint64_t STEP = 0x9E3779B97F4A7C15u;

/* splitmix64's finalizer: a bijection that spreads every bit over all. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t item_hash(const mr_placement *p, int64_t item) {
    return mix(p->salt + (uint64_t)item * STEP);
}

static int32_t bucket_holder(const mr_placement *p, uint64_t hash) {
    return p->bucket[hash >> (64 - p->bucket_bits)];
}

/* ---- Quotas: buckets by capacity, remainders to the largest ---- */

typedef unsigned __int128 wide;

static wide total_capacity(const mr_placement_config *c) {
    wide total = 0;
    for (int32_t h = 0; c->capacity && h < c->holders; h++) {
        total += (uint64_t)c->capacity[h];
    }
    return total;
}

/* Nobody has room: then nothing is kept, but owners still take turns at reading. */
static uint64_t weight_of(const mr_placement_config *c, wide total, int32_t h) {
    return c->capacity && total > 0 ? (uint64_t)c->capacity[h] : 1;
}

static void set_quotas(const mr_placement_config *c, int64_t buckets, int64_t *quota) {
    wide capacity = total_capacity(c), total = capacity > 0 ? capacity : (wide)c->holders;
    int64_t left = buckets;
    for (int32_t h = 0; h < c->holders; h++) {
        quota[h] = (int64_t)((wide)weight_of(c, capacity, h) * (uint64_t)buckets / total);
        left -= quota[h];
    }
    /* Fewer than one for each holder are left. They go to the first ones with any weight: a
     * difference of one bucket in 64 or more. */
    for (int32_t h = 0; left > 0; h = (h + 1) % c->holders) {
        if (weight_of(c, capacity, h) > 0) {
            quota[h]++;
            left--;
        }
    }
}

/* ---- The table ---- */

typedef struct turn {
    int64_t at, skip; /* next bucket to try; skip is odd, so all are tried */
} turn;

static turn first_turn(const mr_placement *p, int64_t holder) {
    uint64_t offset = mix(p->salt ^ mix((uint64_t)holder * 2 + 1));
    uint64_t skip = mix(p->salt ^ mix((uint64_t)holder * 2 + 2));
    int64_t mask = ((int64_t)1 << p->bucket_bits) - 1;
    return (turn){.at = (int64_t)(offset >> 1) & mask, .skip = ((int64_t)(skip >> 1) & mask) | 1};
}

static void take_bucket(mr_placement *p, turn *t, int32_t holder) {
    int64_t mask = ((int64_t)1 << p->bucket_bits) - 1;
    while (p->bucket[t->at] >= 0) {
        t->at = (t->at + t->skip) & mask;
    }
    p->bucket[t->at] = holder;
}

/* In each round a holder takes its share of the largest quota's one bucket. */
static void fill_table(mr_placement *p, const int64_t *quota, turn *turns) {
    int64_t rounds = 0;
    for (int32_t h = 0; h < p->holders; h++) {
        rounds = quota[h] > rounds ? quota[h] : rounds;
        turns[h] = first_turn(p, h);
    }
    for (int64_t r = 0; r < rounds; r++) {
        for (int32_t h = 0; h < p->holders; h++) {
            if ((r + 1) * quota[h] / rounds > r * quota[h] / rounds) {
                take_bucket(p, &turns[h], h);
            }
        }
    }
}

static mr_status make_table(mr_placement *p, const mr_placement_config *c, mr_error *err) {
    int64_t buckets = (int64_t)1 << p->bucket_bits;
    p->bucket = mr_zalloc((size_t)buckets, sizeof *p->bucket);
    int64_t *quota = mr_zalloc((size_t)p->holders, sizeof *quota);
    turn *turns = mr_zalloc((size_t)p->holders, sizeof *turns);
    bool whole = p->bucket && quota && turns;
    if (whole) {
        for (int64_t b = 0; b < buckets; b++) {
            p->bucket[b] = -1;
        }
        set_quotas(c, buckets, quota);
        fill_table(p, quota, turns);
    }
    mr_free(quota);
    mr_free(turns);
    return whole ? MR_OK : mr_fail_memory(err, (size_t)buckets * sizeof *p->bucket);
}

/* ---- Who keeps what ---- */

static int32_t holder_of_copy(const mr_placement *p, uint64_t hash, int32_t replica) {
    int32_t chosen[MR_MAX_REPLICAS], n = 0;
    /* Holders with few buckets are met late; after so many tries there is nobody else, or as
     * good as nobody. */
    for (int64_t attempt = 0; attempt < 64 * (int64_t)MR_MAX_REPLICAS; attempt++) {
        int32_t holder = bucket_holder(p, attempt == 0 ? hash : mix(hash + (uint64_t)attempt)), i;
        for (i = 0; i < n && chosen[i] != holder; i++) {
        }
        if (i == n && n == replica) {
            return holder;
        }
        if (i == n) {
            chosen[n++] = holder;
        }
    }
    return -1;
}

static bool keeps(const mr_placement *p, uint64_t hash, int32_t holder) {
    return (hash & UINT32_MAX) < p->limit[holder];
}

static void count_item(const mr_placement *p, int64_t item, int64_t size, uint64_t *bins) {
    uint64_t hash = item_hash(p, item);
    for (int32_t r = 0; r < p->replicas; r++) {
        int32_t holder = holder_of_copy(p, hash, r);
        if (holder >= 0) {
            bins[(int64_t)holder * BINS + (int64_t)((hash & UINT32_MAX) >> (32 - BIN_BITS))] +=
                (uint64_t)size;
        }
    }
}

static uint64_t limit_of(const uint64_t *bins, int64_t capacity) {
    wide used = 0;
    for (uint64_t b = 0; b < BINS; b++) {
        used += bins[b];
        if (used > (wide)capacity) {
            return b << (32 - BIN_BITS);
        }
    }
    return (uint64_t)1 << 32;
}

static mr_status set_limits(mr_placement *p, const mr_placement_config *c, mr_error *err) {
    uint64_t *bins = mr_zalloc((size_t)p->holders * BINS, sizeof *bins);
    if (!bins) {
        return mr_fail_memory(err, (size_t)p->holders * BINS * sizeof *bins);
    }
    for (int64_t item = 0; item < c->items; item++) {
        count_item(p, item, c->size ? c->size(c->context, item) : c->item_bytes, bins);
    }
    for (int32_t h = 0; h < p->holders; h++) {
        p->limit[h] = c->capacity[h] > 0 ? limit_of(bins + (int64_t)h * BINS, c->capacity[h]) : 0;
    }
    mr_free(bins);
    return MR_OK;
}

static mr_status make_limits(mr_placement *p, const mr_placement_config *c, mr_error *err) {
    p->limit = mr_zalloc((size_t)p->holders, sizeof *p->limit);
    if (!p->limit) {
        return mr_fail_memory(err, (size_t)p->holders * sizeof *p->limit);
    }
    for (int32_t h = 0; h < p->holders; h++) {
        p->limit[h] = (uint64_t)1 << 32;
    }
    return c->capacity ? set_limits(p, c, err) : MR_OK;
}

/* ---- Placements ---- */

static mr_status check(const mr_placement_config *c, mr_error *err) {
    if (c->holders < 1 || c->holders > MR_MAX_HOLDERS) {
        return mr_fail(err, MR_E_PARAM, "cannot place samples on %d holders: from 1 to %d",
                       (int)c->holders, MR_MAX_HOLDERS);
    }
    if (c->replicas < 1 || c->replicas > MR_MAX_REPLICAS) {
        return mr_fail(err, MR_E_PARAM, "replicas is %d, but must be from 1 to %d",
                       (int)c->replicas, MR_MAX_REPLICAS);
    }
    for (int32_t h = 0; c->capacity && h < c->holders; h++) {
        if (c->capacity[h] < 0) {
            return mr_fail(err, MR_E_PARAM, "holder %d has a capacity of %lld bytes", (int)h,
                           (long long)c->capacity[h]);
        }
    }
    return MR_OK;
}

static int32_t bits_for(int32_t holders) {
    int32_t bits = MIN_BUCKET_BITS;
    while ((int64_t)1 << bits < (int64_t)holders * BUCKETS_PER_HOLDER) {
        bits++;
    }
    return bits;
}

mr_status mr_placement_open(mr_placement **out, const mr_placement_config *config, mr_error *err) {
    MR_TRY(check(config, err));
    mr_placement *p = mr_zalloc(1, sizeof *p);
    if (!p) {
        return mr_fail_memory(err, sizeof *p);
    }
    p->holders = config->holders;
    p->replicas = config->replicas;
    p->bucket_bits = bits_for(config->holders);
    p->salt = mix(config->seed + STEP);
    mr_status status = make_table(p, config, err);
    if (status == MR_OK) {
        status = make_limits(p, config, err);
    }
    if (status < 0) {
        mr_placement_free(p);
        return status;
    }
    *out = p;
    return MR_OK;
}

void mr_placement_free(mr_placement *placement) {
    if (placement) {
        mr_free(placement->bucket);
        mr_free(placement->limit);
        mr_free(placement);
    }
}

int32_t mr_placement_at(const mr_placement *placement, int64_t item, int32_t replica) {
    return holder_of_copy(placement, item_hash(placement, item), replica);
}

bool mr_placement_keeps(const mr_placement *placement, int64_t item, int32_t holder) {
    return keeps(placement, item_hash(placement, item), holder);
}

/* The owner does not keep it: perhaps one of the other copies' holders does. */
static int32_t other_keeper(const mr_placement *p, uint64_t hash) {
    for (int32_t r = 1; r < p->replicas; r++) {
        int32_t holder = holder_of_copy(p, hash, r);
        if (holder >= 0 && keeps(p, hash, holder)) {
            return holder;
        }
    }
    return -1;
}

void mr_placement_list(const mr_placement *placement, const mr_pick *picks, int64_t count,
                       int32_t *out) {
    for (int64_t k = 0; k < count; k++) {
        int64_t item = picks[k].block >= 0 ? picks[k].block : picks[k].sample;
        uint64_t hash = item_hash(placement, item);
        int32_t owner = bucket_holder(placement, hash);
        out[k] = keeps(placement, hash, owner) ? owner : other_keeper(placement, hash);
    }
}
