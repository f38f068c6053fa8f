/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.c - see ahead.h. */
#include "run/read/ahead.h"

#include "core/error.h"
#include "core/memory.h"

/* A visit of a block that is planned. Lanes that cut a block visit it each; where they do so at the
 * same time (there are fewer blocks than lanes, say) it is read for the first of them, whose load
 * the others (its guests) use. */
typedef struct visitor {
    mr_load load;
    int32_t child;
    uint32_t epoch; /* the child's */
    int64_t visit, end_position;
    struct visitor *host; /* whose load it uses; NULL: its own */
    int32_t guests;
    struct visitor *next; /* in a list: alive or idle */
} visitor;

/* Loads of a child by its epoch and visit, for workers. A cell is written before the batch that
 * needs it is opened, and read after. */
typedef struct table {
    _Atomic(mr_load *) *cells;
    int64_t n_visits; /* cells of an epoch */
    int64_t n_epochs; /* that may be alive at once */
} table;

struct mr_ahead {
    mr_ahead_config config;
    mr_route_walk *walk;
    mr_mix_visit upcoming;
    bool has_upcoming, is_over;
    visitor *alive, *idle;
    table *tables; /* one for each child */
};

static _Atomic(mr_load *) *cell_of(const mr_ahead *ahead, int32_t child, uint32_t epoch,
                                   int64_t visit) {
    const table *own = &ahead->tables[child];
    return &own->cells[(int64_t)epoch % own->n_epochs * own->n_visits + visit];
}

mr_load *mr_ahead_load(const mr_ahead *ahead, const mr_pick *pick) {
    return atomic_load_explicit(cell_of(ahead, pick->child, pick->epoch, pick->visit),
                                memory_order_acquire);
}

/* ---- Planning ---- */
static visitor *take_idle(mr_ahead *ahead) {
    visitor *own = ahead->idle;
    if (own) {
        ahead->idle = own->next;
        return own;
    }
    return mr_zalloc(1, sizeof *own);
}

static visitor *find_host(const mr_ahead *ahead, const mr_pick *pick) {
    visitor *at = ahead->alive;
    while (at && (at->host || at->load.block.number != pick->block || at->epoch != pick->epoch ||
                  at->child != pick->child)) {
        at = at->next;
    }
    return at;
}

static mr_load *load_of(visitor *own) {
    return own->host ? &own->host->load : &own->load;
}

static bool begin(mr_ahead *ahead, visitor *own, int64_t block) {
    mr_load *load = &own->load;
    if (own->host) {
        own->host->guests++;
        return true;
    }
    load->block.number = block;
    load->dataset = &ahead->config.children->list[own->child].dataset;
    return mr_intake_plan(ahead->config.intake, &load, 1);
}

static mr_status plan(mr_ahead *ahead, const mr_pick *pick, int64_t end_position, mr_error *err) {
    visitor *own = take_idle(ahead);
    if (!own) {
        return mr_fail_memory(err, sizeof *own);
    }
    *own = (visitor){.child = pick->child,
                     .epoch = pick->epoch,
                     .visit = pick->visit,
                     .end_position = end_position,
                     .host = find_host(ahead, pick)};
    bool begun = begin(ahead, own, pick->block);
    visitor **list = begun ? &ahead->alive : &ahead->idle;
    own->next = *list;
    *list = own;
    if (begun) {
        atomic_store_explicit(cell_of(ahead, pick->child, pick->epoch, pick->visit), load_of(own),
                              memory_order_release);
    }
    return begun ? MR_OK : mr_fail_memory(err, sizeof own->load);
}

static bool is_unwanted(const mr_ahead *ahead) {
    const mr_ahead_config *c = &ahead->config;
    const mr_mix_visit *next = &ahead->upcoming;
    return c->wants && next->visit.first_position < c->end_of_run &&
           !c->wants(c->context, next->child, next->visit.block);
}

/* Moves on to the next visit of the run. */
static mr_status look_up_next(mr_ahead *ahead, mr_error *err) {
    if (ahead->has_upcoming || ahead->is_over) {
        return MR_OK;
    }
    mr_status status;
    do {
        status = mr_route_walk_next(ahead->walk, &ahead->upcoming, err);
    } while (status == MR_OK && is_unwanted(ahead));
    MR_TRY(status);
    ahead->has_upcoming =
        status == MR_OK && ahead->upcoming.visit.first_position < ahead->config.end_of_run;
    ahead->is_over = !ahead->has_upcoming;
    return MR_OK;
}

/* A child that is small comes round soon: its next epoch but some waits until there is a cell. */
static bool is_affordable(const mr_ahead *ahead, const mr_pick *pick) {
    return atomic_load(&ahead->config.intake->blocks_alive) < ahead->config.bound &&
           !mr_ahead_load(ahead, pick);
}

/* Want of memory matters only for what is needed now. */
mr_status mr_ahead_reach(mr_ahead *ahead, int64_t end, mr_error *err) {
    for (;;) {
        MR_TRY(look_up_next(ahead, err));
        const mr_visit *next = &ahead->upcoming.visit;
        const mr_pick pick = {.child = ahead->upcoming.child,
                              .epoch = ahead->upcoming.epoch,
                              .block = next->block,
                              .visit = next->visit};
        bool due = ahead->has_upcoming && next->first_position < end;
        if (!ahead->has_upcoming || (!due && !is_affordable(ahead, &pick))) {
            return MR_OK;
        }
        mr_status status = plan(ahead, &pick, next->end_position, err);
        if (status < 0) {
            return due ? status : MR_OK;
        }
        ahead->has_upcoming = false;
    }
}

static visitor *find_visitor(const mr_ahead *ahead, const mr_pick *pick) {
    visitor *at = mr_ahead_load(ahead, pick) ? ahead->alive : NULL;
    while (at &&
           (at->visit != pick->visit || at->epoch != pick->epoch || at->child != pick->child)) {
        at = at->next;
    }
    return at;
}

mr_status mr_ahead_again(mr_ahead *ahead, const mr_pick *picks, int64_t n, int64_t until,
                         mr_error *err) {
    for (int64_t i = 0; i < n; i++) {
        if (picks[i].block < 0 || !ahead->tables[picks[i].child].cells) {
            continue;
        }
        visitor *own = find_visitor(ahead, &picks[i]);
        if (own) {
            own->end_position = own->end_position > until ? own->end_position : until;
        } else {
            MR_TRY(plan(ahead, &picks[i], until, err));
        }
    }
    return MR_OK;
}

/* False: somebody still needs it. */
static bool end(mr_ahead *ahead, visitor *own) {
    if (own->host) {
        own->host->guests--;
        return true;
    }
    return own->guests == 0 && mr_intake_let_go(ahead->config.intake, &own->load);
}

void mr_ahead_pass(mr_ahead *ahead, int64_t position) {
    for (visitor **at = &ahead->alive; *at;) {
        visitor *own = *at;
        if (own->end_position > position || !end(ahead, own)) {
            at = &own->next;
            continue;
        }
        *at = own->next;
        mr_load *load = load_of(own);
        atomic_compare_exchange_strong(cell_of(ahead, own->child, own->epoch, own->visit), &load,
                                       NULL);
        own->next = ahead->idle;
        ahead->idle = own;
    }
}

/* ---- Opening, closing ---- */
static mr_status make_cells(table *own, const mr_child *child, int64_t positions_open,
                            mr_error *err) {
    enum { AHEAD = 4 }; /* epochs beside those that open batches are in */
    size_t cells;
    if (mr_child_blocks(child) == 0) {
        return MR_OK;
    }
    own->n_visits = mr_course_max_visits(child->course);
    own->n_epochs = positions_open / mr_course_length(child->course) + AHEAD;
    if (__builtin_mul_overflow((size_t)own->n_visits, (size_t)own->n_epochs, &cells) ||
        !(own->cells = mr_zalloc(cells, sizeof *own->cells))) {
        return mr_fail_memory(err, (size_t)own->n_visits * sizeof *own->cells);
    }
    return MR_OK;
}

static mr_status make_tables(mr_ahead *ahead, mr_error *err) {
    const mr_ahead_config *c = &ahead->config;
    size_t n = (size_t)c->children->n;
    ahead->tables = mr_zalloc(n, sizeof *ahead->tables);
    if (!ahead->tables) {
        return mr_fail_memory(err, n * sizeof *ahead->tables);
    }
    for (int32_t i = 0; i < c->children->n; i++) {
        MR_TRY(make_cells(&ahead->tables[i], &c->children->list[i], c->positions_open, err));
    }
    return MR_OK;
}

mr_status mr_ahead_open(mr_ahead **out, const mr_ahead_config *config, mr_error *err) {
    mr_ahead *ahead = mr_zalloc(1, sizeof *ahead);
    if (!ahead) {
        return mr_fail_memory(err, sizeof *ahead);
    }
    *out = ahead;
    ahead->config = *config;
    MR_TRY(make_tables(ahead, err));
    ahead->is_over = config->is_over;
    return ahead->is_over
               ? MR_OK
               : mr_route_walk_open(&ahead->walk, &config->children->route, (uint32_t)config->epoch,
                                    config->position, config->first_lane, config->end_lane, err);
}

static void free_list(const mr_ahead *ahead, visitor *list) {
    while (list) {
        visitor *next = list->next;
        mr_intake_empty(ahead->config.intake, &list->load);
        mr_free(list);
        list = next;
    }
}

void mr_ahead_close(mr_ahead *ahead) {
    if (ahead) {
        mr_route_walk_free(ahead->walk);
        free_list(ahead, ahead->alive);
        free_list(ahead, ahead->idle);
        for (int32_t i = 0; ahead->tables && i < ahead->config.children->n; i++) {
            mr_free(ahead->tables[i].cells);
        }
        mr_free(ahead->tables);
        mr_free(ahead);
    }
}
