/* SPDX-License-Identifier: Apache-2.0 */
/* test_jpeg.c - our JPEG decoders against libjpeg-turbo, on files made for the purpose: all
 * qualities and samplings, sizes from 1 x 1 on, restart markers, own and standard Huffman codes,
 * progressive ones with all kinds of scans, quantisers and coefficients beyond reason, flipped
 * bits, cut anywhere. MR_JPEG_FILES sets how many; MR_JPEG_SEED which. And on the files that
 * MR_JPEG_LIST names, one to a line; three of four made files show parts of them then. ./dev test
 * jpeg makes 100,000. */
#include "test.h"
#include "jpeg_rig.h"
#include "codecs/jpeg_index.h"
#include "codecs/jpeg_markers.h"

#include <setjmp.h>

#include <jpeglib.h>

static int64_t setting(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* Hostile files claim to have millions. */
static int64_t most_pixels(void) {
    return setting("MR_JPEG_PIXELS", 1 << 22);
}

/* ---- Making files ---- */
/* One scan, or those of a progressive file: libjpeg's own, random ones, only some of these. */
enum { SEQUENTIAL, USUAL_SCANS, ANY_SCANS, NOT_ALL_SCANS };

typedef struct recipe {
    int width, height, quality, content;
    int across, down, chroma_across, chroma_down;
    bool grey, optimise, coarse, arithmetic;
    int scans; /* SEQUENTIAL ... */
    int restart_interval, restart_rows;
    const struct picture *picture; /* (optional) what the image shows, instead of `content` */
    int extreme; /* largest coefficient, of random ones instead of an image's; 0: an image */
} recipe;

typedef struct made {
    uint8_t *data;
    size_t size;
} made;

static int some_size(uint64_t *s) {
    switch (rig_below(s, 16)) {
    case 0:
        return 1 + (int)rig_below(s, 300);
    case 1:
    case 2:
    case 3:
        return 1 + (int)rig_below(s, 8);
    default:
        return 1 + (int)rig_below(s, 70);
    }
}

static recipe some_recipe(uint64_t *s) {
    static const int sampling[][4] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {2, 2, 1, 1},
                                      {4, 1, 1, 1}, {2, 2, 2, 1}, {2, 2, 2, 2}, {1, 4, 1, 2}};
    const int *factors = sampling[rig_below(s, 8) ? rig_below(s, 4) : rig_below(s, 8)];
    recipe r = {.width = some_size(s),
                .height = some_size(s),
                .quality = 1 + (int)rig_below(s, 100),
                .content = (int)rig_below(s, 4),
                .across = factors[0],
                .down = factors[1],
                .chroma_across = factors[2],
                .chroma_down = factors[3],
                .grey = rig_below(s, 8) == 0,
                .optimise = rig_below(s, 2),
                .scans = rig_below(s, 5) < 3 ? SEQUENTIAL : 1 + (int)rig_below(s, 8) % 3,
                .arithmetic = rig_below(s, 60) == 0,
                .coarse = rig_below(s, 8) == 0};
    if (rig_below(s, 300) == 0) {
        *(rig_below(s, 2) ? &r.width : &r.height) = 2000 + (int)rig_below(s, 6193);
    }
    if (rig_below(s, 4) == 0) {
        r.restart_interval = 1 + (int)rig_below(s, 20);
    } else if (rig_below(s, 6) == 0) {
        r.restart_rows = 1 + (int)rig_below(s, 2);
    }
    if (rig_below(s, 8) == 0) {
        r.extreme = 1 << rig_below(s, 11);
    }
    return r;
}

/* ---- Pixels of real files ---- */
typedef struct picture {
    uint8_t *pixels;
    int64_t width, height;
    int64_t x, y; /* where the part begins that is shown; it goes round */
} picture;

static made load(const char *path) {
    made file = {0};
    FILE *in = fopen(path, "rb");
    if (in && fseek(in, 0, SEEK_END) == 0) {
        long size = ftell(in);
        rewind(in);
        file.data = malloc(size > 0 ? (size_t)size : 1);
        file.size = fread(file.data, 1, (size_t)size, in);
    }
    if (in) {
        fclose(in);
    }
    return file;
}

static bool next_line(FILE *list, char *line, int size) {
    if (!fgets(line, size, list)) {
        rewind(list);
    }
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0';
}

/* The next listed file that libjpeg decodes becomes what made files show. */
static void take_picture(FILE *list, picture *p) {
    char line[4096] = "";
    rig_way way = {.without = RIG_OURS, .channels = 3, .max_pixels = most_pixels()};
    for (int tries = 0; tries < 100; tries++) {
        made file = {NULL, 0};
        if (next_line(list, line, sizeof line)) {
            file = load(line);
        }
        rig_answer a = rig_decode(file.data, file.size, &way);
        free(file.data);
        free(a.better);
        if (a.status == MR_OK) {
            free(p->pixels);
            *p = (picture){a.pixels, a.header.width, a.header.height, 0, 0};
            return;
        }
    }
}

static uint8_t shown(const picture *p, int y, int x, int c) {
    int64_t row = (p->y + y) % p->height, column = (p->x + x) % p->width;
    return p->pixels[(row * p->width + column) * 3 + c];
}

static uint8_t content(const recipe *r, int y, int x, int c, uint64_t *s) {
    if (r->picture) {
        return shown(r->picture, y, x, c);
    }
    switch (r->content) {
    case 0:
        return (uint8_t)rig_draw(s);
    case 1:
        return (uint8_t)(x * (3 + c) + y * 2);
    case 2:
        return (uint8_t)(100 + 20 * c + (rig_below(s, 20) == 0 ? rig_below(s, 100) : 0));
    default:
        return (uint8_t)((x / 7 + y / 5 + c) % 2 ? 255 : 0);
    }
}

/* ---- Scans of progressive files ---- */
enum { QUEUE = 40, COMPONENTS = 3 };

/* Of one component, in their order. */
typedef struct queue {
    jpeg_scan_info scans[QUEUE];
    int n, next;
} queue;

static void add_scan(queue *q, int component, int from, int to, int high, int low) {
    q->scans[q->n++] = (jpeg_scan_info){.comps_in_scan = 1,
                                        .component_index = {component},
                                        .Ss = from,
                                        .Se = to,
                                        .Ah = high,
                                        .Al = low};
}

/* Coefficients 1 to 63 in one band or several. */
static void add_bands(queue *q, int component, int high, int low, uint64_t *s) {
    int most = 1 + (int)rig_below(s, 3);
    for (int from = 1, to; from < 64; from = to + 1) {
        to = --most > 0 ? from + (int)rig_below(s, 64 - from) : 63;
        add_scan(q, component, from, to, high, low);
    }
}

/* All of a component's; DC alone where it is not told together with that of the others. */
static void fill_queue(queue *q, int component, bool dc_apart, int dc_low, uint64_t *s) {
    int low = (int)rig_below(s, 4);
    if (dc_apart) {
        add_scan(q, component, 0, 0, 0, dc_low);
    }
    add_bands(q, component, 0, low, s);
    for (; low > 0; low--) {
        add_bands(q, component, low, low - 1, s);
    }
    for (; dc_apart && dc_low > 0; dc_low--) {
        add_scan(q, component, 0, 0, dc_low, dc_low - 1);
    }
}

static jpeg_scan_info together(int components, int high, int low) {
    return (jpeg_scan_info){
        .comps_in_scan = components, .component_index = {0, 1, 2}, .Ah = high, .Al = low};
}

/* Components take turns by chance. */
static int join_queues(jpeg_scan_info *out, queue *queues, int components, uint64_t *s) {
    int n = 0, left = 0;
    for (int c = 0; c < components; c++) {
        left += queues[c].n;
    }
    while (left > 0) {
        queue *q = &queues[rig_below(s, components)];
        if (q->next < q->n) {
            out[n++] = q->scans[q->next++];
            left--;
        }
    }
    return n;
}

static void make_script(struct jpeg_compress_struct *jpeg, bool complete, uint64_t *s) {
    int components = jpeg->num_components, n = 0, dc_low = (int)rig_below(s, 4);
    bool apart = rig_below(s, 2);
    queue queues[COMPONENTS] = {0};
    jpeg_scan_info *scans = jpeg->mem->alloc_small((j_common_ptr)jpeg, JPOOL_IMAGE,
                                                   (COMPONENTS * QUEUE + QUEUE) * sizeof *scans);
    for (int c = 0; c < components; c++) {
        fill_queue(&queues[c], c, apart, dc_low, s);
    }
    if (!apart) {
        scans[n++] = together(components, 0, dc_low);
    }
    n += join_queues(scans + n, queues, components, s);
    for (; !apart && dc_low > 0; dc_low--) {
        scans[n++] = together(components, dc_low, dc_low - 1);
    }
    jpeg->scan_info = scans;
    jpeg->num_scans = complete ? n : 1 + (int)rig_below(s, n);
}

static void set_up(struct jpeg_compress_struct *jpeg, const recipe *r, uint64_t *s) {
    jpeg->image_width = (JDIMENSION)r->width;
    jpeg->image_height = (JDIMENSION)r->height;
    jpeg->input_components = r->grey ? 1 : 3;
    jpeg->in_color_space = r->grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, r->quality, FALSE);
    for (int i = 0; i < 2 && r->coarse; i++) {
        unsigned table[64];
        for (int k = 0; k < 64; k++) {
            int most = r->extreme > 1 ? 65535 : 4000; /* libjpeg divides by 0 otherwise */
            table[k] = 1 + (unsigned)rig_below(s, rig_below(s, 4) ? 400 : most);
        }
        jpeg_add_quant_table(jpeg, i, table, 100, FALSE);
    }
    if (!r->grey) {
        jpeg->comp_info[0].h_samp_factor = r->across;
        jpeg->comp_info[0].v_samp_factor = r->down;
        for (int i = 1; i < 3; i++) {
            jpeg->comp_info[i].h_samp_factor = r->chroma_across;
            jpeg->comp_info[i].v_samp_factor = r->chroma_down;
        }
    }
    jpeg->optimize_coding = r->optimise;
    jpeg->arith_code = r->arithmetic;
    jpeg->restart_interval = (unsigned)r->restart_interval;
    jpeg->restart_in_rows = r->restart_rows;
    if (r->scans == USUAL_SCANS) {
        jpeg_simple_progression(jpeg);
    } else if (r->scans > USUAL_SCANS) {
        make_script(jpeg, r->scans == ANY_SCANS, s);
    }
}

static void write_image(struct jpeg_compress_struct *jpeg, const recipe *r, uint64_t *s) {
    int channels = r->grey ? 1 : 3;
    JSAMPARRAY lines =
        jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, (JDIMENSION)r->width * 3, 1);
    uint8_t *row = lines[0]; /* freed by libjpeg, which may jump out of here */
    jpeg_start_compress(jpeg, TRUE);
    for (int y = 0; y < r->height; y++) {
        for (int x = 0; x < r->width * channels; x++) {
            row[x] = content(r, y, x / channels, x % channels, s);
        }
        jpeg_write_scanlines(jpeg, lines, 1);
    }
}

/* Coefficients that no image has. Few of some blocks, all of others. */
static void fill_block(JCOEF *block, const recipe *r, uint64_t *s) {
    int density = (int)rig_below(s, 40);
    for (int k = 0; k < 64; k++) {
        bool zero = k > 0 && rig_below(s, 40) > density;
        int64_t most = k == 0 ? r->extreme / 2 : r->extreme - 1;
        block[k] = (JCOEF)(zero ? 0 : rig_below(s, 2 * most + 1) - most);
    }
}

static void write_coefficients(struct jpeg_compress_struct *jpeg, const recipe *r, uint64_t *s) {
    jvirt_barray_ptr arrays[3];
    int across = r->grey ? 1 : r->across, down = r->grey ? 1 : r->down;
    int mcus_across = (r->width + 8 * across - 1) / (8 * across);
    int mcus_down = (r->height + 8 * down - 1) / (8 * down);
    for (int c = 0; c < jpeg->num_components; c++) {
        const jpeg_component_info *info = &jpeg->comp_info[c];
        arrays[c] = jpeg->mem->request_virt_barray(
            (j_common_ptr)jpeg, JPOOL_IMAGE, TRUE, (JDIMENSION)(mcus_across * info->h_samp_factor),
            (JDIMENSION)(mcus_down * info->v_samp_factor), (JDIMENSION)info->v_samp_factor);
    }
    jpeg_write_coefficients(jpeg, arrays);
    for (int c = 0; c < jpeg->num_components; c++) {
        const jpeg_component_info *info = &jpeg->comp_info[c];
        for (int y = 0; y < mcus_down * info->v_samp_factor; y++) {
            JBLOCKARRAY rows = jpeg->mem->access_virt_barray((j_common_ptr)jpeg, arrays[c],
                                                             (JDIMENSION)y, 1, TRUE);
            for (int x = 0; x < mcus_across * info->h_samp_factor; x++) {
                fill_block(rows[0][x], r, s);
            }
        }
    }
}

static jmp_buf cannot_make;

static void give_up(j_common_ptr jpeg) {
    (void)jpeg;
    longjmp(cannot_make, 1);
}

static void say_nothing(j_common_ptr jpeg) {
    (void)jpeg;
}

static made make_file(const recipe *r, uint64_t *s) {
    static struct jpeg_compress_struct jpeg; /* static: alive across the jump */
    static struct jpeg_error_mgr errors;
    static unsigned char *data;
    static unsigned long size;
    data = NULL;
    size = 0;
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = give_up;
    errors.output_message = say_nothing;
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &data, &size);
    if (setjmp(cannot_make) == 0) {
        set_up(&jpeg, r, s);
        if (r->extreme > 1) {
            write_coefficients(&jpeg, r, s);
        } else {
            write_image(&jpeg, r, s);
        }
        jpeg_finish_compress(&jpeg);
    } else {
        jpeg.dest->term_destination(&jpeg); /* only it knows where the memory is by now */
        free(data);
        data = NULL;
        size = 0;
    }
    jpeg_destroy_compress(&jpeg);
    return (made){data, size};
}

/* ---- Damaging them ---- */
static size_t scan_of(const made *file) {
    mr_jpeg_frame frame;
    bool has_scan = (mr_jpeg_read_frame(file->data, file->size, &frame) ||
                     mr_jpeg_read_progressive(file->data, file->size, &frame)) &&
                    frame.scan < file->size;
    return has_scan ? frame.scan : 0;
}

static void flip_bits(made *file, size_t from, uint64_t *s) {
    for (int64_t n = 1 + rig_below(s, 4); n > 0; n--) {
        size_t at = from + (size_t)rig_below(s, (int64_t)(file->size - from));
        file->data[at] ^= (uint8_t)(1u << rig_below(s, 8));
    }
}

/* In memory of exactly its size. */
static made damage(const made *whole, uint64_t *s) {
    made file = {malloc(whole->size + 16), whole->size};
    size_t scan = scan_of(whole);
    memcpy(file.data, whole->data, whole->size);
    switch (rig_below(s, 8)) {
    case 0:
        file.size = (size_t)rig_below(s, (int64_t)file.size);
        break;
    case 1:
        file.size = scan + (size_t)rig_below(s, (int64_t)(file.size - scan));
        break;
    case 2:
        flip_bits(&file, 0, s);
        break;
    case 3: /* a marker, or what looks like one */
        file.data[scan + (size_t)rig_below(s, (int64_t)(file.size - scan))] = 0xFF;
        break;
    case 4: /* more behind the end */
        for (int64_t n = 1 + rig_below(s, 16); n > 0; n--) {
            file.data[file.size++] = (uint8_t)rig_draw(s);
        }
        break;
    case 5:
        if (file.size - scan > 6) { /* a byte too few */
            size_t at = scan + (size_t)rig_below(s, (int64_t)(file.size - scan));
            memmove(file.data + at, file.data + at + 1, file.size - at - 1);
            file.size--;
        }
        break;
    default:
        flip_bits(&file, scan, s);
    }
    made exact = {malloc(file.size ? file.size : 1), file.size};
    memcpy(exact.data, file.data, file.size);
    free(file.data);
    return exact;
}

/* ---- Tests ---- */
static bool is_ours(const recipe *r) {
    bool half = r->across <= 2 && r->down <= 2 && r->chroma_across == 1 && r->chroma_down == 1;
    bool wide = r->across == 1 || r->width > 4;
    return (r->grey || (half && wide)) && r->scans != NOT_ALL_SCANS && !r->arithmetic;
}

/* Whether our codecs alone decode the file: everything might be left to libjpeg otherwise. */
static bool decodes_alone(const made *file) {
    rig_way way = {.without = "jpeg", .cpu = rig_cpu(), .channels = 3, .max_pixels = most_pixels()};
    rig_answer a = rig_decode(file->data, file->size, &way);
    bool decoded = a.status == MR_OK;
    rig_free(&a);
    return decoded;
}

/* What was compared, for those who quote it. */
typedef struct tally {
    int64_t files, damaged, ours; /* ours: files that our codecs decode alone */
} tally;

static void say_compared(const tally *t, const char *what) {
    printf(
        "compared %lld %s files, %lld of which our codecs decode alone, and %lld damaged copies\n",
        (long long)t->files, what, (long long)t->ours, (long long)t->damaged);
}

static void check_file(const made *file, const char *what, int64_t number, uint64_t *s) {
    if (!rig_compare(file->data, file->size, 3, most_pixels(), rig_draw(s))) {
        test_failures++;
        fprintf(stderr, "%s file %lld differs\n", what, (long long)number);
    }
}

TEST(made_files_decode_as_by_libjpeg) {
    int64_t n = setting("MR_JPEG_FILES", 400), seed = setting("MR_JPEG_SEED", 1);
    const char *path = getenv("MR_JPEG_LIST");
    FILE *list = path ? fopen(path, "r") : NULL;
    picture now = {0};
    tally seen = {0};
    for (int64_t i = 0; seen.files < n && i < 2 * n && test_failures < 10; i++) {
        uint64_t s = (uint64_t)(seed * 1000003 + i);
        recipe r = some_recipe(&s);
        if (list && i % 8 == 0) {
            take_picture(list, &now);
        }
        if (now.pixels && i % 4 > 0) {
            now.x = rig_below(&s, now.width);
            now.y = rig_below(&s, now.height);
            r.picture = &now;
        }
        made file = make_file(&r, &s);
        if (!file.data) {
            continue; /* libjpeg does not write every recipe */
        }
        made exact = {malloc(file.size), file.size};
        memcpy(exact.data, file.data, file.size);
        check_file(&exact, "made", i, &s);
        seen.files++;
        if (is_ours(&r)) {
            bool alone = decodes_alone(&exact);
            CHECK(alone);
            seen.ours += alone;
        }
        for (int k = 0; k < 2; k++) {
            made bad = damage(&exact, &s);
            check_file(&bad, "damaged", i, &s);
            seen.damaged++;
            free(bad.data);
        }
        free(exact.data);
        free(file.data);
    }
    free(now.pixels);
    if (list) {
        fclose(list);
    }
    CHECK_INT(seen.files, ==, n);
    CHECK_INT(seen.ours, >, n / 2);
    say_compared(&seen, "made");
}

/* ---- Scans out of order ---- */
enum { MOST_PIECES = 40 };

/* A progressive file: what comes before its first scan, each scan with the tables before it, and
 * the end. */
typedef struct pieces {
    size_t from[MOST_PIECES + 1]; /* the last: where the file ends */
    int n;
} pieces;

/* Where image data end that begin there. */
static size_t past_image_data(const made *file, size_t at) {
    const uint8_t *p = file->data;
    while (p[at] != 0xFF || p[at + 1] == 0 || (p[at + 1] >= 0xD0 && p[at + 1] <= 0xD7)) {
        at++;
    }
    return at;
}

static pieces take_apart(const made *file) {
    pieces p = {.n = 1};
    const uint8_t *bytes = file->data;
    bool first = true;
    for (size_t at = 2; bytes[at + 1] != MR_JPEG_EOI;) {
        size_t next = at + 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
        bool scan = bytes[at + 1] == MR_JPEG_SOS;
        if (scan && first) {
            p.from[p.n++] = at; /* its tables stay before it */
            first = false;
        }
        at = scan ? past_image_data(file, next) : next;
        if (scan) {
            p.from[p.n++] = at;
        }
    }
    p.from[p.n] = file->size;
    return p;
}

static void append(made *out, const void *data, size_t size) {
    out->data = realloc(out->data, out->size + size);
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void append_piece(made *out, const made *file, const pieces *p, int i) {
    append(out, file->data + p->from[i], p->from[i + 1] - p->from[i]);
}

/* Pieces that libjpeg takes for something else than ours might, or for nothing, or for a reason to
 * stop: a comment, quantisers, a restart interval, the end, and a line count. */
static void append_foreign(made *out, int which) {
    static const struct {
        const char *bytes;
        size_t size;
    } foreign[] = {
        {"\xFF\xFE\0\4ab", 6},
        {"\xFF\xDD\0\4\0\0", 6},
        {"\xFF\xDD\0\4\0\1", 6},
        {"\xFF\xD9", 2},
        {"\xFF\xDC\0\4\0\20", 6},
        {"\xFF\xE0\0\2", 4},
        {"\xFF\xC4\0\3\0", 5},
        {"\xFF", 1},
        {"\0", 1},
        {"\xFF\xD3", 2},
        {"\xFF\xDA\0\3\1", 5},
    };
    uint8_t quantisers[69] = {0xFF, MR_JPEG_DQT, 0, 67};
    size_t n = sizeof foreign / sizeof *foreign;
    if ((size_t)which < n) {
        append(out, foreign[which].bytes, foreign[which].size);
        return;
    }
    memset(quantisers + 5, 3, 64);
    append(out, quantisers, sizeof quantisers);
}
enum { FOREIGN = 12 };

typedef enum change { LEFT_OUT, TWICE, TOO_OFTEN, SWAPPED, PRECEDED } change;

/* One scan is left out, comes twice or more often than is allowed, changes places with the next, or
 * something comes before it. */
static made rearranged(const made *file, const pieces *p, change how, int scan, int foreign) {
    made out = {0};
    for (int i = 0; i < p->n; i++) {
        int at = how == SWAPPED && i == scan ? i + 1 : how == SWAPPED && i == scan + 1 ? i - 1 : i;
        if (how == PRECEDED && i == scan) {
            append_foreign(&out, foreign);
        }
        if (how != LEFT_OUT || i != scan) {
            append_piece(&out, file, p, at);
        }
        for (int k = how == TWICE ? 1 : how == TOO_OFTEN ? 600 : 0; k > 0 && i == scan; k--) {
            append_piece(&out, file, p, at);
        }
    }
    return out;
}

TEST(rearranged_scans_decode_as_by_libjpeg) {
    for (int kind = 0; kind < 6; kind++) {
        uint64_t s = (uint64_t)kind + 1;
        recipe r = {.width = 37,
                    .height = 29,
                    .quality = 85,
                    .content = 2,
                    .across = 1 + kind % 2,
                    .down = 1 + kind / 2 % 2,
                    .chroma_across = 1,
                    .chroma_down = 1,
                    .grey = kind == 4,
                    .restart_interval = kind == 5 ? 3 : 0,
                    .scans = kind == 3 ? ANY_SCANS : USUAL_SCANS};
        made file = make_file(&r, &s);
        CHECK(file.data && decodes_alone(&file));
        pieces p = file.data ? take_apart(&file) : (pieces){.n = 1};
        for (int i = 0; i < (p.n - 1) * (PRECEDED + FOREIGN); i++) {
            int what = i % (PRECEDED + FOREIGN), scan = 1 + i / (PRECEDED + FOREIGN);
            if (what < PRECEDED && scan + 1 == p.n) { /* the end */
                continue;
            }
            made changed = rearranged(&file, &p, what < PRECEDED ? (change)what : PRECEDED, scan,
                                      what - PRECEDED);
            check_file(&changed, "rearranged", i, &s);
            free(changed.data);
        }
        free(file.data);
    }
}

/* ---- The index ---- */
static made index_of(const made *file) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena, .kernels = mr_kernels_for(rig_cpu())};
    mr_image_file opened = {.bytes = file->data, .size = file->size};
    mr_index index = {0};
    CHECK_INT(mr_image_file_open(&opened, most_pixels(), false, NULL), ==, MR_OK);
    CHECK_INT(mr_image_file_index(&opened, &call, &index, NULL), ==, MR_OK);
    made copy = {malloc(index.size + 1), index.size};
    memcpy(copy.data, index.data, index.size);
    mr_arena_free(&arena);
    return copy;
}

static made photo_like(uint64_t seed, int restart_interval) {
    recipe r = {.width = 90,
                .height = 200,
                .quality = 60,
                .across = 2,
                .down = 2,
                .chroma_across = 1,
                .chroma_down = 1,
                .restart_interval = restart_interval};
    return make_file(&r, &seed);
}

static int64_t rows_known(const made *index, size_t size, const made *file) {
    mr_jpeg_frame frame;
    CHECK(mr_jpeg_read_frame(file->data, file->size, &frame));
    const mr_jpeg_file known = {file->data, file->size, &frame};
    return mr_jpeg_index_rows(&(mr_index){index->data, size}, &known);
}

static bool lowest_rows_are_right(const made *file, const made *index) {
    const mr_region part = {.x = 10, .y = 150, .width = 60, .height = 50};
    rig_way way = {.without = RIG_OURS,
                   .cpu = rig_cpu(),
                   .channels = 3,
                   .max_pixels = most_pixels(),
                   .part = &part};
    rig_answer expected = rig_decode(file->data, file->size, &way);
    way.without = NULL;
    way.index = (mr_index){index->data, index->size};
    rig_answer actual = rig_decode(file->data, file->size, &way);
    bool same = rig_same(&expected, &actual);
    rig_free(&expected);
    rig_free(&actual);
    return same;
}

TEST(a_damaged_index_is_noticed) {
    for (int interval = 0; interval <= 7; interval += 7) {
        made file = photo_like(1, interval), index = index_of(&file);
        CHECK_INT(rows_known(&index, index.size, &file), ==, 13);
        CHECK(lowest_rows_are_right(&file, &index));
        for (size_t bit = 0; bit < index.size * 8; bit++) {
            index.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            CHECK_INT(rows_known(&index, index.size, &file), ==, 0);
            if (bit % 16 == 0) {
                CHECK(lowest_rows_are_right(&file, &index));
            }
            index.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t size = 0; size < index.size; size++) {
            CHECK_INT(rows_known(&index, size, &file), ==, 0);
        }
        free(index.data);
        free(file.data);
    }
}

TEST(an_index_of_another_file_is_noticed) {
    made file = photo_like(1, 0), other = photo_like(2, 0);
    made index = index_of(&file), changed = {malloc(file.size), file.size};
    CHECK_INT(rows_known(&index, index.size, &other), ==, 0);
    CHECK(lowest_rows_are_right(&other, &index));
    memcpy(changed.data, file.data, file.size);
    changed.data[file.size - 20] ^= 1;
    CHECK_INT(rows_known(&index, index.size, &changed), ==, 0);
    CHECK(lowest_rows_are_right(&changed, &index));
    free(changed.data);
    free(index.data);
    free(other.data);
    free(file.data);
}

/* One that says it is of this file, and whose places are anywhere. The pixels are wrong then, but
 * nothing is read outside of the file: sanitizers watch this. */
static made forged_index(const made *file, uint64_t *s) {
    mr_jpeg_frame frame;
    CHECK(mr_jpeg_read_frame(file->data, file->size, &frame));
    const mr_jpeg_file of = {file->data, file->size, &frame};
    mr_jpeg_place places[64] = {{.byte = frame.scan}};
    int64_t rows = mr_jpeg_mcus_down(&frame), far = 1 + rig_below(s, 300);
    for (int64_t i = 1; i < rows; i++) {
        places[i].byte = places[i - 1].byte + (size_t)rig_below(s, far);
        places[i].byte = places[i].byte < file->size ? places[i].byte : file->size - 1;
        bool forth = places[i].byte > places[i - 1].byte;
        places[i].bit = forth ? (uint32_t)rig_below(s, 8) : places[i - 1].bit;
        places[i].predictors[0] = (int32_t)rig_below(s, 65536) - 32768;
    }
    made index = {malloc(mr_jpeg_index_memory(rows)), 0};
    index.size = mr_jpeg_index_write(index.data, &of, places, rows);
    return index;
}

TEST(a_forged_index_does_no_harm) {
    uint64_t s = 3;
    for (int i = 0; i < 400; i++) {
        made file = photo_like((uint64_t)i, i % 4 == 0 ? 5 : 0), index = forged_index(&file, &s);
        mr_image_header size = {.width = 90, .height = 200};
        CHECK_INT(rows_known(&index, index.size, &file), ==, 13);
        for (int k = 0; k < 5; k++) {
            mr_region part = rig_part(&s, &size);
            rig_way way = {.cpu = k % 2 ? rig_cpu() : 0,
                           .channels = 3,
                           .max_pixels = most_pixels(),
                           .part = &part,
                           .index = {index.data, index.size},
                           .wants_better = k % 3 == 0};
            rig_answer answer = rig_decode(file.data, file.size, &way);
            CHECK_INT(answer.status, ==, MR_OK); /* if not by ours, by libjpeg */
            rig_free(&answer);
        }
        free(index.data);
        free(file.data);
    }
}

/* ---- Files from elsewhere ---- */
TEST(listed_files_decode_as_by_libjpeg) {
    char line[4096];
    const char *path = getenv("MR_JPEG_LIST");
    FILE *list = path ? fopen(path, "r") : NULL;
    int64_t failures = test_failures;
    tally seen = {0};
    while (list && fgets(line, sizeof line, list) && test_failures < failures + 10) {
        line[strcspn(line, "\n")] = '\0';
        made file = load(line);
        uint64_t s = (uint64_t)seen.files++;
        check_file(&file, line, seen.files, &s);
        seen.ours += decodes_alone(&file);
        for (int64_t k = setting("MR_JPEG_DAMAGED", 1); k > 0 && file.size > 4; k--) {
            made bad = damage(&file, &s);
            check_file(&bad, line, seen.files, &s);
            seen.damaged++;
            free(bad.data);
        }
        free(file.data);
    }
    if (list) {
        fclose(list);
        say_compared(&seen, "listed");
    } else {
        printf("left out: MR_JPEG_LIST names no list of files\n");
    }
}

TEST_MAIN()
