/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - names of fields and patterns that stand for several: *, ? and [...] as in a shell. */
#ifndef MR_CORE_PATTERN_H
#define MR_CORE_PATTERN_H

#include <stdbool.h>

bool mr_is_pattern(const char *text);

/* Equal, or the pattern stands for it. */
bool mr_pattern_fits(const char *pattern, const char *name);

#endif
