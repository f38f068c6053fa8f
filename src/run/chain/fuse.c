/* SPDX-License-Identifier: Apache-2.0 */
/* fuse.c - see fuse.h. Demand flows back from the last op to the first, rows flow forward; no
 * op knows another. */
#include "run/chain/fuse.h"

#include <string.h>

#include "core/error.h"

/* One of the fused ops and what it needs while rows flow. */
typedef struct link {
    const mr_op_node *node;
    mr_call *call;
    mr_type out;
    mr_region wanted; /* of out */
    mr_rows own;      /* the op's receiver */
    mr_rows checked;  /* the same, naming the op when it fails */
    mr_flow flow;
    mr_fused *fused;
    uint64_t ticks; /* its own time, where the ops are watched */
} link;

struct mr_fused {
    link *links;
    int32_t n;
    const mr_view *in;
    mr_view *out;     /* where the last op, or its rows, go */
    int32_t first_op; /* its place in the pipeline, where ops are marked; else -1 */
    mr_track *track;  /* NULL: not watched */
    link *running;    /* whose time it is */
    uint64_t since;
    uint64_t reading; /* what a look at the clock takes: nobody's time */
};

const mr_type *mr_fused_type(const mr_fused *fused) {
    return &fused->links[fused->n - 1].out;
}

const mr_type *mr_fused_in(const mr_fused *fused, int32_t i) {
    return &fused->links[i - 1].out;
}

const mr_type *mr_fused_out(const mr_fused *fused, int32_t i) {
    return &fused->links[i].out;
}

size_t mr_fused_whole(const mr_fused *fused, int32_t i) {
    int64_t bytes = mr_type_bytes(&fused->links[i].out);
    return bytes > 0 ? (size_t)bytes : 0;
}

/* ---- Opening: sizes forward, an agreement on the size to decode at, demand back ---- */
static mr_status find_types(mr_fused *fused, mr_error *err) {
    const link *first = &fused->links[0];
    const mr_op_class *head = first->node->class;
    mr_error_at_op(err, head->name);
    MR_TRY(head->peek(first->node->params, first->call, fused->in, &fused->links[0].out, err));
    for (int32_t i = 1; i < fused->n; i++) {
        link *l = &fused->links[i];
        mr_error_at_op(err, l->node->class->name);
        MR_TRY(l->node->class->plan(l->node->params, &l[-1].out, &l->out, err));
    }
    return MR_OK;
}

static void agree_on_shrink(mr_fused *fused) {
    const link *head = &fused->links[0], *next = &fused->links[1];
    int32_t shrink = 1;
    if (head->node->class->shrink && fused->n > 1 && next->node->class->tolerate) {
        int32_t tolerated =
            next->node->class->tolerate(next->node->params, next->call, &head->out, &next->out);
        shrink = head->node->class->shrink(head->node->params, fused->in, tolerated);
    }
    for (int32_t i = 0; i < fused->n; i++) {
        fused->links[i].call->shrink = i < 2 ? shrink : 1;
    }
}

static mr_region whole_of(const mr_type *image) {
    bool planes = image->layout == MR_CHW;
    return (mr_region){0, 0, image->dims[planes ? 2 : 1], image->dims[planes ? 1 : 0]};
}

static mr_status find_demand(mr_fused *fused, mr_error *err) {
    link *last = &fused->links[fused->n - 1];
    last->wanted = whole_of(&last->out);
    for (link *l = last; l > fused->links; l--) {
        const mr_op_class *op = l->node->class;
        mr_error_at_op(err, op->name);
        l->flow = (mr_flow){&l[-1].out, &l->out, &l[-1].wanted, &l->wanted};
        MR_TRY(op->want(l->node->params, l->call, &l[-1].out, &l->out, &l->wanted, &l[-1].wanted,
                        err));
    }
    return MR_OK;
}

mr_status mr_fused_open(mr_fused **out, const mr_op_node *ops, int32_t n_ops, mr_call *calls,
                        const mr_view *in, mr_arena *arena, mr_error *err) {
    size_t links_size = (size_t)n_ops * sizeof(link);
    mr_fused *fused = mr_arena_take(arena, sizeof *fused);
    link *links = mr_arena_take(arena, links_size);
    if (!fused || !links) {
        return mr_fail_memory(err, links_size);
    }
    memset(links, 0, links_size);
    *fused = (mr_fused){.links = links, .n = n_ops, .in = in, .first_op = -1};
    for (int32_t i = 0; i < n_ops; i++) {
        links[i].node = &ops[i];
        links[i].call = &calls[i];
        links[i].fused = fused;
    }
    MR_TRY(find_types(fused, err));
    agree_on_shrink(fused);
    MR_TRY(find_demand(fused, err));
    *out = fused;
    return MR_OK;
}

void mr_fused_mark(mr_fused *fused, int32_t first_op) {
    fused->first_op = first_op;
}

/* ---- Watching: the time of the op that runs, until another does ---- */
static uint64_t time_of_reading(const mr_track *track) {
    enum { LOOKS = 8 };
    uint64_t shortest = UINT64_MAX, before = mr_track_now(track);
    for (int i = 0; i < LOOKS; i++) {
        uint64_t now = mr_track_now(track);
        shortest = now - before < shortest ? now - before : shortest;
        before = now;
    }
    return shortest;
}

void mr_fused_watch(mr_fused *fused, mr_track *track) {
    fused->track = track;
    fused->reading = time_of_reading(track);
    fused->running = fused->links;
    fused->since = track->lap; /* opening was the first op's: it read the header */
}

static link *turn_to(mr_fused *fused, link *next) {
    uint64_t now = mr_track_now(fused->track);
    link *before = fused->running;
    before->ticks += now - fused->since > fused->reading ? now - fused->since - fused->reading : 0;
    fused->since = now;
    fused->running = next;
    return before;
}

static size_t wanted_bytes(const link *l) {
    bool planes = l->out.layout == MR_CHW;
    int64_t channels = l->out.dims[planes ? 0 : 2];
    return (size_t)(l->wanted.width * l->wanted.height * channels) * mr_dtype_size(l->out.dtype);
}

void mr_fused_tell(const mr_fused *fused, int32_t first_op) {
    size_t in = fused->in->size;
    for (int32_t i = 0; fused->track && i < fused->n; i++) {
        size_t out = wanted_bytes(&fused->links[i]);
        mr_track_part(fused->track, first_op + i, fused->links[i].ticks, in, out);
        in = out;
    }
}

/* ---- Running: receivers from the last op to the first, then rows ---- */
static mr_status checked_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const link *l = user;
    mr_status status = l->own.row(l->own.user, y, pixels, err);
    if (status < 0 && err && err->op[0] == '\0') {
        mr_error_at_op(err, l->node->class->name);
    }
    return status;
}

static int32_t place_of(const link *l) {
    return l->fused->first_op + (int32_t)(l - l->fused->links);
}

MR_MARKED static mr_status marked_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const link *l = user;
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, place_of(l));
    mr_status status = checked_row(user, y, pixels, err);
    mr_mark_clear(&mark);
    return status;
}

static mr_status watched_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    link *l = user;
    link *before = turn_to(l->fused, l);
    mr_status status = l->fused->first_op >= 0 ? marked_row(user, y, pixels, err)
                                               : checked_row(user, y, pixels, err);
    turn_to(l->fused, before);
    return status;
}

typedef mr_status row_taker(void *user, int64_t y, const uint8_t *pixels, mr_error *err);

static row_taker *taker_for(const mr_fused *fused) {
    return fused->track ? watched_row : fused->first_op >= 0 ? marked_row : checked_row;
}

static mr_status keep_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const mr_fused *fused = user;
    const mr_type *type = &fused->out->type;
    size_t row = (size_t)(type->dims[1] * type->dims[2]);
    (void)err;
    memcpy((uint8_t *)fused->out->data + (size_t)y * row, pixels, row);
    return MR_OK;
}

MR_MARKED static mr_status make_receiver(link *l, const mr_rows *to, mr_error *err) {
    const mr_op_class *op = l->node->class;
    const mr_fused *fused = l->fused;
    bool last = l == &fused->links[fused->n - 1];
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, place_of(l));
    mr_status status =
        last && op->finish
            ? op->finish(l->node->params, l->call, &l->flow, fused->out, &l->own, err)
            : op->pass(l->node->params, l->call, &l->flow, to, &l->own, err);
    mr_mark_clear(&mark);
    return status;
}

static mr_status connect(mr_fused *fused, mr_error *err) {
    mr_rows to = {keep_row, fused};
    for (link *l = &fused->links[fused->n - 1]; l > fused->links; l--) {
        mr_error_at_op(err, l->node->class->name);
        MR_TRY(make_receiver(l, &to, err));
        l->checked = (mr_rows){taker_for(fused), l};
        to = l->checked;
    }
    return MR_OK;
}

mr_status mr_fused_run(mr_fused *fused, mr_view *out, mr_error *err) {
    const link *head = &fused->links[0];
    fused->out = out;
    MR_TRY(connect(fused, err));
    mr_error_at_op(err, ""); /* whoever fails from here on says so first */
    const mr_rows *to = &fused->links[1].checked;
    mr_status status = head->node->class->produce(head->node->params, head->call, fused->in,
                                                  &head->out, &head->wanted, to, err);
    if (status < 0 && err && err->op[0] == '\0') {
        mr_error_at_op(err, head->node->class->name);
    }
    if (fused->track) {
        turn_to(fused, fused->links);
    }
    return status;
}
