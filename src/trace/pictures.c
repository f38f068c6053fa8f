/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - what the slowest samples of a trace look like. A trace holds no pixels, only names,
 * and anybody may have written them: they are looked for below a folder that the user named, and
 * nothing else that the trace says is opened. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "core/base64.h"
#include "core/error.h"
#include "core/memory.h"
#include "io/file.h"
#include "kernels/kernels.h"
#include "trace/page.h"

#ifdef MR_HAVE_PNG
#include <png.h>

enum { THUMBS = 24, THUMB_SIDE = 72, LARGEST_FILE = 64000000, MOST_PIXELS = 89478485 };

/* ---- Data URLs ---- */
static json_t *data_url(const unsigned char *bytes, size_t n) {
    static const char start[] = "data:image/png;base64,";
    size_t before = sizeof start - 1, letters = mr_base64_length(n);
    char *text = malloc(before + letters);
    if (!text) {
        return NULL;
    }
    memcpy(text, start, before);
    mr_base64_encode(bytes, n, text + before);
    json_t *url = json_stringn(text, before + letters);
    free(text);
    return url;
}

/* ---- Thumbnails ---- */
typedef struct picture {
    uint8_t *pixels; /* RGB, without gaps; of the arena */
    int64_t width, height;
} picture;

static json_t *png_of(const picture *image) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
    unsigned char *bytes = malloc(size);
    bool ok = bytes && png_image_write_to_memory(&png, bytes, &size, 0, image->pixels, 0, NULL);
    json_t *url = ok ? data_url(bytes, size) : NULL;
    free(bytes);
    return url;
}

static bool decode(mr_call *call, const uint8_t *bytes, size_t size, picture *out) {
    mr_image_file file = {.bytes = bytes, .size = size};
    if (mr_image_file_open(&file, MOST_PIXELS, true, NULL) != MR_OK) {
        return false;
    }
    int64_t width = file.header.width, height = file.header.height;
    *out = (picture){mr_scratch(call, (size_t)(3 * width * height)), width, height};
    const mr_decode_request request = {.width = width,
                                       .height = height,
                                       .channels = 3,
                                       .lenient = true,
                                       .out = out->pixels,
                                       .call = call};
    return out->pixels && mr_image_file_decode(&file, &request, NULL) == MR_OK;
}

/* The longer side becomes THUMB_SIDE. */
static bool shrink(mr_call *call, const picture *in, picture *out) {
    int64_t longer = in->width > in->height ? in->width : in->height;
    int64_t width = in->width * THUMB_SIDE / longer, height = in->height * THUMB_SIDE / longer;
    *out = (picture){NULL, width > 0 ? width : 1, height > 0 ? height : 1};
    const mr_pixels all = {in->pixels, (size_t)(3 * in->width),
                           in->height, in->width,
                           3,          in->pixels + 3 * in->width * in->height};
    size_t needed = mr_resample_memory(&all, out->height, out->width, MR_BILINEAR);
    void *memory = mr_scratch(call, needed);
    out->pixels = mr_scratch(call, (size_t)(3 * out->width * out->height));
    if (!out->pixels || !memory) {
        return false;
    }
    mr_resample(mr_kernels_for(0), &all, out->pixels, out->height, out->width, MR_BILINEAR, memory);
    return true;
}

static json_t *thumb_of_bytes(const void *bytes, size_t size) {
    mr_arena arena = {0};
    mr_call call = {.kernels = mr_kernels_for(0), .arena = &arena};
    picture whole, small;
    json_t *url = NULL;
    if (decode(&call, bytes, size, &whole) && shrink(&call, &whole, &small)) {
        url = png_of(&small);
    }
    mr_arena_free(&arena);
    return url;
}

/* ---- Files ---- */
static json_t *thumb_of_file(const char *path) {
    char *bytes = NULL;
    size_t size = 0;
    if (mr_file_load(path, LARGEST_FILE, &bytes, &size, NULL) < 0) {
        return NULL;
    }
    json_t *url = thumb_of_bytes(bytes, size);
    mr_free(bytes);
    return url;
}

/* Whether a name leads nowhere but below the folder that it is joined to. */
static bool stays_below(const char *name) {
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.') {
            return false;
        }
    }
    return true;
}

/* The file of a sample: its name, or as much of the end of it as there is below the folder, which
 * may lie elsewhere by now. */
static json_t *thumb_of_name(const char *folder, const char *name) {
    enum { MOST_PARTS = 16 };
    char path[PATH_MAX];
    json_t *url = NULL;
    name += strspn(name, "./");
    for (int i = 0; i < MOST_PARTS && name && !url && stays_below(name); i++) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (length > 0 && (size_t)length < sizeof path) {
            url = thumb_of_file(path);
        }
        const char *slash = strchr(name, '/');
        name = slash ? slash + 1 : NULL;
    }
    return url;
}

/* By sample: the same one may be among the slowest of several epochs. */
static json_t *thumbs_of(const char *folder, const json_t *slowest) {
    json_t *thumbs = json_object(), *entry;
    size_t i;
    json_array_foreach(slowest, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        json_int_t sample = json_integer_value(json_object_get(entry, "sample"));
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)sample);
        if (name && json_object_size(thumbs) < THUMBS && !json_object_get(thumbs, key)) {
            json_t *thumb = thumb_of_name(folder, name);
            if (thumb) {
                json_object_set_new(thumbs, key, thumb);
            }
        }
    }
    return thumbs;
}

/* ---- Public ---- */
mr_status mr_pictures_add(const char *folder, json_t *page, const json_t *slowest, mr_error *err) {
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return mr_open_failed(folder, errno, err);
    }
    close(fd);
    return json_object_set_new(page, "thumbs", thumbs_of(folder, slowest)) == 0
               ? MR_OK
               : mr_fail_memory(err, 4096);
}

#else /* without libpng */

mr_status mr_pictures_add(const char *folder, json_t *page, const json_t *slowest, mr_error *err) {
    (void)folder;
    (void)page;
    (void)slowest;
    return mr_fail(err, MR_E_UNSUPPORTED, "no thumbnails: this build was made without libpng");
}

#endif
