/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - see pattern.h. */
#include "core/pattern.h"

#include <fnmatch.h>
#include <string.h>

bool mr_is_pattern(const char *text) {
    return strpbrk(text, "*?[") != NULL;
}

bool mr_pattern_fits(const char *pattern, const char *name) {
    return strcmp(pattern, name) == 0 || (mr_is_pattern(pattern) && fnmatch(pattern, name, 0) == 0);
}
