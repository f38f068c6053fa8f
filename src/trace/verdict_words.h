/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_words.h - how the questions of a verdict are answered: a title, evidence, advice. */
#ifndef MR_TRACE_VERDICT_WORDS_H
#define MR_TRACE_VERDICT_WORDS_H

#include <stdarg.h>
#include <stdio.h>

#include "trace/verdict.h"

/* From a third of the workers' time, or of the consumer's waiting, on something is the reason. */
static const double culprit = 0.35;
/* Less than this is no gain worth naming. */
static const double gain = 1.05;

static inline double percent(double part, double whole) {
    return 100 * mr_divide(part, whole);
}

__attribute__((format(printf, 2, 3))) static inline void evidence(mr_verdict *v, const char *format,
                                                                  ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->evidence, sizeof v->evidence, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 4, 5))) static inline void
advise(mr_verdict *v, mr_advice advice, double predicted, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t used = (size_t)vsnprintf(v->change, sizeof v->change, format, arguments);
    va_end(arguments);
    v->advice = advice;
    v->predicted = predicted >= gain * v->rate ? predicted : 0; /* else the model does not tell */
    if (v->predicted > 0 && used < sizeof v->change) {
        snprintf(v->change + used, sizeof v->change - used,
                 ": predicted %.0f samples/s, %.1f times as many", predicted,
                 mr_divide(predicted, v->rate));
    }
}

static inline void conclude(mr_verdict *v, mr_bound bound, const char *title) {
    v->bound = bound;
    snprintf(v->title, sizeof v->title, "%s", title);
}

/* The questions about objects on servers; false: they do not hold the run up. */
bool mr_verdict_far(mr_verdict *v, const mr_figures *f);

/* The questions about loaders that are not ours; false: it is ours. */
bool mr_verdict_foreign(mr_verdict *v, const mr_figures *f);

/* Questions about any loader. */
bool mr_verdict_crowded(mr_verdict *v, const mr_figures *f);
bool mr_verdict_straggler(mr_verdict *v, const mr_figures *f);

#endif
