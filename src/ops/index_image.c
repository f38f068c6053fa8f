/* SPDX-License-Identifier: Apache-2.0 */
/* index_image.c - photos with their row index behind them: for packs and caches of encoded files,
 * from which parts of images are decoded in every epoch. */
#include <string.h>

#include "codecs/codec.h"
#include "codecs/index_tail.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/kept.h"
#include <millrace/millrace.h>

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    if (in->dtype != MR_U8 || in->layout != MR_PLAIN || in->n_dims != 1) {
        char text[96];
        mr_fail(err, MR_E_TYPE, "needs encoded bytes, uint8[?], not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "put it before decode_image");
        return MR_E_TYPE;
    }
    *out = (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    return MR_OK;
}

/* Nothing for files that no codec can index, which damaged ones are too: the decoder says why. */
static mr_status find_index(mr_call *call, const mr_view *in, mr_index *out, mr_error *err) {
    mr_error ignored;
    mr_error_clear(&ignored);
    mr_image_file file = {.bytes = in->data, .size = in->size, .without = call->without};
    *out = (mr_index){NULL, 0};
    if (mr_index_tail_split(file.bytes, &file.size).size > 0 ||
        mr_image_file_open(&file, INT64_MAX, false, &ignored) != MR_OK) {
        return MR_OK;
    }
    mr_status status = mr_image_file_index(&file, call, out, &ignored);
    if (status != MR_OK) {
        *out = (mr_index){NULL, 0};
    }
    return status == MR_E_MEMORY ? mr_fail_memory(err, in->size) : MR_OK;
}

static mr_status put(mr_kept *kept, const void *bytes, size_t size, mr_error *err) {
    void *to = mr_kept_room(kept, size);
    if (!to) {
        return mr_fail_memory(err, size);
    }
    memcpy(to, bytes, size);
    kept->size += size;
    return MR_OK;
}

static mr_status make(mr_call *call, const mr_view *in, mr_error *err) {
    mr_kept *kept = call->state;
    mr_index index;
    uint8_t tail[MR_INDEX_TAIL];
    mr_kept_begin(kept);
    MR_TRY(find_index(call, in, &index, err));
    MR_TRY(put(kept, in->data, in->size, err));
    if (index.size > 0) {
        mr_index_tail_end(tail, index.size);
        MR_TRY(put(kept, index.data, index.size, err));
        MR_TRY(put(kept, tail, sizeof tail, err));
    }
    const mr_type type = {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)kept->size}};
    mr_kept_end(kept, &type, in);
    return MR_OK;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    (void)params;
    MR_TRY(make(call, in, err));
    *out = ((const mr_kept *)call->state)->type;
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)params;
    if (!mr_kept_has(call->state, in)) {
        MR_TRY(make(call, in, err));
    }
    return mr_kept_give(call->state, out, err);
}

static mr_status open_kept(const void *params, void **state, mr_error *err) {
    (void)params;
    *state = mr_zalloc(1, sizeof(mr_kept));
    return *state ? MR_OK : mr_fail_memory(err, sizeof(mr_kept));
}

static void close_kept(void *state) {
    if (state) {
        mr_kept_free(state);
        mr_free(state);
    }
}

static const mr_example examples[] = {
    {"{}", "bytes:ffd8ffd9", "7708b64a8e5bfbdc7514d2f94fa97fcc"},
    {NULL, NULL, NULL},
};

extern const mr_op_class mr_op_index_image;
const mr_op_class mr_op_index_image = {
    MR_OP_HEADER,
    .name = "index_image",
    .summary = "Puts behind an encoded JPEG where its rows begin.",
    .doc =
        "For packs and caches of encoded photos (millrace pack --row-index): decode_image then "
        "decodes a part of the image without what lies above it, to the same pixels. A few hundred "
        "bytes, which other readers of JPEG do not see: they come behind the end of the image. "
        "Files "
        "of other formats, progressive JPEGs and damaged files stay as they are.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .plan = plan,
    .open = open_kept,
    .close = close_kept,
    .peek = peek,
    .run = run,
    .examples = examples,
};
