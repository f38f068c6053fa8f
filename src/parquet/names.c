/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - what names tell: columns in the folders of a path, as Hive writes them, and structs
 * that other projects agreed upon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "core/json.h"
#include "parquet/parts.h"

/* Copies text with %XX undone. */
static void undo_escapes(const char *from, size_t size, char *to) {
    for (size_t i = 0; i < size; i++) {
        int high = i + 2 < size && from[i] == '%' ? mr_hex_digit(from[i + 1]) : -1;
        int low = high >= 0 ? mr_hex_digit(from[i + 2]) : -1;
        if (low >= 0 && high * 16 + low > 0) {
            *to++ = (char)(high * 16 + low);
            i += 2;
        } else {
            *to++ = from[i];
        }
    }
    *to = '\0';
}

/* "name=value" of one folder. */
static bool add_partition(json_t *object, const char *folder, size_t size, bool *lost) {
    const char *equals = memchr(folder, '=', size);
    char *name = malloc(2 * size + 2), *value = name ? name + size + 1 : NULL;
    if (!name) {
        return false;
    }
    if (equals && equals > folder) {
        undo_escapes(folder, (size_t)(equals - folder), name);
        undo_escapes(equals + 1, size - (size_t)(equals - folder) - 1, value);
        bool null = strcmp(value, "__HIVE_DEFAULT_PARTITION__") == 0;
        mr_json_set(object, name, null ? json_null() : json_string(value), lost);
    }
    free(name);
    return true;
}

json_t *mr_pq_partitions(const char *root, const char *path) {
    json_t *object = json_object();
    bool lost = !object;
    size_t skip = root ? strlen(root) : 0;
    if (root && strncmp(path, root, skip) == 0) {
        path += skip;
    }
    for (const char *slash; !lost && (slash = strchr(path, '/')); path = slash + 1) {
        lost = !add_partition(object, path, (size_t)(slash - path), &lost) || lost;
    }
    return mr_json_whole(object, lost);
}

bool mr_pq_is_bytes_and_path(const mr_pq_file *file, const char *name, int32_t *bytes,
                             int32_t *path) {
    char member[512];
    snprintf(member, sizeof member, "%s.bytes", name);
    *bytes = mr_pq_find(file, member);
    snprintf(member, sizeof member, "%s.path", name);
    *path = mr_pq_find(file, member);
    return *bytes >= 0 && *path >= 0 && file->columns[*bytes].physical == MR_PQ_BYTES &&
           (file->columns[*path].logical == MR_PQ_STRING ||
            file->columns[*path].logical == MR_PQ_NULLS) &&
           file->columns[*bytes].max_rep == 0;
}

mr_pq_image_part mr_pq_image_part_of(const mr_pq_file *file, int32_t column, char name[256]) {
    const char *whole = file->columns[column].name, *dot = strrchr(whole, '.');
    int32_t bytes = -1, path = -1;
    if (!dot || dot - whole >= 256 || (strcmp(dot, ".bytes") != 0 && strcmp(dot, ".path") != 0)) {
        return MR_PQ_NO_IMAGE;
    }
    memcpy(name, whole, (size_t)(dot - whole));
    name[dot - whole] = '\0';
    if (!mr_pq_is_bytes_and_path(file, name, &bytes, &path)) {
        return MR_PQ_NO_IMAGE;
    }
    return column == bytes ? MR_PQ_IMAGE_BYTES : column == path ? MR_PQ_IMAGE_PATH : MR_PQ_NO_IMAGE;
}
