/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c - results kept from peek to run. */
#include "ops/kept.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"

#include <millrace/millrace.h>

void mr_kept_begin(mr_kept *kept) {
    kept->size = 0;
    kept->is_whole = false;
}

void *mr_kept_room(mr_kept *kept, size_t more) {
    size_t needed = kept->size + more + 1; /* never nothing */
    if (needed < more) {
        return NULL;
    }
    if (needed > kept->capacity) {
        size_t capacity = needed > 2 * kept->capacity ? needed : 2 * kept->capacity;
        unsigned char *bytes = realloc(kept->bytes, capacity);
        if (!bytes) {
            return NULL;
        }
        kept->bytes = bytes;
        kept->capacity = capacity;
    }
    return kept->bytes + kept->size;
}

void mr_kept_end(mr_kept *kept, const mr_type *type, const mr_view *in) {
    kept->type = *type;
    kept->in = in->data;
    kept->in_size = in->size;
    kept->in_hash = mr_hash64(in->data, in->size, 0);
    kept->is_whole = true;
}

bool mr_kept_has(const mr_kept *kept, const mr_view *in) {
    return kept->is_whole && kept->in == in->data && kept->in_size == in->size &&
           kept->in_hash == mr_hash64(in->data, in->size, 0);
}

mr_status mr_kept_give(mr_kept *kept, mr_view *out, mr_error *err) {
    if (kept->size != out->size) {
        return mr_fail(err, MR_E_INTERNAL, "the output changed between two readings");
    }
    memcpy(out->data, kept->bytes, kept->size);
    kept->is_whole = false;
    if (kept->capacity > MR_ARENA_KEEP) {
        mr_kept_free(kept);
    }
    return MR_OK;
}

void mr_kept_free(mr_kept *kept) {
    free(kept->bytes);
    *kept = (mr_kept){0};
}
