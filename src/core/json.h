/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - reading JSON text, also while memory runs out. */
#ifndef MR_CORE_JSON_H
#define MR_CORE_JSON_H

#include <jansson.h>
#include <millrace/types.h>

/* MR_OK: *out is a new reference. MR_E_PARAM: not JSON, and `error` says why. MR_E_MEMORY. flags
 * are jansson's. */
mr_status mr_json_load(json_t **out, const char *text, size_t size, size_t flags,
                       json_error_t *error);

#endif
