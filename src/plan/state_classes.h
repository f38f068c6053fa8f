/* SPDX-License-Identifier: Apache-2.0 */
/* state_classes.h - names of classes as a state has them: {"label":["cat","dog"]}, compact, by
 * fields in the order of their names. Pure. */
#ifndef MR_PLAN_STATE_CLASSES_H
#define MR_PLAN_STATE_CLASSES_H

#include <jansson.h>
#include <millrace/types.h>

/* NULL: no memory. Freed with free. */
char *mr_state_classes_text(const json_t *classes);

/* Whether it is fields with lists of names. */
bool mr_state_is_classes(json_t *classes);

/* MR_E_STATE, naming the first difference, unless both texts are the same. */
mr_status mr_state_match_classes(const char *saved, const char *current, mr_error *err);

#endif
