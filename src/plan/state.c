/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - writes, reads and compares saved states.
 *
 * A state is read as JSON, so that it survives being stored inside other documents and printed
 * anew; then its text is made again from the values and must have the same check. So what was read
 * is exactly what was written, or it is refused. */
#include "plan/state.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/philox.h"
#include "plan/schedule.h"
#include "plan/state_classes.h"

enum { CHECK_SIZE = 17, N_KEYS = 9, CLASSES_KEYS = 1, STREAM_KEYS = 2 };

/* ---- Values ---- */

static bool is_fingerprint(const char *text) {
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static bool is_possible(const mr_state *s) {
    return is_fingerprint(s->pipeline) && is_fingerprint(s->dataset) && s->samples >= 1 &&
           s->samples <= MR_MAX_SAMPLES && s->epoch >= 0 && s->epoch < MR_MAX_EPOCHS &&
           s->position >= 0 && s->position <= s->samples && s->step >= 0;
}

void mr_state_free(mr_state *state) {
    free(state->classes);
    free(state->rehearsal);
    state->classes = NULL;
    state->rehearsal = NULL;
    state->rehearsal_size = 0;
}

/* ---- Writing ---- */

/* All but the check and the closing brace; returns the length. */
static size_t write_body(const mr_state *s, char out[MR_STATE_MAX]) {
    int length = snprintf(
        out, MR_STATE_MAX,
        "{\"millrace_state\": %d, \"pipeline\": \"%s\", \"dataset\": \"%s\", \"seed\": %lld, "
        "\"shuffle\": %s, \"samples\": %lld, \"epoch\": %lld, \"position\": %lld",
        MR_STATE_VERSION, s->pipeline, s->dataset, (long long)s->seed,
        s->shuffle ? "true" : "false", (long long)s->samples, (long long)s->epoch,
        (long long)s->position);
    return (size_t)length;
}

static size_t write_classes(const mr_state *s, char *out) {
    return s->classes ? (size_t)sprintf(out, ", \"classes\": %s", s->classes) : 0;
}

static size_t bytes_of_buffer(const mr_state *s) {
    return mr_base64_length(s->buffer ? mr_rehearsal_bytes(s->buffer) : s->rehearsal_size);
}

static size_t write_step(const mr_state *s, char *out) {
    return s->is_stream ? (size_t)sprintf(out, ", \"step\": %lld", (long long)s->step) : 0;
}

/* All that comes before the rehearsal buffer; returns the length. */
static size_t write_head(const mr_state *s, char *out) {
    size_t length = write_body(s, out);
    length += write_classes(s, out + length);
    return length + write_step(s, out + length);
}

static size_t write_check(uint64_t hash, char *out, char check[CHECK_SIZE]) {
    snprintf(check, CHECK_SIZE, "%016llx", (unsigned long long)hash);
    return (size_t)sprintf(out, ", \"check\": \"%s\"}", check);
}

static const char before_letters[] = ", \"rehearsal\": \"";
enum { BEFORE_LETTERS = sizeof before_letters - 1 };

/* out has room for mr_state_bytes. */
static mr_status write_rehearsal(const mr_state *s, char *out, size_t *length, mr_error *err) {
    *length = 0;
    if (!s->is_stream) {
        return MR_OK;
    }
    memcpy(out, before_letters, BEFORE_LETTERS);
    *length = BEFORE_LETTERS;
    if (s->buffer) {
        MR_TRY(mr_rehearsal_write(s->buffer, out + *length, err));
    } else {
        mr_base64_encode(s->rehearsal, s->rehearsal_size, out + *length);
    }
    *length += bytes_of_buffer(s);
    out[(*length)++] = '"';
    return MR_OK;
}

size_t mr_state_bytes(const mr_state *state) {
    return MR_STATE_MAX + (state->classes ? strlen(state->classes) : 0) + bytes_of_buffer(state);
}

/* All of it, to memory of mr_state_bytes. A large buffer is copied once and hashed once: saving is
 * to cost less than a step. */
static mr_status write_all(const mr_state *s, char *out, size_t *length, char check[CHECK_SIZE],
                           mr_error *err) {
    size_t more = 0;
    *length = write_head(s, out);
    MR_TRY(write_rehearsal(s, out + *length, &more, err));
    *length += more;
    *length += write_check(mr_hash64(out, *length, 0), out + *length, check);
    return MR_OK;
}

/* To memory that may be too small: how small is told. NULL: the check alone is wanted. */
static mr_status write_beside(const mr_state *s, char *buffer, size_t size, char check[CHECK_SIZE],
                              mr_error *err) {
    size_t length = 0;
    char *text = malloc(mr_state_bytes(s));
    if (!text) {
        return mr_fail_memory(err, mr_state_bytes(s));
    }
    mr_status status = write_all(s, text, &length, check, err);
    if (status == MR_OK && length >= size) {
        status = mr_fail(err, MR_E_PARAM, "the state needs %zu bytes, the buffer has %zu",
                         length + 1, size);
    } else if (status == MR_OK && buffer) {
        memcpy(buffer, text, length + 1);
    }
    free(text);
    return status;
}

static mr_status impossible(mr_error *err) {
    return mr_fail(err, MR_E_INTERNAL, "a state that cannot be was to be saved");
}

mr_status mr_state_write(const mr_state *state, char *buffer, size_t size, mr_error *err) {
    char check[CHECK_SIZE];
    size_t length = 0;
    if (!is_possible(state)) {
        return impossible(err);
    }
    return size >= mr_state_bytes(state) ? write_all(state, buffer, &length, check, err)
                                         : write_beside(state, buffer, size, check, err);
}

/* What the check is of stands here but for the letters; then the check takes the place of what
 * would introduce them. */
mr_status mr_state_write_apart(const mr_state *state, char *out, mr_piece *letters, mr_error *err) {
    char check[CHECK_SIZE], quote = '"';
    *letters = (mr_piece){.data = NULL};
    if (!is_possible(state)) {
        return impossible(err);
    }
    if (state->buffer) {
        MR_TRY(mr_rehearsal_letters(state->buffer, letters, err));
    }
    size_t length = write_head(state, out);
    memcpy(out + length, before_letters, BEFORE_LETTERS);
    const mr_piece whole = {out, length};
    const mr_piece parts[] = {{out, length + BEFORE_LETTERS}, *letters, {&quote, 1}};
    uint64_t hash = state->is_stream ? mr_hash64_joined(parts, 3) : mr_hash64_joined(&whole, 1);
    write_check(hash, out + length, check);
    return MR_OK;
}

/* ---- Reading ---- */

static mr_status not_a_state(mr_error *err, const char *why) {
    char escaped[200];
    mr_text_escape(escaped, sizeof escaped, why);
    mr_status status = mr_fail(err, MR_E_STATE, "this is not a saved state: %s", escaped);
    mr_hint(err, "use the file that --state-out wrote, or start without a state");
    return status;
}

static mr_status damaged(mr_error *err, const char *what) {
    mr_status status = mr_fail(err, MR_E_STATE, "the saved state is damaged: %s", what);
    mr_hint(err, "use an older state, or start without one");
    return status;
}

static mr_status parse(json_t **out, const char *text, size_t size, mr_error *err) {
    json_error_t error;
    if (size >= MR_STATE_TEXT_MAX) {
        return not_a_state(err, "it is too long");
    }
    mr_status status = mr_json_load(out, text, size, JSON_REJECT_DUPLICATES, &error);
    if (status == MR_E_MEMORY) {
        return mr_fail_memory(err, size);
    }
    return status == MR_OK ? MR_OK : not_a_state(err, error.text);
}

/* Before anything else is looked at: a newer version may have other keys. */
static mr_status check_version(json_t *object, mr_error *err) {
    json_t *version = json_object_get(object, "millrace_state");
    if (!json_is_integer(version) || json_integer_value(version) < 1) {
        return not_a_state(err, "it has no \"millrace_state\": 1");
    }
    if (json_integer_value(version) > MR_STATE_VERSION) {
        mr_status status =
            mr_fail(err, MR_E_STATE,
                    "the state was written by a newer millrace: it has format %lld, this one reads "
                    "up to %d",
                    (long long)json_integer_value(version), MR_STATE_VERSION);
        mr_hint(err, "use millrace as new as the one that saved the state");
        return status;
    }
    return MR_OK;
}

static bool get_text(json_t *object, const char *key, char *out, size_t size) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text || strlen(text) != size - 1) {
        return false;
    }
    memcpy(out, text, size);
    return true;
}

static bool get_number(json_t *object, const char *key, int64_t *out) {
    json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value);
}

static bool get_bool(json_t *object, const char *key, bool *out) {
    json_t *value = json_object_get(object, key);
    *out = json_is_true(value);
    return json_is_boolean(value);
}

static bool get_fields(json_t *object, mr_state *out, char check[CHECK_SIZE]) {
    return get_text(object, "pipeline", out->pipeline, sizeof out->pipeline) &&
           get_text(object, "dataset", out->dataset, sizeof out->dataset) &&
           get_number(object, "seed", &out->seed) && get_bool(object, "shuffle", &out->shuffle) &&
           get_number(object, "samples", &out->samples) &&
           get_number(object, "epoch", &out->epoch) &&
           get_number(object, "position", &out->position) &&
           get_text(object, "check", check, CHECK_SIZE);
}

static mr_status get_classes(json_t *object, mr_state *out, mr_error *err) {
    json_t *classes = json_object_get(object, "classes");
    if (!classes) {
        return MR_OK;
    }
    if (!mr_state_is_classes(classes)) {
        return damaged(err, "its classes are no lists of names");
    }
    out->classes = mr_state_classes_text(classes);
    return out->classes ? MR_OK : mr_fail_memory(err, MR_STATE_MAX);
}

static mr_status get_rehearsal(const json_t *text, mr_state *out, mr_error *err) {
    size_t length = json_string_length(text), room = length / 4 * 3 + 3;
    if (length == 0) {
        return MR_OK;
    }
    out->rehearsal = malloc(room);
    if (!out->rehearsal) {
        return mr_fail_memory(err, room);
    }
    return mr_base64_decode(json_string_value(text), length, out->rehearsal, &out->rehearsal_size)
               ? MR_OK
               : damaged(err, "its rehearsal buffer is not base64");
}

static mr_status get_stream(json_t *object, mr_state *out, mr_error *err) {
    const json_t *rehearsal = json_object_get(object, "rehearsal");
    out->is_stream = rehearsal != NULL;
    if (!out->is_stream) {
        return MR_OK;
    }
    if (!json_is_string(rehearsal) || !get_number(object, "step", &out->step)) {
        return damaged(err, "an entry is missing or of another type");
    }
    return get_rehearsal(rehearsal, out, err);
}

static mr_status check_values(const mr_state *state, const char *check, mr_error *err) {
    char wanted[CHECK_SIZE];
    MR_TRY(write_beside(state, NULL, SIZE_MAX, wanted, err));
    return strcmp(check, wanted) == 0 && is_possible(state)
               ? MR_OK
               : damaged(err, "its check does not fit its entries");
}

static mr_status read_object(json_t *object, mr_state *out, mr_error *err) {
    char check[CHECK_SIZE];
    MR_TRY(check_version(object, err));
    if (!get_fields(object, out, check)) {
        return damaged(err, "an entry is missing or of another type");
    }
    MR_TRY(get_classes(object, out, err));
    MR_TRY(get_stream(object, out, err));
    if (json_object_size(object) !=
        (size_t)N_KEYS + (out->classes ? CLASSES_KEYS : 0) + (out->is_stream ? STREAM_KEYS : 0)) {
        return damaged(err, "it has an unknown entry");
    }
    return check_values(out, check, err);
}

mr_status mr_state_read(mr_state *out, const char *text, size_t size, mr_error *err) {
    json_t *root = NULL;
    mr_state state = {.seed = 0};
    MR_TRY(parse(&root, text, size, err));
    mr_status status = read_object(root, &state, err);
    json_decref(root);
    if (status < 0) {
        mr_state_free(&state);
        return status;
    }
    *out = state;
    return MR_OK;
}

/* ---- Matching ---- */

static mr_status match_pipeline(const mr_state *saved, const mr_state *current, mr_error *err) {
    if (strcmp(saved->pipeline, current->pipeline) == 0) {
        return MR_OK;
    }
    mr_status status = mr_fail(err, MR_E_STATE,
                               "the state was saved with another pipeline: its fingerprint is %s, "
                               "this one's is %s",
                               saved->pipeline, current->pipeline);
    mr_hint(err, "use the pipeline that saved the state; only batch, epochs, remainder, on_error "
                 "and the place of the data may differ");
    return status;
}

static mr_status match_dataset(const mr_state *saved, const mr_state *current, mr_error *err) {
    mr_status status = MR_OK;
    if (saved->samples != current->samples) {
        status = mr_fail(err, MR_E_STATE,
                         "the state was saved with a dataset of %lld samples, this one has %lld",
                         (long long)saved->samples, (long long)current->samples);
    } else if (strcmp(saved->dataset, current->dataset) != 0) {
        status = mr_fail(err, MR_E_STATE,
                         "the state was saved with another dataset: its fingerprint is %s, this "
                         "one's is %s",
                         saved->dataset, current->dataset);
    }
    if (status < 0) {
        mr_hint(err, "bring back the dataset as it was, or start without the state");
    }
    return status;
}

static mr_status match_seed(const mr_state *saved, const mr_state *current, mr_error *err) {
    if (saved->seed == current->seed) {
        return MR_OK;
    }
    mr_status status =
        mr_fail(err, MR_E_STATE, "the state was saved with seed %lld, this run has seed %lld",
                (long long)saved->seed, (long long)current->seed);
    mr_hint(err, "pass --seed %lld", (long long)saved->seed);
    return status;
}

static mr_status match_shuffle(const mr_state *saved, const mr_state *current, mr_error *err) {
    if (saved->shuffle == current->shuffle) {
        return MR_OK;
    }
    mr_status status =
        mr_fail(err, MR_E_STATE, "the state was saved %s shuffling, this run is %s",
                saved->shuffle ? "with" : "without", current->shuffle ? "with it" : "without it");
    mr_hint(err, "set \"shuffle\": %s in the pipeline", saved->shuffle ? "true" : "false");
    return status;
}

mr_status mr_state_match(const mr_state *saved, const mr_state *current, mr_error *err) {
    MR_TRY(match_pipeline(saved, current, err));
    if (saved->classes && current->classes) {
        MR_TRY(mr_state_match_classes(saved->classes, current->classes, err));
    }
    MR_TRY(match_dataset(saved, current, err));
    MR_TRY(match_seed(saved, current, err));
    return match_shuffle(saved, current, err);
}
