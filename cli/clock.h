/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time since the process started, and memory it has used. */
#ifndef MR_CLI_CLOCK_H
#define MR_CLI_CLOCK_H

#include <stdint.h>

double mr_clock(void); /* seconds of a clock that never steps */

/* mr_clock() when the process began. To be asked for early, while there is one thread. */
double mr_clock_process_start(void);

int64_t mr_memory_peak(void);     /* bytes resident at most so far, or -1 */
int64_t mr_memory_of_files(void); /* of those resident now, pages of files; or -1 */

#endif
