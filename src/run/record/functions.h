/* SPDX-License-Identifier: Apache-2.0 */
/* functions.h - which functions of this process addresses lie in. */
#ifndef MR_RUN_FUNCTIONS_H
#define MR_RUN_FUNCTIONS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* An array of {"from", "to", "offset", "object", "name"}, ascending and apart: the functions that
 * ascending addresses lie in. Offsets count from where the object file is loaded; "name" is
 * missing where the object does not tell. NULL: no memory. */
json_t *mr_functions_json(const uint64_t *addresses, size_t n);

#endif
