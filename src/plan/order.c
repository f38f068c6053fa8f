/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - the order of an epoch: Fisher-Yates for small sets, a Feistel permutation for large.
 *
 * A Feistel permutation computes any position by itself, so neither memory nor start-up time grows
 * with the dataset; on small domains, however, it reaches only some of the n! orders, so small
 * sets get the exact shuffle.
 *
 * The usual Feistel network works on a power of two, and up to half of its values must be walked
 * over. Here a position is a cell of a grid of left x right, both close to the square root of n,
 * and a round adds modulo left or right in place of the exclusive or. The grid has fewer than
 * sqrt(n) + 1 cells too many, so a walk is rare.
 *
 * Changing anything here changes every shuffled run there ever was: tests/unit/test_order.c pins
 * values. */
#include "plan/order.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"

#include <millrace/millrace.h>

/* The op word keeps these draws apart from those of every op; the sample's place in the counter
 * holds the number of the swap or of the round in its low 17 bits, and above them the low 31 bits
 * of the order's number, whose other 16 bits are the draw. */
typedef struct order_key {
    mr_key key; /* without the swap or round */
    uint32_t draw;
} order_key;

static order_key key_of_order(uint64_t seed, uint32_t epoch, uint32_t op, uint64_t number) {
    mr_key key = {.seed = seed, .epoch = epoch, .op = op, .sample = (number & 0x7fffffffu) << 17};
    return (order_key){key, (uint32_t)(number >> 31)};
}

static mr_key key_at(const order_key *key, uint32_t i) {
    mr_key at = key->key;
    at.sample |= i;
    return at;
}

/* Inside out: fills and shuffles in one pass. A draw of 64 bits is scaled to [0, i] as
 * mr_draw_below does, which is uneven by less than 2^-47 and needs no rejection. */
static void fisher_yates(uint32_t *table, uint32_t n, const order_key *order) {
    enum { CHUNK = 64 };
    uint64_t draws[CHUNK];
    for (uint32_t i = 0; i < n; i++) {
        if (i % CHUNK == 0) {
            mr_key key = key_at(order, i);
            mr_draw_u64_run(&key, order->draw, n - i < CHUNK ? n - i : CHUNK, draws);
        }
        uint32_t j = (uint32_t)((unsigned __int128)draws[i % CHUNK] * (i + 1) >> 64);
        table[i] = table[j];
        table[j] = i;
    }
}

/* The smallest number whose square is at least n; n <= 2^48. */
static uint32_t root_above(uint64_t n) {
    uint64_t below = 0;
    for (uint64_t bit = (uint64_t)1 << 23; bit > 0; bit >>= 1) {
        if ((below + bit) * (below + bit) < n) {
            below += bit;
        }
    }
    return (uint32_t)(below + 1);
}

static void feistel_init(mr_order *order, const order_key *base) {
    order->left = root_above((uint64_t)order->n);
    order->right = (uint32_t)((order->n + order->left - 1) / order->left);
    for (uint32_t i = 0; i < MR_FEISTEL_ROUNDS; i++) {
        mr_key key = key_at(base, i);
        order->round_keys[i] = mr_draw_u64(&key, base->draw);
    }
}

/* A number in [0, size) from one half of a cell; size <= 2^24. Multiplication carries every bit
 * upwards, the shift brings the top back down, and 40 bits from the top are scaled to the range:
 * uneven by less than 2^-15. */
static inline uint32_t round_value(uint32_t half, uint64_t key, uint32_t size) {
    uint64_t mixed = (key ^ half) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
    return (uint32_t)(((mixed >> 24) * size) >> 40);
}

static inline uint32_t add_modulo(uint32_t a, uint32_t b, uint32_t size) {
    uint32_t sum = a + b;
    return sum >= size ? sum - size : sum;
}

/* A permutation of [0, left * right). */
static uint64_t feistel(const mr_order *order, uint64_t cell) {
    uint32_t l = (uint32_t)(cell / order->right), r = (uint32_t)(cell % order->right);
    for (int i = 0; i < MR_FEISTEL_ROUNDS; i += 2) {
        l = add_modulo(l, round_value(r, order->round_keys[i], order->left), order->left);
        r = add_modulo(r, round_value(l, order->round_keys[i + 1], order->right), order->right);
    }
    return (uint64_t)l * order->right + r;
}

static mr_status check_size(int64_t n, mr_error *err) {
    if (n < 1 || n > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_LIMIT, "cannot order %lld samples: from 1 to %lld are possible",
                       (long long)n, (long long)MR_MAX_SAMPLES);
    }
    return MR_OK;
}

mr_status mr_order_init_keyed(mr_order *order, int64_t n, uint64_t seed, uint32_t epoch,
                              uint32_t op, uint64_t number, mr_error *err) {
    MR_TRY(check_size(n, err));
    mr_order made = {.n = n, .shuffle = true};
    order_key key = key_of_order(seed, epoch, op, number);
    if (n <= MR_ORDER_TABLE_MAX) {
        made.table = mr_zalloc((size_t)n, sizeof *made.table);
        if (!made.table) {
            return mr_fail_memory(err, (size_t)n * sizeof *made.table);
        }
        fisher_yates(made.table, (uint32_t)n, &key);
    } else {
        feistel_init(&made, &key);
    }
    *order = made;
    return MR_OK;
}

mr_status mr_order_init(mr_order *order, int64_t n, bool shuffle, uint64_t seed, uint32_t epoch,
                        mr_error *err) {
    if (shuffle) {
        return mr_order_init_keyed(order, n, seed, epoch, mr_op_word("order", 0), 0, err);
    }
    MR_TRY(check_size(n, err));
    *order = (mr_order){.n = n};
    return MR_OK;
}

void mr_order_free(mr_order *order) {
    mr_free(order->table);
    order->table = NULL;
}

int64_t mr_order_at(const mr_order *order, int64_t position) {
    if (!order->shuffle) {
        return position;
    }
    if (order->table) {
        return order->table[position];
    }
    /* A cell at or beyond n stands for no sample: walk along its cycle. The cycle comes back to
     * [0, n), where it started, so the walk ends. */
    uint64_t cell = (uint64_t)position;
    do {
        cell = feistel(order, cell);
    } while (cell >= (uint64_t)order->n);
    return (int64_t)cell;
}

/* A round waits for the one before it; those of several cells do not wait for each other. All lanes
 * are computed alike, so that one body serves for a few of them and for registers full of them. */
enum { LANES = 4, WIDE_LANES = 32 };

static inline __attribute__((always_inline)) void
feistel_lanes(const mr_order *order, uint64_t first, uint32_t lanes, uint64_t *out) {
    uint32_t l[WIDE_LANES], r[WIDE_LANES], left = order->left, right = order->right;
    uint32_t row = (uint32_t)(first / right), column = (uint32_t)(first % right);
    for (uint32_t k = 0; k < lanes; k++) { /* right is far above the number of lanes */
        bool next_row = column + k >= right;
        l[k] = row + next_row;
        r[k] = column + k - (next_row ? right : 0);
    }
    for (int i = 0; i < MR_FEISTEL_ROUNDS; i += 2) {
        uint64_t key = order->round_keys[i], next_key = order->round_keys[i + 1];
        for (uint32_t k = 0; k < lanes; k++) {
            l[k] = add_modulo(l[k], round_value(r[k], key, left), left);
            r[k] = add_modulo(r[k], round_value(l[k], next_key, right), right);
        }
    }
    for (uint32_t k = 0; k < lanes; k++) {
        out[k] = (uint64_t)l[k] * right + r[k];
    }
}

static void walk_on(const mr_order *order, int64_t first, const uint64_t *cells, uint32_t lanes,
                    int64_t *out) {
    for (uint32_t k = 0; k < lanes; k++) {
        bool sample = cells[k] < (uint64_t)order->n;
        out[k] = sample ? (int64_t)cells[k] : mr_order_at(order, first + k);
    }
}

static void list_lanes(const mr_order *order, int64_t first, int64_t *out) {
    uint64_t cells[LANES];
    feistel_lanes(order, (uint64_t)first, LANES, cells);
    walk_on(order, first, cells, LANES, out);
}

#if defined(__x86_64__)
/* Multiplying eight numbers of 64 bits at once makes this three times as fast. */
__attribute__((target("avx512f,avx512dq,avx512vl"))) static int64_t
list_wide(const mr_order *order, int64_t first, int64_t count, int64_t *out) {
    uint64_t cells[WIDE_LANES];
    int64_t k = 0;
    for (; count - k >= WIDE_LANES; k += WIDE_LANES) {
        feistel_lanes(order, (uint64_t)(first + k), WIDE_LANES, cells);
        walk_on(order, first + k, cells, WIDE_LANES, out + k);
    }
    return k;
}

static bool has_wide(void) {
    return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
static int64_t list_wide(const mr_order *order, int64_t first, int64_t count, int64_t *out) {
    (void)order, (void)first, (void)count, (void)out;
    return 0;
}

static bool has_wide(void) {
    return false;
}
#endif

/* The samples at `count` positions of which none is behind the last. */
static void list_run(const mr_order *order, int64_t first, int64_t count, int64_t *out) {
    int64_t k = 0;
    if (order->shuffle && !order->table) {
        k = has_wide() ? list_wide(order, first, count, out) : 0;
        for (; count - k >= LANES; k += LANES) {
            list_lanes(order, first + k, out + k);
        }
    }
    for (; k < count; k++) {
        out[k] = mr_order_at(order, first + k);
    }
}

void mr_order_list(const mr_order *order, int64_t first, int64_t count, int64_t *out) {
    for (int64_t k = 0; k < count;) {
        int64_t left = order->n - first, run = count - k < left ? count - k : left;
        list_run(order, first, run, out + k);
        first = 0;
        k += run;
    }
}

int64_t mr_order_substitute(int64_t n, uint64_t seed, uint32_t epoch, int64_t position,
                            uint32_t attempt) {
    mr_key key = {.seed = seed,
                  .epoch = epoch,
                  .op = mr_op_word("substitute", 0),
                  .sample = (uint64_t)position};
    return mr_draw_below(&key, attempt & 0xffffu, n);
}
