/* SPDX-License-Identifier: Apache-2.0 */
/* decisions.c - see decisions.h. */
#include "run/stream/decisions.h"

#include <endian.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"

struct mr_decisions {
    mr_decisions_config config;
    mr_rate rate;
    mr_journals *journals; /* NULL: there is no journal */
    int64_t *heard,
        *passed;    /* of each rank: how much of what it said is in the journal, was read */
    bool has_ended; /* and said so */
    mr_rate_decision *known; /* of the journal, from the first step on */
    int64_t n_known, room, used;
    mr_choices **chosen; /* likewise, from step first_chosen on; NULL: was used */
    int64_t n_chosen, chosen_room, n_chosen_used;
    int64_t first_chosen;
};

/* ---- What the journal has ---- */
static mr_status add_known(mr_decisions *d, const mr_rate_decision *decision, mr_error *err) {
    if (d->n_known == d->room) {
        int64_t room = d->room ? 2 * d->room : 64;
        mr_rate_decision *grown = realloc(d->known, (size_t)room * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)room * sizeof *grown);
        }
        d->known = grown;
        d->room = room;
    }
    d->known[d->n_known++] = *decision;
    return MR_OK;
}

static mr_status read_decision(mr_decisions *d, const mr_entry *entry, mr_error *err) {
    mr_rate_decision decision;
    MR_TRY(mr_rate_entry_load(&decision, entry->value, entry->size, err));
    if (decision.step < d->config.step) {
        d->rate.keep = d->rate.noted_keep = decision.keep;
        return MR_OK;
    }
    return add_known(d, &decision, err);
}

static mr_status read_said(mr_decisions *d, const mr_entry *entry, mr_error *err) {
    mr_said *said = NULL;
    mr_hearsay *h = d->config.hearsay;
    MR_TRY(mr_said_load(&said, entry->value, entry->size, err));
    if (h->n > 0 && said->step < h->list[h->n - 1]->step) {
        mr_said_free(said);
        return mr_fail(err, MR_E_CORRUPT, "feedback in the journal is out of order");
    }
    return mr_hearsay_add(h, said, err);
}

/* Of this rank's own words: those before are not said again. */
static mr_status note_own(mr_decisions *d, const mr_entry *entry, mr_error *err) {
    mr_said *said = NULL;
    mr_hearsay *h = d->config.hearsay;
    MR_TRY(mr_said_load(&said, entry->value, entry->size, err));
    h->known_after = said->after > h->known_after ? said->after : h->known_after;
    mr_said_free(said);
    return MR_OK;
}

static mr_status read_said_by(mr_decisions *d, const mr_entry *entry, mr_error *err) {
    uint64_t from[2];
    mr_entry own = *entry;
    if (entry->size < sizeof from) {
        return mr_fail(err, MR_E_CORRUPT, "an entry of %zu bytes is no feedback", entry->size);
    }
    memcpy(from, entry->value, sizeof from);
    from[0] = le64toh(from[0]);
    from[1] = le64toh(from[1]);
    if (from[0] < (uint64_t)d->config.world && from[1] < INT64_MAX) {
        d->heard[from[0]] = (int64_t)from[1] + 1;
    }
    own.value = (const char *)entry->value + sizeof from;
    own.size = entry->size - sizeof from;
    return read_said(d, &own, err);
}

static mr_status add_chosen(mr_decisions *d, mr_choices *choices, mr_error *err) {
    if (d->n_chosen == d->chosen_room) {
        int64_t room = d->chosen_room ? 2 * d->chosen_room : 64;
        mr_choices **grown = realloc(d->chosen, (size_t)room * sizeof(mr_choices *));
        if (!grown) {
            mr_choices_free(choices);
            return mr_fail_memory(err, (size_t)room * sizeof(mr_choices *));
        }
        d->chosen = grown;
        d->chosen_room = room;
    }
    d->chosen[d->n_chosen++] = choices;
    return MR_OK;
}

/* Steps follow each other without a gap. */
static mr_status read_chosen(mr_decisions *d, const mr_entry *entry, mr_error *err) {
    mr_choices *choices = NULL;
    MR_TRY(mr_choices_load(&choices, entry->value, entry->size, err));
    if (choices->step < d->config.step) {
        mr_choices_free(choices);
        return MR_OK;
    }
    if (choices->step != d->first_chosen + d->n_chosen) {
        mr_choices_free(choices);
        return mr_fail(err, MR_E_CORRUPT, "choices in the journal are out of order");
    }
    return add_chosen(d, choices, err);
}

static mr_status read_entry(mr_decisions *d, int64_t kind, const mr_entry *entry, mr_error *err) {
    switch (kind) {
    case MR_JOURNAL_DECISION:
        return read_decision(d, entry, err);
    case MR_JOURNAL_SAID:
        if (d->config.rank == 0) {
            MR_TRY(note_own(d, entry, err));
        }
        return read_said(d, entry, err);
    case MR_JOURNAL_SAID_BY:
        return read_said_by(d, entry, err);
    case MR_JOURNAL_CHOSEN:
        return read_chosen(d, entry, err);
    default:
        return MR_OK;
    }
}

/* What was done is of no more use: lists of a rank that follows do not grow for ever. */
static void forget_used(mr_decisions *d) {
    if (d->used == d->n_known) {
        d->used = d->n_known = 0;
    }
    if (d->n_chosen_used == d->n_chosen) {
        d->first_chosen += d->n_chosen;
        d->n_chosen_used = d->n_chosen = 0;
    }
}

mr_status mr_decisions_look(mr_decisions *d, mr_error *err) {
    mr_entry entry;
    int64_t kind = 0;
    mr_status status = MR_OK;
    forget_used(d);
    while (status == MR_OK &&
           (status = mr_journals_next(d->journals, 0, &kind, &entry, err)) == MR_OK) {
        status = read_entry(d, kind, &entry, err);
    }
    return status < 0 ? status : MR_OK;
}

/* What this rank said before it was ended. */
static mr_status read_own(mr_decisions *d, mr_error *err) {
    mr_entry entry;
    int64_t kind = 0, rank = d->config.rank;
    mr_status status = rank > 0 && !d->config.replay ? MR_OK : MR_END;
    while (status == MR_OK &&
           (status = mr_journals_next(d->journals, rank, &kind, &entry, err)) == MR_OK) {
        status = kind == MR_JOURNAL_SAID ? note_own(d, &entry, err) : MR_OK;
    }
    return status < 0 ? status : MR_OK;
}

/* ---- Opening ---- */
static void name_run(const mr_decisions_config *c, uint64_t run[2]) {
    const mr_hash128 document = mr_hash(c->pipeline->fingerprint, 32);
    const mr_hash128 stream = mr_hash(c->dataset, 32);
    const uint64_t words[6] = {document.low, document.high,     stream.low,
                               stream.high,  (uint64_t)c->seed, (uint64_t)c->batch};
    const mr_hash128 all = mr_hash(words, sizeof words);
    run[0] = all.low;
    run[1] = all.high;
}

static mr_status append_json(mr_decisions *d, int64_t kind, json_t *object, mr_error *err) {
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) {
        return mr_fail_memory(err, 256);
    }
    mr_status status = mr_journals_append(d->journals, kind, text, strlen(text), err);
    free(text);
    return status;
}

static mr_status note_run(mr_decisions *d, mr_error *err) {
    const mr_decisions_config *c = &d->config;
    json_t *document = NULL;
    json_error_t error;
    if (mr_json_load(&document, c->pipeline->json, strlen(c->pipeline->json), 0, &error) < 0) {
        return mr_fail_memory(err, strlen(c->pipeline->json));
    }
    return append_json(d, MR_JOURNAL_RUN,
                       json_pack("{s:o,s:I,s:I,s:I}", "pipeline", document, "seed",
                                 (json_int_t)c->seed, "batch", (json_int_t)c->batch, "world",
                                 (json_int_t)c->world),
                       err);
}

static mr_status check_use(const mr_decisions *d, mr_error *err) {
    const mr_decisions_config *c = &d->config;
    if (!c->journal && mr_rate_is_by_the_clock(&d->rate.options)) {
        mr_fail(err, MR_E_PARAM,
                "what the clock decides must be written down, and there is no "
                "journal");
        mr_hint(err, "give it a folder: --journal FOLDER, or journal=... of loader()");
        return MR_E_PARAM;
    }
    if (!c->journal && c->pipeline->rehearse.policy == MR_REHEARSE_CUSTOM) {
        mr_fail(err, MR_E_PARAM,
                "what a policy chooses must be written down, and there is no journal");
        mr_hint(err, "give it a folder: journal=... of loader()");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static mr_status open_journal(mr_decisions *d, mr_error *err) {
    const mr_decisions_config *c = &d->config;
    mr_journals_config config = {
        .folder = c->journal, .world = c->world, .rank = c->rank, .read_only = c->replay};
    name_run(c, config.run);
    d->heard = mr_zalloc((size_t)c->world, sizeof *d->heard);
    d->passed = mr_zalloc((size_t)c->world, sizeof *d->passed);
    if (!d->heard || !d->passed) {
        return mr_fail_memory(err, (size_t)c->world * sizeof *d->heard);
    }
    MR_TRY(mr_journals_open(&d->journals, &config, err));
    MR_TRY(mr_decisions_look(d, err));
    MR_TRY(read_own(d, err));
    return c->rank == 0 && mr_journals_is_new(d->journals) ? note_run(d, err) : MR_OK;
}

mr_status mr_decisions_open(mr_decisions **out, const mr_decisions_config *config, mr_error *err) {
    mr_decisions *d = mr_zalloc(1, sizeof *d);
    *out = d;
    if (!d) {
        return mr_fail_memory(err, sizeof *d);
    }
    d->config = *config;
    d->first_chosen = config->step;
    mr_rate_options options =
        mr_pace_options(&config->pipeline->pace, config->batch, config->replays);
    options.seed = config->seed;
    MR_TRY(mr_rate_start(&d->rate, &options, err));
    d->rate.step = config->step;
    MR_TRY(mr_rehearse_limit(&config->pipeline->rehearse, config->batch, &d->rate.limit, err));
    MR_TRY(check_use(d, err));
    return config->journal ? open_journal(d, err) : MR_OK;
}

void mr_decisions_close(mr_decisions *d) {
    if (d) {
        mr_journals_close(d->journals);
        mr_free(d->heard);
        mr_free(d->passed);
        for (int64_t i = 0; i < d->n_chosen; i++) {
            mr_choices_free(d->chosen[i]);
        }
        free(d->chosen);
        free(d->known);
        mr_free(d);
    }
}

/* ---- Deciding ---- */
const mr_rate *mr_decisions_rate(const mr_decisions *d) {
    return &d->rate;
}

void mr_decisions_keep(mr_decisions *d) {
    d->rate.keep = d->rate.noted_keep;
}

bool mr_decisions_follows(const mr_decisions *d) {
    return d->journals && d->config.rank > 0 && !d->config.replay;
}

bool mr_decisions_known(const mr_decisions *d, mr_rate_decision *out) {
    const mr_rate_decision *next = d->used < d->n_known ? &d->known[d->used] : NULL;
    if (!next && !d->config.replay) {
        return false;
    }
    if (mr_decisions_follows(d) && next->step != d->rate.step) {
        return false;
    }
    mr_rate copy = d->rate;
    bool used;
    return mr_rate_replay(&copy, next, out, &used, NULL) == MR_OK;
}

static mr_status replay(mr_decisions *d, mr_rate_decision *out, mr_error *err) {
    const mr_rate_decision *next = d->used < d->n_known ? &d->known[d->used] : NULL;
    bool used = false;
    MR_TRY(mr_rate_replay(&d->rate, next, out, &used, err));
    d->used += used;
    return MR_OK;
}

static mr_status note(mr_decisions *d, const mr_rate_decision *decision, mr_error *err) {
    unsigned char bytes[MR_RATE_ENTRY_BYTES];
    mr_rate_entry_save(decision, bytes);
    return d->journals
               ? mr_journals_append(d->journals, MR_JOURNAL_DECISION, bytes, sizeof bytes, err)
               : MR_OK;
}

/* Where others follow, every step is noted. */
static bool notes_all(const mr_decisions *d) {
    return mr_rate_is_by_the_clock(&d->rate.options) || (d->journals && d->config.world > 1);
}

/* ---- What others say ---- */
static mr_status write_said(mr_decisions *d, int64_t rank, const mr_said *said, mr_error *err) {
    const uint64_t from[2] = {htole64((uint64_t)rank), htole64((uint64_t)d->heard[rank])};
    size_t before = rank == d->config.rank ? 0 : sizeof from;
    size_t size = before + mr_said_bytes(said);
    unsigned char *bytes = mr_zalloc(1, size);
    if (!bytes) {
        return mr_fail_memory(err, size);
    }
    memcpy(bytes, from, before);
    mr_said_save(said, bytes + before);
    mr_status status = mr_journals_append(
        d->journals, before ? MR_JOURNAL_SAID_BY : MR_JOURNAL_SAID, bytes, size, err);
    mr_free(bytes);
    return status;
}

/* What is said now holds from the next step on that is decided: after those that the journal has
 * already, which others may have followed. */
static int64_t next_hearing(const mr_decisions *d) {
    const mr_hearsay *h = d->config.hearsay;
    int64_t last = h->n > 0 ? h->list[h->n - 1]->step : 0;
    int64_t decided = d->used < d->n_known ? d->known[d->n_known - 1].step + 1 : 0;
    int64_t next = d->rate.step > last ? d->rate.step : last;
    return next > decided ? next : decided;
}

static mr_status take_over(mr_decisions *d, int64_t rank, const mr_entry *entry, mr_error *err) {
    mr_said *said = NULL;
    MR_TRY(mr_said_load(&said, entry->value, entry->size, err));
    said->step = next_hearing(d);
    mr_status status = write_said(d, rank, said, err);
    if (status < 0) {
        mr_said_free(said);
        return status;
    }
    d->heard[rank]++;
    return mr_hearsay_add(d->config.hearsay, said, err);
}

/* Entries that were taken over before a run was ended come once more, and are counted alone. */
static mr_status listen_to(mr_decisions *d, int64_t rank, mr_error *err) {
    mr_entry entry;
    int64_t kind = 0;
    mr_status status = MR_OK;
    while (status == MR_OK &&
           (status = mr_journals_next(d->journals, rank, &kind, &entry, err)) == MR_OK) {
        bool is_said = kind == MR_JOURNAL_SAID;
        bool is_new = is_said && d->passed[rank]++ >= d->heard[rank];
        status = is_new ? take_over(d, rank, &entry, err) : MR_OK;
    }
    return status < 0 ? status : MR_OK;
}

static mr_status listen_to_others(mr_decisions *d, mr_error *err) {
    for (int64_t rank = 1; d->journals && rank < d->config.world; rank++) {
        MR_TRY(listen_to(d, rank, err));
    }
    return MR_OK;
}

/* Where the clock has a say, usual steps are noted too: who goes on from an older state must know
 * that they were. A decision that could not be written is as if it had not been made. */
mr_status mr_decisions_next(mr_decisions *d, const mr_rate_view *view, mr_rate_decision *out,
                            int64_t *until, mr_error *err) {
    bool noted = false;
    mr_rate before = d->rate;
    if (d->used < d->n_known || d->config.replay) {
        *until = INT64_MAX;
        return replay(d, out, err);
    }
    MR_TRY(listen_to_others(d, err));
    mr_status status = mr_rate_decide(&d->rate, view, out, &noted, until);
    noted = noted || notes_all(d);
    if (status == MR_OK && noted && (status = note(d, out, err)) < 0) {
        d->rate = before;
    }
    return status;
}

mr_status mr_decisions_last(mr_decisions *d, const mr_rate_decision *decision, mr_error *err) {
    bool is_new = d->used == d->n_known && notes_all(d) && !d->config.replay;
    return is_new ? note(d, decision, err) : MR_OK;
}

mr_status mr_decisions_end(mr_decisions *d, mr_error *err) {
    const mr_rate_decision none = {.step = d->rate.step, .keep = d->rate.noted_keep};
    bool tells = d->journals && d->config.world > 1 && d->config.rank == 0 && !d->config.replay;
    if (!tells || d->has_ended || d->used < d->n_known) {
        return MR_OK;
    }
    MR_TRY(note(d, &none, err));
    d->has_ended = true;
    return MR_OK;
}

mr_status mr_decisions_hear(mr_decisions *d, mr_said *said, mr_error *err) {
    mr_hearsay *h = d->config.hearsay;
    mr_status status = MR_E_PARAM;
    said->step = next_hearing(d);
    if (d->journals) {
        status = write_said(d, d->config.rank, said, err);
    } else {
        mr_fail(err, MR_E_PARAM,
                "what a trainer says must be written down, and there is no journal");
        mr_hint(err, "give it a folder: journal=... of loader()");
    }
    if (status < 0 || d->config.rank > 0) { /* rank 0 says from when on it holds */
        mr_said_free(said);
        return status;
    }
    return mr_hearsay_add(h, said, err);
}

void mr_decisions_count(mr_decisions *d, int64_t offered, int64_t drawn, int64_t size) {
    d->rate.limit.inserts = offered;
    d->rate.limit.samples = drawn;
    d->rate.limit.size = size;
}

bool mr_decisions_has_chosen(const mr_decisions *d, int64_t step) {
    int64_t at = step - d->first_chosen;
    return at >= 0 && at < d->n_chosen && d->chosen[at];
}

mr_choices *mr_decisions_chosen(mr_decisions *d, int64_t step) {
    if (!mr_decisions_has_chosen(d, step)) {
        return NULL;
    }
    mr_choices *choices = d->chosen[step - d->first_chosen];
    d->chosen[step - d->first_chosen] = NULL;
    d->n_chosen_used++;
    return choices;
}

mr_status mr_decisions_choose(mr_decisions *d, const mr_choices *choices, mr_error *err) {
    size_t size = mr_choices_bytes(choices);
    unsigned char *bytes = mr_zalloc(1, size);
    if (!bytes) {
        return mr_fail_memory(err, size);
    }
    mr_choices_save(choices, bytes);
    mr_status status = mr_journals_append(d->journals, MR_JOURNAL_CHOSEN, bytes, size, err);
    mr_free(bytes);
    return status;
}

mr_status mr_decisions_digest(mr_decisions *d, int64_t first, int64_t end, const char *digest,
                              mr_error *err) {
    if (!d->journals || d->config.replay || first == end) {
        return MR_OK;
    }
    return append_json(d, MR_JOURNAL_DIGEST,
                       json_pack("{s:I,s:I,s:s}", "first", (json_int_t)first, "end",
                                 (json_int_t)end, "digest", digest),
                       err);
}
