/* SPDX-License-Identifier: Apache-2.0 */
/* stream_document.c - see stream_document.h. */
#include "plan/stream_document.h"

#include <stddef.h>

#include "core/error.h"
#include "core/params.h"

static const char *const policy_names[] = {"reservoir", "class_balanced", "cbrs",
                                           "gdumb",     "fixed_rate",     "recent",
                                           "priority",  "custom",         NULL};
_Static_assert(sizeof policy_names / sizeof *policy_names == MR_REHEARSE_POLICIES + 1,
               "names stand in the order of mr_rehearsal_policy");

static const char *const enter_names[] = {"raw", "cached", NULL};

static const mr_param rehearse_rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_rehearse, size),
     .fallback = "0",
     .min = 0,
     .max = (double)MR_REHEARSAL_MAX,
     .doc = "How many samples the buffer keeps; 0: as many as `bytes` says."},
    {.name = "bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_rehearse, bytes),
     .fallback = "0",
     .min = 0,
     .max = 0x1p60,
     .doc = "In place of size: how many bytes of samples the buffer keeps, each counted as "
            "sample_bytes."},
    {.name = "sample_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_rehearse, sample_bytes),
     .fallback = "0",
     .min = 0,
     .max = 0x1p40,
     .doc = "For bytes: how large a sample is, or is on average."},
    {.name = "share",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mr_rehearse, share),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Which part of each batch is shown again."},
    {.name = "policy",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_rehearse, policy),
     .fallback = "\"reservoir\"",
     .choices = policy_names,
     .doc = "Which samples are kept: docs/streams.md says what each policy does."},
    {.name = "lag",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_rehearse, lag),
     .fallback = "1",
     .min = 1,
     .max = INT32_MAX,
     .doc = "After how many steps a sample can be shown again."},
    {.name = "memory",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_rehearse, memory),
     .fallback = "\"2GB\"",
     .min = 0,
     .max = 0x1p60,
     .doc = "How many bytes of kept samples stay in memory; the others are read from the stream "
            "again."},
    {.name = "enter",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_rehearse, enter),
     .fallback = "\"raw\"",
     .choices = enter_names,
     .doc = "What stays in memory of a kept sample: its entry (raw), or what the ops before the "
            "first one that draws made of it (cached; or before a `cache` among the ops)."},
    {.name = "classes",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_rehearse, classes),
     .fallback = "1",
     .min = 1,
     .max = (double)MR_REHEARSAL_MAX,
     .doc = "For fixed_rate: how many labels there are."},
    {.name = "rate",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mr_rehearse, rate),
     .fallback = "1.0",
     .min = 0,
     .max = 1,
     .doc = "For fixed_rate: how likely a sample takes another's place."},
    {.name = "samples_per_insert",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mr_rehearse, samples_per_insert),
     .fallback = "0",
     .min = 0,
     .max = 1e6,
     .doc = "How many old samples are shown for each new one, in the long run: steps have fewer "
            "new and more old ones, or no old ones, to stay near it; 0: as `share` says."},
    {.name = "slack",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mr_rehearse, slack),
     .fallback = "0",
     .min = 0,
     .max = 1e15,
     .doc = "For samples_per_insert: how many samples it may be off; 0: those of two steps."},
    {.name = "least_size",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_rehearse, least_size),
     .fallback = "1",
     .min = 1,
     .max = (double)MR_REHEARSAL_MAX,
     .doc = "For samples_per_insert: nothing is shown again before the buffer has so many."},
    {.name = NULL},
};

const mr_param *mr_rehearse_params(void) {
    return rehearse_rows;
}

/* Entries are of any size, and what is kept shall not depend on which came first: so a number of
 * bytes is a number of samples, known from the start. */
static mr_status find_size(mr_rehearse *r, mr_error *err) {
    int64_t size = r->bytes > 0 && r->sample_bytes > 0 ? r->bytes / r->sample_bytes : r->size;
    bool contradicts = r->bytes > 0 && r->size > 0 && r->size != size;
    if (contradicts || size < 1 || size > MR_REHEARSAL_MAX ||
        (r->bytes > 0) != (r->sample_bytes > 0)) {
        mr_error_at_json(err, r->bytes > 0 ? "$.rehearse.bytes" : "$.rehearse.size");
        mr_fail(err, MR_E_PARAM, "a rehearsal buffer has 1 to %lld samples",
                (long long)MR_REHEARSAL_MAX);
        mr_hint(err,
                "write \"size\": 20000, or \"bytes\": \"2GB\" and \"sample_bytes\": \"100KB\"");
        return MR_E_PARAM;
    }
    r->size = size;
    return MR_OK;
}

mr_status mr_rehearse_read(mr_rehearse *out, json_t *value, mr_error *err) {
    *out = (mr_rehearse){.on = false};
    if (!value) {
        return MR_OK;
    }
    if (!json_is_object(value)) {
        mr_error_at_json(err, "$.rehearse");
        mr_fail(err, MR_E_TYPE, "rehearse must be an object");
        mr_hint(err, "write \"rehearse\": {\"size\": 20000, \"share\": 0.5}");
        return MR_E_TYPE;
    }
    MR_TRY(mr_params_fill(rehearse_rows, value, "$.rehearse", "rehearse", NULL, out, err));
    out->on = true;
    MR_TRY(find_size(out, err));
    if (out->least_size > out->size) {
        mr_error_at_json(err, "$.rehearse.least_size");
        return mr_fail(err, MR_E_PARAM, "the buffer never has so many samples");
    }
    if (out->classes > out->size) {
        mr_error_at_json(err, "$.rehearse.classes");
        return mr_fail(err, MR_E_PARAM, "there are more classes than places in the buffer");
    }
    return MR_OK;
}

json_t *mr_rehearse_json(const mr_rehearse *rehearse) {
    return mr_params_json(rehearse_rows, rehearse);
}

/* ---- Pace ---- */
static const char *const late_names[] = {"wait", "fill", NULL};
static const char *const spill_names[] = {"folder", "ranks", NULL};
static const char *const early_names[] = {"hold", "spill", "thin", "drop_oldest", NULL};

static const mr_param pace_rows[] = {
    {.name = "late",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_pace, late),
     .fallback = "\"wait\"",
     .choices = late_names,
     .doc = "What a step does while the stream has too little for it: wait, or fill (old samples "
            "take the places of new ones once `patience` is over)."},
    {.name = "patience",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mr_pace, patience),
     .fallback = "0.1",
     .min = 0,
     .max = 1e9,
     .doc = "For fill: seconds that a step waits."},
    {.name = "early",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_pace, early),
     .fallback = "\"hold\"",
     .choices = early_names,
     .doc = "What becomes of entries that come faster than steps take them: hold (they stay in the "
            "stream), spill (they are written to a folder and read back in order), thin (some are "
            "chosen by a hash of their keys, at a rate that adapts) or "
            "drop_oldest."},
    {.name = "most_waiting",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_pace, most_waiting),
     .fallback = "4096",
     .min = 1,
     .max = 1 << 24,
     .doc = "For thin and drop_oldest: how many entries may wait; at least those of a step."},
    {.name = "least_kept",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(mr_pace, least_kept),
     .fallback = "0.01",
     .min = 0.0001,
     .max = 1,
     .doc = "For thin: the least share of entries that is chosen."},
    {.name = "spill",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(mr_pace, spill),
     .fallback = "\"\"",
     .doc = "For spill: the folder to write to, a run's own."},
    {.name = "spill_to",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_pace, spill_to),
     .fallback = "\"folder\"",
     .choices = spill_names,
     .doc = "For spill: a folder, or the spare memory of the other ranks, over the fabric."},
    {.name = "spill_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_pace, spill_bytes),
     .fallback = "\"16GB\"",
     .min = 1 << 20,
     .max = 0x1p60,
     .doc =
         "For spill: how large its files may become, or how much memory a rank lends the others; "
         "beyond that, entries stay in the stream."},
    {.name = NULL},
};

const mr_param *mr_pace_params(void) {
    return pace_rows;
}

mr_status mr_pace_read(mr_pace *out, json_t *value, mr_error *err) {
    *out = (mr_pace){.on = false};
    if (value && !json_is_object(value)) {
        mr_error_at_json(err, "$.pace");
        mr_fail(err, MR_E_TYPE, "pace must be an object");
        mr_hint(err, "write \"pace\": {\"late\": \"fill\", \"patience\": 0.2}");
        return MR_E_TYPE;
    }
    MR_TRY(mr_params_fill(pace_rows, value, "$.pace", "pace", NULL, out, err));
    out->on = value != NULL;
    bool to_folder = out->early == MR_EARLY_SPILL && out->spill_to == MR_SPILL_FOLDER;
    if (to_folder != (out->spill[0] != 0)) {
        mr_pace_free(out);
        mr_error_at_json(err, "$.pace.spill");
        mr_fail(err, MR_E_PARAM, "\"early\": \"spill\" and a folder to spill to need each other");
        mr_hint(err, "write \"pace\": {\"early\": \"spill\", \"spill\": \"/scratch/spill\"}, or "
                     "\"spill_to\": \"ranks\" and no folder");
        return MR_E_PARAM;
    }
    return MR_OK;
}

void mr_pace_free(mr_pace *pace) {
    mr_params_free(pace_rows, pace);
    *pace = (mr_pace){.on = false};
}

json_t *mr_pace_json(const mr_pace *pace) {
    return mr_params_json(pace_rows, pace);
}

mr_rate_options mr_pace_options(const mr_pace *pace, int64_t batch, int64_t replays) {
    int64_t news = batch - replays;
    uint32_t least = (uint32_t)(pace->least_kept * MR_KEEP_ALL);
    return (mr_rate_options){.late = (mr_late)pace->late,
                             .early = (mr_early)pace->early,
                             .batch = news,
                             .replay = replays,
                             .patience = (int64_t)(pace->patience * 1e9),
                             .most_waiting = pace->most_waiting > news ? pace->most_waiting : news,
                             .least_kept = least > 0 ? least : 1};
}

mr_status mr_rehearse_limit(const mr_rehearse *r, int64_t batch, mr_rate_limit *out,
                            mr_error *err) {
    double widest = 2 * (double)batch * (r->samples_per_insert > 1 ? r->samples_per_insert : 1);
    *out = (mr_rate_limit){.samples_per_insert = 0};
    return r->on && r->samples_per_insert > 0
               ? mr_rate_limit_start(out, r->samples_per_insert, r->least_size,
                                     r->slack > 0 ? r->slack : widest, err)
               : MR_OK;
}

/* ---- Shares ---- */
/* At least one sample of a step is new, or the stream would stand still. */
int64_t mr_rehearse_replays(const mr_rehearse *rehearse, int64_t batch) {
    int64_t replays = rehearse->on ? (int64_t)(rehearse->share * (double)batch + 0.5) : 0;
    return replays < batch ? replays : batch - 1;
}
