/* SPDX-License-Identifier: Apache-2.0 */
/* report_try.h - runs the pipeline that a profiled loader of another library was translated to. */
#ifndef MR_CLI_REPORT_TRY_H
#define MR_CLI_REPORT_TRY_H

#include <millrace/millrace.h>

/* Prints how fast it is here and now, and how many times as fast as what the trace is of. */
mr_status mr_report_try(const mr_trace *trace, mr_error *err);

#endif
