/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what tests of the whole engine need: a folder of small JPEGs, made here, and loaders
 * opened in one line. */
#ifndef MR_FIXTURE_H
#define MR_FIXTURE_H

#include <ftw.h>
#include <millrace/millrace.h>
#include <stdio.h> /* before jpeglib.h, which needs FILE */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

/* ---- Files ---- */
static inline char *fixture_folder(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/millrace-test-XXXXXX");
    return mkdtemp(path);
}

static inline int fixture_remove_one(const char *path, const struct stat *info, int kind,
                                     struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void fixture_remove(const char *folder) {
    nftw(folder, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fixture_write(const char *folder, const char *name, const void *bytes,
                                 size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(bytes, 1, n, file);
        fclose(file);
    }
}

/* A small JPEG with a pattern that depends on `which`. */
static inline void fixture_jpeg_of(const char *path, int which, int width, int height) {
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    static unsigned char row[3 * 4096];
    FILE *file = fopen(path, "wb");
    if (!file) {
        return;
    }
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_stdio_dest(&cinfo, file);
    cinfo.image_width = (JDIMENSION)width;
    cinfo.image_height = (JDIMENSION)height;
    cinfo.input_components = 3;
    cinfo.in_color_space = JCS_RGB;
    jpeg_set_defaults(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < cinfo.image_height) {
        for (unsigned x = 0; x < cinfo.image_width * 3; x++) {
            row[x] = (unsigned char)(x * 3 + cinfo.next_scanline * 5 + (unsigned)which * 17);
        }
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&cinfo, rows, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    fclose(file);
}

static inline void fixture_jpeg(const char *path, int which) {
    fixture_jpeg_of(path, which, 24 + which % 40, 20 + which % 30);
}

/* n JPEGs in three class folders; returns the folder. */
static inline char *fixture_photos(int n) {
    char *folder = fixture_folder(), path[128];
    for (int i = 0; folder && i < n; i++) {
        snprintf(path, sizeof path, "%s/class%d", folder, i % 3);
        mkdir(path, 0755);
        snprintf(path, sizeof path, "%s/class%d/%03d.jpg", folder, i % 3, i);
        fixture_jpeg(path, i);
    }
    return folder;
}

/* ---- Loaders ---- */
static inline mr_pipeline *fixture_pipeline(const char *json) {
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    if (mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err) < 0) {
        fprintf(stderr, "pipeline: %s (%s) %s\n", err.text, err.where, err.hint);
    }
    return pipeline;
}

static inline mr_loader *fixture_loader(const mr_pipeline *pipeline, const mr_options *options) {
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    if (mr_loader_open(&loader, pipeline, options, &err) < 0) {
        fprintf(stderr, "loader: %s: %s\n", err.source, err.text);
    }
    return loader;
}

#endif
