/* SPDX-License-Identifier: Apache-2.0 */
/* simulate_trace.c - see simulate_trace.h. A trace's verdict has what each part of the run could
 * have given by itself, in samples a second of its rank. */
#include "simulate_trace.h"

#include <jansson.h>
#include <math.h>
#include <millrace/trace.h>
#include <stdlib.h>
#include <string.h>

typedef struct measured {
    double sample_bytes, threads, cpus, storage, consumer; /* 0: it does not tell */
} measured;

static mr_status read_figures(const char *path, json_t **out, mr_error *err) {
    mr_trace *trace = NULL;
    char *text = NULL;
    mr_status status = mr_trace_open(&trace, path, err);
    status = status == MR_OK ? mr_trace_text(trace, MR_TRACE_JSON, &text, err) : status;
    *out = status == MR_OK ? json_loads(text, 0, NULL) : NULL;
    if (status == MR_OK && !*out) {
        status = mr_fail(err, MR_E_MEMORY, "out of memory");
    }
    mr_free(text);
    mr_trace_close(trace);
    return status;
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static measured measured_by(const json_t *figures) {
    const json_t *verdict = json_object_get(figures, "verdict");
    const json_t *kinds = json_object_get(figures, "kinds");
    double samples = number(figures, "samples");
    double bytes = number(json_object_get(kinds, "read"), "bytes_in") +
                   number(json_object_get(kinds, "receive"), "bytes_in");
    return (measured){.sample_bytes = samples > 0 ? bytes / samples : 0,
                      .threads = number(verdict, "limit_threads"),
                      .cpus = number(verdict, "limit_cpus"),
                      .storage = number(verdict, "limit_storage"),
                      .consumer = number(verdict, "limit_consumer")};
}

static void set_missing(json_t *document, const char *key, double value, bool is_whole) {
    if (!json_object_get(document, key) && value > 0 && isfinite(value)) {
        json_object_set_new(document, key,
                            is_whole ? json_integer((json_int_t)(value + 0.5)) : json_real(value));
    }
}

/* A node has as many ranks as the document says; its storage is at least what one rank had. */
static void complete(json_t *document, const measured *m) {
    const json_t *given = json_object_get(document, "ranks_per_node");
    double ranks = given ? json_number_value(given) : 1;
    double prepared = m->cpus > 0 && m->cpus < m->threads ? m->cpus : m->threads;
    set_missing(document, "sample_bytes", m->sample_bytes, true);
    set_missing(document, "storage", m->storage * number(document, "sample_bytes"), true);
    set_missing(document, "prepare", ranks * prepared, false);
    set_missing(document, "train", ranks * m->consumer, false);
}

static char *read_text(const char *path) {
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = file ? calloc(1, MOST + 1) : NULL;
    if (text) {
        (void)!fread(text, 1, MOST, file);
    }
    if (file) {
        fclose(file);
    }
    return text;
}

mr_status mr_simulate_measured(const char *file, const char *trace, char **out, mr_error *err) {
    json_t *figures = NULL, *document = json_load_file(file, JSON_REJECT_DUPLICATES, NULL);
    mr_status status = read_figures(trace, &figures, err);
    if (status == MR_OK && json_is_object(document)) {
        const measured found = measured_by(figures);
        complete(document, &found);
        *out = json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    } else if (status == MR_OK) {
        *out = read_text(file);
    }
    if (status == MR_OK && !*out) {
        status = mr_fail(err, MR_E_IO, "cannot read %s", file);
    }
    json_decref(figures);
    json_decref(document);
    return status;
}
