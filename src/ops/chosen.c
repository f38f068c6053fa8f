/* SPDX-License-Identifier: Apache-2.0 */
/* chosen.c - see chosen.h. An inner op draws by the law like any other: its word is a hash of its
 * name, of how many of that name come before it in the list, and of the word of the op around it.
 */
#include "ops/chosen.h"

#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/inner_ops.h"
#include "core/memory.h"
#include "ops/area.h"

#include <millrace/millrace.h>

static uint32_t flags_of(const mr_inner_op *inner) {
    return mr_op_flags(inner->op, inner->params);
}

/* ---- State: that of every inner op ---- */
typedef struct states {
    int32_t n;
    const mr_op_class *ops[MR_CHOSEN_MAX];
    void *of[MR_CHOSEN_MAX];
} states;

mr_status mr_chosen_open(const void *params, void **state, mr_error *err) {
    const mr_chosen_params *p = params;
    states *s = mr_zalloc(1, sizeof *s);
    *state = s;
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    for (int32_t i = 0; i < p->ops.n; i++) {
        s->ops[i] = p->ops.v[i].op;
        s->n = i + 1; /* closed even if opening fails */
        if (s->ops[i]->open) {
            MR_TRY(s->ops[i]->open(p->ops.v[i].params, &s->of[i], err));
        }
    }
    return MR_OK;
}

void mr_chosen_close(void *state) {
    states *s = state;
    for (int32_t i = 0; s && i < s->n; i++) {
        if (s->ops[i]->close) {
            s->ops[i]->close(s->of[i]);
        }
    }
    mr_free(s);
}

/* ---- One choice, settled for one image ---- */
typedef struct step {
    const mr_op_class *op;
    const void *params;
    mr_call call;
    mr_type in, out;
    mr_region needed, wanted;
} step;

typedef struct way {
    int32_t n;
    step steps[MR_CHOSEN_MAX];
} way;

static uint32_t word_of(const mr_ops *ops, int32_t at, uint32_t outer) {
    const char *name = ops->v[at].op->name;
    uint64_t earlier = 0;
    for (int32_t i = 0; i < at; i++) {
        earlier += ops->v[i].op == ops->v[at].op;
    }
    return (uint32_t)mr_hash64(name, strlen(name), (uint64_t)outer << 32 | (earlier + 1));
}

static mr_call call_of(const mr_chosen_params *p, int32_t at, const mr_call *outer) {
    mr_call call = *outer;
    const states *s = outer->state;
    call.key.op = word_of(&p->ops, at, outer->key.op);
    call.state = s->of[at];
    call.shrink = 1;
    return call;
}

/* On a mask, colours are as if they had not been chosen; who is chosen is the image's draw. */
static mr_chosen_places spare(const mr_chosen_params *p, const mr_chosen_places *choice) {
    mr_chosen_places left = {0};
    for (int32_t i = 0; i < choice->n; i++) {
        if (!p->spares_mask || !(flags_of(&p->ops.v[choice->at[i]]) & MR_OP_COLOR)) {
            left.at[left.n++] = choice->at[i];
        }
    }
    return left;
}

static mr_status settle(const mr_chosen_params *p, const mr_call *call, const mr_type *in, way *w,
                        mr_error *err) {
    mr_chosen_places choice;
    p->choose(p, &call->key, &choice);
    choice = spare(p, &choice);
    w->n = choice.n;
    for (int32_t i = 0; i < choice.n; i++) {
        step *s = &w->steps[i];
        s->op = p->ops.v[choice.at[i]].op;
        s->params = p->ops.v[choice.at[i]].params;
        s->call = call_of(p, choice.at[i], call);
        s->in = i > 0 ? s[-1].out : *in;
        MR_TRY(s->op->plan(s->params, &s->in, &s->out, err));
    }
    return MR_OK;
}

static way *new_way(mr_call *call, mr_error *err) {
    way *w = mr_scratch(call, sizeof *w);
    if (!w) {
        mr_fail_memory(err, sizeof *w);
    }
    return w;
}

/* ---- Types ---- */
bool mr_same_type(const mr_type *a, const mr_type *b) {
    return a->dtype == b->dtype && a->layout == b->layout && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0;
}

mr_status mr_chosen_type(const mr_chosen_params *p, const mr_chosen_places *choice,
                         const mr_type *in, mr_type *out, mr_error *err) {
    const mr_chosen_places left = spare(p, choice);
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    for (int32_t i = 0; i < left.n; i++) {
        const mr_inner_op *inner = &p->ops.v[left.at[i]];
        mr_type before = *out;
        MR_TRY(inner->op->plan(inner->params, &before, out, err));
    }
    return mr_image_check(out, err); /* rows that flow are those of an image */
}

/* ---- One op after the other ---- */
static mr_status run_step(step *s, const mr_view *in, mr_view *out, mr_error *err) {
    return s->op->run(s->params, &s->call, in, out, err);
}

static mr_status run_way(way *w, mr_call *call, const mr_view *in, mr_view *out, mr_error *err) {
    mr_view value = *in;
    for (int32_t i = 0; i < w->n; i++) {
        mr_view next = {.type = w->steps[i].out, .size = (size_t)mr_type_bytes(&w->steps[i].out)};
        bool last = i == w->n - 1;
        next.data = last ? out->data : mr_scratch(call, next.size);
        if (!next.data) {
            return mr_fail_memory(err, next.size);
        }
        MR_TRY(run_step(&w->steps[i], &value, &next, err));
        value = next;
    }
    if (w->n == 0) {
        memcpy(out->data, in->data, in->size);
    }
    return MR_OK;
}

mr_status mr_chosen_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                        mr_error *err) {
    way *w = new_way(call, err);
    if (!w) {
        return MR_E_MEMORY;
    }
    MR_TRY(settle(params, call, &in->type, w, err));
    return run_way(w, call, in, out, err);
}

/* ---- Row by row: as fused ops, where all that were chosen can be ---- */
static bool can_pass(const way *w) {
    for (int32_t i = 0; i < w->n; i++) {
        if (!w->steps[i].op->want || !w->steps[i].op->pass) {
            return false;
        }
    }
    return true;
}

/* What each step wants of the one before it; returns what the first needs. */
static mr_status find_demand(way *w, const mr_type *in, const mr_region *wanted, mr_region *needed,
                             mr_error *err) {
    *needed = *wanted;
    if (!can_pass(w)) {
        *needed = mr_whole_region(in);
        return MR_OK;
    }
    for (step *s = w->steps + w->n; s > w->steps;) {
        s--;
        s->wanted = *needed;
        MR_TRY(s->op->want(s->params, &s->call, &s->in, &s->out, &s->wanted, &s->needed, err));
        *needed = s->needed;
    }
    return MR_OK;
}

mr_status mr_chosen_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         const mr_region *wanted, mr_region *needed, mr_error *err) {
    way *w = new_way(call, err);
    (void)out;
    if (!w) {
        return MR_E_MEMORY;
    }
    MR_TRY(settle(params, call, in, w, err));
    return find_demand(w, in, wanted, needed, err);
}

static mr_status connect(way *w, const mr_rows *to, mr_rows *own, mr_error *err) {
    mr_rows next = *to;
    for (step *s = w->steps + w->n; s > w->steps;) {
        s--;
        const mr_flow flow = {&s->in, &s->out, &s->needed, &s->wanted};
        mr_rows receiver;
        MR_TRY(s->op->pass(s->params, &s->call, &flow, &next, &receiver, err));
        next = receiver;
    }
    *own = next;
    return MR_OK;
}

/* ---- Row by row, where they cannot: all is gathered and run one after the other ---- */
typedef struct gathered {
    way *way;
    mr_call *call;
    mr_type in;
    mr_view out;
    mr_region wanted;
} gathered;

static mr_status run_gathered(void *user, const mr_pixels *part, mr_error *err) {
    gathered *g = user;
    mr_view in = {g->in, (void *)(uintptr_t)part->data, (size_t)mr_type_bytes(&g->in)};
    return run_way(g->way, g->call, &in, &g->out, err);
}

static void give_gathered(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    const gathered *g = user;
    const int64_t *dims = g->out.type.dims;
    size_t pixel = (size_t)dims[2];
    (void)part;
    memcpy(out, (const uint8_t *)g->out.data + (size_t)(y * dims[1] + g->wanted.x) * pixel,
           (size_t)g->wanted.width * pixel);
}

static mr_status make_gathered(const void *params, mr_call *call, const mr_flow *flow,
                               mr_area *area, mr_error *err) {
    gathered *g = mr_scratch(call, sizeof *g);
    size_t bytes = (size_t)mr_type_bytes(flow->out);
    void *memory = mr_scratch(call, bytes);
    if (!g || !memory) {
        return mr_fail_memory(err, bytes);
    }
    *g =
        (gathered){new_way(call, err), call, *flow->in, {*flow->out, memory, bytes}, *flow->wanted};
    if (!g->way) {
        return MR_E_MEMORY;
    }
    *area = (mr_area){.user = g, .begin = run_gathered, .row = give_gathered, .reach = MR_AREA_ALL};
    return settle(params, call, flow->in, g->way, err);
}

mr_status mr_chosen_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                         mr_rows *own, mr_error *err) {
    way *w = new_way(call, err);
    mr_region needed;
    if (!w) {
        return MR_E_MEMORY;
    }
    MR_TRY(settle(params, call, flow->in, w, err));
    if (!can_pass(w)) {
        return mr_area_pass(make_gathered, params, call, flow, to, own, err);
    }
    MR_TRY(find_demand(w, flow->in, flow->wanted, &needed, err));
    return connect(w, to, own, err);
}

/* ---- Where things on the image come to lie ---- */
/* An inner op that says nothing moves nothing: others are refused when the pipeline is compiled. */
mr_status mr_chosen_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                           double m[8], mr_error *err) {
    way *w = new_way(call, err);
    (void)out;
    if (!w) {
        return MR_E_MEMORY;
    }
    MR_TRY(settle(params, call, in, w, err));
    mr_follow_shift(m, 0, 0);
    for (step *s = w->steps; s < w->steps + w->n; s++) {
        double next[8] = {0};
        if (s->op->follow) {
            MR_TRY(s->op->follow(s->params, &s->call, &s->in, &s->out, next, err));
            mr_follow_then(m, next);
        }
    }
    return MR_OK;
}

/* ---- Batches ---- */
mr_status mr_chosen_check_batch(const void *params, const mr_field *fields, int32_t n,
                                mr_error *err) {
    const mr_chosen_params *p = params;
    for (int32_t i = 0; i < p->ops.n; i++) {
        MR_TRY(p->ops.v[i].op->check_batch(p->ops.v[i].params, fields, n, err));
    }
    return MR_OK;
}

mr_status mr_chosen_run_batch(const void *params, mr_call *call, int64_t n, const mr_column *fields,
                              int32_t n_fields, mr_error *err) {
    const mr_chosen_params *p = params;
    mr_chosen_places choice;
    p->choose(p, &call->key, &choice);
    for (int32_t i = 0; i < choice.n; i++) {
        const mr_inner_op *inner = &p->ops.v[choice.at[i]];
        mr_call own = call_of(p, choice.at[i], call);
        MR_TRY(inner->op->run_batch(inner->params, &own, n, fields, n_fields, err));
    }
    return MR_OK;
}

/* ---- Nature ---- */
mr_status mr_chosen_check(const mr_chosen_params *p, mr_error *err) {
    const mr_inner_op *first = &p->ops.v[0];
    bool batches = (flags_of(first) & MR_OP_BATCH) != 0;
    for (const mr_inner_op *inner = first; inner < first + p->ops.n; inner++) {
        if (((flags_of(inner) & MR_OP_BATCH) != 0) != batches) {
            return mr_fail(err, MR_E_PARAM,
                           "%s works on batches and %s on samples: they cannot stand "
                           "in one list",
                           batches ? first->op->name : inner->op->name,
                           batches ? inner->op->name : first->op->name);
        }
    }
    return MR_OK;
}

uint32_t mr_chosen_flags(const void *params) {
    const mr_chosen_params *p = params;
    uint32_t flags = MR_OP_RANDOM | MR_OP_HEAVY;
    bool color = true;
    for (int32_t i = 0; i < p->ops.n; i++) {
        flags |= flags_of(&p->ops.v[i]) & (MR_OP_OPAQUE | MR_OP_SIZED | MR_OP_BATCH);
        color = color && (flags_of(&p->ops.v[i]) & MR_OP_COLOR);
    }
    return flags | (color ? MR_OP_COLOR : 0u);
}

void mr_chosen_spare_mask(void *params) {
    mr_chosen_params *p = params;
    p->spares_mask = true;
    for (int32_t i = 0; i < p->ops.n; i++) {
        if (p->ops.v[i].op->spare_mask) {
            p->ops.v[i].op->spare_mask(p->ops.v[i].params);
        }
    }
}
