/* SPDX-License-Identifier: Apache-2.0 */
/* name_table.c - see name_table.h. Open addressing; names are copied, since what they are the names
 * of may move as it grows. */
#include "core/name_table.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"

/* The slot that has the name, or the free one it would be put into. */
static mr_name_slot *slot_of(const mr_name_table *t, const char *name, size_t length) {
    size_t place = (size_t)mr_hash64(name, length, 0) & (t->n_slots - 1);
    while (t->slots[place].number >= 0 &&
           (t->slots[place].length != length ||
            memcmp(t->text + t->slots[place].start, name, length) != 0)) {
        place = (place + 1) & (t->n_slots - 1);
    }
    return &t->slots[place];
}

static mr_status grow_slots(mr_name_table *t, mr_error *err) {
    mr_name_table grown = *t;
    grown.n_slots = t->n_slots ? 2 * t->n_slots : 64;
    grown.slots = malloc(grown.n_slots * sizeof *grown.slots);
    if (!grown.slots) {
        return mr_fail_memory(err, grown.n_slots * sizeof *grown.slots);
    }
    for (size_t i = 0; i < grown.n_slots; i++) {
        grown.slots[i].number = -1;
    }
    for (size_t i = 0; i < t->n_slots; i++) {
        const mr_name_slot *old = &t->slots[i];
        if (old->number >= 0) {
            *slot_of(&grown, t->text + old->start, old->length) = *old;
        }
    }
    free(t->slots);
    *t = grown;
    return MR_OK;
}

static mr_status copy_name(mr_name_table *t, const char *name, size_t length, mr_error *err) {
    if (t->n_text + length > t->capacity) {
        size_t capacity = 2 * t->capacity + length + 256;
        char *text = realloc(t->text, capacity);
        if (!text) {
            return mr_fail_memory(err, capacity);
        }
        t->text = text;
        t->capacity = capacity;
    }
    if (length > 0) {
        memcpy(t->text + t->n_text, name, length);
    }
    t->n_text += length;
    return MR_OK;
}

mr_status mr_name_table_put(mr_name_table *t, const char *name, size_t length, int32_t number,
                            mr_error *err) {
    if (2 * ((size_t)t->n + 1) >= t->n_slots) {
        MR_TRY(grow_slots(t, err));
    }
    mr_name_slot *slot = slot_of(t, name, length);
    if (slot->number < 0) {
        MR_TRY(copy_name(t, name, length, err));
        *slot = (mr_name_slot){t->n_text - length, length, number};
        t->n++;
    }
    return MR_OK;
}

int32_t mr_name_table_find(const mr_name_table *t, const char *name, size_t length) {
    return t->n_slots ? slot_of(t, name, length)->number : -1;
}

void mr_name_table_free(mr_name_table *t) {
    free(t->slots);
    free(t->text);
    *t = (mr_name_table){.n = 0};
}
