/* SPDX-License-Identifier: Apache-2.0 */
/* chart.h - curves and stacked bars over a few numbers that double, as SVG in a page without a
 * script. Colours are classes of the page's style, so that a dark page has its own. */
#ifndef MR_CLI_CHART_H
#define MR_CLI_CHART_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mr_chart_line {
    const char *name; /* in the legend; "": not there */
    int32_t colour;   /* 0 to 5 */
    bool dashed, bold;
    const double *y; /* of each x; where an axis is logarithmic, what is not above 0 is left out */
} mr_chart_line;

typedef struct mr_chart {
    const char *title, *x_title, *y_title;
    const double *x; /* above 0, ascending */
    int32_t n;
    const mr_chart_line *lines;
    int32_t n_lines;
    bool logarithmic; /* the y axis */
    bool stacked;     /* bars that stand on each other instead of lines */
    double low, high; /* the y axis reaches so far at least; 0: as far as the lines */
} mr_chart;

extern const char mr_chart_style[]; /* of a page with charts */

void mr_chart_draw(FILE *out, const mr_chart *chart);

#endif
