/* SPDX-License-Identifier: Apache-2.0 */
/* image_file.c - which codec decodes a file. */
#include "codecs/codec.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/registry.h"

static bool is_left_out(const char *without, const char *name) {
    for (const char *at = without ? without : ""; *at;) {
        size_t length = strcspn(at, ",");
        if (length == strlen(name) && memcmp(at, name, length) == 0) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

/* The codec for these bytes that is preferred most, below `before` where that is not NULL. */
static const mr_codec *next_codec(const mr_image_file *file, const mr_codec *before) {
    const mr_codec *best = NULL;
    for (int32_t i = 0; i < mr_n_codecs(); i++) {
        const mr_codec *codec = mr_codec_at(i);
        bool later = !before || (codec->preference < before->preference &&
                                 strcmp(codec->format, before->format) == 0);
        if (later && (!best || codec->preference > best->preference) &&
            !is_left_out(file->without, codec->name) && codec->sniff(file->bytes, file->size)) {
            best = codec;
        }
    }
    return best;
}

/* Only in a build without the library that decodes all files of the format. */
static mr_status all_declined(const mr_image_file *file, mr_error *err) {
    mr_fail(err, MR_E_UNSUPPORTED, "cannot decode %s: only regular files of the codec %s",
            file->codec->format, file->codec->name);
    mr_hint(err, "this build lacks a codec that takes every file: see millrace ops --missing");
    return MR_E_UNSUPPORTED;
}

mr_status mr_image_file_open(mr_image_file *file, int64_t max_pixels, bool lenient, mr_error *err) {
    const mr_codec *last = NULL;
    file->codec = next_codec(file, NULL);
    while (file->codec) {
        mr_status status =
            file->codec->header(file->bytes, file->size, max_pixels, lenient, &file->header, err);
        if (status != MR_DECLINED) {
            return status;
        }
        last = file->codec;
        file->codec = next_codec(file, last);
    }
    file->codec = last;
    return last ? all_declined(file, err) : MR_E_UNSUPPORTED;
}

mr_status mr_image_file_decode(const mr_image_file *file, const mr_decode_request *request,
                               mr_error *err) {
    const mr_codec *codec = file->codec;
    do {
        mr_status status = codec->decode(file->bytes, file->size, request, err);
        if (status != MR_DECLINED) {
            return status;
        }
        codec = next_codec(file, codec);
    } while (codec);
    return all_declined(file, err);
}

/* ---- Parts: rows that a codec gave before it declined are not given again ---- */
typedef struct late_rows {
    const mr_rows *to;
    int64_t next; /* the first row that was not given yet */
} late_rows;

static mr_status pass_new_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    late_rows *rows = user;
    if (y < rows->next) {
        return MR_OK;
    }
    rows->next = y + 1;
    return rows->to->row(rows->to->user, y, pixels, err);
}

mr_status mr_image_file_part(const mr_image_file *file, const mr_decode_request *request,
                             const mr_region *part, const mr_rows *to, mr_error *err) {
    late_rows rows = {.to = to, .next = part->y};
    const mr_rows own = {.row = pass_new_row, .user = &rows};
    const mr_codec *codec = file->codec;
    do {
        mr_status status = codec->part
                               ? codec->part(file->bytes, file->size, request, part, &own, err)
                               : MR_DECLINED;
        if (status != MR_DECLINED) {
            return status;
        }
        codec = next_codec(file, codec);
    } while (codec);
    return rows.next > part->y ? all_declined(file, err) : MR_DECLINED;
}

mr_status mr_image_file_index(const mr_image_file *file, mr_call *call, mr_index *out,
                              mr_error *err) {
    *out = (mr_index){0};
    return file->codec->index ? file->codec->index(file->bytes, file->size, call, out, err)
                              : MR_DECLINED;
}

int32_t mr_image_file_most_shrink(const mr_image_file *file) {
    int32_t most = 1;
    for (int32_t i = 0; i < mr_n_codecs(); i++) {
        const mr_codec *codec = mr_codec_at(i);
        bool fits = !file || (strcmp(codec->format, file->codec->format) == 0 &&
                              !is_left_out(file->without, codec->name));
        most = fits && codec->most_shrink > most ? codec->most_shrink : most;
    }
    return most;
}

void mr_image_file_libraries(char *text, size_t size) {
    text[0] = 0;
    for (int32_t i = 0; i < mr_n_codecs(); i++) {
        size_t used = strlen(text);
        if (mr_codec_at(i)->libraries && used + 3 < size) {
            const char *comma = used ? ", " : "";
            snprintf(text + used, size - used, "%s", comma);
            mr_codec_at(i)->libraries(text + used + strlen(comma), size - used - strlen(comma));
        }
    }
}
