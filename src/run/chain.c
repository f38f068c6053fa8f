/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c - see chain.h. */
#include "run/chain.h"

#include <string.h>

#include "core/error.h"
#include "run/stream.h"

void *mr_scratch(mr_call *call, size_t size) {
    return mr_arena_take(call->arena, size);
}

uint64_t mr_wait_begin(const mr_call *call) {
    return call->track ? mr_track_now(call->track) : 0;
}

void mr_wait_end(const mr_call *call, uint64_t begun) {
    if (call->track) {
        mr_track_since(call->track, MR_SPAN_WAIT_HOST, begun, (int64_t)call->key.sample,
                       MR_SPAN_NO_BATCH, 0);
    }
}

/* ---- Opening ---- */
static void map_fields(mr_chain *chain) {
    const mr_pipeline *p = chain->pipeline;
    for (int32_t f = 0; f < MR_MAX_SLOTS; f++) {
        chain->delivered_as[f] = -1;
        chain->last_op[f] = -1;
        chain->kept_by[f] = -1;
        chain->fixed_bytes[f] = f < p->n_slots ? mr_type_bytes(&p->slots[f].type) : -1;
    }
    for (int32_t d = 0; d < p->n_fields; d++) {
        chain->delivered_as[p->field_slot[d]] = d;
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        bool cache = mr_op_is_cache(&p->ops[i]); /* changes nothing */
        int32_t *last = cache ? chain->kept_by : chain->last_op;
        for (int32_t k = 0; k < p->ops[i].n_inputs; k++) {
            last[p->ops[i].inputs[k]] = i;
        }
        if (!cache) {
            last[p->ops[i].field] = i;
        }
    }
}

/* A trace wants to hear of every sample. */
static bool may_gather(const mr_chain *chain) {
    const mr_pipeline *p = chain->pipeline;
    bool fixed = true;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        fixed = fixed && chain->fixed_bytes[f] >= 0;
    }
    return fixed && p->source->gather && !p->source->locate && p->n_ops == 0 &&
           !chain->track->spans;
}

mr_status mr_chain_open(mr_chain *chain, const mr_pipeline *pipeline, const void *source_state,
                        const struct mr_kernels *kernels, uint64_t seed, mr_caches *caches,
                        mr_track *track, mr_error *err) {
    chain->pipeline = pipeline;
    chain->track = track;
    chain->source_state = source_state;
    chain->kernels = kernels;
    chain->seed = seed;
    map_fields(chain);
    chain->gathers = may_gather(chain);
    chain->op_states = mr_zalloc((size_t)pipeline->n_ops, sizeof *chain->op_states);
    chain->calls = mr_zalloc((size_t)pipeline->n_ops, sizeof *chain->calls);
    chain->sizes = mr_zalloc((size_t)pipeline->n_ops, sizeof *chain->sizes);
    if (!chain->op_states || !chain->calls || !chain->sizes) {
        return mr_fail_memory(err, (size_t)pipeline->n_ops * sizeof *chain->op_states);
    }
    for (int32_t i = 0; i < pipeline->n_ops; i++) {
        const mr_op_node *node = &pipeline->ops[i];
        if (node->class->open) {
            mr_error_at_op(err, node->class->name);
            MR_TRY(node->class->open(node->params, &chain->op_states[i], err));
        }
    }
    mr_error_at_op(err, ""); /* whatever fails later is not the last op's fault */
    return mr_recall_open(&chain->recall, caches, err);
}

void mr_chain_close(mr_chain *chain) {
    for (int32_t i = 0; chain->op_states && i < chain->pipeline->n_ops; i++) {
        const mr_op_class *op = chain->pipeline->ops[i].class;
        if (op->close) {
            op->close(chain->op_states[i]);
        }
    }
    mr_recall_close(&chain->recall);
    mr_free(chain->op_states);
    mr_free(chain->calls);
    mr_free(chain->sizes);
    mr_arena_free(&chain->data);
    mr_arena_free(&chain->scratch);
}

/* ---- Destinations ---- */
static bool same_dims(const mr_type *a, const mr_type *b) {
    return a->dtype == b->dtype && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0;
}

mr_status mr_chain_destination(mr_chain *chain, const mr_chain_job *job, int32_t field, bool last,
                               mr_view *out, mr_error *err) {
    int32_t delivered = chain->delivered_as[field];
    int64_t bytes = mr_type_bytes(&out->type);
    if (bytes < 0) {
        return mr_fail(err, MR_E_INTERNAL, "the output has no definite size");
    }
    out->size = (size_t)bytes;
    if (!last || delivered < 0 || !job->batch) {
        out->data = mr_arena_take(&chain->data, out->size);
    } else if (mr_batch_is_ragged(job->batch, delivered)) {
        out->data = mr_batch_piece(job->batch, delivered, job->slot, &out->type);
    } else if (same_dims(&out->type, &chain->pipeline->fields[delivered].type)) {
        out->data = mr_batch_slot(job->batch, delivered, job->slot);
    } else {
        char found[128], planned[128];
        return mr_fail(
            err, MR_E_INTERNAL, "planned %s, found %s",
            mr_type_text(&chain->pipeline->fields[delivered].type, planned, sizeof planned),
            mr_type_text(&out->type, found, sizeof found));
    }
    return out->data ? MR_OK : mr_fail_memory(err, out->size);
}

/* ---- Source ---- */
/* The short way for what every sample has: a field of fixed size that no op touches. */
static mr_status place_fixed(mr_chain *chain, const mr_chain_job *job, int32_t field, mr_view *out,
                             mr_error *err) {
    int32_t delivered = chain->delivered_as[field];
    out->size = (size_t)chain->fixed_bytes[field];
    out->data = delivered >= 0 && chain->last_op[field] < 0 && job->batch
                    ? mr_batch_slot(job->batch, delivered, job->slot)
                    : mr_arena_take(&chain->data, out->size);
    return out->data ? MR_OK : mr_fail_memory(err, out->size);
}

/* For the slots from `first` on, before somebody fills them. */
static mr_status offer_memory(mr_chain *chain, const mr_chain_job *job, int32_t first, int32_t n,
                              mr_view *fields, mr_error *err) {
    const mr_pipeline *p = chain->pipeline;
    for (int32_t f = first; f < first + n; f++) {
        fields[f].type = p->slots[f].type;
        fields[f].data = NULL;
        fields[f].size = 0;
        if (chain->fixed_bytes[f] >= 0) {
            MR_TRY(place_fixed(chain, job, f, &fields[f], err));
        }
    }
    return MR_OK;
}

/* Copies what the source pointed at instead of writing it where it was asked to. */
static mr_status settle(mr_chain *chain, const mr_chain_job *job, int32_t field, mr_view *value,
                        mr_error *err) {
    mr_view out = {.type = value->type};
    if (chain->last_op[field] >= 0 || chain->delivered_as[field] < 0 || !job->batch) {
        return MR_OK;
    }
    int32_t delivered = chain->delivered_as[field];
    if (!mr_batch_is_ragged(job->batch, delivered) &&
        mr_batch_slot(job->batch, delivered, job->slot) == value->data) {
        return MR_OK;
    }
    MR_TRY(mr_chain_destination(chain, job, field, true, &out, err));
    if (out.size > 0) {
        memcpy(out.data, value->data, out.size);
    }
    return MR_OK;
}

MR_MARKED static mr_status call_source(const mr_chain *chain, const mr_chain_job *job,
                                       mr_view *fields, mr_error *err) {
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_FILL, 0);
    mr_status status = chain->pipeline->source->fill(chain->source_state, job->sample, job->bytes,
                                                     job->n_bytes, fields, err);
    mr_mark_clear(&mark);
    return status;
}

static mr_status fill(mr_chain *chain, mr_chain_job *job, mr_view *fields, mr_error *err) {
    const mr_pipeline *p = chain->pipeline;
    if (!job->bytes && job->fetch) {
        MR_TRY(job->fetch(job->user, job, err));
    }
    MR_TRY(offer_memory(chain, job, 0, p->n_source_fields, fields, err));
    MR_TRY(call_source(chain, job, fields, err));
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        MR_TRY(settle(chain, job, f, &fields[f], err));
    }
    mr_track_lap(chain->track, MR_SPAN_FILL, 0, 0, job->n_bytes, fields[0].size);
    return MR_OK;
}

static bool is_kept(const mr_op_node *cache, int32_t slot) {
    for (int32_t k = 0; k < cache->n_inputs; k++) {
        if (cache->inputs[k] == slot) {
            return true;
        }
    }
    return false;
}

mr_status mr_chain_fill_rest(mr_chain *chain, const mr_chain_job *job, const mr_op_node *cache,
                             mr_view *fields, mr_error *err) {
    const mr_pipeline *p = chain->pipeline;
    MR_TRY(offer_memory(chain, job, 0, p->n_source_fields, fields, err));
    mr_chain_job without_bytes = *job;
    without_bytes.bytes = NULL;
    without_bytes.n_bytes = 0;
    MR_TRY(call_source(chain, &without_bytes, fields, err));
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        if (!is_kept(cache, f) && fields[f].data) {
            MR_TRY(settle(chain, job, f, &fields[f], err));
        }
    }
    return MR_OK;
}

/* ---- Ops ---- */
mr_status mr_op_output_type(const mr_op_class *op, const void *params, mr_call *call,
                            const mr_view *in, mr_type *out, mr_error *err) {
    return op->peek ? op->peek(params, call, in, out, err) : op->plan(params, &in->type, out, err);
}

static void set_call(mr_chain *chain, const mr_chain_job *job, int32_t i) {
    chain->calls[i] = (mr_call){
        .key = {chain->seed, job->epoch, chain->pipeline->ops[i].op_word, (uint64_t)job->sample},
        .state = chain->op_states[i],
        .kernels = chain->kernels,
        .arena = &chain->scratch,
        .track = chain->track,
    };
}

MR_MARKED static mr_status call_sample_op(mr_chain *chain, int32_t i, const mr_view *in,
                                          mr_view *out, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, i);
    mr_status status = node->class->run_sample(node->params, &chain->calls[i], in, node->n_inputs,
                                               out, node->n_outputs, err);
    mr_mark_clear(&mark);
    return status;
}

static mr_status run_op(mr_chain *chain, const mr_chain_job *job, int32_t i, const mr_view *in,
                        mr_view *out, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_call *call = &chain->calls[i];
    mr_error_at_op(err, node->class->name);
    MR_TRY(mr_op_output_type(node->class, node->params, call, in, &out->type, err));
    MR_TRY(
        mr_chain_destination(chain, job, node->field, chain->last_op[node->field] == i, out, err));
    MR_TRY(node->class->run(node->params, call, in, out, err));
    mr_track_lap(chain->track, MR_SPAN_OP, i, 1, in->size, out->size);
    return MR_OK;
}

static void note_sizes(mr_chain *chain, const mr_stream *stream, int32_t first, int32_t n) {
    for (int32_t k = 0; k < n; k++) {
        chain->sizes[first + k].n++;
        chain->sizes[first + k].bytes += (double)mr_stream_whole(stream, k);
    }
}

static mr_status run_stream(mr_chain *chain, const mr_chain_job *job, int32_t i, int32_t n,
                            const mr_view *in, mr_view *out, mr_error *err) {
    const mr_op_node *ops = &chain->pipeline->ops[i];
    mr_stream *stream = NULL;
    MR_TRY(mr_stream_open(&stream, ops, n, &chain->calls[i], in, &chain->scratch, err));
    out->type = *mr_stream_type(stream);
    bool last = chain->last_op[ops->field] == i + n - 1;
    MR_TRY(mr_chain_destination(chain, job, ops->field, last, out, err));
    if (chain->track->timed && chain->track->inside) {
        mr_stream_watch(stream, chain->track);
    }
    if (mr_track_is_probed(chain->track)) {
        mr_stream_mark(stream, i);
    }
    MR_TRY(mr_stream_run(stream, out, err));
    mr_stream_tell(stream, i);
    if (chain->track->spans) {
        note_sizes(chain, stream, i, n);
    }
    mr_track_lap(chain->track, MR_SPAN_STREAM, i, n, in->size, out->size);
    return MR_OK;
}

/* An op on a whole sample fills new slots, as the source fills the first ones. */
static mr_status run_sample(mr_chain *chain, const mr_chain_job *job, int32_t i, mr_view *fields,
                            mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_view in[MR_MAX_FIELDS];
    mr_error_at_op(err, node->class->name);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        in[k] = fields[node->inputs[k]];
    }
    set_call(chain, job, i);
    MR_TRY(offer_memory(chain, job, node->first_output, node->n_outputs, fields, err));
    MR_TRY(call_sample_op(chain, i, in, &fields[node->first_output], err));
    for (int32_t f = node->first_output; f < node->first_output + node->n_outputs; f++) {
        MR_TRY(settle(chain, job, f, &fields[f], err));
    }
    mr_track_lap(chain->track, MR_SPAN_OP, i, 1, in[0].size, fields[node->first_output].size);
    mr_arena_reset(&chain->scratch);
    return MR_OK;
}

/* One way through the ops. */
typedef struct chain_way {
    bool caches; /* find and keep samples; else as if there were no caches */
    int32_t end; /* the op before which it ends */
} chain_way;

MR_MARKED static void call_keep(mr_chain *chain, const mr_chain_job *job, int32_t i,
                                mr_view *fields) {
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_STORE_WRITE, 0);
    mr_recall_keep(chain, job, i, fields);
    mr_mark_clear(&mark);
}

/* Runs the i-th op, or the stream that begins there; *n says how many ops that was. */
MR_MARKED static mr_status step(mr_chain *chain, const mr_chain_job *job, chain_way way, int32_t i,
                                mr_view *fields, int32_t *n, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    int32_t length = way.caches ? node->stream_length : node->whole_length;
    mr_view *value = &fields[node->field], out = {0};
    *n = length > 1 ? length : 1;
    if (mr_op_is_cache(node)) {
        if (way.caches) {
            call_keep(chain, job, i, fields);
        }
        if (length <= 1 || i + 1 >= way.end) {
            return MR_OK;
        }
    }
    if (node->class->run_sample) {
        return run_sample(chain, job, i, fields, err);
    }
    for (int32_t k = i; k < i + *n; k++) {
        set_call(chain, job, k);
    }
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, i);
    mr_status status = length > 1 ? run_stream(chain, job, i, length, value, &out, err)
                                  : run_op(chain, job, i, value, &out, err);
    mr_mark_clear(&mark);
    mr_arena_reset(&chain->scratch);
    *value = out;
    return status;
}

MR_MARKED static mr_status call_store(mr_chain *chain, mr_chain_job *job, mr_view *fields,
                                      int32_t *start, mr_error *err) {
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_STORE_READ, 0);
    mr_status status = mr_recall_find(chain, job, fields, start, err);
    mr_mark_clear(&mark);
    return status;
}

static mr_status find_kept(mr_chain *chain, mr_chain_job *job, mr_view *fields, int32_t *start,
                           mr_error *err) {
    mr_status status = call_store(chain, job, fields, start, err);
    size_t size = *start >= 0 ? fields[chain->pipeline->ops[*start].field].size : 0;
    mr_track_lap(chain->track, MR_SPAN_STORE_READ, 0, 0, size, size);
    return status;
}

/* From the first op, or from a cache that has the sample. */
static mr_status make(mr_chain *chain, mr_chain_job *job, chain_way way, mr_error *err) {
    mr_view fields[MR_MAX_SLOTS];
    int32_t start = -1;
    mr_status status = way.caches ? find_kept(chain, job, fields, &start, err) : MR_OK;
    if (status == MR_OK && start < 0) {
        status = fill(chain, job, fields, err);
        start = 0;
    }
    for (int32_t i = start, n = 0; status == MR_OK && i < way.end; i += n) {
        status = step(chain, job, way, i, fields, &n, err);
    }
    return status;
}

/* What went wrong may be the store's fault; or a cache's, which wants whole images where the ops
 * behind it want parts, and so sees damage that they would not. Without caches it would have been
 * neither: once more like that. */
static mr_status make_with_caches(mr_chain *chain, mr_chain_job *job, mr_error *err) {
    const chain_way with = {true, chain->pipeline->n_ops},
                    without = {false, chain->pipeline->n_ops};
    mr_status status = make(chain, job, with, err);
    mr_recall_end(&chain->recall);
    if (status < 0 && status != MR_E_CANCELLED) {
        mr_arena_reset(&chain->data);
        mr_arena_reset(&chain->scratch);
        mr_batch_clear_sample(job->batch, job->slot);
        mr_error_clear(err);
        status = make(chain, job, without, err);
    }
    return status;
}

mr_status mr_chain_run(mr_chain *chain, mr_chain_job *job, mr_error *err) {
    mr_track_begin(chain->track, job->sample, (uint32_t)job->batch_number);
    const chain_way plain = {false, chain->pipeline->n_ops};
    mr_status status =
        chain->recall.caches ? make_with_caches(chain, job, err) : make(chain, job, plain, err);
    mr_arena_reset(&chain->data);
    if (status == MR_OK) {
        mr_batch_sample_done(job->batch, job->slot);
    } else {
        mr_batch_clear_sample(job->batch, job->slot);
    }
    mr_track_end(chain->track);
    return status;
}

mr_status mr_chain_gather(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                          mr_error *err) {
    const mr_pipeline *p = chain->pipeline;
    void *to[MR_MAX_SLOTS] = {NULL};
    uint64_t begun = mr_track_now(chain->track);
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        int32_t delivered = chain->delivered_as[f];
        to[f] = delivered >= 0 ? mr_batch_slot(batch, delivered, first) : NULL;
    }
    MR_TRY(p->source->gather(chain->source_state, mr_batch_samples(batch) + first, n, to, err));
    for (int64_t slot = first; slot < first + n; slot++) {
        mr_batch_sample_done(batch, slot);
    }
    mr_track_gathered(chain->track, begun, n, (size_t)chain->fixed_bytes[0]);
    return MR_OK;
}

mr_status mr_chain_prepare(mr_chain *chain, mr_chain_job *job, mr_error *err) {
    const mr_caches *caches = chain->recall.caches;
    const chain_way to_last_cache = {true, caches->list[caches->n - 1].op + 1};
    mr_status status = make(chain, job, to_last_cache, err);
    mr_recall_end(&chain->recall);
    mr_arena_reset(&chain->data);
    mr_arena_reset(&chain->scratch);
    return status;
}
