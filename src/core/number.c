/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - see number.h. The locale C is a constant of the C library, so taking and giving it
 * back costs neither memory nor a lock, and nothing global is kept. */
#include "core/number.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

double mr_number_parse(const char *text, char **end) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) {
        return strtod(text, end);
    }
    double number = strtod_l(text, end, c);
    freelocale(c);
    return number;
}

mr_point mr_point_begin(void) {
    mr_point point = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    point.before = point.c ? uselocale(point.c) : NULL;
    return point;
}

void mr_point_end(mr_point point) {
    if (point.c) {
        uselocale(point.before);
        freelocale(point.c);
    }
}

int mr_number_print(char *text, size_t size, const char *format, ...) {
    va_list values;
    mr_point point = mr_point_begin();
    va_start(values, format);
    int length = vsnprintf(text, size, format, values);
    va_end(values);
    mr_point_end(point);
    return length;
}
