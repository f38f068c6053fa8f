/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - parameter rows in words, for the list of ops and the reference page. */
#ifndef MR_CLI_ROWS_H
#define MR_CLI_ROWS_H

#include <jansson.h>
#include <millrace/millrace.h>

/* "list of 1 to 2 ints", "one of keep, drop, pad" */
char *mr_row_kind(const mr_param *row, char *buffer, size_t size);

/* "1 to 65535", "at least 1", or "" where anything goes. */
char *mr_row_range(const mr_param *row, char *buffer, size_t size);

json_t *mr_rows_json(const mr_param *rows);

/* What becomes of masks, boxes and points that an op's "field" names beside an image: a sentence,
 * or NULL where there is nothing to say. */
const char *mr_beside_text(const mr_op_class *op);

#endif
