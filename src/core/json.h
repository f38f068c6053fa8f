/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - reading JSON text and making documents, also while memory runs out. */
#ifndef MR_CORE_JSON_H
#define MR_CORE_JSON_H

#include <jansson.h>
#include <millrace/types.h>
#include <stdbool.h>

/* MR_OK: *out is a new reference. MR_E_PARAM: not JSON, and `error` says why. MR_E_MEMORY. flags
 * are jansson's. */
mr_status mr_json_load(json_t **out, const char *text, size_t size, size_t flags,
                       json_error_t *error);

/* Add an entry and take the value's reference. Where there is no memory for the entry, or for the
 * value (NULL), *lost becomes true: a document that lacks an entry looks whole. */
void mr_json_set(json_t *object, const char *name, json_t *value, bool *lost);
void mr_json_append(json_t *array, json_t *value, bool *lost);

/* The document, or NULL (and it is freed) where something was lost. */
json_t *mr_json_whole(json_t *document, bool lost);

#endif
