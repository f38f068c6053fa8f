/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h - one job measured under several settings, in figures. Pure: the measurements are a JSON
 * document (its form stands at mr_sweep_text in trace.h), made by the command or by Python. */
#ifndef MR_TRACE_SWEEP_H
#define MR_TRACE_SWEEP_H

#include <jansson.h>
#include <millrace/millrace.h>
#include <stdio.h>

#include "trace/summary.h"

/* Of one combination of settings, medians over its rounds. */
typedef struct mr_sweep_run {
    const json_t *set, *ops;
    int32_t rounds;
    double seconds; /* from the start of the job to its last batch */
    double spread;  /* half of what lies between the shortest and the longest, by the median */
    double samples, rate, cpu, memory; /* samples/s; CPU seconds; bytes at most */
    const char *title;                 /* what holds it up; "": not known */
    const char *error;                 /* why it has no figures; NULL: it has */
} mr_sweep_run;

typedef struct mr_sweep {
    json_t *document;
    const char *what;
    const json_t *axes; /* name: values */
    const char *axis;   /* the one that curves go along: the first with several numbers; or NULL */
    mr_sweep_run *runs;
    int32_t n, best; /* best: highest rate; -1: none was measured */
} mr_sweep;

/* `text` is the document. Free in every case. */
mr_status mr_sweep_read(mr_sweep *out, const char *text, mr_error *err);
void mr_sweep_free(mr_sweep *sweep);

/* The value of a setting, for people: "4", "spawn". */
const char *mr_sweep_value(const mr_sweep_run *run, const char *axis, char *buffer, size_t size);

/* Whether two runs differ in this setting at most. */
bool mr_sweep_is_beside(const mr_sweep *sweep, int32_t a, int32_t b, const char *axis);

/* Runs that differ from the best in the curve's setting at most, by its value; returns how many. */
int32_t mr_sweep_curve(const mr_sweep *sweep, int32_t *out);

/* An op of a run by name, or NULL; and a figure of it for one sample, 0 where it is not known. */
const json_t *mr_sweep_op(const mr_sweep_run *run, const char *name);
double mr_sweep_op_figure(const mr_sweep_run *run, const char *op, const char *figure);

/* Where more of it stops paying, and what then holds the job up: sentences, each on its line. */
void mr_sweep_conclude(FILE *out, const mr_sweep *sweep);

/* What a sweep wants of a traced run, {"title": ..., "ops": [...], "predictions": [...]}; NULL: no
 * memory. */
json_t *mr_sweep_part(const mr_summary *summary);

void mr_sweep_page(FILE *out, const mr_sweep *sweep);

#endif
