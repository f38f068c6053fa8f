/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_scans.c - Huffman decoder of progressive files.
 *
 * Four kinds of scans: of DC or of AC, the first of its coefficients or one that adds a bit to
 * each. First scans are read as baseline data are. One that refines AC has a bit for every
 * coefficient that is not 0 already, between the codes of those that become so: taking these one by
 * one, with a branch for each, is most of libjpeg's time. Here a number of 64 bits says which
 * coefficients of a block are not 0. How many a code passes is then counted at once, their bits are
 * taken at once, and spread to their places by one instruction. */
#include "codecs/jpeg_scans.h"

#include "codecs/jpeg_bits.h"
#include "core/cpu.h"

enum {
    CHUNK = 32,                  /* blocks, or MCUs of DC: read from bytes that are all there */
    LOOKUPS = 3,                 /* after a refill */
    CERTAIN = 56,                /* bits after a refill */
    SYMBOL_BITS = 17,            /* of a code that refines, with its sign */
    ORDER = MR_JPEG_BLOCK + 256, /* an entry leads up to 255 places on from any of a block */
};
_Static_assert(LOOKUPS *MR_JPEG_BITS_MAX <= CERTAIN, "a refill is enough for so many");
#define REST ((UINT64_C(1) << MR_JPEG_REST_BITS) - 1)
#define TOP (UINT64_C(1) << 63)

/* A block of each MCU. */
typedef struct mcu_block {
    int16_t *first; /* of the first MCU */
    uint64_t *nonzero;
    int64_t step, row_step; /* blocks from one MCU to the next, and to the one below */
    const mr_jpeg_dc_table *dc;
    int32_t component;
} mcu_block;

/* A scan that is being read. */
typedef struct job {
    mr_jpeg_scan *scan;
    const mr_jpeg_scan_tables *tables;
    int64_t width, height; /* MCUs */
    int32_t n_blocks;
    mcu_block blocks[MR_JPEG_MCU_BLOCKS];
    int32_t low;
    uint32_t ended;      /* blocks to come that have no more */
    uint64_t band;       /* AC coefficients that are told, as bits of `nonzero` */
    int32_t unused;      /* how many come behind the band */
    const uint8_t *from; /* the first of the band, in `order` */
    /* Places of coefficients, so that those of the band end at 64. Behind that lies DC, which is
     * put back afterwards. */
    uint8_t order[ORDER];
} job;

/* Some MCUs of a row. */
typedef bool (*reader)(job *j, int64_t row, int64_t column, int64_t n);

static int64_t block_of(const mcu_block *p, int64_t row, int64_t column) {
    return row * p->row_step + column * p->step;
}

/* What bytes there are; an MCU may take more, which are 0, before this is seen. */
static const uint8_t *limit_of(const job *j) {
    return j->scan->data + j->scan->filled + sizeof j->scan->bits.buffer;
}

/* ---- DC ---- */
INLINE bool dc_first(job *j, int64_t row, int64_t column, int64_t n) {
    mr_jpeg_bits bits = j->scan->bits;
    const uint8_t *limit = limit_of(j);
    for (int64_t i = 0; i < n; i++) {
        int32_t beyond = 0; /* 16 bits */
        for (int32_t k = 0; k < j->n_blocks; k++) {
            const mcu_block *p = &j->blocks[k];
            int64_t at = block_of(p, row, column + i);
            int16_t *block = p->first + at * MR_JPEG_BLOCK;
            int32_t difference;
            if (!mr_jpeg_dc_difference(&bits, p->dc, &difference)) {
                return false;
            }
            int32_t dc = j->scan->predictors[p->component] += difference;
            int32_t shifted = (int32_t)((uint32_t)dc << j->low);
            beyond |= (dc ^ (int16_t)dc) | (shifted ^ (int16_t)shifted);
            mr_jpeg_clear_block(block);
            block[0] = (int16_t)shifted;
            p->nonzero[at] = 0;
        }
        if (beyond != 0 || bits.next > limit) {
            return false;
        }
    }
    j->scan->bits = bits;
    return true;
}

/* A bit of each block. */
INLINE bool dc_refine(job *j, int64_t row, int64_t column, int64_t n) {
    mr_jpeg_bits bits = j->scan->bits;
    for (int64_t i = 0; i < n; i++) {
        mr_jpeg_refill(&bits);
        for (int32_t k = 0; k < j->n_blocks; k++) {
            const mcu_block *p = &j->blocks[k];
            int16_t *block = p->first + block_of(p, row, column + i) * MR_JPEG_BLOCK;
            block[0] = (int16_t)(block[0] | (int32_t)(bits.buffer >> 63) << j->low);
            mr_jpeg_consume(&bits, 1);
        }
        if (bits.next > limit_of(j)) {
            return false;
        }
    }
    j->scan->bits = bits;
    return true;
}

/* ---- The first scan of AC ---- */

/* Where in a block the decoder is. */
typedef struct block_state {
    int16_t *block;
    const uint8_t *order, *at; /* `at`: in `order` */
    const uint8_t *next;       /* where the last lookup leads: past the end if it was not taken */
    uint64_t number;           /* its entry */
    uint64_t found;            /* its coefficients; the last of the band is the lowest bit */
    uint64_t nonzero;          /* those that were taken */
} block_state;

/* A value goes to its place. Where there is none it is 0. */
INLINE uint64_t put(block_state *s, uint32_t place, int32_t value, int32_t low) {
    const uint8_t *at = s->at + place;
    s->block[*at] = (int16_t)((uint32_t)value << low);
    return (uint64_t)(value != 0) << ((s->order + MR_JPEG_BLOCK - 1 - at) & 63);
}

INLINE uint64_t apply(block_state *s, const mr_jpeg_ac_entry *entry, uint64_t rest, int32_t low) {
    int32_t first = entry->first + (int32_t)(rest >> (entry->shift & 63));
    return put(s, entry->place[0], first, low) | put(s, entry->place[1], entry->second, low);
}

/* Up to `n` lookups; false: the last one was not taken. See jpeg_entropy.c for why an entry is read
 * twice. */
INLINE bool look_up(mr_jpeg_bits *b, const mr_jpeg_first_table *table, block_state *s, int32_t low,
                    int n) {
#pragma GCC unroll 5
    for (int i = 0; i < n; i++) {
        size_t index = b->buffer >> MR_JPEG_REST_BITS, same = index;
        __asm__("" : "+r"(same));
        const mr_jpeg_ac_entry *entry = &table->lookup[same];
        s->number = table->lookup[index].number;
        s->next = s->at + entry->leads;
        s->found = apply(s, entry, b->buffer & REST, low);
        if (__builtin_expect(s->next >= s->order + MR_JPEG_BLOCK, 0)) {
            return false;
        }
        s->nonzero |= s->found;
        s->at = s->next;
        mr_jpeg_consume(b, s->number);
    }
    return true;
}

INLINE bool ends_there(int64_t k) {
    return (k == MR_JPEG_BLOCK) | ((uint64_t)k - MR_JPEG_END < MR_JPEG_BLOCK);
}

/* A symbol that the lookup does not hold. */
typedef struct single {
    uint32_t bits; /* 0: something is wrong */
    uint32_t run;
    int32_t value;  /* 0: none, but 16 zeros */
    uint32_t ended; /* blocks that have no more, with this one; 0: it goes on */
} single;

static __attribute__((noinline)) single single_first(const mr_jpeg_code_book *book, uint64_t buffer,
                                                     int32_t low) {
    uint32_t length = mr_jpeg_code_length(book, buffer);
    if (length == 0) {
        return (single){0};
    }
    uint32_t symbol = mr_jpeg_symbol_of(book, buffer, length), size = symbol & 15,
             run = symbol >> 4;
    buffer <<= length;
    if (size == 0 && run < 15) {
        uint32_t more = (uint32_t)(buffer >> 1 >> (63 - run));
        return (single){.bits = length + run, .ended = (1u << run) + more};
    }
    if (size > (uint32_t)(MR_JPEG_VALUE_BITS - low)) {
        return (single){0};
    }
    return (single){
        .bits = length + size, .run = run, .value = size > 0 ? mr_jpeg_value_of(buffer, size) : 0};
}

/* Returns how many blocks have no more, with this one: at least 1; 0: something is wrong. An entry
 * may hold a symbol of the next block where the first one fills this block: taken singly then. */
INLINE uint32_t first_block(mr_jpeg_bits *b, const mr_jpeg_first_table *table, block_state *s,
                            int32_t low) {
    const uint8_t *end = s->order + MR_JPEG_BLOCK;
    for (;;) {
        do {
            mr_jpeg_refill(b);
        } while (look_up(b, table, s, low, LOOKUPS));
        if (__builtin_expect(ends_there(s->next - s->order), 1)) {
            mr_jpeg_consume(b, s->number);
            s->nonzero |= s->found;
            return 1;
        }
        mr_jpeg_refill(b);
        single one = single_first(&table->book, b->buffer, low);
        mr_jpeg_consume(b, one.bits);
        if (one.bits == 0 || one.ended > 0) {
            return one.ended;
        }
        s->nonzero |= put(s, one.run, one.value, low);
        s->at += one.run + 1;
        if (s->at >= end) {
            return s->at == end;
        }
    }
}

INLINE bool ac_first(job *j, int64_t row, int64_t column, int64_t n) {
    const mcu_block *p = &j->blocks[0];
    mr_jpeg_bits bits = j->scan->bits;
    uint32_t ended = j->ended;
    const uint8_t *limit = limit_of(j), *from = j->from, *order = j->order;
    int64_t at = block_of(p, row, column), end = at + n;
    while (at < end) {
        if (ended > 0) {
            int64_t skipped = end - at < ended ? end - at : ended;
            ended -= (uint32_t)skipped;
            at += skipped;
            continue;
        }
        int16_t *block = p->first + at * MR_JPEG_BLOCK, dc = block[0];
        block_state s = {.block = block, .order = order, .at = from};
        ended = first_block(&bits, &j->tables->first, &s, j->low);
        block[0] = dc;
        p->nonzero[at++] |= s.nonzero << j->unused;
        if (ended-- == 0 || bits.next > limit) {
            return false;
        }
    }
    j->ended = ended;
    j->scan->bits = bits;
    return true;
}

/* ---- A scan that refines AC ---- */

/* The lowest bits go to the places of a mask, from its lowest on. */
INLINE uint64_t spread(uint64_t bits, uint64_t mask, const bool bmi2) {
    uint64_t out = 0;
#if defined(__x86_64__)
    if (bmi2) {
        __asm__("pdep %2, %1, %0" : "=r"(out) : "r"(bits), "r"(mask));
        return out;
    }
#endif
    for (; mask; mask &= mask - 1, bits >>= 1) {
        out |= bits & 1 ? mask & -mask : 0;
    }
    return out;
}

/* The one of a mask that lies behind `run` others, from the uppermost on. `which` is how many come
 * from it on, as the uppermost bit of so many. */
INLINE uint64_t choose(uint64_t mask, uint32_t run, uint64_t which, const bool bmi2) {
    if (bmi2) {
        return spread(which, mask, true);
    }
    for (; run > 0; run--) {
        mask &= ~(TOP >> __builtin_clzll(mask));
    }
    return TOP >> __builtin_clzll(mask);
}

/* A bit for each of a mask, the first for its uppermost. At least `certain` bits are there. */
INLINE uint64_t take_bits(mr_jpeg_bits *b, uint64_t mask, int32_t certain, const bool bmi2) {
    int32_t n = __builtin_popcountll(mask);
    uint64_t out = 0;
    while (__builtin_expect(n > certain, 0)) {
        uint64_t bit = TOP >> __builtin_clzll(mask);
        mr_jpeg_refill(b);
        out |= b->buffer >> 63 ? bit : 0;
        mr_jpeg_consume(b, 1);
        mask &= ~bit;
        n--;
        certain = CERTAIN - 1;
    }
    out |= spread(b->buffer >> 1 >> (63 - n), mask, bmi2);
    mr_jpeg_consume(b, (uint64_t)n);
    return out;
}

static __attribute__((noinline)) mr_jpeg_refine_entry single_refine(const mr_jpeg_code_book *book,
                                                                    uint64_t buffer) {
    uint32_t length = mr_jpeg_code_length(book, buffer);
    if (length == 0) {
        return (mr_jpeg_refine_entry){0};
    }
    mr_jpeg_refine_entry entry =
        mr_jpeg_refine_symbol(length, (uint8_t)mr_jpeg_symbol_of(book, buffer, length));
    if (entry.kind == MR_JPEG_NEW) {
        entry.negative = !(buffer << length >> 63);
        entry.bits++;
    }
    return entry;
}

/* A block as it is, and what is refined. */
typedef struct refined {
    int16_t *block;
    uint64_t nonzero, band;
    uint64_t larger; /* by a bit, away from 0 */
    int32_t step;    /* that bit */
} refined;

/* Returns as first_block. `ended`: this block has no codes. */
INLINE uint32_t refine_block(mr_jpeg_bits *b, const mr_jpeg_refine_table *table, refined *r,
                             uint32_t ended, const bool bmi2) {
    uint64_t nonzero = r->nonzero & r->band, zeros = r->band & ~nonzero, rest = r->band;
    uint64_t first = UINT64_C(1) << __builtin_popcountll(zeros) >> 1; /* see choose() */
    while (ended == 0 && rest != 0) {
        mr_jpeg_refill(b);
        mr_jpeg_refine_entry entry = table->lookup[b->buffer >> MR_JPEG_REST_BITS];
        if (__builtin_expect(entry.kind == MR_JPEG_UNKNOWN, 0)) {
            entry = single_refine(&table->book, b->buffer);
            if (entry.kind == MR_JPEG_UNKNOWN) {
                return 0;
            }
        }
        mr_jpeg_consume(b, entry.number);
        if (entry.kind == MR_JPEG_LAST) {
            ended = (1u << entry.run) + (uint32_t)(b->buffer >> 1 >> (63 - entry.run));
            mr_jpeg_consume(b, entry.run);
            break;
        }
        first >>= entry.run;
        if (first == 0) {
            return 0;
        }
        uint64_t bit = choose(zeros, entry.run, first, bmi2), below = bit - 1;
        r->larger |= take_bits(b, rest & nonzero & ~below, CERTAIN - SYMBOL_BITS, bmi2);
        if (__builtin_expect(entry.kind == MR_JPEG_NEW, 1)) {
            r->block[mr_jpeg_natural[__builtin_clzll(bit)]] =
                (int16_t)(entry.negative ? -r->step : r->step);
            r->nonzero |= bit;
        }
        first >>= 1;
        zeros &= below;
        rest &= below;
    }
    mr_jpeg_refill(b);
    r->larger |= take_bits(b, rest & nonzero, CERTAIN, bmi2);
    return ended > 0 ? ended : 1;
}

INLINE void enlarge(const refined *r) {
    for (uint64_t left = r->larger; left;) {
        int k = __builtin_clzll(left);
        int16_t *value = &r->block[mr_jpeg_natural[k]];
        *value = (int16_t)(*value + (*value < 0 ? -r->step : r->step));
        left &= ~(TOP >> k);
    }
}

INLINE bool ac_refine(job *j, int64_t row, int64_t column, int64_t n, const bool bmi2) {
    const mcu_block *p = &j->blocks[0];
    mr_jpeg_bits bits = j->scan->bits;
    uint32_t ended = j->ended;
    const uint8_t *limit = limit_of(j);
    int64_t at = block_of(p, row, column);
    for (int64_t end = at + n; at < end; at++) {
        refined r = {.block = p->first + at * MR_JPEG_BLOCK,
                     .nonzero = p->nonzero[at],
                     .band = j->band,
                     .step = 1 << j->low};
        ended = refine_block(&bits, &j->tables->refine, &r, ended, bmi2);
        if (ended-- == 0 || bits.next > limit) {
            return false;
        }
        p->nonzero[at] = r.nonzero;
        enlarge(&r);
    }
    j->ended = ended;
    j->scan->bits = bits;
    return true;
}

/* ---- By what the machine has ---- */
static bool dc_first_plain(job *j, int64_t row, int64_t column, int64_t n) {
    return dc_first(j, row, column, n);
}

static bool dc_refine_plain(job *j, int64_t row, int64_t column, int64_t n) {
    return dc_refine(j, row, column, n);
}

static bool ac_first_plain(job *j, int64_t row, int64_t column, int64_t n) {
    return ac_first(j, row, column, n);
}

static bool ac_refine_plain(job *j, int64_t row, int64_t column, int64_t n) {
    return ac_refine(j, row, column, n, false);
}

typedef struct readers {
    reader dc[2], ac[2]; /* the first scan, one that refines */
} readers;

static const readers plain = {{dc_first_plain, dc_refine_plain}, {ac_first_plain, ac_refine_plain}};

#if defined(__x86_64__)
#define BMI2 __attribute__((target("bmi,bmi2,popcnt,lzcnt")))
BMI2 static bool dc_first_bmi2(job *j, int64_t row, int64_t column, int64_t n) {
    return dc_first(j, row, column, n);
}

BMI2 static bool ac_first_bmi2(job *j, int64_t row, int64_t column, int64_t n) {
    return ac_first(j, row, column, n);
}

BMI2 static bool ac_refine_bmi2(job *j, int64_t row, int64_t column, int64_t n) {
    return ac_refine(j, row, column, n, true);
}

static const readers bmi2 = {{dc_first_bmi2, dc_refine_plain}, {ac_first_bmi2, ac_refine_bmi2}};
/* Where pdep is a loop inside of the CPU it takes longer than ours. */
static const readers slow_pdep = {{dc_first_bmi2, dc_refine_plain},
                                  {ac_first_bmi2, ac_refine_plain}};

static const readers *readers_for(const mr_kernels *kernels) {
    bool old = __builtin_cpu_is("amdfam15h") || __builtin_cpu_is("amdfam17h");
    return !(kernels->cpu & MR_CPU_AVX2) ? &plain : old ? &slow_pdep : &bmi2;
}
#else
static const readers *readers_for(const mr_kernels *kernels) {
    (void)kernels;
    return &plain;
}
#endif

/* ---- A scan ---- */
static bool make_tables(mr_jpeg_scans *scans, const mr_jpeg_progression *g) {
    const mr_jpeg_frame *frame = scans->frame;
    mr_jpeg_scan_tables *tables = &scans->tables;
    for (int32_t i = 0; i < g->n_components && g->from == 0 && g->high == 0; i++) {
        int32_t table = frame->components[g->components[i]].dc;
        if (table >= MR_JPEG_TABLES || !frame->dc[table] ||
            !mr_jpeg_make_dc(&tables->dc[i], frame->dc[table])) {
            return false;
        }
    }
    if (g->from == 0) {
        return true;
    }
    int32_t table = frame->components[g->components[0]].ac;
    if (table >= MR_JPEG_TABLES || !frame->ac[table]) {
        return false;
    }
    return g->high == 0 ? mr_jpeg_make_first(&tables->first, frame->ac[table], g->low)
                        : mr_jpeg_make_refine(&tables->refine, frame->ac[table]);
}

/* A scan of one component has no MCUs of several blocks. */
static void add_blocks(job *j, const mr_jpeg_scans *scans, const mr_jpeg_progression *g) {
    for (int32_t i = 0; i < g->n_components; i++) {
        const mr_jpeg_store *s = &scans->stores[g->components[i]];
        int32_t across = g->n_components > 1 ? s->across : 1;
        int32_t down = g->n_components > 1 ? s->down : 1;
        for (int32_t k = 0; k < across * down; k++) {
            int64_t first = k / across * s->stride + k % across;
            j->blocks[j->n_blocks++] = (mcu_block){.first = s->coefficients + first * MR_JPEG_BLOCK,
                                                   .nonzero = s->nonzero + first,
                                                   .step = across,
                                                   .row_step = down * s->stride,
                                                   .dc = &scans->tables.dc[i],
                                                   .component = i};
        }
    }
    const mr_jpeg_store *s = &scans->stores[g->components[0]];
    j->width = g->n_components > 1 ? mr_jpeg_mcus_across(scans->frame) : s->width;
    j->height = g->n_components > 1 ? mr_jpeg_mcus_down(scans->frame) : s->height;
}

static void set_band(job *j, const mr_jpeg_progression *g) {
    j->low = g->low;
    j->unused = MR_JPEG_BLOCK - 1 - g->to;
    j->band = (UINT64_MAX >> g->from) & (UINT64_MAX << j->unused);
    j->from = j->order + g->from + j->unused;
    for (int32_t k = g->from; k <= g->to; k++) {
        j->order[k + j->unused] = mr_jpeg_natural[k];
    }
}

/* Up to n MCUs at once: how many. */
static int64_t next_chunk(const mr_jpeg_scan *scan, int64_t n) {
    n = n < CHUNK ? n : CHUNK;
    return scan->interval > 0 && scan->left < n ? scan->left : n;
}

static bool read_row(job *j, reader some_mcus, int64_t row) {
    for (int64_t column = 0, n; column < j->width; column += n) {
        bool between = j->scan->interval > 0 && j->scan->left == 0;
        if ((between && j->ended > 0) || !mr_jpeg_scan_restart(j->scan)) {
            return false;
        }
        n = next_chunk(j->scan, j->width - column);
        mr_jpeg_scan_fill(j->scan, (size_t)(n * j->n_blocks) * MR_JPEG_BLOCK_BYTES);
        if (!some_mcus(j, row, column, n) || !mr_jpeg_scan_within(j->scan)) {
            return false;
        }
        j->scan->left -= j->scan->interval > 0 ? (int32_t)n : 0;
    }
    return true;
}

bool mr_jpeg_scans_read(mr_jpeg_scans *scans, const mr_jpeg_progression *progression, size_t byte,
                        int *marker) {
    job j = {.scan = &scans->scan, .tables = &scans->tables};
    if (!make_tables(scans, progression)) {
        return false;
    }
    add_blocks(&j, scans, progression);
    set_band(&j, progression);
    scans->scan.interval = scans->frame->restart_interval;
    mr_jpeg_scan_begin(j.scan, &(mr_jpeg_place){.byte = byte}, 0);
    const readers *all = readers_for(scans->scan.kernels);
    reader some_mcus = (progression->from == 0 ? all->dc : all->ac)[progression->high > 0];
    for (int64_t row = 0; row < j.height; row++) {
        if (!read_row(&j, some_mcus, row)) {
            return false;
        }
    }
    return j.ended == 0 && mr_jpeg_scan_reaches(j.scan, marker);
}
