/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - all that the author of a source needs.
 *
 * A source is one file, src/sources/NAME.c, with one const table mr_source_NAME at its end. It
 * knows how many samples there are, how they lie in blocks, which bytes a block needs, and how to
 * make rows of them. It does not read: it says where the bytes are (locate), the engine reads ahead
 * in plan order, lets the workers unpack what was read, and asks for rows.
 *
 *     open -> shape -> locate(block) -> [engine reads] -> unpack(block, part) -> fill / gather ->
 * drop
 *
 * A block is a run of consecutive samples that is read and unpacked together: a row group of a
 * Parquet file, 16 MB of a tar shard. Where every sample is a file of its own, every sample is a
 * block of its own, and nobody writes down how many there are. A source whose samples need no
 * reading (an array that is mapped, a function) has no locate. */
#ifndef MILLRACE_SOURCE_H
#define MILLRACE_SOURCE_H

#include <millrace/param.h>
#include <millrace/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_SOURCE_ABI 2u

/* A run of bytes of a file. */
typedef struct mr_extent {
    const char *path; /* borrowed until the source closes */
    int64_t offset;
    int64_t length; /* -1: to the end of the file; only where the block has one extent */
    int64_t limit;  /* refuse more bytes than this */
    int32_t object; /* files that many blocks lie in are numbered from 1 on, and stay open; 0:
                       opened for this extent alone */
    int32_t folder; /* what a relative path is relative to: 1 + the number of an open folder; 0: the
                       current one */
} mr_extent;

typedef struct mr_bytes {
    const void *data;
    size_t size;
} mr_bytes;

/* A block that is there. */
typedef struct mr_block {
    int64_t number;
    int64_t first;         /* its first sample */
    const mr_bytes *bytes; /* one for each extent, in the order of locate */
    int32_t n_bytes;
    int32_t n_parts;
    void *const *parts; /* what unpack made: n_parts of them; NULL where there is no unpack */
} mr_block;

/* A message about something the user should know but that does not stop the run. */
typedef struct mr_log {
    void (*write)(void *user, const char *text); /* NULL: silent */
    void *user;
} mr_log;

/* What a source found out and would find out again at the next start, kept in a store: `store` is
 * its folder, "auto" the user's own. Values are found by 128 bits that say what they were made of.
 * A store may fail in any way, and then has nothing. To be used while the source is opened, by one
 * thread. */
typedef struct mr_keeper {
    void *user;
    /* A copy of the value, to be freed with free; false: it is not there. */
    bool (*find)(void *user, const char *store, const uint64_t key[2], void **value, size_t *size);
    void (*put)(void *user, const char *store, const uint64_t key[2], const void *value,
                size_t size);
} mr_keeper;

/* Ops that the source runs on the values of some fields, as it unpacks them and once for values
 * that it knows to be the same, and never on others: see maps. Lives as long as the source. */
typedef struct mr_mapper {
    const bool *is_mapped; /* of each field */
    const mr_type *types;  /* of these, as the source is to give them: one number each */
    /* n values of a field, dense or pieces, to n of its new type. For any thread. */
    mr_status (*map)(void *user, int32_t field, int64_t n, const mr_column *in,
                     const mr_column *out, mr_error *err);
    void *user;
} mr_mapper;

/* What is wanted of a source when it is opened. */
typedef struct mr_wanted {
    uint32_t size;      /* sizeof(mr_wanted) */
    int32_t n_fields;   /* as described */
    const bool *fields; /* somebody wants the field; NULL: all are wanted */
    bool single;       /* samples are taken one by one, from anywhere: a source that can find single
                          samples in a shard says that there are no blocks */
    bool in_order;     /* there is no shuffle: rows of a block are asked for one after the other */
    const mr_log *log; /* never NULL. While the source is opened; a stream may keep it, and write to
                          it in advance too: the host is told by the thread that waits */
    const mr_keeper *keeper; /* NULL: this build has no store */
    const mr_mapper *mapper; /* NULL: nothing is to be mapped */
    const char *objects;     /* the store in which bytes of objects on servers are kept; "": none */
    uint32_t cpu;            /* features that inner loops may use (in-tree sources only) */
} mr_wanted;

/* What a source turned out to be when it was opened. Arrives zeroed. */
typedef struct mr_shape {
    uint32_t size;           /* sizeof(mr_shape), set by the engine */
    int32_t parts;           /* in which a block is unpacked, in any order and by several threads;
                                0 is 1 */
    int64_t samples;         /* -1: without end */
    int64_t blocks;          /* 0: every sample is a block of its own */
    uint64_t fingerprint[2]; /* changes when the list of samples changes: names, labels, order */
    bool keeps_bytes;        /* parts point into the bytes of their block; else these are freed once
                                all parts are unpacked */
    bool mapped; /* nothing is located this time, though the table has locate: the source
                    has its bytes at hand, as one without locate has */

    /* A stream, where partitions is above 0: samples arrive, by advance. They are the partitions'
     * entries from number `from` on, `quantum` of each partition in turn; `samples` is -1, or as
     * many of each partition as make whole turns. */
    int32_t partitions;
    int64_t quantum, from;

    /* Whether any sample's bytes lie on a server (see docs/far.md): MR_SERVERS_SOME or
     * MR_SERVERS_NONE, which must be true of all; 0: not known, and the engine looks at all. */
    int32_t servers;
} mr_shape;

enum { MR_SERVERS_NONE = 1, MR_SERVERS_SOME = 2 };

/* An entry of a stream on its way into a batch: fill finds it as part 0 of a block of one sample.
 */
typedef struct mr_arrival {
    mr_entry entry; /* without a value: it is damaged or missing */
    float weight;   /* of one that is shown again; else 1 */
    bool is_replay;
    const float *extra; /* what the trainer gave for it (mr_loader_feed_back); NULL: nothing */
    int64_t n_extra;
} mr_arrival;

typedef struct mr_entry_sink {
    bool (*take)(void *user, const mr_entry *entry); /* copies it; false: no more for now */
    void *user;
} mr_entry_sink;

/* The size of a view that fill need not fill: no op, no cache and no batch takes the field. */
#define MR_UNWANTED SIZE_MAX

MR_INLINE bool mr_is_wanted(const mr_view *view) {
    return view->size != MR_UNWANTED;
}

/* For describe: gives these fields if there is room for them, and says how many there are. */
MR_INLINE mr_status mr_describe_fields(const mr_field *own, int32_t n, mr_field *fields,
                                       int32_t capacity, int32_t *n_fields) {
    *n_fields = n;
    for (int32_t i = 0; n <= capacity && i < n; i++) {
        fields[i] = own[i];
    }
    return MR_OK;
}

/* Memory of a block that is handed on: see lend. */
typedef struct mr_loan {
    void *data;
    void *owner;
    void (*give_back)(void *owner); /* once, by any thread, also after the source is closed */
} mr_loan;

/* Functions below may be called by several threads at once, except check, describe, open and
 * close. They must be pure: the same answer for the same question, whoever asks. */
typedef struct mr_source_class {
    uint32_t abi;
    uint32_t size; /* sizeof(mr_source_class) */
    const char *name;
    const char *summary;
    const char *doc; /* (optional) */
    uint32_t version;
    size_t param_size;
    const mr_param *params;

    /* (optional) As for an op. */
    mr_status (*check)(void *params, mr_error *err);

    /* (optional) Frees what check keeps beside the parameters; also where check failed. */
    void (*forget)(void *params);

    /* Fields of a sample, from the parameters (or from a header that check read): field 0 is the
     * one that ops work on unless they say otherwise. *n_fields becomes their number; where there
     * is room for so many (capacity), fields[0..*n_fields) are filled, else nothing is, and a
     * second call with enough room follows. Names live as long as the parameters.
     * mr_describe_fields does all of this for a source that has its fields in an array. */
    mr_status (*describe)(const void *params, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err);

    /* Finds the samples. *state starts NULL; close runs even if open failed. The state is
     * read-only afterwards and shared by all threads. params outlives it. */
    mr_status (*open)(const void *params, const mr_wanted *wanted, void **state, mr_error *err);
    void (*close)(void *state);

    void (*shape)(const void *state, mr_shape *out);

    /* What to call the sample in a message. May be unprintable; the engine escapes it. */
    void (*sample_name)(const void *state, int64_t sample, char *buffer, size_t size);

    /* (where shape has blocks) Monotone: block b has the samples first(b) to first(b + 1) - 1. */
    int64_t (*first_sample)(const void *state, int64_t block);

    /* (optional, where shape has blocks) Memory that the block takes, unpacked; for the window of
     * a shuffle and for the promise of how much memory a run takes. */
    int64_t (*block_bytes)(const void *state, int64_t block);

    /* (optional) Where the bytes of a block are, as far as they are wanted. Without it nothing is
     * read. *n is set to their number, also where `capacity` is less; then it is called again. */
    mr_status (*locate)(const void *state, int64_t block, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err);

    /* (optional) Makes part `part` of a block that was read; *out is the caller's until drop. */
    mr_status (*unpack)(const void *state, const mr_block *block, int32_t part, void **out,
                        mr_error *err);
    void (*drop)(const void *state, int32_t part, void *unpacked);

    /* One sample's fields. Where a field's type is fixed, fields[i] arrives complete, with memory
     * to write the value to. Where it varies, data is NULL: point it at memory that lives as long
     * as the block or as the source, and set type.dims and size. (Pointing is allowed for fixed
     * fields too; the engine then copies.) block is NULL where nothing is located, and where a
     * sample that is located by itself comes from a store: then only fields after the first are
     * looked at. A field that
     * nobody wants has a size of MR_UNWANTED: leave it alone. */
    mr_status (*fill)(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err);

    /* (optional) Many samples at once, with what fill would give; blocks[i] is the block of
     * samples[i], blocks is NULL where nothing is located. Dense columns are written to; of a field
     * of varying length, which has one dimension, pieces[i] is pointed at row i, in memory that
     * lives as long as the block. A column with neither data nor pieces is not wanted. Should it
     * fail, the samples are filled one by one. */
    mr_status (*gather)(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *columns, mr_error *err);

    /* (optional) The sample will be filled soon, by the same thread: a source that fill would make
     * wait for memory may ask for it now. Must not block, and changes nothing. */
    void (*prefetch)(const void *state, int64_t sample);

    const void *user; /* (optional) as for an op */

    /* (optional) 128 bits that name what fill makes of the sample: whoever has the same bits has
     * the same bytes. Without it nothing of this source can be stored. False: it cannot be told
     * now (the file is missing, or so young that a second change would not show); the sample is
     * made as ever, and not stored. Where a sample comes from a store, fill is called without a
     * block, for the fields after the first; a source without locate, or with blocks of several
     * samples, is not called at all: all of its fields are stored. */
    bool (*identify)(const void *state, int64_t sample, uint64_t out[2]);

    /* (optional) What number i of a field stands for, where its values are numbers of names; NULL:
     * past the last one, or they are not. */
    const char *(*class_name)(const void *state, int32_t field, int64_t i);

    /* (streams) Whether these parameters ask for what is still to come; then shape has partitions.
     */
    bool (*is_stream)(const void *params);

    /* (streams) Gives entries of a partition from a number on, in order, until there are no more
     * for now or the sink takes no more. Numbers that are left out are missing for ever. It must
     * not wait for entries; only one thread calls it. */
    mr_status (*advance)(void *state, int32_t partition, int64_t number, const mr_entry_sink *sink,
                         mr_error *err);

    /* (streams) An entry once more, by its number; by any thread. MR_E_NOT_FOUND: it is gone. */
    mr_status (*recall)(const void *state, int32_t partition, int64_t number,
                        const mr_entry_sink *sink, mr_error *err);

    /* (streams) The first number that recall can give. */
    mr_status (*oldest)(const void *state, int32_t partition, int64_t *number, mr_error *err);

    /* (streams, optional) The number that the partition's next entry will have; by any thread. */
    mr_status (*newest)(const void *state, int32_t partition, int64_t *number, mr_error *err);

    /* (optional) Whether the source can run ops on this field's values as it unpacks a block: then
     * wanted->mapper may say so, and fill and gather give what the ops make of them. */
    bool (*maps)(const void *params, int32_t field);

    /* (optional) How long a field of samples [first, first + count) is, its first dimension, where
     * that is known without reading: the size of a file, or what an index says. Returns
     * MR_E_UNSUPPORTED, without a word, where it is not; then the samples are read. */
    mr_status (*lengths)(const void *state, int32_t field, int64_t first, int64_t count,
                         int64_t *out, mr_error *err);

    /* (optional) What others call it, separated by blanks: see op.h. */
    const char *also;

    /* (optional, with gather) Values of a field of fixed type, of n samples of a block from
     * `sample` on, where they lie one after the other, begin at a multiple of 64 bytes, and nobody
     * else reads these any more: a batch takes that memory instead of a copy, and may write to it.
     * It stays until it is given back, whatever becomes of the block. False: they are to be
     * gathered. */
    bool (*lend)(const void *state, const mr_block *block, int32_t field, int64_t sample, int64_t n,
                 mr_loan *out);
} mr_source_class;

#define MR_SOURCE_HEADER .abi = MR_SOURCE_ABI, .size = (uint32_t)sizeof(mr_source_class)

#ifdef __cplusplus
}
#endif
#endif
