/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - see sweep.h: reads the measurements, and concludes. */
#include "trace/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"

enum { MOST_RUNS = 4096 };

/* A setting pays if it makes the job faster by more than this. */
static const double pays = 0.05;

/* ---- Reading ---- */
static double number(const json_t *object, const char *name) {
    double value = json_number_value(json_object_get(object, name));
    return isfinite(value) && value > 0 ? value : 0;
}

static const char *word(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The figures of all rounds, sorted; NULL: no memory. */
static double *sorted_figures(const json_t *rounds, const char *name) {
    size_t n = json_array_size(rounds);
    double *values = mr_zalloc(n + 1, sizeof *values);
    for (size_t i = 0; values && i < n; i++) {
        values[i] = number(json_array_get(rounds, i), name);
    }
    if (values && n > 0) {
        qsort(values, n, sizeof *values, by_size);
    }
    return values;
}

static bool read_median(const json_t *rounds, const char *name, double *median, double *spread) {
    double *v = sorted_figures(rounds, name);
    size_t n = json_array_size(rounds);
    if (v) {
        *median = n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
        *spread = n > 0 && *median > 0 ? (v[n - 1] - v[0]) / 2 / *median : 0;
    }
    mr_free(v);
    return v != NULL;
}

static bool read_run(mr_sweep_run *run, const json_t *from) {
    double unused = 0;
    const json_t *rounds = json_object_get(from, "rounds");
    run->set = json_object_get(from, "set");
    run->ops = json_object_get(from, "ops");
    run->rounds = (int32_t)json_array_size(rounds);
    run->title = word(from, "title") ? word(from, "title") : "";
    run->error = word(from, "error");
    bool ok = read_median(rounds, "seconds", &run->seconds, &run->spread) &&
              read_median(rounds, "samples", &run->samples, &unused) &&
              read_median(rounds, "cpu", &run->cpu, &unused) &&
              read_median(rounds, "memory", &run->memory, &unused);
    run->rate = run->seconds > 0 ? run->samples / run->seconds : 0;
    if (run->rate <= 0 && !run->error) {
        run->error = "not measured";
    }
    return ok;
}

static bool has_numbers(const json_t *values) {
    bool all = json_array_size(values) > 1;
    for (size_t i = 0; i < json_array_size(values); i++) {
        all = all && json_is_number(json_array_get(values, i));
    }
    return all;
}

static void find_axis(mr_sweep *s) {
    void *at = json_object_iter((json_t *)s->axes);
    for (; at && !s->axis; at = json_object_iter_next((json_t *)s->axes, at)) {
        s->axis = has_numbers(json_object_iter_value(at)) ? json_object_iter_key(at) : NULL;
    }
}

static mr_status read_runs(mr_sweep *s, mr_error *err) {
    const json_t *runs = json_object_get(s->document, "runs");
    size_t n = json_array_size(runs);
    if (n == 0 || n > MOST_RUNS || !json_is_object(s->axes)) {
        return mr_fail(err, MR_E_PARAM, "these are no measurements of a sweep");
    }
    s->runs = mr_zalloc(n, sizeof *s->runs);
    if (!s->runs) {
        return mr_fail_memory(err, n * sizeof *s->runs);
    }
    for (s->n = 0; s->n < (int32_t)n; s->n++) {
        mr_sweep_run *run = &s->runs[s->n];
        if (!read_run(run, json_array_get(runs, (size_t)s->n))) {
            return mr_fail_memory(err, 4096);
        }
        bool better = !run->error && (s->best < 0 || run->rate > s->runs[s->best].rate);
        s->best = better ? s->n : s->best;
    }
    return MR_OK;
}

mr_status mr_sweep_read(mr_sweep *s, const char *text, mr_error *err) {
    json_error_t error;
    *s = (mr_sweep){.best = -1};
    mr_status status = mr_json_load(&s->document, text, strlen(text), 0, &error);
    if (status != MR_OK) {
        return status == MR_E_MEMORY ? mr_fail_memory(err, strlen(text))
                                     : mr_fail(err, MR_E_PARAM, "not JSON: %s", error.text);
    }
    s->what = word(s->document, "what") ? word(s->document, "what") : "";
    s->axes = json_object_get(s->document, "axes");
    find_axis(s);
    return read_runs(s, err);
}

void mr_sweep_free(mr_sweep *s) {
    json_decref(s->document);
    mr_free(s->runs);
    *s = (mr_sweep){.best = -1};
}

/* ---- Asking ---- */
const char *mr_sweep_value(const mr_sweep_run *run, const char *axis, char *buffer, size_t size) {
    const json_t *value = json_object_get(run->set, axis);
    if (json_is_string(value)) {
        return mr_text_escape(buffer, size, json_string_value(value));
    }
    if (json_is_number(value)) {
        snprintf(buffer, size, "%g", json_number_value(value));
    } else {
        snprintf(buffer, size, "%s",
                 json_is_true(value)    ? "yes"
                 : json_is_false(value) ? "no"
                                        : "-");
    }
    return buffer;
}

bool mr_sweep_is_beside(const mr_sweep *s, int32_t a, int32_t b, const char *axis) {
    bool same = true;
    void *at = json_object_iter((json_t *)s->axes);
    for (; at; at = json_object_iter_next((json_t *)s->axes, at)) {
        const char *name = json_object_iter_key(at);
        same = same && ((axis && strcmp(name, axis) == 0) ||
                        json_equal(json_object_get(s->runs[a].set, name),
                                   json_object_get(s->runs[b].set, name)));
    }
    return same;
}

static double value_of(const mr_sweep *s, int32_t run) {
    return s->axis ? json_number_value(json_object_get(s->runs[run].set, s->axis)) : 0;
}

int32_t mr_sweep_curve(const mr_sweep *s, int32_t *out) {
    int32_t n = 0;
    for (int32_t i = 0; i < s->n && s->best >= 0; i++) {
        if (s->runs[i].error || !mr_sweep_is_beside(s, i, s->best, s->axis)) {
            continue;
        }
        int32_t at = n++;
        for (; at > 0 && value_of(s, out[at - 1]) > value_of(s, i); at--) {
            out[at] = out[at - 1];
        }
        out[at] = i;
    }
    return n;
}

const json_t *mr_sweep_op(const mr_sweep_run *run, const char *name) {
    for (size_t i = 0; i < json_array_size(run->ops); i++) {
        const json_t *op = json_array_get(run->ops, i);
        const char *own = word(op, "name");
        if (own && strcmp(own, name) == 0) {
            return op;
        }
    }
    return NULL;
}

double mr_sweep_op_figure(const mr_sweep_run *run, const char *op, const char *figure) {
    return number(mr_sweep_op(run, op), figure);
}

/* ---- Concluding ---- */
/* The first of a curve that no later one beats by more than a twentieth. */
static int32_t enough_of(const mr_sweep *s, const int32_t *curve, int32_t n) {
    double most = 0;
    int32_t first = n - 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        first = most <= (1 + pays) * s->runs[curve[i]].rate ? i : first;
        most = fmax(most, s->runs[curve[i]].rate);
    }
    return first;
}

static double change(double from, double to) {
    return from > 0 ? 100 * (to / from - 1) : 0;
}

static void put_cpu(FILE *out, const mr_sweep *s, const mr_sweep_run *few,
                    const mr_sweep_run *many) {
    double before = few->cpu / few->samples, after = many->cpu / many->samples;
    char from[64], to[64];
    if (before > 0 && after > 0) {
        fprintf(out, "CPU time of a sample: %.3f ms at %s %s, %.3f ms at %s (%+.0f %%).\n",
                1e3 * before, s->axis, mr_sweep_value(few, s->axis, from, sizeof from), 1e3 * after,
                mr_sweep_value(many, s->axis, to, sizeof to), change(before, after));
    }
}

static void put_verdict(FILE *out, const mr_sweep_run *run) {
    fprintf(out, run->title[0] ? " The verdict there: %s.\n" : "%s\n", run->title);
}

static void put_enough(FILE *out, const mr_sweep *s, const int32_t *curve, int32_t n) {
    char value[64], next[64];
    int32_t at = enough_of(s, curve, n);
    const mr_sweep_run *run = &s->runs[curve[at]], *last = &s->runs[curve[n - 1]];
    mr_sweep_value(run, s->axis, value, sizeof value);
    if (at == n - 1) {
        const mr_sweep_run *before = &s->runs[curve[n - 2]];
        fprintf(out, "More still pays at the end: %s %s gives %+.0f %% over %s.", s->axis, value,
                change(before->rate, run->rate),
                mr_sweep_value(before, s->axis, next, sizeof next));
        put_verdict(out, run);
        return;
    }
    fprintf(out, "Beyond %s %s more does not pay: %s gives %+.0f %%.", s->axis, value,
            mr_sweep_value(last, s->axis, next, sizeof next), change(run->rate, last->rate));
    put_verdict(out, last);
}

static void put_best(FILE *out, const mr_sweep *s) {
    const mr_sweep_run *best = &s->runs[s->best];
    char value[64], name[64];
    void *at = json_object_iter((json_t *)s->axes);
    fprintf(out, "Fastest:");
    for (; at; at = json_object_iter_next((json_t *)s->axes, at)) {
        const char *axis = json_object_iter_key(at);
        fprintf(out, " %s %s,", mr_text_escape(name, sizeof name, axis),
                mr_sweep_value(best, axis, value, sizeof value));
    }
    fprintf(out, " %.*f samples/s.\n", best->rate < 100 ? 1 : 0, best->rate);
}

void mr_sweep_conclude(FILE *out, const mr_sweep *s) {
    int32_t *curve = mr_zalloc((size_t)s->n, sizeof *curve);
    if (!curve || s->best < 0) {
        fprintf(out, "Nothing could be measured.\n");
        mr_free(curve);
        return;
    }
    int32_t n = mr_sweep_curve(s, curve);
    put_best(out, s);
    if (s->axis && n > 1) {
        put_enough(out, s, curve, n);
        put_cpu(out, s, &s->runs[curve[0]], &s->runs[curve[n - 1]]);
    }
    mr_free(curve);
}
