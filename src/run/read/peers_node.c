/* SPDX-License-Identifier: Apache-2.0 */
/* peers_node.c - what ranks of one machine keep, seen by the others of it where it lies.
 *
 * What a rank owns and keeps it reads into memory that others can map (io/common.h), and shows it
 * there once it is whole:
 *
 *     offset 0      index: magic, number of cells, cells: the offset of the newest tag, 0: none
 *     tag           item, offset of the next tag of the cell, form, size and hash of the bytes
 *     ROOM          the goods, which are the owner's alone
 *     bytes
 *
 * A tag is never changed once a cell has its offset, and neither are the bytes, so nobody takes a
 * lock: who needs an item of a rank that it can look into looks it up, and only what is not there
 * yet is asked for, by a message whose answer says where it lies, not what it is. So one copy
 * serves all ranks of the machine, and no bytes go through MPI between them.
 *
 * Who looks takes nothing for granted: offsets and lengths are compared with the size that is
 * mapped, chains have an end, and bytes are hashed each time that they are lent. Whoever could
 * change them while they are used could as well look into this process: the system allows neither
 * to others. Ranks in other containers or of other users cannot be looked into; they have messages.
 */
#include "run/read/peers_parts.h"

#include <string.h>
#include "core/memory.h"
#include "io/machine.h"
#include "run/read/exchange.h"

enum { TAG_ROOM = 64, LONGEST_CHAIN = 4096, SMALLEST = 4096 /* what an index and a tag need */ };
#define INDEX_MAGIC 0x3178646965646f6eu /* "nodeidx1" */

typedef struct node_index {
    uint64_t magic, n_cells;
    _Atomic uint64_t cells[];
} node_index;

typedef struct tag {
    int64_t item;
    uint64_t next, size, hash[2];
    uint32_t form, unused;
} tag;
_Static_assert(sizeof(tag) <= TAG_ROOM, "a tag must fit");

static uint64_t cell_of(int64_t item, uint64_t n_cells) {
    return mr_item_mixed(item) & (n_cells - 1);
}

static size_t index_size(uint64_t n_cells) {
    return sizeof(node_index) + (size_t)n_cells * sizeof(uint64_t);
}

/* ---- The owner ---- */
/* About one item a cell. The index has memory from the beginning, so it is small beside what can be
 * kept: samples of less than a page share cells where there are as many as that. */
static uint64_t choose_cells(const mr_peers *x, int64_t memory) {
    enum { LEAST = 8, SHARE = 4096 };
    const int64_t given = x->config.terms.share.memory;
    const uint64_t room = (uint64_t)(given > 0 && given < memory ? given : memory) / SHARE;
    uint64_t items = (uint64_t)mr_locality_items(x->config.locality), n = LEAST;
    while (n < items / (uint64_t)x->config.world && n < room) {
        n *= 2;
    }
    return n;
}

/* No rank keeps more than the machine has. It maps as much again for each rank of the machine: of
 * the 2^47 bytes that a process can map, three quarters are left to others. */
static int64_t choose_size(const mr_peers *x) {
    const int64_t memory = mr_machine_memory(), most = ((int64_t)1 << 45) / x->config.world;
    return memory < most ? memory : most;
}

void mr_node_open(mr_peers *x, mr_common_name *own) {
    const int64_t memory = choose_size(x);
    const uint64_t n = choose_cells(x, memory);
    node_index *index = x->maps && memory > 0 && mr_common_open(&x->common, (size_t)memory)
                            ? mr_common_take(&x->common, index_size(n))
                            : NULL;
    if (index) {
        index->magic = INDEX_MAGIC;
        index->n_cells = n;
        x->n_cells = n;
    }
    atomic_store(&x->is_partial, !index);
    mr_common_tell(&x->common, own);
}

/* Bytes of files that a sample at a cache op may take the place of would stay for nothing. */
bool mr_node_may_show(const mr_peers *x, int64_t item, form as) {
    int32_t child;
    int64_t number;
    mr_travel travel = (mr_travel)x->config.terms.share.travel;
    mr_locality_split(x->config.locality, item, &child, &number);
    const mr_dataset *dataset = &x->config.children->list[child].dataset;
    bool may_change = mr_exchange_cache(x->config.children, dataset, travel) != NULL;
    return x->n_cells > 0 && (as == RECORD || !may_change);
}

goods *mr_node_take(mr_peers *x, size_t size) {
    char *at = NULL;
    if (x->n_cells > 0 && size < SIZE_MAX / 2) {
        pthread_mutex_lock(&x->common_lock);
        at = mr_common_take(&x->common, TAG_ROOM + ROOM + size);
        pthread_mutex_unlock(&x->common_lock);
    }
    return at ? (goods *)(void *)(at + TAG_ROOM) : NULL;
}

/* Once it is given back another thread may have it for goods of its own. */
void mr_node_drop(mr_peers *x, goods *g) {
    if (!g->is_common) {
        mr_goods_release(g);
        return;
    }
    pthread_mutex_lock(&x->common_lock);
    mr_common_give_back(&x->common, (char *)g - TAG_ROOM);
    pthread_mutex_unlock(&x->common_lock);
}

void mr_node_show(mr_peers *x, int64_t item, goods *g) {
    if (!g->is_common) {
        atomic_store(&x->is_partial, true);
        return;
    }
    node_index *index = (node_index *)(void *)x->common.data;
    _Atomic uint64_t *cell = &index->cells[cell_of(item, x->n_cells)];
    tag *t = (tag *)(void *)((char *)g - TAG_ROOM);
    *t = (tag){.item = item,
               .next = atomic_load_explicit(cell, memory_order_relaxed),
               .size = g->size,
               .hash = {g->hash.low, g->hash.high},
               .form = g->form};
    atomic_store_explicit(cell, (uint64_t)((char *)t - x->common.data), memory_order_release);
}

/* ---- The others ---- */
static bool look_into(peer *p, const mr_common_name *name) {
    node_index index = {0};
    if (name->size < SMALLEST || name->pid != p->process.pid || !mr_common_look(&p->view, name)) {
        return false;
    }
    memcpy(&index, p->view.data, sizeof index);
    uint64_t n = index.n_cells;
    if (index.magic != INDEX_MAGIC || n == 0 || (n & (n - 1)) != 0 ||
        n > (p->view.size - sizeof index) / sizeof(uint64_t)) {
        mr_common_look_away(&p->view);
        return false;
    }
    p->n_cells = n;
    return true;
}

/* Each takes the other for one that can see, until it says that it cannot: before it asks. */
void mr_node_look(mr_peers *x, int32_t rank, const mr_common_name *name) {
    peer *p = &x->peers[rank];
    bool can_both = x->maps && p->is_here && name->fd >= 0;
    atomic_store(&p->sees, can_both && x->n_cells > 0);
    if (can_both && !look_into(p, name)) {
        mr_letters_post_word(x, rank, BLIND, 0);
    }
}

void mr_node_settle(mr_peers *x) {
    bool any = false;
    for (int32_t r = 0; r < x->config.world && !any; r++) {
        any = atomic_load(&x->peers[r].sees);
    }
    if (!any) {
        mr_common_close(&x->common);
        x->n_cells = 0;
        atomic_store(&x->is_partial, true);
    }
}

/* A copy of the tag, whose bytes are in the view; its offset, or 0: it is not there. */
static uint64_t find(const peer *p, int64_t item, tag *out) {
    const node_index *index = (const node_index *)(const void *)p->view.data;
    if (!index) {
        return 0;
    }
    uint64_t at =
        atomic_load_explicit(&index->cells[cell_of(item, p->n_cells)], memory_order_acquire);
    for (int steps = 0; at != 0 && steps < LONGEST_CHAIN; steps++, at = out->next) {
        if (at % MR_COMMON_ALIGN != 0 || at > p->view.size - TAG_ROOM - ROOM) {
            return 0;
        }
        memcpy(out, p->view.data + at, sizeof *out);
        if (out->item == item) {
            bool fits = out->size <= p->view.size - TAG_ROOM - ROOM - at && out->form < FORMS;
            return fits ? at : 0;
        }
    }
    return 0;
}

bool mr_node_sees(const mr_peers *x, int64_t item, int32_t owner) {
    tag ignored;
    return find(&x->peers[owner], item, &ignored) != 0;
}

static mr_answer lend(mr_peers *x, mr_load *load, const tag *t, const char *bytes) {
    const mr_hash128 hash = mr_hash(bytes, t->size);
    if (hash.low != t->hash[0] || hash.high != t->hash[1]) {
        pthread_mutex_lock(&x->lock);
        x->counts.damaged++;
        pthread_mutex_unlock(&x->lock);
        return MR_ANSWER_NOT_HERE;
    }
    return mr_load_lend(load, (form)t->form, (char *)(uintptr_t)bytes, t->size);
}

static mr_answer ask_node(void *state, mr_load *load) {
    mr_peers *x = state;
    int64_t item = mr_locality_item(x->config.locality, load->dataset->number, load->block.number);
    int32_t owner = mr_locality_owner(x->config.locality, item);
    const peer *p = &x->peers[owner];
    tag t;
    uint64_t at = owner != x->config.rank && mr_extents_can_travel(load->extents, load->n_extents)
                      ? find(p, item, &t)
                      : 0;
    return at != 0 ? lend(x, load, &t, p->view.data + at + TAG_ROOM + ROOM) : MR_ANSWER_NOT_HERE;
}

/* The view stays until the peers are closed. */
static void release(void *state, mr_load *load) {
    (void)state;
    (void)load;
}

/* A link that broke may still read what it was to send. */
void mr_node_close(mr_peers *x) {
    for (int32_t r = 0; x->peers && r < x->config.world; r++) {
        mr_common_look_away(&x->peers[r].view);
    }
    if (x->is_broken) {
        mr_common_leave(&x->common);
    } else {
        mr_common_close(&x->common);
    }
}

const mr_origin_class mr_node_origin = {.name = "node", .ask = ask_node, .release = release};
