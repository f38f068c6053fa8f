/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs again what the run of a journal delivered, and compares the digests it noted. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "run/ring/batch.h"
#include "run/stream/decisions.h"

/* Digest of the batches of steps [first, end), as noted and as they are now. */
typedef struct note {
    int64_t first, end;
    char digest[33];
    mr_hash128 now;
} note;

typedef struct replay {
    json_t *run; /* what the journal says of it */
    note *notes;
    int64_t n_notes, room;
    mr_pipeline *pipeline;
    mr_loader *loader;
} replay;

/* ---- Reading the journal ---- */
static mr_status no_journal(mr_error *err) {
    return mr_fail(err, MR_E_CORRUPT, "this is no journal of a run");
}

static mr_status add_note(replay *r, json_t *object, mr_error *err) {
    const char *digest = json_string_value(json_object_get(object, "digest"));
    if (!digest || strlen(digest) != 32) {
        return no_journal(err);
    }
    if (r->n_notes == r->room) {
        int64_t room = r->room ? 2 * r->room : 16;
        note *grown = mr_zalloc((size_t)room, sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)room * sizeof *grown);
        }
        if (r->n_notes > 0) {
            memcpy(grown, r->notes, (size_t)r->n_notes * sizeof *grown);
        }
        mr_free(r->notes);
        r->notes = grown;
        r->room = room;
    }
    note *own = &r->notes[r->n_notes++];
    *own = (note){.first = json_integer_value(json_object_get(object, "first")),
                  .end = json_integer_value(json_object_get(object, "end"))};
    memcpy(own->digest, digest, 33);
    return MR_OK;
}

static mr_status read_entry(replay *r, int64_t kind, const mr_entry *entry, mr_error *err) {
    json_t *object = NULL;
    json_error_t error;
    if (kind != MR_JOURNAL_RUN && kind != MR_JOURNAL_DIGEST) {
        return MR_OK;
    }
    if (mr_json_load(&object, entry->value, entry->size, 0, &error) < 0) {
        return no_journal(err);
    }
    if (kind == MR_JOURNAL_RUN && !r->run) {
        r->run = object;
        return MR_OK;
    }
    mr_status status = kind == MR_JOURNAL_DIGEST ? add_note(r, object, err) : MR_OK;
    json_decref(object);
    return status;
}

/* Partition 0 says what the run was, each rank's own what it delivered. */
static mr_status read_journal(replay *r, const char *folder, uint32_t rank, mr_error *err) {
    mr_journal_reader *reader = NULL;
    mr_entry entry;
    uint64_t run[2];
    int64_t kind = 0;
    r->n_notes = 0;
    mr_status opened = mr_journal_reader_open(&reader, folder, rank, run, rank > 0 ? NULL : err);
    if (opened == MR_E_NOT_FOUND && rank > 0) {
        return MR_OK; /* it said nothing */
    }
    MR_TRY(opened);
    mr_status status = MR_OK;
    while (status == MR_OK && (status = mr_journal_next(reader, &kind, &entry, err)) == MR_OK) {
        status = read_entry(r, kind, &entry, err);
    }
    mr_journal_reader_close(reader);
    return status < 0 ? status : r->run ? MR_OK : no_journal(err);
}

/* ---- Running ---- */
static uint32_t world_of(const replay *r) {
    int64_t world = json_integer_value(json_object_get(r->run, "world"));
    return world > 0 && world < UINT32_MAX ? (uint32_t)world : 1;
}

/* A host's functions cannot be in a journal: whoever has them must give them. */
static bool lacks_functions(const json_t *pipeline, const mr_op_class *const *extra_ops) {
    size_t i;
    json_t *op;
    for (; extra_ops && *extra_ops; extra_ops++) {
        if (strcmp((*extra_ops)->name, "map") == 0) {
            return false;
        }
    }
    json_array_foreach(json_object_get(pipeline, "ops"), i, op) {
        if (json_object_get(op, "map")) {
            return true;
        }
    }
    return false;
}

static mr_status parse_run(replay *r, const mr_op_class *const *extra_ops, mr_error *err) {
    const json_t *pipeline = json_object_get(r->run, "pipeline");
    char *text = json_dumps(pipeline, 0);
    if (!text) {
        return no_journal(err);
    }
    if (lacks_functions(pipeline, extra_ops)) {
        mr_fail(err, MR_E_NOT_FOUND, "the run had Python functions, which its journal has not");
        mr_hint(err, "replay it in Python, with the run's pipeline: millrace.replay(journal, "
                     "pipeline)");
        free(text);
        return MR_E_NOT_FOUND;
    }
    mr_status status = mr_pipeline_parse(&r->pipeline, text, strlen(text), extra_ops, err);
    free(text);
    return status;
}

static mr_status open_run(replay *r, const char *folder, const mr_op_class *const *extra_ops,
                          uint32_t threads, uint32_t rank, mr_error *err) {
    mr_options options = MR_OPTIONS_INIT;
    MR_TRY(parse_run(r, extra_ops, err));
    options.threads = threads;
    options.seed = json_integer_value(json_object_get(r->run, "seed"));
    options.batch = json_integer_value(json_object_get(r->run, "batch"));
    options.world = world_of(r);
    options.rank = rank;
    options.digest = true;
    options.journal = folder;
    options.replay = true;
    return mr_loader_open(&r->loader, r->pipeline, &options, err);
}

static void extend(note *own, const mr_batch *batch) {
    uint64_t words[4] = {own->now.low, own->now.high, 0, 0};
    mr_batch_digest_words(batch, words + 2);
    own->now = mr_hash(words, sizeof words);
}

/* Of several ranks, steps are those of rank 0, samples those of all. */
static mr_status take_step(replay *r, int64_t step, mr_replay_result *out, mr_error *err) {
    const int64_t patience = 30000000000;
    mr_batch *batch = NULL;
    mr_status status = mr_loader_next_within(r->loader, patience, &batch, err);
    if (status == MR_LATER || status == MR_END) {
        return mr_fail(err, MR_E_STATE, "the stream ends before step %" PRId64 " of the journal",
                       step);
    }
    MR_TRY(status);
    for (int64_t i = 0; i < r->n_notes; i++) {
        if (step >= r->notes[i].first && step < r->notes[i].end) {
            extend(&r->notes[i], batch);
        }
    }
    out->samples += mr_batch_size(batch);
    mr_batch_unref(batch);
    return MR_OK;
}

static int64_t last_step(const replay *r) {
    int64_t end = 0;
    for (int64_t i = 0; i < r->n_notes; i++) {
        end = r->notes[i].end > end ? r->notes[i].end : end;
    }
    return end;
}

static mr_status compare(const replay *r, uint32_t rank, mr_replay_result *out, mr_error *err) {
    if (rank == 0) {
        mr_loader_digest(r->loader, out->digest);
    }
    for (int64_t i = 0; i < r->n_notes; i++) {
        char now[33];
        mr_hash_hex(r->notes[i].now, now);
        if (strcmp(now, r->notes[i].digest) != 0) {
            mr_fail(err, MR_E_STATE, "steps %" PRId64 " to %" PRId64 " were %s and are %s now",
                    r->notes[i].first, r->notes[i].end - 1, r->notes[i].digest, now);
            mr_hint(err, "the stream, or what the ops read, is not what it was");
            return MR_E_STATE;
        }
        out->compared++;
    }
    return MR_OK;
}

static mr_status run_rank(replay *r, const char *folder, const mr_op_class *const *extra_ops,
                          uint32_t threads, uint32_t rank, mr_replay_result *out, mr_error *err) {
    MR_TRY(open_run(r, folder, extra_ops, threads, rank, err));
    for (int64_t step = 0, end = last_step(r); step < end; step++) {
        MR_TRY(take_step(r, step, out, err));
        out->steps += rank == 0;
    }
    return compare(r, rank, out, err);
}

static void close_run(replay *r) {
    mr_loader_close(r->loader);
    mr_pipeline_free(r->pipeline);
    r->loader = NULL;
    r->pipeline = NULL;
}

static mr_status run(replay *r, const char *folder, const mr_op_class *const *extra_ops,
                     uint32_t threads, mr_replay_result *out, mr_error *err) {
    MR_TRY(read_journal(r, folder, 0, err));
    if (r->n_notes == 0) {
        mr_fail(err, MR_E_NOT_FOUND, "the journal has no digest to compare with");
        mr_hint(err, "a run notes one whenever its state is saved, if it computes digests");
        return MR_E_NOT_FOUND;
    }
    MR_TRY(run_rank(r, folder, extra_ops, threads, 0, out, err));
    for (uint32_t rank = 1; rank < world_of(r); rank++) {
        close_run(r);
        MR_TRY(read_journal(r, folder, rank, err));
        MR_TRY(run_rank(r, folder, extra_ops, threads, rank, out, err));
    }
    return MR_OK;
}

mr_status mr_replay(const char *folder, const mr_op_class *const *extra_ops, uint32_t threads,
                    mr_replay_result *out, mr_error *err) {
    replay r = {.run = NULL};
    mr_replay_result result = {.steps = 0};
    mr_status status = run(&r, folder, extra_ops, threads, &result, err);
    mr_give_sized(out, &result, sizeof result);
    close_run(&r);
    json_decref(r.run);
    mr_free(r.notes);
    return status;
}
