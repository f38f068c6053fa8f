/* SPDX-License-Identifier: Apache-2.0 */
/* make_photos.c - writes photo-like JPEG files: a sky, a ground with texture at several scales, and
 * shapes in the colours of a class, so that files have the size and the decoding cost of real
 * photos. The same arguments give the same files.
 *
 *     make_photos FOLDER COUNT
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <jpeglib.h>

typedef struct scene {
    const char *name;
    uint8_t sky[3], ground[3], shape[3];
    int shapes;
    int texture; /* strength, 0 to 255 */
} scene;

static const scene scenes[] = {
    {"desert", {150, 190, 235}, {205, 165, 105}, {140, 95, 60}, 4, 60},
    {"forest", {170, 200, 220}, {50, 95, 45}, {35, 60, 30}, 14, 110},
    {"harbour", {190, 205, 215}, {45, 85, 120}, {200, 60, 50}, 8, 70},
    {"market", {120, 130, 150}, {110, 100, 90}, {220, 170, 40}, 20, 80},
    {"night", {15, 18, 40}, {25, 25, 30}, {250, 220, 140}, 10, 45},
    {"snow", {200, 215, 235}, {235, 238, 245}, {90, 110, 130}, 6, 35},
};
#define N_SCENES ((int)(sizeof scenes / sizeof scenes[0]))

typedef struct image {
    int width, height;
    uint8_t *rgb;
} image;

/* splitmix64: every number is a hash of its place, so there is no state to carry. */
static uint32_t noise(uint64_t seed, uint64_t place) {
    uint64_t z = seed * 0x9E3779B97F4A7C15u + place * 0xD1B54A32D192ED03u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static int between(uint64_t seed, uint64_t draw, int low, int high) {
    return low + (int)(noise(seed, draw) % (uint32_t)(high - low + 1));
}

static int mix(int a, int b, int t, int scale) {
    return a + (b - a) * t / scale;
}

/* Noise on a lattice of 2^octave pixels, smooth in between: -128 to 127. */
static int lattice(uint64_t seed, int x, int y, int octave) {
    int step = 1 << octave, fx = x & (step - 1), fy = y & (step - 1);
    int corner[4];
    for (int i = 0; i < 4; i++) {
        uint64_t cx = (uint64_t)((x >> octave) + (i & 1)), cy = (uint64_t)((y >> octave) + i / 2);
        corner[i] = (int)(noise(seed + (uint64_t)octave, cx << 20 | cy) & 255) - 128;
    }
    return mix(mix(corner[0], corner[1], fx, step), mix(corner[2], corner[3], fx, step), fy, step);
}

static int texture(uint64_t seed, int x, int y) {
    return (2 * lattice(seed, x, y, 0) + 2 * lattice(seed, x, y, 2) + 3 * lattice(seed, x, y, 4) +
            4 * lattice(seed, x, y, 6)) /
           6;
}

static uint8_t clamp(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void paint_land(const image *im, const scene *s, uint64_t seed) {
    int horizon = im->height * between(seed, 1, 30, 60) / 100;
    for (int y = 0; y < im->height; y++) {
        for (int x = 0; x < im->width; x++) {
            int hill = horizon + lattice(seed + 9, x, 0, 7) / 4;
            int grain = texture(seed, x, y) * (y < hill ? s->texture / 3 : s->texture) / 128;
            for (int c = 0; c < 3; c++) {
                int base = y < hill ? mix(s->sky[c], 255, y, 2 * im->height)
                                    : mix(s->ground[c], s->ground[c] / 2, y, im->height);
                im->rgb[(y * im->width + x) * 3 + c] = clamp(base + grain);
            }
        }
    }
}

static void paint_shape(const image *im, const scene *s, uint64_t seed) {
    int cx = between(seed, 1, 0, im->width), cy = between(seed, 2, im->height / 4, im->height);
    int rx = between(seed, 3, 8, im->width / 6), ry = between(seed, 4, 8, im->height / 6);
    int round = between(seed, 5, 0, 1), shade = between(seed, 6, -40, 40);
    for (int y = cy - ry; y <= cy + ry; y++) {
        for (int x = cx - rx; x <= cx + rx; x++) {
            int64_t dx = x - cx, dy = y - cy;
            bool inside = x >= 0 && y >= 0 && x < im->width && y < im->height;
            if (!inside ||
                (round && dx * dx * ry * ry + dy * dy * rx * rx > (int64_t)rx * rx * ry * ry)) {
                continue;
            }
            int light = shade + (int)(dx * 30 / rx) + texture(seed, x, y) * s->texture / 256;
            for (int c = 0; c < 3; c++) {
                im->rgb[(y * im->width + x) * 3 + c] = clamp(s->shape[c] + light);
            }
        }
    }
}

/* Most photos of such sets are 500 x 375 or 375 x 500; the rest is of any size. */
static void choose_size(image *im, uint64_t seed) {
    int kind = between(seed, 20, 0, 9);
    im->width = kind < 6 ? 500 : kind < 8 ? 375 : between(seed, 21, 200, 800);
    im->height = kind < 6 ? 375 : kind < 8 ? 500 : between(seed, 22, 200, 800);
}

static void write_jpeg(FILE *file, const image *im, int quality) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)im->width;
    jpeg.image_height = (JDIMENSION)im->height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < im->height; y++) {
        JSAMPROW row = im->rgb + (size_t)y * (size_t)im->width * 3;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
}

static int make_photo(const char *folder, int number) {
    const scene *s = &scenes[number % N_SCENES];
    uint64_t seed = 1000003u * (uint64_t)(number + 1);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, s->name);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/%s/%04d.jpg", folder, s->name, number);
    image im;
    choose_size(&im, seed);
    im.rgb = malloc((size_t)im.width * (size_t)im.height * 3);
    FILE *file = fopen(path, "wb");
    if (!im.rgb || !file) {
        perror(path);
        exit(1);
    }
    paint_land(&im, s, seed);
    for (int i = 0; i < s->shapes; i++) {
        paint_shape(&im, s, seed + 100 + (uint64_t)i);
    }
    write_jpeg(file, &im, between(seed, 30, 85, 95));
    free(im.rgb);
    return fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 3 || (mkdir(argv[1], 0777) != 0 && errno != EEXIST)) {
        fprintf(stderr, "usage: make_photos FOLDER COUNT\n");
        return 2;
    }
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (make_photo(argv[1], i) != 0) {
            perror("make_photos");
            return 1;
        }
    }
    return 0;
}
