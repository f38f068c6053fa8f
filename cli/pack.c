/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - millrace pack: writes samples as they are at a cut into shards. */
#include <millrace/tune.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "document.h"
#include "errors.h"
#include "plugins.h"
#include "progress.h"
#include "ranks.h"
#include "stop.h"
#include "text.h"

typedef struct pack_values {
    const char *path, *folder, *upto, *part;
    int64_t shard, threads;
    int32_t format, compression;
    mr_files plugins;
    bool json, quiet, row_index;
} pack_values;

typedef struct pack_run {
    const pack_values *values;
    mr_plugins plugins;
    mr_pipeline *pipeline;
    bool bad_document;
    char upto[16]; /* of --row-index */
    mr_pack_options options;
    mr_pack_result result;
    mr_stop stop;
    mr_progress progress;
    int signal;
    mr_error err;
} pack_run;

/* ---- Before ---- */
static mr_status read_part(const char *text, mr_pack_options *options, mr_error *err) {
    long long part, parts;
    int used = 0;
    if (!text) {
        return MR_OK;
    }
    if (sscanf(text, "%9lld/%9lld%n", &part, &parts, &used) != 2 || text[used] != '\0' ||
        part < 0 || part >= parts) {
        mr_fail(err, MR_E_PARAM, "--part %.64s is not I/N with I from 0 to N - 1", text);
        mr_hint(err, "four processes make --part 0/4, 1/4, 2/4 and 3/4");
        return err->code;
    }
    options->part = part;
    options->parts = parts;
    return MR_OK;
}

static bool on_progress(void *user, int64_t made, int64_t wanted) {
    pack_run *r = user;
    if (made > 0 && r->progress.on) {
        r->progress.epoch_steps = r->progress.run_steps = wanted;
        mr_progress_update(&r->progress,
                           &(mr_progress_point){.step = made - 1, .steps = made, .samples = made});
    }
    return atomic_load(&r->stop.signal) == 0;
}

static void on_log(void *user, const char *text) {
    mr_progress_warn(user, text);
}

/* The place of decode_image among the ops, or -1. */
static int32_t find_decoder(json_t *ops) {
    size_t i = 0;
    while (i < json_array_size(ops) && !json_object_get(json_array_get(ops, i), "decode_image")) {
        i++;
    }
    return i < json_array_size(ops) ? (int32_t)i : -1;
}

static mr_status parse_again(pack_run *r, json_t *document) {
    mr_pipeline *pipeline = NULL;
    char *text = json_dumps(document, JSON_REAL_PRECISION(MR_DIGITS_EXACT));
    mr_status status =
        text ? mr_pipeline_parse(&pipeline, text, strlen(text), r->plugins.ops, &r->err)
             : mr_fail(&r->err, MR_E_MEMORY, "out of memory");
    free(text);
    if (status == MR_OK) {
        mr_pipeline_free(r->pipeline);
        r->pipeline = pipeline;
    }
    return status;
}

/* The op index_image before the decoder, and the cut between them: the pixels are the same. */
static mr_status add_row_index(pack_run *r) {
    json_t *document = json_loads(mr_pipeline_json(r->pipeline), 0, NULL);
    json_t *ops = json_object_get(document, "ops");
    int32_t at = find_decoder(ops);
    if (at < 0 || (r->values->upto && strcmp(r->values->upto, "source") != 0)) {
        mr_fail(&r->err, MR_E_PARAM, "--row-index is for encoded photos, kept before decode_image");
        mr_hint(&r->err, "leave --upto out");
        json_decref(document);
        return MR_E_PARAM;
    }
    json_t *field =
        json_object_get(json_object_get(json_array_get(ops, (size_t)at), "decode_image"), "field");
    json_t *params = json_object();
    if (field) {
        json_object_set(params, "field", field);
    }
    json_array_insert_new(ops, (size_t)at, json_pack("{s:o}", "index_image", params));
    snprintf(r->upto, sizeof r->upto, "%d", at + 1);
    mr_status status = parse_again(r, document);
    json_decref(document);
    return status;
}

static mr_status prepare(pack_run *r) {
    const pack_values *v = r->values;
    mr_status status = read_part(v->part, &r->options, &r->err);
    if (status == MR_OK && !v->folder) {
        status = mr_fail(&r->err, MR_E_PARAM, "-o FOLDER is missing");
        mr_hint(&r->err, "name the folder to write shards to: millrace pack p.json -o packed");
    }
    if (status == MR_OK) {
        status = mr_plugins_open(&r->plugins, &v->plugins, &r->err);
    }
    if (status == MR_OK) {
        status = mr_document_load(&r->pipeline, v->path, r->plugins.ops, &r->err);
        r->bad_document = status != MR_OK;
    }
    return status == MR_OK && v->row_index ? add_row_index(r) : status;
}

/* ---- Packing ---- */
static mr_status pack(pack_run *r) {
    const pack_values *v = r->values;
    r->options.folder = v->folder;
    r->options.upto = v->row_index ? r->upto : v->upto;
    r->options.format = (mr_pack_format)v->format;
    r->options.compression = (mr_pack_compression)v->compression;
    r->options.shard = v->shard;
    r->options.threads = (uint32_t)v->threads;
    r->options.extra_ops = r->plugins.ops;
    r->options.log = (mr_log){on_log, &r->progress};
    r->options.progress = on_progress;
    r->options.user = r;
    mr_status status = mr_stop_begin(&r->stop, NULL, &r->err);
    if (status != MR_OK) {
        return status;
    }
    r->result.size = (uint32_t)sizeof r->result;
    status = mr_pipeline_pack(r->pipeline, &r->options, &r->result, &r->err);
    mr_progress_end(&r->progress);
    r->signal = mr_stop_end(&r->stop);
    return status == MR_E_CANCELLED && r->signal ? MR_OK : status;
}

/* ---- After ---- */
/* Standard output has the document alone, for whoever pipes it on. */
static void print_text(const pack_run *r) {
    const mr_pack_result *o = &r->result;
    char samples[32], bytes[32];
    fprintf(stderr, "%s %s in %lld %s, %s\n", mr_text_count(samples, sizeof samples, o->samples),
            mr_text_plural(o->samples, "sample", "samples"), (long long)o->shards,
            mr_text_plural(o->shards, "shard", "shards"),
            mr_text_bytes(bytes, sizeof bytes, o->bytes));
    fprintf(stderr, "%lld made, %lld found, %lld of this part and %lld of all missing%s\n",
            (long long)o->made, (long long)o->found, (long long)o->part_left, (long long)o->left,
            r->signal ? ", stopped" : "");
    if (o->digest[0]) {
        fprintf(stderr, "digest %s\n", o->digest);
    }
    if (o->document) {
        printf("%s\n", o->document);
    } else if (o->left == 0) {
        fprintf(stderr, "no source of this build loads all of these shards at once\n");
    }
}

static void print_json(const pack_run *r, const mr_error *error) {
    const mr_pack_result *o = &r->result;
    json_t *object = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:i}", "samples",
                               (json_int_t)o->samples, "shards", (json_int_t)o->shards, "made",
                               (json_int_t)o->made, "found", (json_int_t)o->found, "part_left",
                               (json_int_t)o->part_left, "left", (json_int_t)o->left, "bytes",
                               (json_int_t)o->bytes, "digest", o->digest, "signal", r->signal);
    json_object_set_new(object, "document",
                        o->document ? json_loads(o->document, 0, NULL) : json_null());
    json_object_set_new(object, "error", error ? mr_error_json(error) : json_null());
    mr_json_print(object, MR_DIGITS_EXACT);
}

static int finish(const pack_run *r, mr_status status) {
    if (r->values->json) {
        print_json(r, status == MR_OK ? NULL : &r->err);
    } else if (status == MR_OK && !r->values->quiet) {
        print_text(r);
    }
    if (status != MR_OK) {
        return r->bad_document ? mr_error_print_document(&r->err, r->values->path)
                               : mr_error_print(&r->err);
    }
    return r->signal ? 128 + r->signal : MR_EXIT_OK;
}

static int run_pack(const void *values) {
    pack_run r = {.values = values, .options = MR_PACK_OPTIONS_INIT, .err = MR_ERROR_INIT};
    mr_progress_begin(&r.progress, !r.values->quiet);
    mr_status status = prepare(&r);
    if (status == MR_OK) {
        status = pack(&r);
    }
    int code = finish(&r, status);
    mr_free(r.result.document);
    mr_pipeline_free(r.pipeline);
    mr_plugins_close(&r.plugins);
    return code;
}

static const char *const compressions[] = {"none", "zstd", "lz4", NULL};
static const char *const formats[] = {"tar", "npy", NULL};

static const mr_option_row operands[] = {
    MR_DOCUMENT_ROW(pack_values),
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "output",
     .argument = "FOLDER",
     .letter = 'o',
     .kind = MR_OPTION_FILE,
     .offset = offsetof(pack_values, folder),
     .doc = "Where to write: a folder that is empty or does not exist yet, or one with the "
            "beginning of this pack."},
    {.name = "upto",
     .argument = "OP",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(pack_values, upto),
     .doc = "The last op to be done: its name, a number of ops, or source for none. Otherwise all "
            "before the first random one."},
    {.name = "format",
     .argument = "KIND",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(pack_values, format),
     .fallback = "tar",
     .choices = formats,
     .doc = "tar is WebDataset's, with DALI's index beside each shard. npy is an array for each "
            "field and shard, where all samples are of one size."},
    {.name = "compress",
     .argument = "KIND",
     .kind = MR_OPTION_CHOICE,
     .offset = offsetof(pack_values, compression),
     .fallback = "none",
     .choices = compressions,
     .doc = "Compress each tar shard as a whole. It has no index then, and is read as a whole."},
    {.name = "row-index",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(pack_values, row_index),
     .doc = "Keep photos as they are encoded, each with an index of its rows behind it, so that "
            "parts of them are decoded sooner."},
    {.name = "shard",
     .argument = "N",
     .kind = MR_OPTION_INT,
     .offset = offsetof(pack_values, shard),
     .fallback = "1000",
     .min = 1,
     .max = INT64_C(1) << 40,
     .doc = "Samples in a shard."},
    {.name = "part",
     .argument = "I/N",
     .kind = MR_OPTION_TEXT,
     .offset = offsetof(pack_values, part),
     .doc = "Make part I, from 0, of N: so several processes or machines share the work. The "
            "result is the same."},
    MR_THREADS_ROW(pack_values),
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(pack_values, json),
     .doc = "End with one line of JSON on standard output instead of text."},
    {.name = "quiet",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(pack_values, quiet),
     .doc = "No progress bar; without --json nothing is printed."},
    MR_PLUGIN_ROW(pack_values),
    {.name = NULL},
};

const mr_command mr_command_pack = {
    .name = "pack",
    .summary = "Write prepared samples as WebDataset tar or .npy shards.",
    .doc = "Runs the ops of a pipeline up to a cut, once over the dataset and in its order, and "
           "writes the samples into shards that other programs read too. Random ops cannot be "
           "packed. A shard is whole or not there: stopped, killed or out of room, the same "
           "command goes on with what is missing. When all shards are there, manifest.json has "
           "their digests, and pipeline.json, which is also printed, loads them and does the "
           "rest: it delivers what the pipeline as a whole delivers. A folder with a pack of "
           "another dataset or of other ops is refused. See docs/tune.md.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(pack_values),
    .run = run_pack,
};
