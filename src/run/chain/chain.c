/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c - see chain.h. */
#include "run/chain/chain.h"

#include <string.h>

#include "core/error.h"
#include "run/chain/enter.h"
#include "run/chain/follow.h"
#include "run/chain/fuse.h"

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
    if (delivered < 0 || chain->last_op[field] >= 0 || !job->batch) {
        out->data = mr_arena_take(&chain->data, out->size);
    } else if (mr_batch_is_ragged(job->batch, delivered)) { /* other children give other sizes */
        out->data = mr_batch_piece(job->batch, delivered, job->slot, &out->type);
    } else {
        out->data = mr_batch_slot(job->batch, delivered, job->slot);
    }
    return out->data ? MR_OK : mr_fail_memory(err, out->size);
}

/* Before somebody fills the variable. */
static mr_status offer_memory(mr_chain *chain, const mr_chain_job *job, int32_t variable,
                              mr_view *value, mr_error *err) {
    *value = (mr_view){.type = *mr_chain_variable_type(chain, variable)};
    return chain->fixed_bytes[variable] >= 0 ? place_fixed(chain, job, variable, value, err)
                                             : MR_OK;
}

static mr_status offer_source(mr_chain *chain, const mr_chain_job *job, mr_view *fields,
                              mr_error *err) {
    for (int32_t i = 0; i < chain->n_wanted; i++) {
        int32_t f = chain->wanted_fields[i];
        MR_TRY(offer_memory(chain, job, f, &fields[f], err));
    }
    return MR_OK;
}

/* Copies what the source pointed at instead of writing it where it was asked to; what stays until
 * the batch is sealed may be lent. */
static mr_status settle(mr_chain *chain, const mr_chain_job *job, int32_t field, mr_view *value,
                        bool stays, mr_error *err) {
    mr_view out = {.type = value->type};
    if (chain->last_op[field] >= 0 || chain->delivered_as[field] < 0 || !job->batch) {
        return MR_OK;
    }
    int32_t delivered = chain->delivered_as[field];
    if (mr_batch_has(job->batch, delivered, job->slot, value->data)) {
        return MR_OK;
    }
    if (stays && mr_batch_is_ragged(job->batch, delivered)) {
        mr_batch_lend(job->batch, delivered, job->slot, value);
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
    mr_status status = mr_dataset_fill(chain->dataset, job->block, job->sample, fields, err);
    mr_mark_clear(&mark);
    return status;
}

/* What was read for the sample alone; rows of a larger block have no bytes of their own. */
static size_t bytes_of(const mr_block *block) {
    return block && !block->parts && block->n_bytes > 0 ? block->bytes[0].size : 0;
}

static mr_status fill(mr_chain *chain, mr_chain_job *job, mr_view *fields, mr_error *err) {
    if (!job->block && job->fetch) {
        MR_TRY(job->fetch(job->user, job, err));
    }
    MR_TRY(offer_source(chain, job, fields, err));
    MR_TRY(call_source(chain, job, fields, err));
    for (int32_t i = 0; i < chain->n_wanted; i++) {
        int32_t f = chain->wanted_fields[i];
        MR_TRY(settle(chain, job, f, &fields[f], job->lends, err));
    }
    size_t size = mr_is_wanted(&fields[0]) ? fields[0].size : 0;
    mr_track_lap(chain->track, MR_SPAN_FILL, 0, 0, bytes_of(job->block), size);
    return MR_OK;
}

static bool is_kept(const mr_op_node *cache, int32_t variable) {
    for (int32_t k = 0; k < cache->n_inputs; k++) {
        if (cache->inputs[k] == variable) {
            return true;
        }
    }
    return false;
}

mr_status mr_chain_fill_rest(mr_chain *chain, const mr_chain_job *job, const mr_op_node *cache,
                             mr_view *fields, mr_error *err) {
    MR_TRY(offer_source(chain, job, fields, err));
    mr_chain_job without_block = *job;
    without_block.block = NULL;
    MR_TRY(call_source(chain, &without_block, fields, err));
    for (int32_t i = 0; i < chain->n_wanted; i++) {
        int32_t f = chain->wanted_fields[i];
        if (!is_kept(cache, f) && fields[f].data) {
            MR_TRY(settle(chain, job, f, &fields[f], job->lends, err));
        }
    }
    return MR_OK;
}

mr_status mr_chain_fill_said(mr_chain *chain, const mr_chain_job *job, mr_view *fields,
                             mr_error *err) {
    for (int32_t i = 0; i < chain->n_wanted; i++) {
        int32_t f = chain->wanted_fields[i];
        if (mr_is_wanted(&fields[f])) {
            MR_TRY(offer_memory(chain, job, f, &fields[f], err));
        }
    }
    MR_TRY(call_source(chain, job, fields, err));
    for (int32_t i = 0; i < chain->n_wanted; i++) {
        int32_t f = chain->wanted_fields[i];
        if (mr_is_wanted(&fields[f])) {
            MR_TRY(settle(chain, job, f, &fields[f], job->lends, err));
        }
    }
    return MR_OK;
}

/* ---- Ops ---- */
mr_status mr_op_output_type(const mr_op_class *op, const void *params, mr_call *call,
                            const mr_view *in, mr_type *out, mr_error *err) {
    return op->peek ? op->peek(params, call, in, out, err) : op->plan(params, &in->type, out, err);
}

void mr_chain_set_call(mr_chain *chain, const mr_chain_job *job, int32_t i) {
    chain->calls[i] = (mr_call){
        .key = {chain->seed, job->epoch, chain->pipeline->ops[i].op_word, (uint64_t)job->sample},
        .state = chain->op_states[i],
        .kernels = chain->kernels,
        .arena = &chain->scratch,
        .track = chain->track,
    };
}

MR_MARKED mr_status mr_chain_call_sample(mr_chain *chain, int32_t i, const mr_view *in,
                                         mr_view *out, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, mr_chain_op_number(chain, i));
    mr_status status = node->class->run_sample(node->params, &chain->calls[i], in, node->n_inputs,
                                               out, node->n_outputs, err);
    mr_mark_clear(&mark);
    return status;
}

/* ---- Several fields ---- */
static const int64_t *size_of_image(const mr_type *type) {
    return type->layout == MR_CHW ? type->dims + 1 : type->dims;
}

static mr_status unlike(const mr_op_node *first, const mr_type *a, const mr_op_node *second,
                        const mr_type *b, mr_error *err) {
    const int64_t *one = size_of_image(a), *other = size_of_image(b);
    mr_error_at_op(err, second->class->name);
    mr_fail(err, MR_E_TYPE,
            "%s is of %lld x %lld pixels and %s of %lld x %lld: %s cannot change them alike",
            first->field_name, (long long)one[0], (long long)one[1], second->field_name,
            (long long)other[0], (long long)other[1], second->class->name);
    mr_hint(err, "resize both to one size before it");
    return MR_E_TYPE;
}

/* What depends on the size of an image is alike only for images of one size. */
static mr_status note_alike(mr_chain *chain, const mr_op_node *node, const mr_type *in,
                            const mr_type *out, mr_error *err) {
    mr_alike *alike = node->group >= 0 ? &chain->alike[node->group] : NULL;
    if (!alike) {
        return MR_OK;
    }
    if (!alike->first) {
        *alike = (mr_alike){node, *in, *out};
        return MR_OK;
    }
    bool same = memcmp(size_of_image(in), size_of_image(&alike->in), 2 * sizeof *in->dims) == 0;
    return same || !(node->flags & MR_OP_SIZED) ? MR_OK
                                                : unlike(alike->first, &alike->in, node, in, err);
}

static void forget_alike(mr_chain *chain) {
    for (int32_t g = 0; g < chain->pipeline->n_groups; g++) {
        chain->alike[g].first = NULL;
    }
}

static mr_status note_fused(mr_chain *chain, const mr_fused *fused, int32_t first, int32_t n,
                            mr_error *err) {
    for (int32_t k = 1; k < n; k++) {
        const mr_op_node *node = &chain->pipeline->ops[first + k];
        MR_TRY(note_alike(chain, node, mr_fused_in(fused, k), mr_fused_out(fused, k), err));
    }
    return MR_OK;
}

static mr_status run_op(mr_chain *chain, const mr_chain_job *job, int32_t i, const mr_view *in,
                        mr_view *out, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_call *call = &chain->calls[i];
    mr_error_at_op(err, node->class->name);
    MR_TRY(mr_op_output_type(node->class, node->params, call, in, &out->type, err));
    MR_TRY(note_alike(chain, node, &in->type, &out->type, err));
    MR_TRY(
        mr_chain_destination(chain, job, node->field, chain->last_op[node->field] == i, out, err));
    MR_TRY(node->class->run(node->params, call, in, out, err));
    mr_track_lap(chain->track, MR_SPAN_OP, mr_chain_op_number(chain, i), 1, in->size, out->size);
    return MR_OK;
}

/* Rows are moved in our own memory: only then is known how many are left. */
static mr_status run_follow(mr_chain *chain, const mr_chain_job *job, int32_t i, const mr_view *in,
                            mr_view *out, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    const mr_alike *image = &chain->alike[node->group];
    const int64_t *size = size_of_image(&image->out);
    mr_motion motion = {.width = (double)size[1],
                        .height = (double)size[0],
                        .min_visible = node->min_visible,
                        .format = node->format,
                        .name = node->field_name};
    int64_t kept = 0;
    void *rows = mr_arena_take(&chain->scratch, in->size);
    mr_error_at_op(err, node->class->name);
    if (!rows) {
        return mr_fail_memory(err, in->size);
    }
    MR_TRY(node->class->follow(node->params, &chain->calls[i], &image->in, &image->out,
                               motion.matrix, err));
    out->type = in->type;
    MR_TRY(mr_follow(node->kind, &motion, in, rows, &kept, err));
    out->type.dims[0] = in->type.n_dims == 1 ? in->type.dims[0] : kept;
    MR_TRY(
        mr_chain_destination(chain, job, node->field, chain->last_op[node->field] == i, out, err));
    memcpy(out->data, rows, out->size);
    mr_track_lap(chain->track, MR_SPAN_OP, mr_chain_op_number(chain, i), 1, in->size, out->size);
    return MR_OK;
}

static void note_sizes(mr_chain *chain, const mr_fused *fused, int32_t first, int32_t n) {
    for (int32_t k = 0; k < n; k++) {
        chain->sizes[first + k].n++;
        chain->sizes[first + k].bytes += (double)mr_fused_whole(fused, k);
    }
}

static mr_status run_fused(mr_chain *chain, const mr_chain_job *job, int32_t i, int32_t n,
                           const mr_view *in, mr_view *out, mr_error *err) {
    const mr_op_node *ops = &chain->pipeline->ops[i];
    mr_fused *fused = NULL;
    MR_TRY(mr_fused_open(&fused, ops, n, &chain->calls[i], in, &chain->scratch, err));
    out->type = *mr_fused_type(fused);
    MR_TRY(note_fused(chain, fused, i, n, err));
    bool last = chain->last_op[ops->field] == i + n - 1;
    MR_TRY(mr_chain_destination(chain, job, ops->field, last, out, err));
    if (chain->track->timed && chain->track->inside) {
        mr_fused_watch(fused, chain->track);
    }
    if (mr_track_is_probed(chain->track)) {
        mr_fused_mark(fused, mr_chain_op_number(chain, i));
    }
    MR_TRY(mr_fused_run(fused, out, err));
    mr_fused_tell(fused, mr_chain_op_number(chain, i));
    if (chain->track->spans) {
        note_sizes(chain, fused, i, n);
    }
    mr_track_lap(chain->track, MR_SPAN_FUSED, mr_chain_op_number(chain, i), n, in->size, out->size);
    return MR_OK;
}

/* An op on a whole sample fills new variables, as the source fills the first ones. */
static mr_status run_sample(mr_chain *chain, const mr_chain_job *job, int32_t i, mr_view *fields,
                            mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_view *in = chain->inputs;
    mr_error_at_op(err, node->class->name);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        in[k] = fields[node->inputs[k]];
    }
    mr_chain_set_call(chain, job, i);
    int32_t end = node->first_output + node->n_outputs;
    for (int32_t f = node->first_output; f < end; f++) {
        MR_TRY(offer_memory(chain, job, f, &fields[f], err));
    }
    MR_TRY(mr_chain_call_sample(chain, i, in, &fields[node->first_output], err));
    for (int32_t f = node->first_output; f < end; f++) { /* theirs until the next sample alone */
        MR_TRY(settle(chain, job, f, &fields[f], false, err));
    }
    mr_track_lap(chain->track, MR_SPAN_OP, mr_chain_op_number(chain, i), 1, in[0].size,
                 fields[node->first_output].size);
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

/* Runs the i-th op, or the fused ones that begin there; *n says how many ops that was. */
MR_MARKED static mr_status step(mr_chain *chain, mr_chain_job *job, chain_way way, int32_t i,
                                mr_view *fields, int32_t *n, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    bool parts = chain->enter >= 0 || (way.caches && chain->caches->parts);
    int32_t length = parts ? node->fused_length : node->whole_length;
    mr_view *value = &fields[node->field], out = {0};
    *n = length > 1 ? length : 1;
    if (mr_chain_is_done(chain, i)) {
        return MR_OK;
    }
    if (mr_op_is_cache(node)) {
        if (way.caches) {
            call_keep(chain, job, i, fields);
        }
        if (i == chain->enter && job->packs) {
            job->packed = mr_enter_pack(chain, fields, &job->packed_size);
        }
        if (length <= 1 || i + 1 >= way.end) {
            return MR_OK;
        }
    }
    if (node->class->run_sample) {
        return run_sample(chain, job, i, fields, err);
    }
    for (int32_t k = i; k < i + *n; k++) {
        mr_chain_set_call(chain, job, k);
    }
    chain->calls[i].memo = mr_memory_find(chain, job, i);
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, mr_chain_op_number(chain, i));
    mr_status status = length > 1      ? run_fused(chain, job, i, length, value, &out, err)
                       : node->follows ? run_follow(chain, job, i, value, &out, err)
                                       : run_op(chain, job, i, value, &out, err);
    mr_mark_clear(&mark);
    if (status == MR_OK && chain->calls[i].memo) {
        mr_memory_keep(chain, i);
    }
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
    mr_view *fields = chain->values;
    int32_t start = -1;
    mr_status status = way.caches ? find_kept(chain, job, fields, &start, err) : MR_OK;
    if (status == MR_OK && job->made) {
        status = mr_enter_unpack(chain, job, fields, err);
        start = chain->enter;
    } else if (status == MR_OK && start < 0) {
        status = fill(chain, job, fields, err);
        start = 0;
    }
    forget_alike(chain);
    for (int32_t i = start, n = 0; status == MR_OK && i < way.end; i += n) {
        status = step(chain, job, way, i, fields, &n, err);
    }
    return status;
}

/* What went wrong may be the store's fault; or a cache's, which wants whole images where the ops
 * behind it want parts, and so sees damage that they would not. Without caches it would have been
 * neither: once more like that. */
static mr_status make_with_caches(mr_chain *chain, mr_chain_job *job, mr_error *err) {
    const chain_way with = {true, chain->n_ops}, without = {false, chain->n_ops};
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
    mr_track_begin(chain->track, chain->first_sample + job->sample, (uint32_t)job->batch_number);
    const chain_way plain = {false, chain->n_ops};
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

mr_status mr_chain_prepare(mr_chain *chain, mr_chain_job *job, mr_error *err) {
    const mr_caches *caches = chain->recall.caches;
    const chain_way to_last_cache = {true, caches->list[caches->last].op + 1};
    mr_status status = make(chain, job, to_last_cache, err);
    mr_recall_end(&chain->recall);
    mr_arena_reset(&chain->data);
    mr_arena_reset(&chain->scratch);
    return status;
}
