/* SPDX-License-Identifier: Apache-2.0 */
/* redis_reply.h - what a Redis server says about a stream, as numbered entries.
 *
 * Redis names entries by ids that are not numbers without gaps. It counts how many were ever added
 * to a stream, though, and how many are there: as long as entries go from the old end alone
 * (XTRIM, MAXLEN), the first of those that are there has the number added - length, and so every
 * entry has a number that never changes. */
#ifndef MR_SOURCES_REDIS_REPLY_H
#define MR_SOURCES_REDIS_REPLY_H

#include <hiredis/hiredis.h>
#include <millrace/stream.h>

typedef struct mr_redis_id {
    uint64_t time, serial;
} mr_redis_id;

#define MR_REDIS_ID_TEXT 48
void mr_redis_id_write(mr_redis_id id, char out[MR_REDIS_ID_TEXT]);
bool mr_redis_id_read(const char *text, size_t size, mr_redis_id *out);
bool mr_redis_id_before(mr_redis_id a, mr_redis_id b);

/* XINFO STREAM. */
typedef struct mr_redis_facts {
    int64_t added, length;
    mr_redis_id first, deleted; /* the first that is there; the newest that XDEL took away */
    mr_redis_id last;           /* the newest; its number is added - 1 */
} mr_redis_facts;

/* A stream that is not there yet has all zeros. MR_E_STATE: entries have no numbers any more. */
mr_status mr_redis_facts_read(const redisReply *reply, const char *key, mr_redis_facts *out,
                              mr_error *err);

/* Where a reader stands. */
typedef struct mr_redis_cursor {
    mr_redis_id last; /* the entry before */
    int64_t next;     /* number of the one after it, where it is known; -1: unknown */
} mr_redis_cursor;

/* The replies to XREAD COUNT asked STREAMS key last, and to XINFO STREAM after it. Entries may be
 * added and trimmed between the two; those that are given have certain numbers. */
typedef struct mr_redis_part {
    mr_redis_facts facts;
    redisReply **entries; /* in the reply */
    int64_t n;
    bool is_end; /* there was no more, for now */
} mr_redis_part;

/* The cursor's number becomes that of entries[0]; its id changes only where entries are left out
 * because they are gone. With `checks`, XREAD began one id earlier: the cursor's own entry must be
 * the first, unless it was trimmed. MR_E_STATE: this is not the stream that was read. */
mr_status mr_redis_part_read(redisReply *const replies[2], const char *key, int64_t asked,
                             bool checks, mr_redis_cursor *cursor, mr_redis_part *out,
                             mr_error *err);

/* The reply to XREVRANGE key id - COUNT ..., of the entry with this number and those before it:
 * moves the cursor, which stands behind that entry, towards `wanted`. MR_LATER: further back;
 * MR_E_NOT_FOUND: they are gone. */
mr_status mr_redis_go_back(const redisReply *reply, int64_t number, int64_t wanted,
                           mr_redis_cursor *cursor);

mr_redis_id mr_redis_id_earlier(mr_redis_id id); /* the one before; of 0-0 itself */

/* Which fields of an entry are what; the value's is needed, the others may be missing. */
typedef struct mr_redis_names {
    const char *value, *label, *key, *time;
} mr_redis_names;

/* Moves the cursor behind the entry. The entry's memory is the reply's; without a value it is not
 * as the names say, and *why says how. False: the reply makes no sense. */
bool mr_redis_entry_read(const redisReply *reply, const mr_redis_names *names,
                         mr_redis_cursor *cursor, mr_entry *out, const char **why);

#endif
