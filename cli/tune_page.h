/* SPDX-License-Identifier: Apache-2.0 */
/* tune_page.h - what tune measured, as a page of its own: throughput against storage, the chosen
 * strategy marked, and the table. */
#ifndef MR_CLI_TUNE_PAGE_H
#define MR_CLI_TUNE_PAGE_H

#include <jansson.h>

/* `result` is what --json prints. The text is freed with free; NULL: no memory. */
char *mr_tune_page(json_t *result, const char *title, size_t *size);

#endif
