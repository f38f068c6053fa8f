/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - millrace show: a batch as a picture, as it will reach the model. */
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "document.h"
#include "errors.h"
#include "plugins.h"

typedef struct show_values {
    const char *path, *out;
    int64_t step, seed, batch, columns, cell;
    mr_files plugins;
} show_values;

/* Takes batches up to the wanted one. */
static mr_status take_step(mr_loader *loader, int64_t step, mr_batch **out, mr_error *err) {
    for (int64_t i = 0;; i++) {
        mr_status status = mr_loader_next(loader, out, err);
        if (status == MR_END) {
            mr_fail(err, MR_E_PARAM, "there is no step %lld", (long long)step);
            mr_hint(err, "the run has %lld steps, counted from 0", (long long)i);
            return MR_E_PARAM;
        }
        if (status != MR_OK || i == step) {
            return status;
        }
        mr_batch_unref(*out);
    }
}

/* What labels stand for, where they stand for anything. */
static const char **classes_of(const mr_loader *loader, int64_t *n) {
    *n = 0;
    while (mr_loader_class(loader, "label", *n)) {
        ++*n;
    }
    const char **names = calloc((size_t)*n + 1, sizeof *names);
    for (int64_t i = 0; names && i < *n; i++) {
        names[i] = mr_loader_class(loader, "label", i);
    }
    return names;
}

static mr_status draw(const show_values *v, const mr_loader *loader, const mr_batch *batch,
                      mr_error *err) {
    mr_sheet sheet = {
        .size = sizeof sheet, .columns = (int32_t)v->columns, .cell = (int32_t)v->cell};
    const char **names = classes_of(loader, &sheet.n_classes);
    sheet.classes = names;
    mr_status status = mr_batch_sheet(batch, &sheet, v->out, err);
    free(names);
    return status;
}

static mr_status show(const show_values *v, const mr_pipeline *pipeline, mr_error *err) {
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    options.seed = v->seed;
    options.batch = v->batch;
    mr_status status = mr_loader_open(&loader, pipeline, &options, err);
    if (status == MR_OK) {
        status = take_step(loader, v->step, &batch, err);
    }
    if (status == MR_OK) {
        status = draw(v, loader, batch, err);
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    return status;
}

static int show_run(const void *values) {
    const show_values *v = values;
    mr_plugins plugins = {0};
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    int code = MR_EXIT_OK;
    mr_status status = mr_plugins_open(&plugins, &v->plugins, &err);
    if (status == MR_OK) {
        status = mr_document_load(&pipeline, v->path, plugins.ops, &err);
        code = status == MR_OK ? code : mr_error_print_document(&err, v->path);
    } else {
        code = mr_error_print(&err);
    }
    if (status == MR_OK) {
        status = show(v, pipeline, &err);
        code = status == MR_OK ? code : mr_error_print(&err);
    }
    if (status == MR_OK) {
        printf("%s\n", v->out);
    }
    mr_pipeline_free(pipeline);
    mr_plugins_close(&plugins);
    return code;
}

static const mr_option_row operands[] = {
    MR_DOCUMENT_ROW(show_values),
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "output",
     .argument = "FILE",
     .letter = 'o',
     .kind = MR_OPTION_FILE,
     .offset = offsetof(show_values, out),
     .fallback = "sheet.png",
     .doc = "The PNG file to write; -o is short for it."},
    {.name = "step",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(show_values, step),
     .min = 0,
     .max = INT64_MAX,
     .doc = "Which batch of the run, from 0."},
    {.name = "seed",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(show_values, seed),
     .fallback = "-1",
     .min = 0,
     .max = INT64_MAX,
     .doc = "Seed of order and randomness, instead of the document's."},
    {.name = "batch",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(show_values, batch),
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples to show, instead of the document's batch."},
    {.name = "columns",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(show_values, columns),
     .min = 1,
     .max = 1024,
     .doc = "Cells in a row; otherwise as many as make a square."},
    {.name = "cell",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(show_values, cell),
     .min = 8,
     .max = 4096,
     .doc = "Longest side of a cell in pixels; larger images are drawn smaller. Otherwise 256."},
    MR_PLUGIN_ROW(show_values),
    {.name = NULL},
};

extern const mr_command mr_command_show;
const mr_command mr_command_show = {
    .name = "show",
    .summary = "Draw a batch as a labelled contact sheet.",
    .doc = "The images are those that the model gets, after every op; numbers other than bytes are "
           "spread over black to white. Above each stands its label and its index in the dataset.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(show_values),
    .run = show_run,
};
