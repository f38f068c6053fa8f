/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_settings.c - the document's own keys. */
#include "plan/compiler.h"

#include <stddef.h>

#include "core/params.h"

static const char *const remainder_names[] = {"keep", "drop", "pad", "even", NULL};
static const char *const on_error_names[] = {"fail", "skip", NULL};
static const char *const threads_names[] = {"cpus", "auto", NULL};

static const mr_param settings_rows[] = {
    {.name = "batch",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_settings, batch),
     .fallback = "32",
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples per step, over all ranks together."},
    {.name = "seed",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_settings, seed),
     .fallback = "0",
     .min = 0,
     .max = (double)MR_SEED_MAX,
     .doc = "Key of all randomness."},
    {.name = "epochs",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_settings, epochs),
     .fallback = "1",
     .min = 1,
     .max = 4294967295.0,
     .doc = "Passes over the dataset."},
    {.name = "shuffle",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mr_settings, shuffle),
     .fallback = "true",
     .doc = "A new order each epoch, or the source's own order. Or, for what lies in shards and "
            "tables, "
            "a shuffle by blocks: {\"window\": \"1GB\", \"lanes\": 8}; see docs/shuffle.md."},
    {.name = "remainder",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_settings, remainder),
     .fallback = "\"keep\"",
     .choices = remainder_names,
     .doc =
         "What becomes of samples that do not fill the last batch: keep (a short batch, of which "
         "some ranks may get nothing), drop, pad (filled up from the start of the epoch's order; "
         "every rank takes the same number of steps), or even (a short batch, filled up in this "
         "way until every rank has as many: what torch's DistributedSampler does)."},
    {.name = "on_error",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_settings, on_error),
     .fallback = "\"fail\"",
     .choices = on_error_names,
     .doc = "What a bad sample does: fail (end the run with an error that names it) or skip (take "
            "another sample, chosen by seed, epoch and position, and list the bad one)."},
    {.name = "fuse",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mr_settings, fuse),
     .fallback = "true",
     .doc =
         "Decode only what later ops need, and run ops row by row. The bytes are the same; damage "
         "in a part of a file that nobody needs goes unseen (see decode_image's verify)."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(mr_settings, fields),
     .fallback = "[]",
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Fields to deliver, in this order; empty: all that the source does not call optional."},
    {.name = "threads",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_settings, threads),
     .fallback = "\"cpus\"",
     .choices = threads_names,
     .doc = "Where the caller names no number: cpus (one for each CPU) or auto (as many as are of "
            "use, adapted while it runs, with reads and batches ahead; see docs/tune.md). The "
            "bytes are the same."},
    {.name = NULL},
};

/* "threads" is about the machine, so only documents that have it show it. */
json_t *mr_settings_json(const mr_settings *settings) {
    json_t *object = mr_params_json(settings_rows, settings);
    if (settings->threads == MR_THREADS_CPUS) {
        json_object_del(object, "threads");
    }
    return object;
}

const mr_param *mr_settings_params(void) {
    return settings_rows;
}
