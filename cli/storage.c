/* SPDX-License-Identifier: Apache-2.0 */
/* storage.c - see storage.h. */
#include "storage.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit {
    const char *name;
    double size;
} unit;

static const unit sizes[] = {{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {NULL, 0}};
static const unit times[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};

/* A number and a unit up to the end or a comma; *end is what follows. -1: it is none. */
static int64_t read_quantity(const char *text, const unit *units, const char **end) {
    char *after = NULL;
    double number = isdigit((unsigned char)text[0]) ? strtod(text, &after) : -1;
    size_t length = after ? strcspn(after, ",") : 0;
    for (; after && number > 0 && units->name; units++) {
        if (strlen(units->name) == length && strncmp(after, units->name, length) == 0 &&
            number * units->size < 1e15) {
            *end = after + length;
            return (int64_t)(number * units->size + 0.5);
        }
    }
    return -1;
}

mr_status mr_storage_read(mr_storage *out, const char *text, mr_error *err) {
    const char *end = "";
    *out = (mr_storage){0, 0};
    if (!text) {
        return MR_OK;
    }
    out->bytes_per_second = read_quantity(text, sizes, &end);
    if (out->bytes_per_second > 0 && *end == ',') {
        out->open_ns = read_quantity(end + 1, times, &end);
    }
    if (out->bytes_per_second > 0 && out->open_ns >= 0 && *end == '\0') {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "--storage %.64s is not a rate and a time", text);
    mr_hint(err, "bytes a second, and how long opening a file takes: --storage 910MB,4.7ms");
    return MR_E_PARAM;
}
