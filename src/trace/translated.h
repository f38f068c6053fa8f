/* SPDX-License-Identifier: Apache-2.0 */
/* translated.h - what the loader of another library would do as a pipeline of ours. */
#ifndef MR_TRACE_TRANSLATED_H
#define MR_TRACE_TRANSLATED_H

#include "trace/summary.h"

typedef struct mr_translated {
    double rate;  /* samples a second, by as many threads as there were workers */
    double times; /* that by what was measured */
    bool python;  /* some of it stays Python */
} mr_translated;

/* False: the trace is not of such a loader, or it could not be translated. */
bool mr_translated_make(const mr_summary *summary, mr_translated *out);

#endif
