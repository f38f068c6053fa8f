/* SPDX-License-Identifier: Apache-2.0 */
/* loader_state.c - where a run stands, and going on from there. */
#include <string.h>

#include "core/error.h"
#include "plan/state.h"
#include "run/loader.h"

mr_state mr_loader_state(const mr_loader *loader) {
    mr_state state = {
        .seed = (int64_t)loader->seed,
        .samples = loader->schedule.n,
        .shuffle = loader->pipeline->settings.shuffle,
        .epoch = loader->epoch,
        .position = loader->position,
    };
    memcpy(state.pipeline, loader->pipeline->fingerprint, sizeof state.pipeline);
    memcpy(state.dataset, loader->children.fingerprint, sizeof state.dataset);
    return state;
}

mr_status mr_loader_restore(mr_loader *loader, const mr_options *options, mr_error *err) {
    mr_state *saved = &loader->restored, current = mr_loader_state(loader);
    if (!options->state) {
        loader->epoch = options->first_epoch > 0 ? options->first_epoch : 0;
        return MR_OK;
    }
    MR_TRY(mr_state_read(saved, options->state, options->state_size, err));
    current.classes = loader->classes;
    MR_TRY(mr_state_match(saved, &current, err));
    loader->epoch = saved->epoch;
    loader->position = saved->position;
    return MR_OK;
}

/* A run with a journal says there what it delivered. */
mr_status mr_loader_note_digest(const mr_loader *loader, mr_error *err) {
    char digest[33];
    if (!loader->live || !loader->digest) {
        return MR_OK;
    }
    mr_loader_digest(loader, digest);
    return mr_live_note(loader->live, digest, err);
}

void mr_loader_digest(const mr_loader *loader, char out[33]) {
    mr_hash_hex(loader->stream_digest, out);
}

static size_t bytes_of_classes(const mr_loader *loader) {
    return loader->classes ? strlen(loader->classes) : 0;
}

/* To be freed by mr_state_free, but for the names of classes, which are the loader's. */
static mr_status gather(mr_state *out, const mr_loader *loader, mr_error *err) {
    MR_TRY(mr_loader_note_digest(loader, err));
    *out = mr_loader_state(loader);
    if (loader->live) {
        mr_live_save(loader->live, out);
    }
    return MR_OK;
}

static void let_go(mr_state *state) {
    state->classes = NULL;
    mr_state_free(state);
}

/* Names of classes only where there is room for them: callers that have MR_STATE_MAX bytes get all
 * that a run needs to go on. */
mr_status mr_loader_save(const mr_loader *loader, char *buffer, size_t size, mr_error *err) {
    mr_state state;
    MR_TRY(gather(&state, loader, err));
    state.classes =
        size >= mr_state_bytes(&state) + bytes_of_classes(loader) ? loader->classes : NULL;
    mr_status status = mr_state_write(&state, buffer, size, err);
    let_go(&state);
    return status;
}

mr_status mr_loader_save_apart(const mr_loader *loader, char *buffer, const char **letters,
                               int64_t *n, mr_error *err) {
    mr_state state;
    mr_piece lent = {.data = NULL};
    MR_TRY(gather(&state, loader, err));
    state.classes = loader->classes;
    mr_status status = mr_state_write_apart(&state, buffer, &lent, err);
    *letters = lent.data ? lent.data : ""; /* of an empty buffer */
    *n = state.is_stream ? (int64_t)lent.size : -1;
    let_go(&state);
    return status;
}

size_t mr_loader_state_bytes(const mr_loader *loader) {
    return MR_STATE_MAX + bytes_of_classes(loader) +
           (loader->live ? mr_live_state_bytes(loader->live) : 0);
}
