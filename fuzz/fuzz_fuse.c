/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an image, decoded and cropped by fused ops and op by op: the same bytes, or the same
 * refusal. The first byte chooses the ops, the second what is drawn. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/kernels.h"
#include "run/chain/chain.h"
#include "run/chain/fuse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DECODE                                                                                     \
    "{\"source\": {\"files\": {\"path\": \"x\"}}, \"ops\": [{\"decode_image\": {\"max_pixels\": "  \
    "200000, "

static const char *const documents[] = {
    DECODE "\"verify\": true}}, {\"random_crop\": {\"size\": [5, 9], \"pad_if_needed\": true}}]}",
    DECODE "\"verify\": true, \"mode\": \"grey\"}}, {\"random_resized_crop\": {\"size\": 12}}, "
           "{\"random_flip\": {}}]}",
    DECODE "\"verify\": true, \"orient\": true}}, {\"resize\": {\"size\": [20, 9]}}, "
           "{\"center_crop\": {\"size\": 7}}, \"normalize\"]}",
    DECODE "\"verify\": true, \"dct_scale\": true}}, {\"random_resized_crop\": {\"size\": 5}}, "
           "{\"random_crop\": {\"size\": 2}}]}",
    DECODE "\"lenient\": true}}, {\"random_crop\": {\"size\": 8, \"pad_if_needed\": true}}]}",
};

enum { DOCUMENTS = sizeof documents / sizeof *documents, OPS_MAX = 4, EXACT = 3 };

static void set_calls(const mr_pipeline *p, mr_call *calls, void **states, mr_arena *arena,
                      uint8_t drawn) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        calls[i] = (mr_call){.key = {drawn, 0, p->ops[i].op_word, 7},
                             .state = states[i],
                             .kernels = mr_kernels_for(0),
                             .arena = arena};
    }
}

static mr_status run_one_by_one(const mr_pipeline *p, mr_call *calls, mr_view value, mr_view *out,
                                mr_arena *arena, mr_error *err) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        MR_TRY(mr_op_output_type(node->class, node->params, &calls[i], &value, &out->type, err));
        out->size = (size_t)mr_type_bytes(&out->type);
        out->data = mr_arena_take(arena, out->size);
        MR_TRY(node->class->run(node->params, &calls[i], &value, out, err));
        value = *out;
    }
    return MR_OK;
}

static mr_status run_fused(const mr_pipeline *p, mr_call *calls, const mr_view *in, mr_view *out,
                           mr_arena *arena, mr_error *err) {
    mr_fused *fused = NULL;
    MR_TRY(mr_fused_open(&fused, p->ops, p->n_ops, calls, in, arena, err));
    out->type = *mr_fused_type(fused);
    out->size = (size_t)mr_type_bytes(&out->type);
    out->data = mr_arena_take(arena, out->size);
    return mr_fused_run(fused, out, err);
}

/* A lenient decoder guesses, and guesses differently for a part; one that decodes at a smaller size
 * gives other pixels: only that nothing breaks. */
static void compare(const mr_pipeline *p, void **states, const mr_view *in, uint8_t drawn,
                    bool must_agree) {
    mr_arena arena = {0};
    mr_call calls[OPS_MAX];
    mr_view whole = {0}, fused = {0};
    mr_error first = MR_ERROR_INIT, second = MR_ERROR_INIT;
    set_calls(p, calls, states, &arena, drawn);
    mr_status a = run_one_by_one(p, calls, *in, &whole, &arena, &first);
    mr_status b = run_fused(p, calls, in, &fused, &arena, &second);
    bool same = a == b && (a < 0 ? strcmp(first.text, second.text) == 0
                                 : whole.size == fused.size &&
                                       memcmp(whole.data, fused.data, whole.size) == 0);
    if (must_agree && !same) {
        abort();
    }
    mr_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    int which = data[0] % DOCUMENTS;
    mr_pipeline *p = NULL;
    void *states[OPS_MAX] = {NULL};
    if (mr_pipeline_parse(&p, documents[which], strlen(documents[which]), NULL, NULL) < 0) {
        abort();
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].class->open &&
            p->ops[i].class->open(p->ops[i].params, &states[i], NULL) < 0) {
            abort();
        }
    }
    const mr_view in = {
        {MR_U8, MR_PLAIN, 1, {(int64_t)size - 2}}, (void *)(uintptr_t)(data + 2), size - 2};
    compare(p, states, &in, data[1], which < EXACT);
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].class->close) {
            p->ops[i].class->close(states[i]);
        }
    }
    mr_pipeline_free(p);
    return 0;
}
