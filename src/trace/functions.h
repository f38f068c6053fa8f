/* SPDX-License-Identifier: Apache-2.0 */
/* functions.h - what lies below the ops: in which functions the probes of a trace found the
 * threads, for each op that was running. */
#ifndef MR_TRACE_FUNCTIONS_H
#define MR_TRACE_FUNCTIONS_H

#include <stdio.h>

#include "trace/reader.h"

typedef struct mr_function {
    uint64_t from, to; /* addresses */
    uint64_t offset;   /* in the object file */
    const char *object;
    const char *name; /* NULL: the object does not tell */
    int64_t same;     /* the first of those that are the same function: each process has its own */
} mr_function;

/* What ran: an op, something else that has a name among spans, or what no mark tells. */
typedef struct mr_function_place {
    const char *name;
    int32_t op;       /* -1: no op */
    int64_t probes;   /* 0: no place of a probe */
    int64_t first, n; /* its lines, most probes first */
} mr_function_place;

typedef struct mr_function_line {
    const mr_function *function; /* NULL: not in any of them */
    int64_t probes;
} mr_function_line;

typedef struct mr_function_table {
    int64_t probes;
    int64_t damaged;  /* probes that cannot be */
    int64_t lost;     /* that the run had no room for */
    double period;    /* seconds of CPU time from one to the next */
    const char *note; /* why there are none or not all, or "" */
    mr_function *functions;
    int64_t n_functions;
    mr_function_place *places; /* ops in their order, then the others */
    int32_t n_places;
    mr_function_line *lines;
} mr_function_table;

/* mr_function_table_free is due even if this failed. */
mr_status mr_function_table_make(mr_function_table *out, const mr_trace *trace, mr_error *err);
void mr_function_table_free(mr_function_table *table); /* a zeroed one is allowed */

/* For programs and the page; NULL: no memory. */
json_t *mr_function_table_json(const mr_function_table *table, bool *lost);

/* For a terminal. */
void mr_function_table_put(FILE *out, const mr_function_table *table);

#endif
