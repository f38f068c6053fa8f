/* SPDX-License-Identifier: Apache-2.0 */
/* simulate_page.h - simulated steps as a page of its own: curves over the nodes, the equations that
 * they are compared with, and every figure in a table. */
#ifndef MR_CLI_SIMULATE_PAGE_H
#define MR_CLI_SIMULATE_PAGE_H

#include <millrace/simulate.h>

/* The steps of one configuration. */
typedef struct mr_simulated_row {
    mr_simulated_step sum; /* figures of a step are a sum over the steps */
    int64_t steps, most_messages;
} mr_simulated_row;

/* Samples a second. */
double mr_simulated_rate(const mr_simulated_row *row);

/* What the time is that of: "storage", "network", "preparing", "training". */
const char *mr_simulated_bound(const mr_simulated_row *row);

/* Rows in the order of mr_simulate, which are put into that of their nodes; `given` is the
 * document. The text is freed with free; NULL: no memory. */
char *mr_simulate_page(mr_simulated_row *rows, int32_t n, const char *title, const char *given,
                       size_t *size);

#endif
