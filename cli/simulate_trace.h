/* SPDX-License-Identifier: Apache-2.0 */
/* simulate_trace.h - rates of a simulation that a run has measured. */
#ifndef MR_CLI_SIMULATE_TRACE_H
#define MR_CLI_SIMULATE_TRACE_H

#include <millrace/millrace.h>

/* The document in the file, with those of sample_bytes, storage, prepare and train that it does not
 * have from the trace of one rank. *out is freed with free. A document that cannot be read is
 * given back as it is: who simulates says what is wrong with it. */
mr_status mr_simulate_measured(const char *file, const char *trace, char **out, mr_error *err);

#endif
