/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - all that the author of an op needs.
 *
 * An op is one file with one const table at its end. In the tree the file is src/ops/NAME.c and
 * the table is mr_op_NAME: the build finds it, and the command's help, the reference page, the
 * conformance tests and the fuzz seed come from the table. Outside the tree the same table lives
 * in a shared library that exports mr_plugin_entry(); see examples/plugin/.
 *
 * The promise an op makes: the bytes it writes depend on its parameters, on call->key and on its
 * input, and on nothing else; not on time, threads, earlier samples or the CPU. */
#ifndef MILLRACE_OP_H
#define MILLRACE_OP_H

#include <millrace/param.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_OP_ABI 2u

/* ---- Randomness -----------------------------------------------------------------------------
 * A key names one op's randomness for one sample of one epoch. Draws are numbered by the op, so
 * draw 3 is the same number whether or not draws 0 to 2 were made. Philox4x32-10 underneath. */
typedef struct mr_key {
    uint64_t seed;
    uint32_t epoch;
    uint32_t op; /* hash of the op's name and of how many of that name come before it */
    uint64_t sample;
} mr_key;

MR_API uint64_t mr_draw_u64(const mr_key *key, uint32_t draw);
MR_API double mr_draw_unit(const mr_key *key, uint32_t draw); /* [0, 1), 53 bits */
MR_API double mr_draw_range(const mr_key *key, uint32_t draw, double low, double high);
MR_API int64_t mr_draw_below(const mr_key *key, uint32_t draw, int64_t n); /* [0, n), n > 0 */

/* exp and log made of IEEE additions and multiplications in a fixed order, so that a drawn
 * parameter is the same on every machine; libm's differ between versions and CPUs. Within a few
 * units in the last place; meant for |x| < 700. */
MR_API double mr_exact_exp(double x);
MR_API double mr_exact_log(double x);

/* ---- One invocation -------------------------------------------------------------------------- */
/* What an op found out about its input and would like to know when it is given the same input
 * again; bytes that mean nothing to others. What is known may be of another input, or damaged: the
 * bytes must show that themselves, and no byte of the output may depend on them. */
typedef struct mr_memo {
    const void *known; /* from earlier */
    size_t known_size; /* 0: nothing */
    const void *found; /* set by the op, in memory of mr_scratch: all that it knows now */
    size_t found_size; /* 0: no more than was known */
} mr_memo;

typedef struct mr_call {
    mr_key key;
    void *state;                      /* this worker's, from open(); never shared, so no locks */
    const struct mr_kernels *kernels; /* inner loops chosen for this CPU (in-tree ops only) */
    struct mr_arena *arena;           /* behind mr_scratch */
    int32_t shrink; /* fused ops only: the input of this op, or the output of the first, is this
                       many times smaller than its type says, rounded up */
    struct mr_track *track; /* behind mr_wait_begin; NULL outside a loader */
    const char *without;    /* (optional) names of codecs not to use, separated by commas: for
                               tests */
    mr_memo *memo;          /* MR_OP_REMEMBERS only; NULL: nobody keeps it */
} mr_call;

/* Memory for the time of one run(): 64-byte aligned, contents undefined, NULL when there is none
 * to be had (then return MR_E_MEMORY). Freed by the engine. Kept by the worker between samples,
 * so it costs nothing after the first few. */
MR_API void *mr_scratch(mr_call *call, size_t size);

/* Around waiting for a lock that all workers share, the one of an interpreter for instance: such
 * time is told apart from work. end takes what begin gave. */
MR_API uint64_t mr_wait_begin(const mr_call *call);
MR_API void mr_wait_end(const mr_call *call, uint64_t begun);

/* ---- Fused ops -------------------------------------------------------------------------------
 * Ops on images may also work row by row. Then demand flows back and rows flow forward: before a
 * pixel exists, each op is asked which part of its input it needs for the part of its output that
 * is wanted; then the decoder gives only those rows, and each op passes rows on as soon as it can.
 * An image that is cropped, resized and normalised never exists as a whole. The bytes must be the
 * same as run's. Rows are uint8 HWC. */
typedef struct mr_region {
    int64_t x, y, width, height;
} mr_region;

/* A receiver of rows: row y of an image, cut to the region that was asked for, which comes from
 * top to bottom without gaps. The pixels are valid during the call. */
typedef struct mr_rows {
    mr_status (*row)(void *user, int64_t y, const uint8_t *pixels, mr_error *err);
    void *user;
} mr_rows;

/* One op's place among fused ones. */
typedef struct mr_flow {
    const mr_type *in, *out;          /* whole images, every dimension known */
    const mr_region *needed, *wanted; /* parts of them */
} mr_flow;

/* ---- Runs of rows: see mr_column in types.h ---- */
/* Value i of a column; of a ragged one as a vector. */
MR_INLINE mr_view mr_column_value(const mr_column *column, int64_t i) {
    mr_view view = {column->type, NULL, 0};
    if (column->pieces) {
        view.data = column->pieces[i].data;
        view.size = column->pieces[i].size;
        view.type.layout = MR_PLAIN;
        view.type.n_dims = 1;
        view.type.dims[0] = (int64_t)(view.size / mr_dtype_size(view.type.dtype));
    } else {
        view.data = (unsigned char *)column->data + (size_t)i * column->stride;
        view.size = (size_t)mr_type_bytes(&column->type);
    }
    return view;
}

/* Whether dense values lie one after the other without gaps. */
MR_INLINE bool mr_column_is_packed(const mr_column *column) {
    return !column->pieces && (int64_t)column->stride == mr_type_bytes(&column->type);
}

/* ---- Values of unequal size in a batch ----
 * An array that an op with `collate` makes of the values of a batch. */
#define MR_COLLATED_MAX 4

typedef struct mr_collated {
    const char *suffix; /* behind the field's name; "": the array that is called as the field is */
    mr_dtype dtype;
    int32_t n_dims;                /* with the first, over samples or rows */
    int64_t dims[MR_MAX_DIMS + 1]; /* -1: others in other batches */
    void *data;
} mr_collated;

/* ---- Examples: test, documentation and fuzz seed in one ------------------------------------- */
typedef struct mr_example {
    const char *params; /* JSON object */
    const char *input;  /* what the op is fed: "bytes:HEX...", "image:HxWxC" (a fixed pattern: value
                           of byte i is (i * 37 + i / 251) mod 256), "DTYPE:DIMS" (the pattern less
                           128 for signed types, that divided by 16 for floats; "float32:6x7"),
                           "DTYPE:DIMS:HEX",  or for an op on fields "fields:a=float32,b=uint8x2x3",
                           up to 8, each with  the pattern; for one with collate these are values
                           of one field */
    const char *digest; /* of the output's type and bytes: `millrace ops NAME` prints the actual */
} mr_example;

/* ---- The table -------------------------------------------------------------------------------
 * Members marked (optional) may be NULL. */
enum {
    MR_OP_RANDOM = 1u << 0, /* draws from call->key */
    MR_OP_HEAVY = 1u << 1,  /* costs far more than copying its output: never put in morsels */
    MR_OP_OPAQUE = 1u << 2, /* what it computes is not told by name, version and parameters (a
                               function of a host language): nothing it made is ever stored */
    MR_OP_STORES = 1u << 3, /* the engine's own cache op: samples are kept here */
    MR_OP_SIZED =
        1u << 4,           /* which part of an image it takes, or where it puts it, depends on the
                              image's size: fields that are to be changed alike must be of one size */
    MR_OP_BATCH = 1u << 5, /* works on batches: see run_batch */
    MR_OP_REMEMBERS = 1u << 6, /* an encoded file needs less work the next time: see mr_memo */
    MR_OP_TOTAL = 1u << 7, /* of a number or a word it makes a number, and never fails but for want
                              of memory; with run_rows, and without open and kernels: a source may
                              run it on the entries of a dictionary instead of the rows */
    MR_OP_COLOR = 1u << 8  /* about what the pixels of an image are and not where they lie: masks,
                              boxes and points beside an image in "field" are left as they are. Where
                              `flags` has it, flags_for need not */
};

typedef struct mr_op_class {
    uint32_t abi;  /* MR_OP_ABI */
    uint32_t size; /* sizeof(mr_op_class); an older, smaller table is taken too, see mr_tables */
    const char *name;
    const char *summary; /* one sentence */
    const char *doc;     /* (optional) what exactly it computes, and against which reference */
    uint32_t flags;
    uint32_t version;       /* raise it when output bytes change: part of the fingerprint */
    size_t param_size;      /* sizeof the parameter struct; 0 without parameters */
    const mr_param *params; /* (optional) rows, ended by a row whose name is NULL */

    /* (optional) Checks across parameters and values derived from them, after the rows filled
     * the struct. Runs once. */
    mr_status (*check)(void *params, mr_error *err);

    /* Output type for an input type; either may have dimensions of -1. No data. Called once with
     * what is known beforehand, and once per sample with every dimension known. */
    mr_status (*plan)(const void *params, const mr_type *in, mr_type *out, mr_error *err);

    /* (optional) For ops whose output size stands in the data: the exact type, from the header
     * alone. Default: plan with the sample's type. Must refuse what is too large. */
    mr_status (*peek)(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err);

    /* (optional) Per-worker state. *state starts NULL; close runs even if open failed. */
    mr_status (*open)(const void *params, void **state, mr_error *err);
    void (*close)(void *state);

    /* Writes exactly out->size bytes to out->data, whose type is what peek or plan said. `in` is
     * read-only and may be unaligned. No allocation that outlives the call, no globals, no clock,
     * no printing. */
    mr_status (*run)(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err);

    const mr_example *examples; /* at least one, ended by a row whose params is NULL */

    /* ---- Fused ops: all optional ---- */
    /* For an op that makes an image from bytes: gives the wanted rows of its output to `to`. */
    mr_status (*produce)(const void *params, mr_call *call, const mr_view *in, const mr_type *out,
                         const mr_region *wanted, const mr_rows *to, mr_error *err);

    /* Which part of the input the wanted part of the output needs. Together with one of: */
    mr_status (*want)(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err);
    /* pass: receives the needed rows through *own and gives the wanted rows to `to`, or ... */
    mr_status (*pass)(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err);
    /* finish: ... receives all rows and writes the whole output, of any type, to `out`. Memory from
     * mr_scratch stays until the last row. */
    mr_status (*finish)(const void *params, mr_call *call, const mr_flow *flow, mr_view *out,
                        mr_rows *own, mr_error *err);

    /* Decoders can make an image smaller for less than it takes to decode all of it. Where the
     * first of fused ops may, and the second makes it smaller anyway, they agree before demand
     * flows back, and call->shrink tells both.
     * shrink, for the first: a power of two up to `tolerated` that it will shrink this input by, or
     * 1. Without an input: the most that these parameters allow, for any input. */
    int32_t (*shrink)(const void *params, const mr_view *in, int32_t tolerated);
    /* tolerate, for the second: by how much its input may be smaller, at least 1. */
    int32_t (*tolerate)(const void *params, mr_call *call, const mr_type *in, const mr_type *out);

    /* ---- Whole samples: all optional ----
     * An op with run_sample has neither plan nor run. It takes every field of a sample, or those
     * that its "field" names, and gives others in their place; names must live as long as the
     * pipeline. Made for functions of a host language.
     * plan_sample: *n_out becomes the number of outputs; where there is room for so many
     * (capacity), out[0..*n_out) are filled, else nothing is, and a second call with enough room
     * follows. */
    mr_status (*plan_sample)(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                             int32_t capacity, int32_t *n_out, mr_error *err);
    /* Where an output's type is fixed, out[i] arrives with memory to write to. Where it varies,
     * data is NULL: point it at memory that lives until this worker's next sample, and set
     * type.dims and size. */
    mr_status (*run_sample)(const void *params, mr_call *call, const mr_view *in, int32_t n_in,
                            mr_view *out, int32_t n_out, mr_error *err);

    /* (optional) Copied into the first bytes of the parameter struct, which then is at least a
     * pointer long, before the rows fill it: how a table made at run time knows itself. */
    const void *user;

    /* (optional) For ops that move the pixels of an image: where things on it come to lie. The
     * point (x, y) of the input is ((m[0] x + m[1] y + m[2]) / d, (m[3] x + m[4] y + m[5]) / d) in
     * the output, with d = m[6] x + m[7] y + 1; m[6] and m[7] arrive as 0. The first pixel reaches
     * from 0 to 1. Must do as run does with the same call. in and out are the image's types. Boxes
     * and points beside the image in "field" follow it by this. */
    mr_status (*follow)(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                        double m[8], mr_error *err);

    /* (optional) An op that says which fields a sample has from here on and what they are called,
     * and touches no value: it has neither plan nor run, and nothing is left of it when a pipeline
     * runs. Gives at most n_in fields, each an input (out[i] is in[from[i]]) with another name or
     * another `optional`; names live as long as the parameters. */
    mr_status (*arrange)(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                         int32_t *from, int32_t *n_out, mr_error *err);

    /* (optional) run for n samples at once, with the same bytes, for ops that cost less than being
     * called: numbers, short vectors. Both columns are dense, or both are ragged and the pieces of
     * `out` have the sizes that run would be given; MR_E_UNSUPPORTED where the shape of a ragged
     * value matters. An op that draws has none: call->key is no sample's. */
    mr_status (*run_rows)(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err);

    /* ---- Batches: both or none; optional ----
     * An op with MR_OP_BATCH works on a batch whose samples are all made, on the fields that
     * "field" names or on all that are delivered. It changes values and no type, and stands behind
     * all ops on samples; it needs neither plan nor run. Fields are dense. check_batch: whether it
     * can work on these fields; types are those of a sample. */
    mr_status (*check_batch)(const void *params, const mr_field *fields, int32_t n_fields,
                             mr_error *err);
    /* Changes the n samples of a batch where they lie. call->key is that of the first of them. */
    mr_status (*run_batch)(const void *params, mr_call *call, int64_t n, const mr_column *fields,
                           int32_t n_fields, mr_error *err);

    /* (optional) The flags of an op whose nature depends on its parameters, instead of `flags`;
     * asked after check. */
    uint32_t (*flags_for)(const void *params);

    /* (optional) Writes the names and versions of the libraries that its bytes depend on, as they
     * are loaded: "libpng 1.6.39". Part of what names a value in a store, so that what another
     * version made is not taken for this one's; no part of the fingerprint. */
    void (*libraries)(char *text, size_t size);

    /* ---- Values of unequal size in a batch: all three or none; optional ----
     * An op with MR_OP_BATCH and collate says how a field whose values vary in size lies in a batch
     * when all its samples are made; no op of that field stands behind it. Digests of samples are
     * those of the values, so that they depend on nobody else's size.
     * plan_collate: which arrays it makes, at most MR_COLLATED_MAX, the first with the suffix "".
     */
    mr_status (*plan_collate)(const void *params, const mr_type *in, mr_collated *out,
                              int32_t *n_out, mr_error *err);
    /* Fills in the dimensions of -1 for these n values. *memo may be set to memory of mr_scratch,
     * which collate finds there. */
    mr_status (*measure)(const void *params, mr_call *call, int64_t n, const mr_view *values,
                         mr_collated *out, void **memo, mr_error *err);
    /* Writes every byte of the arrays. */
    mr_status (*collate)(const void *params, mr_call *call, int64_t n, const mr_view *values,
                         const mr_collated *out, void *memo, mr_error *err);

    /* (optional) For an op that may change colours as well as places: these parameters, checked,
     * are for a mask beside an image, which goes where the image goes and keeps its numbers. */
    void (*spare_mask)(void *params);

    /* (optional) What others call it, separated by blanks: told to whoever writes that. Capitals
     * and underscores do not matter. */
    const char *also;

    /* (optional) What is allowed and yet probably a mistake in these parameters, with what to write
     * instead: a sentence for the log; NULL: nothing. */
    const char *(*doubt)(const void *params);

    /* (optional) The same of an op on a mask, or on a field that is called as masks are. */
    const char *(*doubt_of_mask)(const void *params);
} mr_op_class;

#define MR_OP_HEADER .abi = MR_OP_ABI, .size = (uint32_t)sizeof(mr_op_class)

/* What a plug-in exports under the name mr_plugin_entry: a NULL-terminated array of tables.
 * host_abi is the engine's. */
typedef const mr_op_class *const *mr_plugin_entry_fn(uint32_t host_abi);

#ifdef __cplusplus
}
#endif
#endif
