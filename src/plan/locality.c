/* SPDX-License-Identifier: Apache-2.0 */
/* locality.c - see locality.h. */
#include "plan/locality.h"

#include <millrace/millrace.h>

#include "core/error.h"
#include "core/memory.h"

struct mr_locality {
    mr_share_terms terms;
    mr_share share;
    int64_t *first_item; /* of each child */
    int64_t items;
    int32_t n_children, nodes;
    mr_placement *placement;

    /* of the step that was asked for last */
    mr_balance *balance;
    mr_pick *picks;
    int32_t *holder;
    int64_t *quota;
};

/* ---- Items ---- */
int64_t mr_locality_item(const mr_locality *locality, int32_t child, int64_t number) {
    return locality->first_item[child] + number;
}

int64_t mr_locality_items(const mr_locality *locality) {
    return locality->items;
}

void mr_locality_split(const mr_locality *locality, int64_t item, int32_t *child, int64_t *number) {
    *child = locality->n_children - 1;
    while (*child > 0 && locality->first_item[*child] > item) {
        --*child;
    }
    *number = item - locality->first_item[*child];
}

static int64_t item_of(const mr_locality *l, const mr_pick *pick) {
    return mr_locality_item(l, pick->child, pick->block >= 0 ? pick->block : pick->sample);
}

/* The last node may have fewer ranks. */
static int64_t ranks_of(const mr_locality *l, int64_t node) {
    int64_t first = node * l->terms.ranks_per_node, left = l->share.schedule.world - first;
    return left < l->terms.ranks_per_node ? left : l->terms.ranks_per_node;
}

int32_t mr_locality_copies(const mr_locality *locality) {
    int64_t most = locality->terms.replicas;
    return (int32_t)(most < locality->nodes ? most : locality->nodes);
}

/* Numbers of neighbours are dealt to different ranks. */
int32_t mr_locality_copy(const mr_locality *locality, int64_t item, int32_t copy) {
    int64_t node = mr_placement_at(locality->placement, item, copy);
    return node < 0
               ? -1
               : (int32_t)(node * locality->terms.ranks_per_node + item % ranks_of(locality, node));
}

int32_t mr_locality_copy_of(const mr_locality *locality, int64_t item, int32_t rank) {
    int32_t copy = mr_locality_copies(locality) - 1;
    while (copy >= 0 && mr_locality_copy(locality, item, copy) != rank) {
        copy--;
    }
    return copy;
}

bool mr_locality_keeps(const mr_locality *locality, int64_t item, int32_t copy) {
    int32_t node = mr_placement_at(locality->placement, item, copy);
    return node >= 0 && mr_placement_keeps(locality->placement, item, node);
}

int32_t mr_locality_owner(const mr_locality *locality, int64_t item) {
    return mr_locality_copy(locality, item, 0);
}

bool mr_locality_is_kept(const mr_locality *locality, int64_t item) {
    return mr_locality_keeps(locality, item, 0);
}

bool mr_locality_is_near(const mr_locality *locality, int64_t item, int64_t rank) {
    int64_t node = rank / locality->terms.ranks_per_node;
    return mr_placement_at(locality->placement, item, 0) == node;
}

/* ---- Steps ---- */
/* Who has each slot's item: the first of its copies that is kept. */
static void find_holders(mr_locality *l, int64_t slots) {
    for (int64_t k = 0; k < slots; k++) {
        const mr_pick item = {.sample = item_of(l, &l->picks[k]), .block = -1};
        mr_placement_list(l->placement, &item, 1, &l->holder[k]);
    }
}

mr_status mr_locality_step(mr_locality *l, mr_route_cursor *cursor, const mr_slice *step,
                           mr_error *err) {
    const mr_positions all = {step->first, step->count, 1, 1};
    MR_TRY(mr_route_list(cursor, (uint32_t)step->epoch, &all, l->picks, err));
    find_holders(l, step->count);
    mr_share_quotas(&l->share, step, l->terms.ranks_per_node, l->quota);
    mr_balance_step(l->balance, l->holder, step->count, l->quota);
    return MR_OK;
}

mr_portion mr_locality_portion(const mr_locality *l, const mr_slice *step, int64_t rank,
                               mr_pick *picks) {
    mr_portion portion = mr_share_local(&l->share, step, l->balance, l->terms.ranks_per_node, rank);
    for (int64_t k = 0; k < portion.positions.count; k++) {
        picks[k] = l->picks[portion.slots[k]];
    }
    return portion;
}

/* ---- Opening ---- */
typedef struct sizes {
    const mr_locality_config *config;
    const mr_locality *locality;
    bool unknown;
} sizes;

static int64_t size_of(void *context, int64_t item) {
    sizes *s = context;
    int64_t size = s->config->terms.sample_bytes, number;
    int32_t child;
    if (size == 0) {
        mr_locality_split(s->locality, item, &child, &number);
        size = s->config->size(s->config->context, child, number);
    }
    s->unknown = s->unknown || size < 0;
    return size < 0 ? 0 : size;
}

static mr_status place(mr_locality *l, const mr_locality_config *config, mr_error *err) {
    sizes found = {config, l, false};
    int64_t *capacity = mr_zalloc((size_t)l->nodes, sizeof *capacity);
    if (!capacity) {
        return mr_fail_memory(err, (size_t)l->nodes * sizeof *capacity);
    }
    for (int32_t node = 0; node < l->nodes; node++) {
        capacity[node] = config->terms.memory;
    }
    const mr_placement_config placement = {.holders = l->nodes,
                                           .capacity = config->terms.memory > 0 ? capacity : NULL,
                                           .items = l->items,
                                           .size = size_of,
                                           .context = &found,
                                           .replicas = (int32_t)config->terms.replicas};
    mr_status status = mr_placement_open(&l->placement, &placement, err);
    mr_free(capacity);
    if (status == MR_OK && found.unknown) {
        mr_error_at_json(err, "$.share.memory");
        status = mr_fail(err, MR_E_PARAM, "the source does not know how large its samples are");
        mr_hint(err, "say it: \"share\": {\"memory\": \"64GB\", \"sample_bytes\": \"110KB\", ...}");
    }
    return status;
}

static mr_status number_items(mr_locality *l, const mr_locality_config *config, mr_error *err) {
    l->first_item = mr_zalloc((size_t)config->n_children, sizeof *l->first_item);
    if (!l->first_item) {
        return mr_fail_memory(err, (size_t)config->n_children * sizeof *l->first_item);
    }
    for (int32_t i = 0; i < config->n_children; i++) {
        l->first_item[i] = l->items;
        l->items += config->items[i];
    }
    return MR_OK;
}

static mr_status make_room(mr_locality *l, mr_error *err) {
    size_t batch = (size_t)l->share.schedule.batch;
    l->picks = mr_zalloc(batch, sizeof *l->picks);
    l->holder = mr_zalloc(batch, sizeof *l->holder);
    l->quota = mr_zalloc((size_t)l->nodes, sizeof *l->quota);
    if (!l->picks || !l->holder || !l->quota) {
        return mr_fail_memory(err, batch * sizeof *l->picks);
    }
    return mr_balance_open(&l->balance, (int64_t)batch, l->nodes, err);
}

static mr_status open_parts(mr_locality *l, const mr_locality_config *config, mr_error *err) {
    int64_t each = l->terms.ranks_per_node, nodes = (l->share.schedule.world + each - 1) / each;
    if (nodes > MR_MAX_HOLDERS) {
        return mr_fail(err, MR_E_LIMIT, "%lld nodes are too many to share: at most %d",
                       (long long)nodes, MR_MAX_HOLDERS);
    }
    l->nodes = (int32_t)nodes;
    MR_TRY(number_items(l, config, err));
    MR_TRY(place(l, config, err));
    return l->terms.mode == MR_SHARE_LOCAL ? make_room(l, err) : MR_OK;
}

mr_status mr_locality_open(mr_locality **out, const mr_locality_config *config, mr_error *err) {
    mr_locality *l = mr_zalloc(1, sizeof *l);
    if (!l) {
        return mr_fail_memory(err, sizeof *l);
    }
    l->terms = config->terms;
    l->share = config->share;
    l->n_children = config->n_children;
    mr_status status = open_parts(l, config, err);
    if (status < 0) {
        mr_locality_free(l);
        return status;
    }
    *out = l;
    return MR_OK;
}

void mr_locality_free(mr_locality *locality) {
    if (locality) {
        mr_placement_free(locality->placement);
        mr_balance_free(locality->balance);
        mr_free(locality->first_item);
        mr_free(locality->picks);
        mr_free(locality->holder);
        mr_free(locality->quota);
        mr_free(locality);
    }
}
