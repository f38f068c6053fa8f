/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - a number for each sample of a dataset: what a field holds, or how long it is. For
 * views and buckets, which must know them before there is an order.
 *
 * Numbers that a source can tell without reading (labels of files, rows of a mapped array, sizes in
 * the index of a shard) are asked for. Others are read once, block by block and the one field
 * alone, and kept in the store of the document's cache, where it has one. */
#ifndef MR_RUN_NUMBERS_H
#define MR_RUN_NUMBERS_H

#include "run/read/dataset.h"

typedef enum mr_number_kind {
    MR_NUMBER_VALUE, /* of a field that is a single number */
    MR_NUMBER_LENGTH /* the first dimension of any other */
} mr_number_kind;

/* `out` has room for one of each sample. */
mr_status mr_numbers_list(const mr_dataset *dataset, const mr_pipeline *pipeline, int32_t field,
                          mr_number_kind kind, const mr_log *log, double *out, mr_error *err);

#endif
