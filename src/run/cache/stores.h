/* SPDX-License-Identifier: Apache-2.0 */
/* stores.h - the stores that this process has open.
 *
 * LMDB allows a file to be open once in a process, so all loaders of a process that name the same
 * folder share one mr_store. It makes sure that a value is made once: by one thread of this
 * process (a table of what is in the making), by one process of this machine (claims). Values are
 * written by a thread of the store's own; until they are, they are found in memory.
 *
 * A store may fail in any way at any time: then it finds nothing and keeps nothing, and says so
 * once. */
#ifndef MR_RUN_STORES_H
#define MR_RUN_STORES_H

#include <millrace/millrace.h>

#include "core/hash.h"
#include "store/place.h"
#include "store/record.h"

typedef struct mr_store mr_store;
typedef struct mr_store_reader mr_store_reader; /* one thread's */

/* A pipeline's way to a cache, for choosing what to evict: its own entries are wanted again. */
typedef struct mr_store_plan {
    mr_hash128 prefix;
    const char *text; /* for people */
    bool whole;       /* every entry is used in every epoch: one rank reads everything */
} mr_store_plan;

typedef struct mr_store_counts {
    int64_t stored, stored_bytes, evicted, refused, damaged;
} mr_store_counts;

mr_status mr_store_open(mr_store **out, const mr_store_params *params, const mr_log *log,
                        mr_error *err);
/* The same by a JSON object of the op cache's parameters. */
mr_status mr_store_open_text(mr_store **out, const char *params, const mr_log *log, mr_error *err);
void mr_store_close(mr_store *store);
const char *mr_store_path(const mr_store *store);
void mr_store_counts_get(mr_store *store, mr_store_counts *out);

/* What went wrong first, for people; false: nothing did. */
bool mr_store_trouble(mr_store *store, char *text, size_t size);

/* join: an id. epoch: another epoch of this plan begins. leave: with what it found. */
int32_t mr_store_join(mr_store *store, const mr_store_plan *plan);
void mr_store_epoch(mr_store *store, int32_t plan);
void mr_store_leave(mr_store *store, int32_t plan, int64_t hits, int64_t misses);
/* What it looked for; found: only what was there before it came. */
void mr_store_tally(mr_store *store, int32_t plan, bool found);

int64_t mr_store_clock(void); /* nanoseconds that only go forward */
mr_store_key mr_store_key_of(mr_hash128 prefix, const uint64_t identity[2]);

/* ---- Finding. What was found lives until mr_store_done. ---- */
mr_store_reader *mr_store_reader_new(mr_store *store); /* NULL: no memory, or too many readers */
void mr_store_reader_free(mr_store_reader *reader);
bool mr_store_find(mr_store_reader *reader, const mr_store_key *key, mr_record *record,
                   mr_arena *arena);
/* What was found was stored before the plan came, and is found by it for the first time. */
bool mr_store_was_there(const mr_store_reader *reader, int32_t plan);
void mr_store_done(mr_store_reader *reader);

/* Is it there? Then it is also fetched from disk. It may be gone a moment later. */
bool mr_store_has(mr_store_reader *reader, const mr_store_key *key);

/* What was found is damaged: it is made again, and takes the place of what was there. */
void mr_store_doubt(mr_store *store, const mr_store_key *key);

/* ---- Where a value lies, for who reads it without waiting here: `size` bytes of the file from
 * `offset` on are a record (mr_record_open), whose head has the checksum `sum`. The file is open
 * until the location is let go. False: not there, or not written yet (then mr_store_find has it).
 * read is the plain way, which waits for the disk. ---- */
typedef struct mr_store_location {
    struct mr_segment *segment;
    int file;
    int64_t offset;
    size_t size;
    uint64_t sum;
} mr_store_location;

bool mr_store_locate(mr_store_reader *reader, const mr_store_key *key, mr_store_location *out);

/* Is it there, and can it be used without waiting for a disk? Only for MR_VALUE_ON_DISK there is a
 * location to let go. */
typedef enum mr_value_place {
    MR_VALUE_ABSENT,
    MR_VALUE_IN_MEMORY,
    MR_VALUE_ON_DISK
} mr_value_place;
mr_value_place mr_store_where(mr_store_reader *reader, const mr_store_key *key,
                              mr_store_location *out);

/* A value that was read by its location is used by the reader's thread, which counts as finding it.
 * False: it was found damaged before. */
bool mr_store_use(mr_store_reader *reader, const mr_store_key *key);
mr_status mr_store_read(const mr_store_location *location, void *bytes, mr_error *err);

/* As mr_segment_bring: memory has MR_STORE_BRING_ROOM bytes more, the record begins at *at. */
#define MR_STORE_BRING_ROOM 12288u
mr_status mr_store_bring(const mr_store_location *location, void *memory, size_t *at,
                         mr_error *err);
void mr_store_let_go(mr_store *store, mr_store_location *location);

/* ---- Making ---- */
typedef enum mr_claim {
    MR_CLAIM_OURS, /* look once more, then make it, and put or abandon it */
    MR_CLAIM_BUSY, /* somebody makes it */
    MR_CLAIM_VOID  /* the store takes nothing: make it, and that is all */
} mr_claim;

mr_claim mr_store_claim(mr_store *store, const mr_store_key *key);
void mr_store_abandon(mr_store *store, const mr_store_key *key);

/* Memory for a record, used again and again: memory fresh from the system costs more than the
 * record. NULL: there is none. Given back by put, or by hand. */
typedef struct mr_store_buffer {
    struct mr_store_buffer *next; /* of those that lie idle */
    size_t room, used;
    _Alignas(64) unsigned char bytes[];
} mr_store_buffer;

mr_store_buffer *mr_store_take_buffer(mr_store *store, size_t room);
void mr_store_give_buffer(mr_store *store, mr_store_buffer *buffer);
void mr_store_put(mr_store *store, const mr_store_key *key, mr_store_buffer *record); /* takes it */

void mr_store_refuse(mr_store *store); /* counts a value that was made and is not put */

/* Waits until all that was put is written or refused, or until nothing was for 30 seconds. */
void mr_store_flush(mr_store *store);

#endif
