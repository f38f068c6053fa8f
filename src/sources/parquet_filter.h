/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_filter.h - which rows of a file a condition leaves. Statistics rule row groups out, the
 * page index pages; of the rest the columns of the condition are read. What was found is kept,
 * where somebody keeps things. */
#ifndef MR_SOURCES_PARQUET_FILTER_H
#define MR_SOURCES_PARQUET_FILTER_H

#include "sources/parquet_set.h"

typedef struct mr_pq_condition {
    json_t *json; /* NULL: none, all rows are left */
    const char *text;
    const mr_pq_keep *keep;
    uint32_t cpu; /* features that may be used */
} mr_pq_condition;

/* Of a row group. */
typedef struct mr_pq_left {
    int64_t rows;
    uint32_t *kept; /* their numbers, to be freed with mr_free; NULL: all */
} mr_pq_left;

/* `out` has a zeroed one for each row group, whose numbers are the caller's even on failure. */
mr_status mr_pq_filter(const mr_pq_set_file *file, const mr_pq_condition *condition,
                       mr_pq_left *out, mr_error *err);

#endif
