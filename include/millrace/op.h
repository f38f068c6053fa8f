/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - all that the author of an op needs.
 *
 * An op is one file with one const table at its end. In the tree the file is src/ops/NAME.c and
 * the table is mr_op_NAME: the build finds it, and the command's help, the reference page, the
 * conformance tests and the fuzz seed come from the table. Outside the tree the same table lives
 * in a shared library that exports mr_plugin_ops(); see examples/plugin/.
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
} mr_call;

/* Memory for the time of one run(): 64-byte aligned, contents undefined, NULL when there is none
 * to be had (then return MR_E_MEMORY). Freed by the engine. Kept by the worker between samples,
 * so it costs nothing after the first few. */
MR_API void *mr_scratch(mr_call *call, size_t size);

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
    MR_OP_HEAVY = 1u << 1   /* costs far more than copying its output: never put in morsels */
};

typedef struct mr_op_class {
    uint32_t abi;  /* MR_OP_ABI */
    uint32_t size; /* sizeof(mr_op_class): a newer host accepts an older table */
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
} mr_op_class;

#define MR_OP_HEADER .abi = MR_OP_ABI, .size = (uint32_t)sizeof(mr_op_class)

/* What a plug-in exports: a NULL-terminated array of tables. host_abi is the engine's. */
typedef const mr_op_class *const *mr_plugin_ops_fn(uint32_t host_abi);

#ifdef __cplusplus
}
#endif
#endif
