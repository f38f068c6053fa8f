/* SPDX-License-Identifier: Apache-2.0 */
/* enter.c - see enter.h. */
#include "run/chain/enter.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "sources/entry_fields.h"

enum { ALIGN = 64 };

/* A piece is a number of these, the number first, and then their bytes, each aligned. */
typedef struct piece {
    int32_t n, variable;
    mr_type type;
    size_t size, offset;
} piece;

int32_t mr_enter_op(const mr_pipeline *p) {
    int32_t op = -1;
    for (int32_t i = 0; p->is_stream && op < 0 && i < p->n_ops; i++) {
        op = mr_op_is_cache(&p->ops[i]) ? i : -1;
    }
    return op;
}

/* ---- Which ---- */
/* What the source says of an entry besides its value. */
static bool is_said(const mr_pipeline *p, int32_t variable) {
    return variable >= p->n_source_fields - MR_ENTRY_COMMON && variable < p->n_source_fields;
}

static bool is_changed(const mr_chain *chain, int32_t variable) {
    for (int32_t i = 0; i < chain->enter; i++) {
        if (chain->pipeline->ops[i].field == variable &&
            !chain->pipeline->ops[i].class->run_sample) {
            return true;
        }
    }
    return false;
}

/* Of those that there are at the op. */
static bool is_packed(const mr_chain *chain, int32_t variable, const mr_view *value) {
    return (!is_said(chain->pipeline, variable) || is_changed(chain, variable)) &&
           mr_is_wanted(value) && (value->data || value->size == 0);
}

/* ---- Packing ---- */
static size_t aligned(size_t size) {
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static int32_t count(const mr_chain *chain, const mr_view *fields, size_t *bytes) {
    const mr_op_node *node = &chain->pipeline->ops[chain->enter];
    int32_t n = 0;
    *bytes = 0;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        if (is_packed(chain, node->inputs[k], &fields[node->inputs[k]])) {
            *bytes += aligned(fields[node->inputs[k]].size);
            n++;
        }
    }
    *bytes += aligned((size_t)n * sizeof(piece) + 1);
    return n;
}

void *mr_enter_pack(const mr_chain *chain, const mr_view *fields, size_t *size) {
    const mr_op_node *node = &chain->pipeline->ops[chain->enter];
    int32_t n = count(chain, fields, size);
    char *bytes = malloc(*size);
    piece *pieces = (piece *)(void *)bytes;
    size_t at = aligned((size_t)n * sizeof *pieces + 1);
    if (!bytes) {
        return NULL;
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const mr_view *value = &fields[node->inputs[k]];
        if (!is_packed(chain, node->inputs[k], value)) {
            continue;
        }
        *pieces++ = (piece){n, node->inputs[k], value->type, value->size, at};
        if (value->size > 0) {
            memcpy(bytes + at, value->data, value->size);
        }
        at += aligned(value->size);
    }
    return bytes;
}

/* ---- Unpacking ---- */
/* Ops take it where it lies; what no later op changes goes to the batch. */
static mr_status place(mr_chain *chain, const mr_chain_job *job, const piece *p, mr_view *out,
                       mr_error *err) {
    void *data = (char *)(uintptr_t)job->made + p->offset;
    bool final = chain->last_op[p->variable] < chain->enter;
    *out = (mr_view){.type = p->type, .size = p->size, .data = data};
    if (final && chain->delivered_as[p->variable] >= 0) {
        MR_TRY(mr_chain_destination(chain, job, p->variable, true, out, err));
        memcpy(out->data, data, p->size);
    }
    return MR_OK;
}

mr_status mr_enter_unpack(mr_chain *chain, const mr_chain_job *job, mr_view *fields,
                          mr_error *err) {
    const piece *pieces = job->made;
    bool any = job->made_size > sizeof *pieces;
    for (int32_t f = 0; f < chain->pipeline->n_source_fields; f++) {
        if (!is_said(chain->pipeline, f)) {
            fields[f].size = MR_UNWANTED;
        }
    }
    MR_TRY(mr_chain_fill_said(chain, job, fields, err));
    for (int32_t i = 0; any && i < pieces->n; i++) {
        MR_TRY(place(chain, job, &pieces[i], &fields[pieces[i].variable], err));
    }
    return MR_OK;
}
