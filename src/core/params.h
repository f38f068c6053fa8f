/* SPDX-License-Identifier: Apache-2.0 */
/* params.h - fills parameter structs from JSON by the rows of a table. */
#ifndef MR_CORE_PARAMS_H
#define MR_CORE_PARAMS_H

#include <jansson.h>
#include <millrace/param.h>

/* Fills `out` (zeroed by the caller) from `object` (NULL: all defaults). `where` is the JSON path
 * of the object and `what` names its owner ("op resize"), for messages; unknown keys suggest the
 * nearest name. On failure the struct is freed. Keys in `ignore` (NULL-terminated, NULL: none)
 * are left to the caller. */
mr_status mr_params_fill(const mr_param *rows, json_t *object, const char *where, const char *what,
                         const char *const *ignore, void *out, mr_error *err);
void mr_params_free(const mr_param *rows, void *params);

/* The struct as a JSON object with every parameter, in the rows' order; NULL: out of memory. */
json_t *mr_params_json(const mr_param *rows, const void *params);

/* {"name": {params}} or "name": the name and the parameters (borrowed, NULL for none). */
mr_status mr_split_call(json_t *item, const char *kind, const char *where, const char **name,
                        json_t **params, mr_error *err);

/* A parameter struct, with what the table wants to find in it. */
void *mr_new_params(size_t size, const void *user);

/* The known name nearest to a mistyped one, or NULL if none is near. next() gives the names, then
 * NULL. */
const char *mr_nearest_name(const char *name, const char *(*next)(void *user), void *user);

#endif
