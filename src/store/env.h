/* SPDX-License-Identifier: Apache-2.0 */
/* env.h - the index of a store, in LMDB: where the values lie (segment.h), and notes about
 * pipelines. All processes of the machine read it without locks, and it is whole whichever
 * of them is killed. Knows keys and small values, not what they mean.
 *
 * Two kinds of keys: values (MR_KEY_BYTES long) and notes (shorter; one per pipeline). Reading is
 * guarded (guard.h); writing is not, since nothing may jump out of the middle of a change: what can
 * be seen beforehand is looked at first. After the first fault the index is doubtful: it finds
 * nothing and takes nothing until it was made anew from the segments. */
#ifndef MR_STORE_ENV_H
#define MR_STORE_ENV_H

#include <stdatomic.h>

#include "store/place.h"
#include "store/record.h"

#define MR_ENV_LOCK_BYTES 131072 /* of the table of readers, which bounds their number */

typedef struct mr_env mr_env;
typedef struct mr_env_reader mr_env_reader; /* one thread's, or one after the other's */

mr_status mr_env_open(mr_env **out, const mr_place *place, int64_t size, mr_error *err);
void mr_env_close(mr_env *env);
bool mr_env_sync(mr_env *env); /* everything, by whomever, is on disk */
bool mr_env_is_doubtful(const mr_env *env);
bool mr_env_is_sound(mr_env *env); /* as far as can be seen without reading the values */

/* ---- Reading. A reader sees the store as it was at begin; what it found stays until end. ---- */
mr_env_reader *mr_env_reader_new(mr_env *env); /* NULL: no memory, or no place for a reader */
void mr_env_reader_free(mr_env_reader *reader);
bool mr_env_begin(mr_env_reader *reader);
void mr_env_end(mr_env_reader *reader);
bool mr_env_find(mr_env_reader *reader, const mr_store_key *key, const void **data, size_t *size);

/* ---- Writing: one transaction each, from any thread ---- */
typedef struct mr_env_item {
    const mr_store_key *key;
    const void *data;
    size_t size;
} mr_env_item;

typedef enum mr_env_result {
    MR_ENV_OK,
    MR_ENV_FULL,  /* no room: evict and try again */
    MR_ENV_FAILED /* the disk is full or failing; see the error */
} mr_env_result;

/* All or nothing. What is there already is replaced. */
mr_env_result mr_env_put(mr_env *env, const mr_env_item *items, int32_t n, mr_error *err);

/* Asked for each entry in turn; true: delete it. */
typedef bool mr_env_choose(void *user, const mr_store_key *key, const void *data, size_t size);

/* Deletes all chosen entries, in one walk. */
mr_status mr_env_delete(mr_env *env, mr_env_choose *choose, void *user, int64_t *n, mr_error *err);

/* Deletes these entries where they are there. */
mr_status mr_env_remove(mr_env *env, const mr_store_key *keys, int32_t n, mr_error *err);

/* Visits every entry with its value; false ends the walk. */
typedef bool mr_env_visit(void *user, const mr_store_key *key, const void *data, size_t size);
mr_status mr_env_walk(mr_env *env, mr_env_visit *visit, void *user, mr_error *err);
int64_t mr_env_bytes(const mr_env *env); /* of the file, on disk */
int64_t mr_env_count(mr_env *env);       /* entries and notes; -1: cannot be told */

/* ---- Notes: small texts of one size, changed in one transaction ---- */
#define MR_NOTE_BYTES 1024
typedef void mr_env_change(void *user, char note[MR_NOTE_BYTES]); /* zeros where there was none */
bool mr_env_read_note(mr_env *env, const void *key, size_t key_size, char out[MR_NOTE_BYTES]);
bool mr_env_change_note(mr_env *env, const void *key, size_t key_size, mr_env_change *change,
                        void *user);

#endif
