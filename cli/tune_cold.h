/* SPDX-License-Identifier: Apache-2.0 */
/* tune_cold.h - takes files out of the page cache, so that reading them is measured as a disk gives
 * them. */
#ifndef MR_CLI_TUNE_COLD_H
#define MR_CLI_TUNE_COLD_H

#include <stdbool.h>

/* All files at or below a path. False: more than a tenth of their bytes is still in memory (other
 * processes use them, or the file system has no other place for them), or there are none. */
bool mr_cold_drop(const char *path);

#endif
