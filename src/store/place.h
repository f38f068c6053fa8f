/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - a store's folder: whose it is, what it may take, and whether its content can be
 * trusted.
 *
 *     store.json   format, page size, size
 *     users        locked, shared, by every process that uses the store; exclusively to change it
 *     unsynced     the boot in which something was written that was not forced to disk since
 *     claims, use  see claim.h and use.h
 *     index.mdb    where the values lie (env.h); index.bad: it is damaged; index.sum: its checksum
 *                  when the last user left in good order
 *     *.seg        the values (segment.h)
 *
 * A folder is only ever changed here by a process that is alone in it. */
#ifndef MR_STORE_PLACE_H
#define MR_STORE_PLACE_H

#include <stdatomic.h>

#include <millrace/millrace.h>

#define MR_PLACE_FORMAT 2
#define MR_INDEX_FILE "index.mdb"
#define MR_STORE_LEAST 1000000        /* bytes */
#define MR_STORE_MOST 100000000000000 /* all of it is mapped: addresses have 47 bits */

enum { MR_TIER_DISK, MR_TIER_MEMORY };
enum { MR_KEEP_SAMPLES, MR_KEEP_INDEX, MR_KEEP_AUTO };

typedef struct mr_store_params {
    int64_t size;
    const char *path;
    int32_t tier, compression;
    int32_t keep; /* the cache's business, not the store's */
    bool group;
} mr_store_params;

typedef struct mr_place {
    char *path;
    int dir, users; /* file descriptors; -1: none */
    int64_t size;
    int32_t tier;
    bool group;
    bool common;        /* the one that pipelines have which name no path */
    bool came_first;    /* nobody else was using the store when we came */
    atomic_bool marked; /* this process wrote the mark `unsynced` */
} mr_place;

/* Creates what is missing; a size of 0 means the store's own. Log: what was thrown away and why.
 * mr_place_close is due either way; it does not say that everything is synced. */
mr_status mr_place_open(mr_place *place, const mr_store_params *params, const mr_log *log,
                        mr_error *err);
void mr_place_close(mr_place *place);

/* MR_E_NOT_FOUND where there is no store. */
mr_status mr_place_check(const mr_store_params *params, mr_error *err);

/* The folder that these parameters mean; malloc'ed, NULL: none can be told (err set). */
char *mr_place_path(const mr_store_params *params, mr_error *err);

/* True: no other process uses the store, and none can come until mr_place_share or close. */
bool mr_place_be_alone(mr_place *place);
void mr_place_share(mr_place *place);
bool mr_place_has_others(const mr_place *place); /* at this moment */

/* Before closing for good: true: alone, and the one to tidy up. Others that leave wait meanwhile,
 * until mr_place_close. */
bool mr_place_leave(mr_place *place);

int64_t mr_place_bytes(const mr_place *place); /* that index and segments may take together */
int64_t mr_place_stamps(int64_t size);         /* of the table of a store of this size */

mr_status mr_place_mark(mr_place *place, mr_error *err); /* before the first write */
bool mr_place_is_marked(const mr_place *place);          /* by whomever */
void mr_place_unmark(mr_place *place);                   /* alone, and everything is on disk */
void mr_place_mark_bad(mr_place *place);                 /* the index */
void mr_place_forget_index(mr_place *place);             /* alone: its files go */
bool mr_place_seal(mr_place *place);         /* alone, synced: notes the index's checksum */
bool mr_place_index_is_bad(mr_place *place); /* it was marked so, or has not that checksum */
mr_status mr_place_destroy(const mr_store_params *params, mr_error *err); /* if nobody uses it */
void mr_place_wipe(mr_place *place);                                      /* alone */
void mr_place_remove(mr_place *place); /* alone: the folder too, unless a group shares it */

/* Bytes that may be written before the file system's reserve is reached. The last of them, slack,
 * are for exchanging values, which needs room for a moment. */
int64_t mr_place_room(const mr_place *place, int64_t *slack);

/* Access mode of new files. */
unsigned mr_place_mode(const mr_place *place);

#endif
