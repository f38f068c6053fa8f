/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.h - what is in a Parquet file, for people. */
#ifndef MILLRACE_PARQUET_H
#define MILLRACE_PARQUET_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The schema of a file, its row groups, encodings and sizes, and what a loader would make of each
 * column: as text, or as JSON. Reads the footer alone. *out is to be freed with mr_free. */
MR_API mr_status mr_parquet_describe(const char *path, bool json, char **out, mr_error *err);

#ifdef __cplusplus
}
#endif
#endif
