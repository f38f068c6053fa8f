/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - numbers from text and to text, whatever the host program's locale says about their
 * point. */
#ifndef MR_CORE_NUMBER_H
#define MR_CORE_NUMBER_H

#include <stddef.h>

/* strtod in the locale C: "0.5" is a half also where the program's locale has a decimal comma. */
double mr_number_parse(const char *text, char **end);

/* snprintf in the locale C. */
__attribute__((format(printf, 3, 4))) int mr_number_print(char *text, size_t size,
                                                          const char *format, ...);

/* Between the two this thread prints in the locale C. */
typedef struct mr_point {
    void *before, *c;
} mr_point;

mr_point mr_point_begin(void);
void mr_point_end(mr_point point);

#endif
