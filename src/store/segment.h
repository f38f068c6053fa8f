/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h - the values of a store: append-only files, NAME.seg.
 *
 *     head     magic, format, the prefix of the keys that lie here, checksum
 *     frames   one a value, aligned to 64 bytes: magic, key, length, the record's sum, checksum;
 *              then the record (record.h), which has checksums of its own
 *
 * What is written is never changed: a segment goes as a whole. A process that appends to one has
 * its file locked; values of one pipeline lie together, so that what nobody uses any more goes
 * without what somebody does. The index (env.h) says where values are, and can be made again from
 * the frames. Whatever bytes a segment has, a value is whole by its checksums or is none.
 *
 * No locks and no threads here: the caller lets one thread at a time hold and release, and one
 * thread alone append and drop. */
#ifndef MR_STORE_SEGMENT_H
#define MR_STORE_SEGMENT_H

#include "store/place.h"
#include "store/record.h"

#define MR_SEGMENT_MAGIC 0x6765534du /* "MSeg": what a segment begins with, little-endian */

/* Where a value lies, as the index keeps it: little-endian. */
typedef struct mr_location {
    uint64_t segment, offset, length;
    uint64_t sum; /* the record's own: of its head and its key; the head has those of the fields */
} mr_location;
#define MR_LOCATION_BYTES 32u

mr_location mr_location_load(const unsigned char bytes[MR_LOCATION_BYTES]);
void mr_location_save(mr_location location, unsigned char bytes[MR_LOCATION_BYTES]);

typedef struct mr_segment mr_segment;   /* an open file */
typedef struct mr_segments mr_segments; /* those of a store that this process has open */

mr_segments *mr_segments_open(const mr_place *place); /* NULL: no memory */
void mr_segments_close(mr_segments *segments);
bool mr_segments_sync(mr_segments *segments); /* everything, by whomever, is on disk */

/* ---- Reading ---- */
/* The file of a location, open until it is released; NULL: it is gone, or is no segment. Files that
 * others dropped are closed now and then. */
mr_segment *mr_segments_hold(mr_segments *segments, const mr_location *location);
void mr_segments_release(mr_segments *segments, mr_segment *segment);

/* For a held segment, from any thread. view: the bytes as mapped memory, to be read guarded (NULL:
 * the segment is not that long); read: into memory of one's own; fetch: the disk may begin. */
const void *mr_segment_view(const mr_segment *segment, const mr_location *location);
mr_status mr_segment_read(const mr_segment *segment, const mr_location *location, void *bytes,
                          mr_error *err);
void mr_segment_fetch(const mr_segment *segment, const mr_location *location);

/* Into memory with MR_BRING_ROOM bytes more than the value has; *at is where it begins there. Of
 * segments that memory cannot hold (mr_segments_fit), a part that it can hold is read through the
 * page cache and stays there; the rest goes past it, which costs less and pushes nothing out. */
#define MR_BRING_ROOM 12288u
mr_status mr_segment_bring(const mr_segment *segment, const mr_location *location, void *memory,
                           size_t *at, mr_error *err);
/* Whether it can be read without waiting for a disk, as far as a few looks tell. */
bool mr_segment_is_in_memory(const mr_segment *segment, const mr_location *location);
int mr_segment_file(const mr_segment *segment);

/* Looks at how much there is, of so many bytes of memory. */
void mr_segments_fit(mr_segments *segments, int64_t memory);

/* ---- Appending ---- */
typedef struct mr_segment_item {
    const mr_store_key *key;
    const void *data; /* a record */
    size_t size;
} mr_segment_item;

/* `most`: bytes that all segments together may take. MR_E_LIMIT: there is no room, others must go.
 * MR_LATER: a segment is full and would be let go, but the index does not lead to all that is in it
 * yet, and whoever wants room would take it for garbage: file that, say so, and append again. What
 * was written by a call that failed is garbage, and goes with its segment. */
mr_status mr_segments_append(mr_segments *segments, const mr_segment_item *item, int64_t most,
                             mr_location *location, mr_error *err);
void mr_segments_filed(mr_segments *segments); /* the index leads to all that was appended */
int64_t mr_segments_target(int64_t most); /* bytes of a full segment, unless one value is larger */
void mr_segments_pause(mr_segments *segments); /* appends to none: others may drop them */

/* ---- Looking at all of them ---- */
typedef struct mr_segment_info {
    uint64_t id;
    int64_t bytes;           /* on disk, in whole pages */
    unsigned char prefix[8]; /* of its keys */
    int64_t changed;         /* when it was last appended to, in nanoseconds */
    bool is_written;         /* somebody appends to it */
} mr_segment_info;

/* A malloc'ed list of `*n`, the oldest first, or NULL: none, or no memory. */
mr_segment_info *mr_segments_list(mr_segments *segments, size_t *n);
int64_t mr_segments_bytes(const mr_place *place);
void mr_segments_drop(mr_segments *segments, uint64_t id); /* its file goes */

/* Visits the frames of a segment in their order, as far as they are whole; false ends it. */
typedef bool mr_segment_visit(void *user, const mr_store_key *key, const mr_location *location);
void mr_segment_scan(mr_segments *segments, uint64_t id, mr_segment_visit *visit, void *user);

/* The frame's head in bytes that begin with one, for mr_segment_scan and the fuzzer: false: they
 * do not. */
#define MR_FRAME_BYTES 64u
bool mr_frame_parse(const unsigned char bytes[MR_FRAME_BYTES], mr_store_key *key, uint64_t *length,
                    uint64_t *sum);

#endif
