/* SPDX-License-Identifier: Apache-2.0 */
/* relay_record.h - entries as bytes on their way between ranks: a head, the key, the value, each
 * record at a multiple of 8. What comes is checked as if a stranger had sent it. */
#ifndef MR_RUN_RELAY_RECORD_H
#define MR_RUN_RELAY_RECORD_H

#include <millrace/stream.h>

enum {
    MR_RECORD_BAD = 1,     /* the entry is damaged; its key says how */
    MR_RECORD_AFAR = 2,    /* the value stays where it is */
    MR_RECORD_NOT_HERE = 4 /* there is nothing to send */
};

typedef struct mr_relay_record {
    int64_t step;   /* for which it is meant */
    int32_t place;  /* the row of the step, or the partition */
    uint32_t flags; /* MR_RECORD_... */
    int64_t number, label, time;
    uint32_t key_size, zero;
    uint64_t size; /* of the value; that follows, unless it is afar */
} mr_relay_record;

/* Bytes that grow. A zeroed one is empty. */
typedef struct mr_relay_bytes {
    char *bytes;
    size_t size, room;
} mr_relay_bytes;

/* What goes where; entry NULL: MR_RECORD_NOT_HERE. How many bytes were added; 0: no memory. */
size_t mr_relay_write(mr_relay_bytes *to, int64_t step, int32_t place, const mr_entry *entry,
                      bool afar);

/* Bytes of a record whose value is afar. */
size_t mr_relay_told_bytes(const mr_entry *entry);

/* The next record, and the entry, whose key and value stay where they are; *at goes on. False: that
 * is none. The value of one that is afar is not NULL, and has no bytes. */
bool mr_relay_read(const char **at, const char *end, mr_relay_record *record, mr_entry *entry);

#endif
