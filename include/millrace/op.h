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

#define MR_OP_ABI 1u

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
typedef struct mr_call {
    mr_key key;
    void *state;                      /* this worker's, from open(); never shared, so no locks */
    const struct mr_kernels *kernels; /* inner loops chosen for this CPU (in-tree ops only) */
    struct mr_arena *arena;           /* behind mr_scratch */
    int32_t shrink; /* streams only: the input of this op, or the output of the first, is this many
                       times smaller than its type says, rounded up */
    struct mr_track *track; /* behind mr_wait_begin; NULL outside a loader */
} mr_call;

/* Memory for the time of one run(): 64-byte aligned, contents undefined, NULL when there is none
 * to be had (then return MR_E_MEMORY). Freed by the engine. Kept by the worker between samples,
 * so it costs nothing after the first few. */
MR_API void *mr_scratch(mr_call *call, size_t size);

/* Around waiting for a lock that all workers share, the one of an interpreter for instance: such
 * time is told apart from work. end takes what begin gave. */
MR_API uint64_t mr_wait_begin(const mr_call *call);
MR_API void mr_wait_end(const mr_call *call, uint64_t begun);

/* ---- Streaming -------------------------------------------------------------------------------
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

/* One op's place in a stream. */
typedef struct mr_flow {
    const mr_type *in, *out;          /* whole images, every dimension known */
    const mr_region *needed, *wanted; /* parts of them */
} mr_flow;

/* ---- Examples: test, documentation and fuzz seed in one ------------------------------------- */
typedef struct mr_example {
    const char *params; /* JSON object */
    const char *input;  /* what the op is fed: "bytes:HEX..." or "image:HxWxC" (a fixed pattern:
                           value of byte i is (i * 37 + i / 251) mod 256) */
    const char *digest; /* of the output's type and bytes: `millrace ops NAME` prints the actual */
} mr_example;

/* ---- The table -------------------------------------------------------------------------------
 * Slots marked (optional) may be NULL. */
enum {
    MR_OP_RANDOM = 1u << 0, /* draws from call->key */
    MR_OP_HEAVY = 1u << 1,  /* costs far more than copying its output: never put in morsels */
    MR_OP_OPAQUE = 1u << 2, /* what it computes is not told by name, version and parameters (a
                               function of a host language): nothing it made is ever stored */
    MR_OP_STORES = 1u << 3  /* the engine's own cache op: samples are kept here */
};

typedef struct mr_op_class {
    uint32_t abi;  /* MR_OP_ABI */
    uint32_t size; /* sizeof(mr_op_class): another size is another interface */
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

    /* ---- Streaming: all optional ---- */
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
     * mr_scratch stays until the stream ends. */
    mr_status (*finish)(const void *params, mr_call *call, const mr_flow *flow, mr_view *out,
                        mr_rows *own, mr_error *err);

    /* Decoders can make an image smaller for less than it takes to decode all of it. Where the
     * first op of a stream may, and the second makes it smaller anyway, they agree before demand
     * flows back, and call->shrink tells both.
     * shrink, for the first: a power of two up to `tolerated` that it will shrink this input by, or
     * 1. Without an input: the most that these parameters allow, for any input. */
    int32_t (*shrink)(const void *params, const mr_view *in, int32_t tolerated);
    /* tolerate, for the second: by how much its input may be smaller, at least 1. */
    int32_t (*tolerate)(const void *params, mr_call *call, const mr_type *in, const mr_type *out);

    /* ---- Whole samples: all optional ----
     * An op with run_sample has neither plan nor run. It takes every field of a sample, or the one
     * that its "field" names, and gives others in their place; names must live as long as the
     * pipeline. Made for functions of a host language. */
    mr_status (*plan_sample)(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                             int32_t *n_out, mr_error *err);
    /* Where an output's type is fixed, out[i] arrives with memory to write to. Where it varies,
     * data is NULL: point it at memory that lives until this worker's next sample, and set
     * type.dims and size. */
    mr_status (*run_sample)(const void *params, mr_call *call, const mr_view *in, int32_t n_in,
                            mr_view *out, int32_t n_out, mr_error *err);

    /* (optional) Copied into the first bytes of the parameter struct, which then is at least a
     * pointer long, before the rows fill it: how a table made at run time knows itself. */
    const void *user;

    /* (optional) The flags of an op whose nature depends on its parameters, instead of `flags`;
     * asked after check. */
    uint32_t (*flags_for)(const void *params);
} mr_op_class;

#define MR_OP_HEADER .abi = MR_OP_ABI, .size = (uint32_t)sizeof(mr_op_class)

/* What a plug-in exports under the name mr_plugin_entry: a NULL-terminated array of tables.
 * host_abi is the engine's. */
typedef const mr_op_class *const *mr_plugin_entry_fn(uint32_t host_abi);

#ifdef __cplusplus
}
#endif
#endif
