/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - all that the author of a source needs.
 *
 * A source is one file, src/sources/NAME.c, with one const table mr_source_NAME at its end. It
 * knows how many samples there are, what each is called, where its bytes lie and which fields it
 * has. It does not read samples itself: it says where they are (locate) and the engine reads
 * ahead in plan order; then it turns the bytes into fields (fill). */
#ifndef MILLRACE_SOURCE_H
#define MILLRACE_SOURCE_H

#include <millrace/param.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_SOURCE_ABI 1u
/* Where one sample's bytes are. */
typedef struct mr_extent {
    const char *path; /* borrowed until the source closes */
    int64_t offset;
    int64_t length; /* -1: to the end of the file */
    int64_t limit;  /* refuse more bytes than this */
} mr_extent;

/* A message about something the user should know but that does not stop the run. */
typedef struct mr_log {
    void (*write)(void *user, const char *text); /* NULL: silent */
    void *user;
} mr_log;

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

    /* Fields of a sample, from the parameters alone: field 0 is the one that ops work on unless
     * they say otherwise. Fills fields[0..*n_fields). */
    mr_status (*describe)(const void *params, mr_field *fields, int32_t *n_fields, mr_error *err);

    /* Finds the samples. *state starts NULL; close runs even if open failed. The state is
     * read-only afterwards and shared by all threads. params outlives it. */
    mr_status (*open)(const void *params, const mr_log *log, void **state, mr_error *err);
    void (*close)(void *state);

    int64_t (*count)(const void *state);

    /* 128 bits that change when the list of samples changes: names, labels, order. */
    void (*fingerprint)(const void *state, uint64_t out[2]);

    /* What to call the sample in a message. May be unprintable; the engine escapes it. */
    void (*sample_name)(const void *state, int64_t sample, char *buffer, size_t size);

    /* (optional) Where the bytes are. Without it fill gets no bytes. */
    mr_status (*locate)(const void *state, int64_t sample, mr_extent *out, mr_error *err);

    /* Turns bytes into fields. Where a field's type is fixed, fields[i] arrives complete, with
     * memory to write the value to. Where it varies, data is NULL: point it at memory that lives
     * as long as `bytes` or as the source, and set type.dims and size. (Pointing is allowed for
     * fixed fields too; the engine then copies.) Must be pure and thread-safe. */
    mr_status (*fill)(const void *state, int64_t sample, const void *bytes, size_t n_bytes,
                      mr_view *fields, mr_error *err);

    /* (optional) The sample will be filled soon, by the same thread: a source that fill would make
     * wait for memory may ask for it now. Must not block, and changes nothing. */
    void (*prefetch)(const void *state, int64_t sample);

    const void *user; /* (optional) as for an op */

    /* (optional) 128 bits that name what fill makes of the sample's bytes, or of the sample where
     * nothing is located: whoever has the same bits has the same bytes. Without it nothing of
     * this source can be stored. False: it cannot be told now (the file is missing, or so young
     * that a second change would not show); the sample is made as ever, and not stored. Where a
     * sample comes from a store, fill is called with bytes of NULL, for the fields after the first;
     * a source without locate is not called at all. */
    bool (*identify)(const void *state, int64_t sample, uint64_t out[2]);

    /* (optional) Fills n samples at once with what fill would: where all fields are of fixed size,
     * nothing is located and no op follows. Values of field f go to to[f], one after the other;
     * NULL: not wanted. Should it fail, the samples are filled one by one. */
    mr_status (*gather)(const void *state, const int64_t *samples, int64_t n, void *const *to,
                        mr_error *err);
} mr_source_class;

#define MR_SOURCE_HEADER .abi = MR_SOURCE_ABI, .size = (uint32_t)sizeof(mr_source_class)

#ifdef __cplusplus
}
#endif
#endif
