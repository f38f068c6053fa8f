/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_text.c - a sweep as a table for a terminal, as CSV, and as a page. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "trace/made_text.h"
#include "trace/sweep.h"

/* Goes through the names of the settings. */
#define FOR_AXES(sweep, at, name)                                                                  \
    for (void *at = json_object_iter((json_t *)(sweep)->axes);                                     \
         at && ((name) = json_object_iter_key(at));                                                \
         at = json_object_iter_next((json_t *)(sweep)->axes, at))

/* ---- For a terminal ---- */
static void put_head(FILE *out, const mr_sweep *s) {
    const char *axis;
    char name[64];
    FOR_AXES(s, at, axis) {
        fprintf(out, "%12.12s ", mr_text_escape(name, sizeof name, axis));
    }
    fprintf(out, "%9s %8s %10s %9s %10s %9s  %s\n", "seconds", "+-", "samples/s", "CPU s",
            "CPU ms/1", "memory MB", "held up");
}

static void put_run(FILE *out, const mr_sweep *s, const mr_sweep_run *run) {
    const char *axis;
    char value[64], why[256];
    FOR_AXES(s, at, axis) {
        fprintf(out, "%12.12s ", mr_sweep_value(run, axis, value, sizeof value));
    }
    if (run->error) {
        fprintf(out, "  %s\n", mr_text_escape(why, sizeof why, run->error));
        return;
    }
    fprintf(out, "%9.2f %6.1f %% %10.1f %9.2f %10.3f", run->seconds, 100 * run->spread, run->rate,
            run->cpu, 1e3 * run->cpu / run->samples);
    if (run->memory > 0) {
        fprintf(out, " %9.0f", run->memory / 1e6);
    } else {
        fprintf(out, " %9s", "-");
    }
    fprintf(out, "  %s\n", mr_text_escape(why, sizeof why, run->title));
}

/* One row for each op of the best run, one column for each run of the curve. */
static void put_op(FILE *out, const mr_sweep *s, const int32_t *curve, int32_t n, const char *op) {
    char name[64];
    fprintf(out, "  %-24.24s", mr_text_escape(name, sizeof name, op));
    for (int32_t i = 0; i < n; i++) {
        double cpu = mr_sweep_op_figure(&s->runs[curve[i]], op, "cpu");
        double seconds = mr_sweep_op_figure(&s->runs[curve[i]], op, "seconds");
        if (cpu > 0) {
            fprintf(out, " %8.3f /%8.3f", 1e3 * seconds, 1e3 * cpu);
        } else {
            fprintf(out, " %8.3f /%8s", 1e3 * seconds, "-");
        }
    }
    fputc('\n', out);
}

static void put_ops(FILE *out, const mr_sweep *s, const int32_t *curve, int32_t n) {
    const json_t *ops = s->best >= 0 ? s->runs[s->best].ops : NULL;
    char value[64];
    if (json_array_size(ops) == 0) {
        return;
    }
    fprintf(out, "\nms of a sample, elapsed / CPU\n  %-24.24s", s->axis ? s->axis : "");
    for (int32_t i = 0; i < n; i++) {
        fprintf(out, " %18s",
                s->axis ? mr_sweep_value(&s->runs[curve[i]], s->axis, value, sizeof value) : "");
    }
    fputc('\n', out);
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const char *op = json_string_value(json_object_get(json_array_get(ops, i), "name"));
        if (op) {
            put_op(out, s, curve, n, op);
        }
    }
}

static mr_status put_table(FILE *out, const mr_sweep *s, mr_error *err) {
    int32_t *curve = mr_zalloc((size_t)s->n, sizeof *curve);
    if (!curve) {
        return mr_fail_memory(err, (size_t)s->n * sizeof *curve);
    }
    put_head(out, s);
    for (int32_t i = 0; i < s->n; i++) {
        put_run(out, s, &s->runs[i]);
    }
    put_ops(out, s, curve, mr_sweep_curve(s, curve));
    fputc('\n', out);
    mr_sweep_conclude(out, s);
    mr_free(curve);
    return MR_OK;
}

/* ---- CSV: a row for each run, three columns and the counters for each op ---- */
static void put_cell(FILE *out, const char *text) {
    char safe[256];
    fputc('"', out);
    for (const char *c = mr_text_escape(safe, sizeof safe, text); *c; c++) {
        fputs(*c == '"' ? "\"\"" : (char[]){*c, '\0'}, out);
    }
    fputc('"', out);
}

/* The names of ops, and of their counters, that some run has; NULL: no memory. */
static json_t *columns_of(const mr_sweep *s) {
    json_t *columns = json_object();
    for (int32_t r = 0; r < s->n; r++) {
        for (size_t i = 0; i < json_array_size(s->runs[r].ops); i++) {
            const json_t *op = json_array_get(s->runs[r].ops, i);
            const char *name = json_string_value(json_object_get(op, "name"));
            json_t *counters = json_object_get(op, "counters");
            json_t *known = json_object_get(columns, name ? name : "");
            known = known ? json_incref(known) : json_object();
            if (json_is_object(counters)) {
                json_object_update(known, counters);
            }
            json_object_set_new(columns, name ? name : "", known);
        }
    }
    return columns;
}

static void put_op_head(FILE *out, const char *op, json_t *counters) {
    static const char *const kinds[] = {"seconds", "cpu_seconds", "share"};
    char name[200], counter[100];
    mr_text_escape(name, sizeof name, op);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char cell[256];
        snprintf(cell, sizeof cell, "%s %s", name, kinds[i]);
        fputc(',', out);
        put_cell(out, cell);
    }
    for (void *at = json_object_iter(counters); at; at = json_object_iter_next(counters, at)) {
        char cell[320];
        snprintf(cell, sizeof cell, "%s %s", name,
                 mr_text_escape(counter, sizeof counter, json_object_iter_key(at)));
        fputc(',', out);
        put_cell(out, cell);
    }
}

static void put_op_cells(FILE *out, const mr_sweep_run *run, const char *op, json_t *counters) {
    double seconds = mr_sweep_op_figure(run, op, "seconds");
    double all = 0;
    for (size_t i = 0; i < json_array_size(run->ops); i++) {
        all += json_number_value(json_object_get(json_array_get(run->ops, i), "seconds"));
    }
    fprintf(out, ",%.9g,%.9g,%.6g", seconds, mr_sweep_op_figure(run, op, "cpu"),
            all > 0 ? seconds / all : 0);
    const json_t *own = json_object_get(mr_sweep_op(run, op), "counters");
    for (void *at = json_object_iter(counters); at; at = json_object_iter_next(counters, at)) {
        fprintf(out, ",%.9g", json_number_value(json_object_get(own, json_object_iter_key(at))));
    }
}

static void put_csv_run(FILE *out, const mr_sweep *s, const mr_sweep_run *run, json_t *columns) {
    const char *axis;
    char value[256];
    FOR_AXES(s, at, axis) {
        put_cell(out, mr_sweep_value(run, axis, value, sizeof value));
        fputc(',', out);
    }
    fprintf(out, "%d,%.9g,%.6g,%.9g,%.9g,%.9g,%.9g,", (int)run->rounds, run->seconds, run->spread,
            run->samples, run->rate, run->cpu, run->memory);
    put_cell(out, run->error ? run->error : run->title);
    for (void *at = json_object_iter(columns); at; at = json_object_iter_next(columns, at)) {
        put_op_cells(out, run, json_object_iter_key(at), json_object_iter_value(at));
    }
    fputc('\n', out);
}

static mr_status put_csv(FILE *out, const mr_sweep *s, mr_error *err) {
    const char *axis;
    json_t *columns = columns_of(s);
    if (!columns) {
        return mr_fail_memory(err, 4096);
    }
    FOR_AXES(s, at, axis) {
        put_cell(out, axis);
        fputc(',', out);
    }
    fprintf(out, "rounds,seconds,spread,samples,samples_per_second,cpu_seconds,memory_bytes,bound");
    for (void *at = json_object_iter(columns); at; at = json_object_iter_next(columns, at)) {
        put_op_head(out, json_object_iter_key(at), json_object_iter_value(at));
    }
    fputc('\n', out);
    for (int32_t i = 0; i < s->n; i++) {
        put_csv_run(out, s, &s->runs[i], columns);
    }
    json_decref(columns);
    return MR_OK;
}

/* ---- Public ---- */
typedef struct wanted_text {
    const mr_sweep *sweep;
    mr_sweep_text_kind kind;
} wanted_text;

static mr_status put(FILE *out, const void *context, mr_error *err) {
    const wanted_text *wanted = context;
    const mr_sweep *s = wanted->sweep;
    switch (wanted->kind) {
    case MR_SWEEP_TABLE:
        return put_table(out, s, err);
    case MR_SWEEP_CSV:
        return put_csv(out, s, err);
    case MR_SWEEP_CONCLUSION:
        mr_sweep_conclude(out, s);
        return MR_OK;
    case MR_SWEEP_PAGE:
        mr_sweep_page(out, s);
        return MR_OK;
    }
    return mr_fail(err, MR_E_PARAM, "there is no such text of a sweep");
}

mr_status mr_sweep_text(const char *measurements, mr_sweep_text_kind kind, char **out,
                        mr_error *err) {
    mr_sweep s;
    mr_status status = mr_sweep_read(&s, measurements, err);
    if (status == MR_OK) {
        const wanted_text wanted = {&s, kind};
        status = mr_make_text(out, put, &wanted, err);
    }
    mr_sweep_free(&s);
    return status;
}
