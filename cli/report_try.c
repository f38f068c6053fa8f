/* SPDX-License-Identifier: Apache-2.0 */
/* report_try.c - see report_try.h. The document is in the trace, put there by mr.profile(); it
 * names files of this machine, which is why trying is asked for and never done by itself. */
#include "report_try.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

static const double tried_seconds = 3;

static json_t *figures_of(const mr_trace *trace, mr_error *err) {
    char *text = NULL;
    json_t *figures =
        mr_trace_text(trace, MR_TRACE_JSON, &text, err) == MR_OK ? json_loads(text, 0, NULL) : NULL;
    mr_free(text);
    return figures;
}

static json_t *in_header(const json_t *figures, const char *object, const char *name) {
    const json_t *header = json_object_get(figures, "header");
    return json_object_get(json_object_get(header, object), name);
}

static mr_status parse(const json_t *figures, mr_pipeline **out, mr_error *err) {
    const json_t *document = in_header(figures, "translation", "pipeline");
    char *words = document ? json_dumps(document, 0) : NULL;
    if (!words) {
        mr_fail(err, MR_E_PARAM, "the trace has no pipeline to try");
        mr_hint(err,
                "mr.profile() notes one for torch loaders of image folders whose steps all have "
                "an equal op; mr.torch.translate(loader) says what stays Python");
        return err->code;
    }
    mr_status status = mr_pipeline_parse(out, words, strlen(words), NULL, err);
    free(words);
    return status;
}

/* Samples a second from the first batch on. */
static mr_status measure(const mr_pipeline *pipeline, int64_t threads, double *rate,
                         mr_error *err) {
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    int64_t samples = 0;
    double first = 0, now = 0;
    options.threads = threads > 0 && threads < 1024 ? (uint32_t)threads : 0;
    options.epochs = INT32_MAX;
    mr_status status = mr_loader_open(&loader, pipeline, &options, err);
    while (status == MR_OK && (samples == 0 || now - first < tried_seconds)) {
        mr_batch *batch = NULL;
        status = mr_loader_next(loader, &batch, err);
        now = mr_clock();
        samples += status == MR_OK && first > 0 ? mr_batch_size(batch) : 0;
        first = first > 0 ? first : now;
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    *rate = status == MR_OK ? (double)samples / (now - first) : 0;
    return status;
}

mr_status mr_report_try(const mr_trace *trace, mr_error *err) {
    mr_pipeline *pipeline = NULL;
    double rate = 0;
    json_t *figures = figures_of(trace, err);
    double before = json_number_value(json_object_get(json_object_get(figures, "verdict"), "rate"));
    int64_t workers = json_integer_value(in_header(figures, "setup", "workers"));
    mr_status status =
        figures ? parse(figures, &pipeline, err) : mr_fail(err, MR_E_MEMORY, "out of memory");
    status = status == MR_OK ? measure(pipeline, workers, &rate, err) : status;
    if (status == MR_OK) {
        printf("tried: %.0f samples/s, %.1f times\n", rate, before > 0 ? rate / before : 0);
    }
    json_decref(figures);
    mr_pipeline_free(pipeline);
    return status;
}
