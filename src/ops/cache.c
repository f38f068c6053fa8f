/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - the place in a pipeline where samples are kept. The table names the parameters and
 * passes its input on unchanged; storing and finding are the engine's (run/cache/cache.h). It can
 * be the head of fused ops: then later ops take the rows they want straight from the stored image.
 */
/* MR_REQUIRES(lmdb) */
#include <millrace/op.h>
#include <string.h>

#include "core/error.h"
#include "store/guard.h"
#include "store/place.h"
#include "store/record.h"

static mr_status check(void *params, mr_error *err) {
    const mr_store_params *p = params;
    if (!mr_record_can_pack(p->compression)) {
        return mr_fail(err, MR_E_UNSUPPORTED, "this build was made without %s",
                       mr_record_packing_name(p->compression));
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    (void)err;
    *out = *in;
    return MR_OK;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    (void)call;
    return plan(params, &in->type, out, err);
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)params;
    (void)call;
    (void)err;
    memcpy(out->data, in->data, out->size);
    return MR_OK;
}

/* Rows are copied one by one, guarded: the image may lie in a mapped file. */
static mr_status produce(const void *params, mr_call *call, const mr_view *in, const mr_type *out,
                         const mr_region *wanted, const mr_rows *to, mr_error *err) {
    size_t channels = (size_t)out->dims[2], row = (size_t)out->dims[1] * channels;
    size_t width = (size_t)wanted->width * channels;
    const uint8_t *from =
        (const uint8_t *)in->data + (size_t)wanted->y * row + (size_t)wanted->x * channels;
    uint8_t *copy = mr_scratch(call, width);
    (void)params;
    if (!copy) {
        return mr_fail_memory(err, width);
    }
    for (int64_t y = 0; y < wanted->height; y++, from += row) {
        if (!mr_guard_copy(copy, from, width)) {
            return mr_fail(err, MR_E_IO, "cannot read from the store");
        }
        MR_TRY(to->row(to->user, wanted->y + y, copy, err));
    }
    return MR_OK;
}

/* In the middle of fused ops nothing is kept, and rows go on as they come. */
static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    (void)params;
    (void)call;
    (void)in;
    (void)out;
    (void)err;
    *needed = *wanted;
    return MR_OK;
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    (void)params;
    (void)call;
    (void)flow;
    (void)err;
    *own = *to;
    return MR_OK;
}

static const char *const tiers[] = {"disk", "memory", NULL};
static const char *const keeps[] = {"samples", "index", "auto", NULL}; /* as MR_KEEP_... */

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_store_params, size),
     .fallback = "\"20GB\"",
     .min = MR_STORE_LEAST,
     .max = MR_STORE_MOST,
     .doc = "The most that the store may take."},
    {.name = "path",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(mr_store_params, path),
     .fallback = "\"\"",
     .doc = "Folder of the store (~/ is the user's home); empty: one for all pipelines of the "
            "user, below "
            "$XDG_CACHE_HOME or ~/.cache (tier memory: below /dev/shm)."},
    {.name = "tier",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_store_params, tier),
     .fallback = "\"disk\"",
     .choices = tiers,
     .doc = "disk, or memory: shared by the processes of this machine, and gone with the last of "
            "them."},
    {.name = "compression",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_store_params, compression),
     .fallback = "\"none\"",
     .choices = mr_record_packings,
     .doc = "How values are packed: none, lz4 or zstd."},
    {.name = "group",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mr_store_params, group),
     .fallback = "false",
     .doc = "Share the store with the folder's group; else it is the user's alone."},
    {.name = "keep",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_store_params, keep),
     .fallback = "\"samples\"",
     .choices = keeps,
     .doc = "samples: as they are here, and what decode_image behind it finds out about their "
            "files (where the rows of a JPEG begin). index: the latter alone. auto: of a "
            "pipeline's caches that say so, the one that pays works, as a model of the costs says "
            "when the loader is opened."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:4x5x3", "155478d650ce16d2282009c072886662"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_cache = {
    MR_OP_HEADER,
    .name = "cache",
    .summary = "Keeps samples as they are here, for every later epoch, run and job.",
    .doc = "Everything before it must be deterministic. A sample is named by its content (files: "
           "inode, size and times of change) and by the ops before the cache with their "
           "parameters, versions and libraries, so pipelines that begin alike share the work, and "
           "nothing stale is served. Bytes are the same with and without it; a store that fails is "
           "reported once, and the samples are made again. See docs/cache.md.",
    .flags = MR_OP_STORES,
    .version = 1,
    .param_size = sizeof(mr_store_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .peek = peek,
    .run = run,
    .examples = examples,
    .produce = produce,
    .want = want,
    .pass = pass,
};
