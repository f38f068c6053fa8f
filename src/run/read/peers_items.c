/* SPDX-License-Identifier: Apache-2.0 */
/* peers_items.c - bytes that are kept, sent or lent, and tables of items. */
#include "run/read/peers_parts.h"

#include <stdlib.h>
#include "core/memory.h"

/* ---- Goods ---- */
char *mr_goods_bytes(goods *g) {
    return (char *)g + ROOM;
}

goods *mr_goods_at(const void *bytes) {
    return (goods *)(uintptr_t)((const char *)bytes - ROOM);
}

void mr_goods_release(goods *g) {
    if (g && atomic_fetch_sub(&g->references, 1) == 1 && !g->is_common) {
        mr_free(g);
    }
}

/* ---- Tables of items ---- */
static size_t cell_of(const table *t, int64_t item) {
    return (size_t)mr_item_mixed(item) & t->mask;
}

mr_peer_entry *mr_items_find(const table *t, int64_t item) {
    mr_peer_entry *e = t->cells ? t->cells[cell_of(t, item)] : NULL;
    while (e && e->item != item) {
        e = e->next;
    }
    return e;
}

static bool grow(table *t) {
    size_t size = t->cells ? 2 * (t->mask + 1) : 1024;
    table larger = {mr_zalloc(size, sizeof *larger.cells), t->n, size - 1};
    if (!larger.cells) {
        return t->cells != NULL;
    }
    for (size_t i = 0; t->cells && i <= t->mask; i++) {
        for (mr_peer_entry *e = t->cells[i], *next; e; e = next) {
            next = e->next;
            mr_peer_entry **cell = &larger.cells[cell_of(&larger, e->item)];
            e->next = *cell;
            *cell = e;
        }
    }
    mr_free(t->cells);
    *t = larger;
    return true;
}

mr_peer_entry *mr_items_add(table *t, int64_t item) {
    if ((!t->cells || t->n > t->mask) && !grow(t)) {
        return NULL;
    }
    mr_peer_entry *e = mr_zalloc(1, sizeof *e);
    if (e) {
        mr_peer_entry **cell = &t->cells[cell_of(t, item)];
        e->item = item;
        e->next = *cell;
        *cell = e;
        t->n++;
    }
    return e;
}

void mr_items_take_out(table *t, const mr_peer_entry *e) {
    mr_peer_entry **at = &t->cells[cell_of(t, e->item)];
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    t->n--;
}

bool mr_items_wait(mr_peer_entry *e, int32_t from, mr_load *load) {
    waiter *w = mr_zalloc(1, sizeof *w);
    if (w) {
        *w = (waiter){.next = e->waiters, .peer = from, .load = load};
        e->waiters = w;
    }
    return w != NULL;
}

void mr_items_free(table *t) {
    for (size_t i = 0; t->cells && i <= t->mask; i++) {
        for (mr_peer_entry *e = t->cells[i], *next; e; e = next) {
            next = e->next;
            mr_goods_release(e->goods);
            while (e->waiters) {
                waiter *w = e->waiters;
                e->waiters = w->next;
                mr_free(w);
            }
            mr_free(e);
        }
    }
    mr_free(t->cells);
}
