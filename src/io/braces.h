/* SPDX-License-Identifier: Apache-2.0 */
/* braces.h - names written short with braces, as shells and webdataset's braceexpand have them:
 * "{a,b{1,2}}", "{0000..0123}", "{a..e}", "{0..100..10}". */
#ifndef MR_IO_BRACES_H
#define MR_IO_BRACES_H

#include <millrace/types.h>

enum { MR_BRACES_PAIRS = 64, MR_BRACES_NAMES = 1000000 };

typedef mr_status mr_braces_take(void *user, const char *name, mr_error *err);

/* Gives the names in the order written, until one is not taken. Numbers have as many digits as the
 * longer end of their range where one of the ends begins with 0. A brace without its other one
 * stands for itself; a pair that is neither a list nor a range is an error, as are more than
 * MR_BRACES_PAIRS pairs, and a range of more than MR_BRACES_NAMES. */
mr_status mr_braces_expand(const char *pattern, mr_braces_take *take, void *user, mr_error *err);

#endif
