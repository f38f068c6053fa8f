/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of JSON entries: the lines before the first zero byte are a schema,
 * what follows is an entry, and then, as it is, a packed value that somebody else made. Fields lie
 * inside the value, and fixed ones have their size. */
#include <stdlib.h>
#include <string.h>

#include "sources/entry_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES = 8, FIELDS = LINES + 16, LARGEST = 1 << 16 };

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

/* Every byte of a field is there. */
static void look(const mr_view *view) {
    uint8_t sum = 0;
    for (size_t i = 0; view->data && i < view->size; i++) {
        sum = (uint8_t)(sum + ((const uint8_t *)view->data)[i]);
    }
    (void)sum;
}

static bool use(void *user, const mr_entry *entry) {
    const mr_entry_format *format = user;
    mr_field fields[FIELDS];
    mr_view views[FIELDS];
    int32_t n = 0;
    mr_arrival arrival = {.entry = *entry, .weight = 1};
    void *parts[1] = {&arrival};
    const mr_block block = {.n_parts = 1, .parts = parts};
    want(mr_entry_describe(format, fields, FIELDS, &n) == MR_OK && n <= FIELDS);
    for (int32_t i = 0; i < n; i++) {
        int64_t fixed = mr_type_bytes(&fields[i].type);
        bool large = fixed > LARGEST;
        views[i] = (mr_view){.type = fields[i].type, .size = large ? MR_UNWANTED : 0};
        if (fixed > 0 && !large) {
            views[i].data = malloc((size_t)fixed);
            views[i].size = (size_t)fixed;
            want(views[i].data != NULL);
        }
    }
    mr_status status = mr_entry_fill(format, &block, 0, views, NULL);
    for (int32_t i = 0; i < n; i++) {
        int64_t fixed = mr_type_bytes(&fields[i].type);
        if (status == MR_OK && views[i].size != MR_UNWANTED) {
            look(&views[i]);
            want(fixed >= 0 || views[i].size % mr_dtype_size(views[i].type.dtype) == 0);
        }
        free(fixed > 0 && fixed <= LARGEST ? views[i].data : NULL);
    }
    return true;
}

/* The schema's lines, in place; gives how many. */
static int32_t cut_lines(char *text, const char **lines) {
    int32_t n = 0;
    for (char *at = text; at && *at && n < LINES;) {
        char *end = strchr(at, '\n');
        lines[n++] = at;
        at = end ? end + 1 : NULL;
        if (end) {
            *end = 0;
        }
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = memchr(data, 0, size);
    char *text = zero ? strdup((const char *)data) : NULL;
    const char *lines[LINES];
    if (!text) {
        return 0;
    }
    mr_entry_format format = {.schema = {.n = cut_lines(text, lines), .v = lines}};
    if (mr_entry_format_check(&format, NULL) == MR_OK && format.json) {
        mr_json_packer packer = {0};
        const mr_entry_sink sink = {use, &format};
        mr_entry_sink through = mr_entry_through(&format, &packer, &sink);
        const mr_entry entry = {.value = zero + 1, .size = size - (size_t)(zero + 1 - data)};
        want(through.take(through.user, &entry));
        mr_json_packer_free(&packer);
        (void)use(&format, &entry);
    }
    mr_entry_format_free(&format);
    free(text);
    return 0;
}
