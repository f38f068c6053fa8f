/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - what the samples of a trace look like: its pipeline and its dataset once more, if
 * they can be opened. A trace holds no pixels, so a page made elsewhere has none. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/json.h"
#include "core/memory.h"
#include "io/file.h"
#include "run/loader.h"
#include "trace/page.h"

#ifdef MR_HAVE_PNG
#include <png.h>

enum { SHEET_SAMPLES = 12, SHEET_CELL = 104, THUMBS = 24, LARGEST_FILE = 64000000 };

/* ---- Data URLs ---- */
static json_t *data_url(const unsigned char *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char start[] = "data:image/png;base64,";
    char *text = malloc(sizeof start + (n + 2) / 3 * 4);
    if (!text) {
        return NULL;
    }
    memcpy(text, start, sizeof start);
    char *at = text + sizeof start - 1;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        word |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        word |= i + 2 < n ? bytes[i + 2] : 0;
        *at++ = digits[word >> 18];
        *at++ = digits[word >> 12 & 63];
        *at++ = (char)(i + 1 < n ? digits[word >> 6 & 63] : '=');
        *at++ = (char)(i + 2 < n ? digits[word & 63] : '=');
    }
    *at = '\0';
    json_t *url = json_string(text);
    free(text);
    return url;
}

/* ---- The contact sheet ---- */
/* Drawn into a file without a name. */
static json_t *sheet_of(const mr_batch *batch) {
    char path[64];
    const mr_sheet sheet = {.columns = 6, .cell = SHEET_CELL};
    int fd = memfd_create("sheet", MFD_CLOEXEC);
    json_t *url = NULL;
    if (fd < 0) {
        return NULL;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    char *bytes = NULL;
    size_t size = 0;
    if (mr_batch_sheet(batch, &sheet, path, NULL) == MR_OK &&
        mr_file_load(path, LARGEST_FILE, &bytes, &size, NULL) == MR_OK) {
        url = data_url((const unsigned char *)bytes, size);
    }
    mr_free(bytes);
    close(fd);
    return url;
}

/* ---- Thumbnails ---- */
static json_t *png_of(const mr_view *image) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->type.dims[1],
                     .height = (png_uint_32)image->type.dims[0],
                     .format = image->type.dims[2] == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
    unsigned char *bytes = malloc(size);
    bool ok = bytes && png_image_write_to_memory(&png, bytes, &size, 0, image->data, 0, NULL);
    json_t *url = ok ? data_url(bytes, size) : NULL;
    free(bytes);
    return url;
}

static json_t *thumb_of(void *bytes, size_t size) {
    const mr_op_class *decode = mr_op_find("decode_image"), *resize = mr_op_find("resize");
    const mr_key key = {0};
    const mr_view file = {
        .type = {MR_U8, MR_PLAIN, 1, {(int64_t)size}}, .data = bytes, .size = size};
    mr_view image = {0}, small = {0};
    json_t *url = NULL;
    if (decode && resize &&
        mr_op_apply(decode, "{\"lenient\": true}", &key, &file, NULL, &image, NULL) == MR_OK &&
        mr_op_apply(resize, "{\"size\": 72}", &key, &image, NULL, &small, NULL) == MR_OK) {
        url = png_of(&small);
    }
    mr_free(image.data);
    mr_free(small.data);
    return url;
}

static json_t *thumb_of_sample(const mr_loader *loader, int64_t sample) {
    const mr_source_class *source = loader->pipeline->source;
    mr_extent extent;
    mr_open_extent open;
    json_t *url = NULL;
    if (!source->locate || sample < 0 || sample >= mr_loader_n_samples(loader) ||
        source->locate(loader->source_state, sample, &extent, NULL) < 0 ||
        mr_extent_open(&extent, &open, NULL) < 0) {
        return NULL;
    }
    void *bytes = malloc(open.size + 1);
    if (bytes && mr_extent_read(&open, bytes, NULL) == MR_OK) {
        url = thumb_of(bytes, open.size);
    }
    free(bytes);
    mr_extent_close(&open);
    return url;
}

/* By sample: the same one may be among the slowest of several epochs. */
static json_t *thumbs_of(const mr_loader *loader, const json_t *slowest) {
    json_t *thumbs = json_object(), *entry;
    size_t i;
    json_array_foreach(slowest, i, entry) {
        int64_t sample = json_integer_value(json_object_get(entry, "sample"));
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)sample);
        if (json_object_size(thumbs) < THUMBS && !json_object_get(thumbs, key)) {
            json_t *thumb = thumb_of_sample(loader, sample);
            if (thumb) {
                json_object_set_new(thumbs, key, thumb);
            }
        }
    }
    return thumbs;
}

/* ---- Public ---- */
/* The document less its caches: looking at a run must not fill a store. NULL: none. */
static char *document_of(const mr_trace *trace) {
    const char *text = json_string_value(json_object_get(trace->header, "pipeline"));
    json_t *document = NULL;
    json_error_t error;
    if (!text || mr_json_load(&document, text, strlen(text), 0, &error) < 0) {
        return NULL;
    }
    json_t *ops = json_object_get(document, "ops");
    for (size_t i = json_array_size(ops); i > 0; i--) {
        if (json_object_get(json_array_get(ops, i - 1), "cache")) {
            json_array_remove(ops, i - 1);
        }
    }
    char *without = json_dumps(document, 0);
    json_decref(document);
    return without;
}

static mr_loader *open_again(const mr_summary *s, mr_pipeline **pipeline) {
    char *text = document_of(s->trace);
    const char *dataset = json_string_value(json_object_get(s->trace->header, "dataset"));
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    options.threads = 1;
    options.batch = SHEET_SAMPLES;
    options.seed = json_integer_value(json_object_get(s->trace->header, "seed"));
    bool open = text && mr_pipeline_parse(pipeline, text, strlen(text), NULL, NULL) == MR_OK &&
                mr_loader_open(&loader, *pipeline, &options, NULL) == MR_OK;
    mr_free(text);
    if (!open) {
        return NULL;
    }
    if (!dataset || strcmp(dataset, mr_loader_fingerprint(loader)) != 0) {
        mr_loader_close(loader);
        return NULL; /* other files by now */
    }
    return loader;
}

void mr_pictures_add(const mr_summary *s, json_t *page, const json_t *slowest) {
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    mr_loader *loader = open_again(s, &pipeline);
    if (loader) {
        json_object_set_new(page, "thumbs", thumbs_of(loader, slowest));
        if (mr_loader_next(loader, &batch, NULL) == MR_OK) {
            json_t *sheet = sheet_of(batch);
            if (sheet) {
                json_object_set_new(page, "sheet", sheet);
            }
            mr_batch_unref(batch);
        }
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

#else /* without libpng */

void mr_pictures_add(const mr_summary *s, json_t *page, const json_t *slowest) {
    (void)s;
    (void)page;
    (void)slowest;
}

#endif
