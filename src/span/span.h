/* SPDX-License-Identifier: Apache-2.0 */
/* span.h - what a span is, and the file that spans are kept in.
 *
 * A span is something a thread did from one moment to another. Whoever records spans and whoever
 * reads them share this file and nothing else. */
#ifndef MR_SPAN_SPAN_H
#define MR_SPAN_SPAN_H

#include <stdbool.h>
#include <stdint.h>

/* Number in the file, name, what it is about ('s': a sample, 'b': a batch), what it means. Numbers
 * never change. */
#define MR_SPAN_MAP(X)                                                                             \
    X(MR_SPAN_READ, "read", 's', "a sample's bytes, from asking for them to having them")          \
    X(MR_SPAN_FILL, "fill", 's', "the source turns bytes into fields")                             \
    X(MR_SPAN_OP, "op", 's', "an op that runs by itself")                                          \
    X(MR_SPAN_FUSED, "fused", 's', "ops that run together, row by row")                            \
    X(MR_SPAN_PART, "part", 's',                                                                   \
      "one op's own time among fused ones, where these were looked into")                          \
    X(MR_SPAN_SAMPLE, "sample", 's', "a sample's whole way, from its bytes to its batch")          \
    X(MR_SPAN_SEAL, "seal", 'b', "a whole batch is put together for delivery")                     \
    X(MR_SPAN_WAIT_READ, "wait_read", 's', "a worker waits for a sample's bytes")                  \
    X(MR_SPAN_WAIT_WORK, "wait_work", 'b', "a worker waits: the batches ahead are all made")       \
    X(MR_SPAN_WAIT_BATCH, "wait_batch", 'b', "the consumer waits for a batch")                     \
    X(MR_SPAN_DELIVER, "deliver", 'b', "the consumer takes a batch and opens another")             \
    X(MR_SPAN_CONSUME, "consume", 'b', "the consumer is busy elsewhere with a batch")              \
    X(MR_SPAN_WAIT_HOST, "wait_host", 's', "an op waits for the host language's lock")             \
    X(MR_SPAN_STORE_READ, "store_read", 's', "a sample comes out of the store")                    \
    X(MR_SPAN_STORE_WRITE, "store_write", 's', "a sample goes into the store")                     \
    X(MR_SPAN_STORE_WAIT, "store_wait", 's', "a worker waits for another to fill the store")       \
    X(MR_SPAN_START, "start", 'b', "worker processes are started")                                 \
    X(MR_SPAN_WAIT_PEER, "wait_peer", 's', "a worker waits for bytes from another node or rank")   \
    X(MR_SPAN_RECEIVE, "receive", 's',                                                             \
      "bytes from another rank or a fabric's server, from asking to having them")                  \
    X(MR_SPAN_SEND, "send", 's', "bytes on their way to another rank or a fabric's server")        \
    X(MR_SPAN_REQUEST_WAIT, "request_wait", 's',                                                   \
      "bytes of an object, from asking for them to sending the request that brings them")          \
    X(MR_SPAN_FIRST_BYTE, "first_byte", 's', "a request, from sending it to its first byte")       \
    X(MR_SPAN_TRANSFER, "transfer", 's', "a request, from its first byte to its last")             \
    X(MR_SPAN_UNPACK, "unpack", 's', "a part of a block is decompressed and decoded")

typedef enum mr_span_kind {
#define MR_SPAN_ENUM(name, text, about, doc) name,
    MR_SPAN_MAP(MR_SPAN_ENUM)
#undef MR_SPAN_ENUM
        MR_SPAN_KINDS
} mr_span_kind;

extern const char *const mr_span_names[];
bool mr_span_is_about_batch(mr_span_kind kind);
bool mr_span_is_wait(mr_span_kind kind);

/* In memory times are ticks, in the file nanoseconds since the trace began; there, little-endian.
 */
typedef struct mr_time_span {
    uint64_t start, duration;
    int64_t item;       /* see mr_span_item */
    uint32_t batch;     /* the batch's number in the run; MR_SPAN_NO_BATCH: not known here */
    uint32_t bytes_in;  /* UINT32_MAX: so many or more */
    uint32_t bytes_out; /* likewise */
    uint8_t kind;       /* mr_span_kind */
    uint8_t n_ops;      /* of fused ops; 1 for an op; else 0 */
    uint16_t op;        /* the op's place in the pipeline; of fused ops, the first's */
} mr_time_span;

#define MR_SPAN_NO_BATCH UINT32_MAX

/* An item is the sample's index in the dataset, or the batch's number in the run. Rows that were
 * made together share one span: then the lower 48 bits are the first one's index, the bits above
 * count those that follow it, and bytes are those of one row. Items below 0 are as they are. */
enum { MR_SPAN_ITEM_BITS = 48, MR_SPAN_MOST_ROWS = 1 << 15 };

static inline int64_t mr_span_item(const mr_time_span *span) {
    int64_t lower = ((int64_t)1 << MR_SPAN_ITEM_BITS) - 1;
    return span->item > 0 ? span->item & lower : span->item;
}

static inline int64_t mr_span_rows(const mr_time_span *span) {
    return span->item > 0 ? 1 + (span->item >> MR_SPAN_ITEM_BITS) : 1;
}

_Static_assert(sizeof(mr_time_span) == 40, "spans are written as they are");

/* A moment at which a thread was looked at, and where it was: see span/probe.h. */
typedef struct mr_probe {
    uint64_t at;      /* as a span's start */
    uint64_t address; /* of the instruction */
    uint16_t op;      /* where kind is MR_SPAN_OP: the op's place in the pipeline */
    uint8_t kind;     /* mr_span_kind of what was running, or MR_PROBE_NOWHERE */
    uint8_t unused[5];
} mr_probe;

#define MR_PROBE_NOWHERE UINT8_MAX

_Static_assert(sizeof(mr_probe) == 24, "probes are written as they are");

/* ---- The file -------------------------------------------------------------------------------
 *
 *     8 bytes   "MRTRACE\n"
 *     u32       version, 1
 *     u32       bytes of the header that follows, a multiple of 8
 *     header    a JSON object, filled up with spaces
 *     chunks    until the file ends
 *
 * A chunk is a tag, a track and its payload's length in bytes (a multiple of 8), then the payload.
 * A file that was cut off is good up to there; only a run that ended in good order has
 * MR_CHUNK_END. Readers pass over tags up to MR_CHUNK_LAST that they do not know; others are
 * damage. */
#define MR_TRACE_MAGIC "MRTRACE\n"
#define MR_TRACE_VERSION 1u

typedef struct mr_trace_head {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
} mr_trace_head;

enum {
    MR_CHUNK_SPANS = 1,  /* spans of one track, in the order they ended */
    MR_CHUNK_END = 2,    /* a JSON object: what only the end of the run knows */
    MR_CHUNK_PROBES = 3, /* probes of one track, in order */
    MR_CHUNK_LAST = 31
};

typedef struct mr_chunk_head {
    uint32_t tag;
    uint32_t track;
    uint64_t size;
} mr_chunk_head;

#endif
