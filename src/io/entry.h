/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h - how entries of a stream (millrace/stream.h) lie in a segment. Bytes only, no files.
 *
 *     head      64 bytes: magic, format, partition, number of the first entry, checksum
 *     entries   aligned to 8 bytes: a head of 64, the value, the key, zeros
 *
 * All numbers are little-endian. Checksums of heads are seeded by what the segment is: an entry
 * whose value is a copy of another segment cannot be taken for entries of this one, so the next
 * head can be looked for from anywhere in the file. */
#ifndef MR_IO_ENTRY_H
#define MR_IO_ENTRY_H

#include <millrace/stream.h>

#define MR_ENTRY_HEAD 64u
#define MR_ENTRY_ALIGN 8u

/* What a segment is; its name and the stream's id tell. */
typedef struct mr_stream_segment {
    uint64_t stream;
    uint32_t partition;
    int64_t first; /* entry */
} mr_stream_segment;

uint64_t mr_stream_segment_seed(const mr_stream_segment *name);
void mr_stream_segment_head_make(const mr_stream_segment *name, unsigned char out[MR_ENTRY_HEAD]);
bool mr_stream_segment_head_check(const mr_stream_segment *name,
                                  const unsigned char bytes[MR_ENTRY_HEAD]);

typedef struct mr_entry_head {
    int64_t number, label, time;
    size_t key_size, size;
    uint64_t sum; /* of value and key */
} mr_entry_head;

size_t mr_entry_bytes(size_t size, size_t key_size); /* head, value, key and zeros */

/* Writes mr_entry_bytes(...) bytes. */
void mr_entry_make(const mr_entry *entry, uint64_t seed, unsigned char *out);

bool mr_entry_head_parse(const unsigned char bytes[MR_ENTRY_HEAD], uint64_t seed,
                         mr_entry_head *head);

/* An entry's head and all that follows it: false: the value or the key is damaged. */
bool mr_entry_parse(const mr_entry_head *head, const unsigned char *bytes, mr_entry *entry);

/* Finds the first head at or after `*at`, a multiple of 8, in bytes of a segment; nothing is said
 * about what follows it. False: there is none, and *at is where one might begin that is not whole.
 */
bool mr_entry_find_head(const unsigned char *bytes, size_t size, uint64_t seed, size_t *at,
                        mr_entry_head *head);

/* The same for a whole entry: what is damaged is stepped over. False: *at may also be a head whose
 * entry goes on behind these bytes. */
bool mr_entry_find(const unsigned char *bytes, size_t size, uint64_t seed, size_t *at,
                   mr_entry *entry);

#endif
