/* SPDX-License-Identifier: Apache-2.0 */
/* test_jpeg_scans.c - progressive JPEGs that no encoder makes, against libjpeg-turbo: random codes
 * of up to sixteen bits, new ones for every scan, values of any size, ends of up to thousands of
 * blocks, bands and bits in any number of scans. Data are right, with few exceptions: what is
 * written keeps account of the coefficients as libjpeg does. */
#include "test.h"
#include "jpeg_rig.h"
#include "codecs/jpeg_markers.h"

enum {
    SYMBOLS = 256,
    CODE_BITS = 16,
    BLOCKS = 1600,
    COMPONENTS = 3,
    FILE_SIZE = 8 << 20,
    VALUE_BITS = 15,
    TRIALS = 600,
};

/* ---- Bytes and bits ---- */
typedef struct writer {
    uint8_t *data;
    size_t size;
    uint32_t bits, n_bits; /* that fill no byte yet */
} writer;

static void put_byte(writer *w, int64_t byte) {
    if (w->size < FILE_SIZE) {
        w->data[w->size++] = (uint8_t)byte;
    }
}

static void put_bytes(writer *w, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put_byte(w, ((const uint8_t *)bytes)[i]);
    }
}

static void put_bits(writer *w, uint32_t bits, int n) {
    while (n-- > 0) {
        w->bits = w->bits << 1 | (bits >> n & 1);
        if (++w->n_bits == 8) {
            put_byte(w, w->bits & 0xFF);
            if ((w->bits & 0xFF) == 0xFF) {
                put_byte(w, 0);
            }
            w->n_bits = 0;
        }
    }
}

static void end_bits(writer *w) {
    while (w->n_bits > 0) {
        put_bits(w, 1, 1);
    }
}

static void put_head(writer *w, int marker, size_t size) {
    put_byte(w, 0xFF);
    put_byte(w, marker);
    put_byte(w, (int64_t)(size + 2) >> 8);
    put_byte(w, (int64_t)(size + 2) & 0xFF);
}

/* ---- Codes ---- */
typedef struct codes {
    int n;
    uint8_t count[CODE_BITS];
    uint8_t symbols[SYMBOLS];
    uint32_t code[SYMBOLS];
    int length[SYMBOLS];
} codes;

static void shuffle(uint8_t *symbols, int n, uint64_t *s) {
    for (int i = n - 1; i > 0; i--) {
        int64_t k = rig_below(s, i + 1);
        uint8_t kept = symbols[i];
        symbols[i] = symbols[k];
        symbols[k] = kept;
    }
}

/* Of `n` symbols. Enough codes are left over for longer ones. */
static codes some_codes(const uint8_t *symbols, int n, uint64_t *s) {
    codes c = {.n = n};
    uint32_t next = 0;
    int64_t left = n, shape = 1 + rig_below(s, 6);
    int done = 0;
    memcpy(c.symbols, symbols, (size_t)n);
    shuffle(c.symbols, n, s);
    for (int length = 1; length <= CODE_BITS; length++) {
        int64_t room = (int64_t)(1u << length) - next;
        int behind = CODE_BITS - length;
        int64_t some = rig_below(s, shape) == 0 ? rig_below(s, 12) : 0;
        some = length == CODE_BITS || some > left ? left : some;
        while (length < CODE_BITS && (room - some) * (1 << behind) <= left) {
            some--;
        }
        c.count[length - 1] = (uint8_t)some;
        for (left -= some; some > 0; some--, done++) {
            c.code[done] = next++;
            c.length[done] = length;
        }
        next <<= 1;
    }
    c.n = done;
    return c;
}

static void put_codes(writer *w, const codes *c, int class, int table) {
    put_head(w, MR_JPEG_DHT, 1 + CODE_BITS + (size_t)c->n);
    put_byte(w, class << 4 | table);
    put_bytes(w, c->count, CODE_BITS);
    put_bytes(w, c->symbols, (size_t)c->n);
}

static void put_code(writer *w, const codes *c, int place) {
    put_bits(w, c->code[place], c->length[place]);
}

static int place_of(const codes *c, uint8_t symbol) {
    int place = 0;
    while (c->symbols[place] != symbol) {
        place++;
    }
    return place;
}

/* ---- An image ---- */
typedef struct image {
    int width, height, across, blocks; /* pixels; blocks of a component */
    int components;
    int interval;                           /* between restarts; 0: none */
    bool large_values;                      /* larger than a coefficient */
    bool many_ends;                         /* of more blocks than there are */
    int16_t values[COMPONENTS][BLOCKS][64]; /* in zigzag order, as libjpeg has them */
} image;

typedef struct band {
    int component; /* -1: all */
    int from, to, high, low;
} band;

static void put_frame(writer *w, const image *m, uint64_t *s) {
    put_bytes(w, "\xFF\xD8", 2);
    put_head(w, MR_JPEG_DQT, 65);
    put_byte(w, 0);
    int64_t most = rig_below(s, 2) ? 255 : 3;
    for (int k = 0; k < 64; k++) {
        put_byte(w, 1 + rig_below(s, most));
    }
    put_head(w, MR_JPEG_SOF2, 6 + 3 * (size_t)m->components);
    const uint8_t size[] = {8,
                            (uint8_t)(m->height >> 8),
                            (uint8_t)m->height,
                            (uint8_t)(m->width >> 8),
                            (uint8_t)m->width,
                            (uint8_t)m->components};
    put_bytes(w, size, sizeof size);
    for (int i = 0; i < m->components; i++) {
        put_bytes(w, (const uint8_t[]){(uint8_t)(i + 1), 0x11, 0}, 3);
    }
    put_head(w, MR_JPEG_DRI, 2);
    put_byte(w, m->interval >> 8);
    put_byte(w, m->interval);
}

static void put_scan_head(writer *w, const image *m, const band *b, int table) {
    int n = b->component < 0 ? m->components : 1;
    put_head(w, MR_JPEG_SOS, 4 + 2 * (size_t)n);
    put_byte(w, n);
    for (int i = 0; i < n; i++) {
        put_byte(w, (b->component < 0 ? i : b->component) + 1);
        put_byte(w, table << 4 | table);
    }
    put_bytes(w,
              (const uint8_t[]){(uint8_t)b->from, (uint8_t)b->to, (uint8_t)(b->high << 4 | b->low)},
              3);
}

/* Before block `i`; true: there was a restart. */
static bool put_restart(writer *w, const image *m, int i) {
    if (m->interval == 0 || i == 0 || i % m->interval != 0) {
        return false;
    }
    end_bits(w);
    put_byte(w, 0xFF);
    put_byte(w, MR_JPEG_RST0 + (i / m->interval - 1) % 8);
    return true;
}

static void put_value(writer *w, int32_t value, int size) {
    put_bits(w, (uint32_t)(value < 0 ? value + (1 << size) - 1 : value), size);
}

/* One of that many bits; often the least, whose only bit may be lost on the left. */
static int32_t some_value(int size, uint64_t *s) {
    int32_t half = 1 << (size - 1), value = half + (int32_t)rig_below(s, half);
    value = rig_below(s, 4) ? value : half;
    return rig_below(s, 2) ? value : -value;
}

/* ---- DC ---- */
static void put_dc(writer *w, image *m, const codes *c, int component, int i, int low,
                   int32_t *before, uint64_t *s) {
    int32_t most = INT16_MAX >> low;
    for (;;) {
        int place = (int)rig_below(s, c->n), size = c->symbols[place];
        int32_t value = size > 0 ? some_value(size, s) : 0, dc = *before + value;
        if (dc < -most || dc > most) {
            place = place_of(c, 0);
            size = 0;
            dc = *before;
        }
        put_code(w, c, place);
        put_value(w, dc - *before, size);
        *before = dc;
        m->values[component][i][0] = (int16_t)(dc * (1 << low));
        return;
    }
}

static void put_dc_scan(writer *w, image *m, const band *b, uint64_t *s) {
    uint8_t sizes[16];
    int32_t before[COMPONENTS] = {0};
    int table = (int)rig_below(s, 4);
    for (int i = 0; i < 16; i++) {
        sizes[i] = (uint8_t)i;
    }
    const codes c = some_codes(sizes, 16, s);
    put_codes(w, &c, 0, table);
    put_scan_head(w, m, b, table);
    for (int i = 0; i < m->blocks; i++) {
        if (put_restart(w, m, i)) {
            memset(before, 0, sizeof before);
        }
        for (int k = 0; k < m->components; k++) {
            if ((b->component < 0 || b->component == k) && b->high > 0) {
                put_bits(w, (uint32_t)rig_below(s, 2), 1); /* libjpeg's to keep */
            } else if (b->component < 0 || b->component == k) {
                put_dc(w, m, &c, k, i, b->low, &before[k], s);
            }
        }
    }
    end_bits(w);
}

/* ---- AC ---- */
typedef struct ac_scan {
    writer *w;
    image *m;
    const band *b;
    codes c;
    int ended; /* blocks to come without codes */
    uint64_t *s;
} ac_scan;

/* Blocks from this one on, up to a restart. */
static int blocks_left(const image *m, int i) {
    int left = m->blocks - i, interval = m->interval;
    return interval > 0 && interval - i % interval < left ? interval - i % interval : left;
}

/* Whether the symbol can end this block and others; writes it. */
static bool put_end(ac_scan *a, int place, int i) {
    int run = a->c.symbols[place] >> 4, bits = run > 0 ? (int)rig_below(a->s, 1 << run) : 0;
    int count = (1 << run) + bits;
    if (count > blocks_left(a->m, i) && !(a->m->many_ends && rig_below(a->s, 50) == 0)) {
        return false;
    }
    put_code(a->w, &a->c, place);
    put_bits(a->w, (uint32_t)bits, run);
    a->ended = count;
    return true;
}

/* Whether the symbol fits there; writes it. Returns the next coefficient's place. */
static int put_first(ac_scan *a, int place, int16_t *values, int k) {
    int run = a->c.symbols[place] >> 4, size = a->c.symbols[place] & 15, last = k + run;
    if (last > a->b->to || (size > VALUE_BITS - a->b->low && !a->m->large_values)) {
        return k;
    }
    put_code(a->w, &a->c, place);
    if (size > 0) {
        int32_t value = some_value(size, a->s);
        put_value(a->w, value, size);
        values[last] = (int16_t)(uint16_t)((uint32_t)value << a->b->low);
    }
    return last + 1;
}

/* A bit more of a coefficient. */
static void put_correction(ac_scan *a, int16_t *value) {
    int32_t step = 1 << a->b->low, bit = (int32_t)rig_below(a->s, 2);
    put_bits(a->w, (uint32_t)bit, 1);
    if (bit && (*value & step) == 0) {
        *value = (int16_t)(uint16_t)(*value + (*value >= 0 ? step : -step));
    }
}

static int put_refining(ac_scan *a, int place, int16_t *values, int k) {
    int run = a->c.symbols[place] >> 4, size = a->c.symbols[place] & 15, last = k;
    for (int zeros = 0; last <= a->b->to; last++) {
        if (values[last] == 0 && zeros++ == run) {
            break;
        }
    }
    if (last > a->b->to || size > 1) {
        return k;
    }
    uint32_t sign = (uint32_t)rig_below(a->s, 2);
    put_code(a->w, &a->c, place);
    put_bits(a->w, sign, size);
    for (; k < last; k++) {
        if (values[k] != 0) {
            put_correction(a, &values[k]);
        }
    }
    if (size > 0) {
        values[last] = (int16_t)(sign ? 1 << a->b->low : -(1 << a->b->low));
    }
    return last + 1;
}

static void put_ac(ac_scan *a, int i, int density) {
    int16_t *values = a->m->values[a->b->component][i];
    int k = a->b->from;
    while (a->ended == 0 && k <= a->b->to) {
        int place =
            rig_below(a->s, 100) < density ? (int)rig_below(a->s, a->c.n) : place_of(&a->c, 0);
        uint8_t symbol = a->c.symbols[place];
        if ((symbol & 15) == 0 && symbol >> 4 < 15) {
            put_end(a, place, i);
        } else {
            k = (a->b->high > 0 ? put_refining : put_first)(a, place, values, k);
        }
    }
    for (; a->b->high > 0 && k <= a->b->to; k++) {
        if (values[k] != 0) {
            put_correction(a, &values[k]);
        }
    }
    a->ended -= a->ended > 0;
}

/* Of few symbols or many; the end of a block is always one. */
static codes ac_codes(const band *b, uint64_t *s) {
    uint8_t symbols[SYMBOLS];
    int n = 1;
    int64_t often = 1 + rig_below(s, 12);
    symbols[0] = 0;
    for (int symbol = 1; symbol < 255; symbol++) {
        bool fits = b->high == 0 || (symbol & 15) <= 1;
        if (fits && rig_below(s, often) == 0) {
            symbols[n++] = (uint8_t)symbol;
        }
    }
    return some_codes(symbols, n, s);
}

static void put_ac_scan(writer *w, image *m, const band *b, uint64_t *s) {
    int table = (int)rig_below(s, 4), density = 50 + (int)rig_below(s, 50);
    ac_scan a = {.w = w, .m = m, .b = b, .s = s, .c = ac_codes(b, s)};
    put_codes(w, &a.c, 1, table);
    put_scan_head(w, m, b, table);
    for (int i = 0; i < m->blocks; i++) {
        if (put_restart(w, m, i)) {
            a.ended = 0;
        }
        put_ac(&a, i, density);
    }
    end_bits(w);
}

/* ---- A file ---- */
static void put_bands(writer *w, image *m, int component, int high, int low, uint64_t *s) {
    int most = 1 + (int)rig_below(s, 3);
    for (int from = 1, to; from < 64; from = to + 1) {
        to = --most > 0 ? from + (int)rig_below(s, 64 - from) : 63;
        put_ac_scan(w, m, &(band){component, from, to, high, low}, s);
    }
}

static void put_all_scans(writer *w, image *m, uint64_t *s) {
    int dc_low = rig_below(s, 4) ? (int)rig_below(s, 3) : (int)rig_below(s, 14);
    bool together = rig_below(s, 2);
    for (int k = 0; k < (together ? 1 : m->components); k++) {
        put_dc_scan(w, m, &(band){together ? -1 : k, 0, 0, 0, dc_low}, s);
    }
    for (int k = 0; k < m->components; k++) {
        int low =
            rig_below(s, 4) && !m->large_values ? (int)rig_below(s, 3) : (int)rig_below(s, 14);
        put_bands(w, m, k, 0, low, s);
        for (; low > 0; low--) {
            put_bands(w, m, k, low, low - 1, s);
        }
    }
    for (; dc_low > 0; dc_low--) {
        for (int k = 0; k < (together ? 1 : m->components); k++) {
            put_dc_scan(w, m, &(band){together ? -1 : k, 0, 0, dc_low, dc_low - 1}, s);
        }
    }
}

static image *some_image(uint64_t *s) {
    image *m = calloc(1, sizeof *m);
    int most = rig_below(s, 8) ? 60 : 320;
    m->width = 1 + (int)rig_below(s, most);
    m->height = 1 + (int)rig_below(s, most);
    m->across = (m->width + 7) / 8;
    m->blocks = m->across * ((m->height + 7) / 8);
    m->components = rig_below(s, 3) ? 1 : 3;
    m->interval = rig_below(s, 4) ? 0 : 1 + (int)rig_below(s, m->blocks);
    m->large_values = rig_below(s, 6) == 0;
    m->many_ends = rig_below(s, 10) == 0;
    return m;
}

/* Whether our codecs alone decode it. */
static bool decodes_alone(const writer *w) {
    rig_way way = {.without = "jpeg", .cpu = rig_cpu(), .channels = 3, .max_pixels = 1 << 20};
    rig_answer a = rig_decode(w->data, w->size, &way);
    bool decoded = a.status == MR_OK;
    rig_free(&a);
    return decoded;
}

TEST(any_codes_decode_as_by_libjpeg) {
    const char *text = getenv("MR_JPEG_FILES");
    int64_t n = text ? strtoll(text, NULL, 10) : TRIALS, ours = 0;
    uint8_t *memory = malloc(FILE_SIZE);
    for (int64_t i = 0; i < n && test_failures < 10; i++) {
        uint64_t s = (uint64_t)i;
        image *m = some_image(&s);
        writer w = {.data = memory};
        put_frame(&w, m, &s);
        put_all_scans(&w, m, &s);
        put_bytes(&w, "\xFF\xD9", 2);
        CHECK_INT(w.size, <, FILE_SIZE);
        uint8_t *exact = malloc(w.size);
        memcpy(exact, w.data, w.size);
        if (!rig_compare(exact, w.size, 2, 1 << 20, (uint64_t)i)) {
            test_failures++;
            fprintf(stderr, "file %lld differs\n", (long long)i);
        }
        bool alone = decodes_alone(&w);
        CHECK(alone || m->large_values || m->many_ends);
        ours += alone;
        free(exact);
        free(m);
    }
    free(memory);
    CHECK_INT(ours, >, n / 2);
    printf("%lld files, %lld of them for our codecs\n", (long long)n, (long long)ours);
}

TEST_MAIN()
