/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - a run's saved state as text. Pure.
 *
 * {"millrace_state": 1, "pipeline": "<32 hex>", "dataset": "<32 hex>", "seed": S, "shuffle": B,
 *  "samples": N, "epoch": E, "position": P, "check": "<16 hex>"}   where check is the XXH3-64 of
 * the text before it, as written here, from the opening brace to the end of P.
 *
 * Where the dataset has classes, before the check: "classes": {"label": ["cat", "dog"]}, for each
 * field that has any; as long as there are not too many.
 *
 * A run that follows a stream has more before its check: "step": S, the next one, and "rehearsal":
 * "<base64>", the buffer (rehearsal.h), empty where there is none. */
#ifndef MR_PLAN_STATE_H
#define MR_PLAN_STATE_H

#include <millrace/millrace.h>

#include "plan/rehearsal.h"

#define MR_STATE_VERSION 1

typedef struct mr_state {
    char pipeline[33], dataset[33]; /* fingerprints: 32 lower-case hexadecimal digits */
    int64_t seed, samples;
    bool shuffle;
    int64_t epoch, position; /* 0 <= position <= samples */

    char *classes; /* state_classes.h; freed by mr_state_free; NULL: none */

    bool is_stream;
    int64_t step;
    unsigned char *rehearsal; /* as it was read; freed by mr_state_free; NULL: none */
    size_t rehearsal_size;
    mr_rehearsal *buffer; /* to be written in its place; NULL: none */
} mr_state;

#define MR_STATE_TEXT_MAX ((size_t)1 << 31) /* bytes that are looked at */

void mr_state_free(mr_state *state); /* what it owns; a zeroed one is allowed */

/* What mr_state_write needs at most; less than MR_STATE_MAX where there are no classes and no
 * buffer. */
size_t mr_state_bytes(const mr_state *state);

/* Terminated text. */
mr_status mr_state_write(const mr_state *state, char *buffer, size_t size, mr_error *err);

/* The same, of which the letters of `buffer` are left out and lent: until it changes. They are a
 * member "rehearsal" of the text, which a stream's state has also where there are none. `out` has
 * room for mr_state_bytes. */
mr_status mr_state_write_apart(const mr_state *state, char *out, mr_piece *letters, mr_error *err);

/* Refuses, with MR_E_STATE, what is not a state, is damaged or of a newer version. White space and
 * the order of keys do not matter; *out is unchanged on failure, else freed by mr_state_free. */
mr_status mr_state_read(mr_state *out, const char *text, size_t size, mr_error *err);

/* MR_E_STATE, saying what differs, unless `saved` can go on as `current` (epoch and position
 * aside). */
mr_status mr_state_match(const mr_state *saved, const mr_state *current, mr_error *err);

#endif
