/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - millrace check: what a pipeline document means, and how its data lies, without reading
 * samples. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "document.h"
#include "errors.h"
#include "plugins.h"
#include "text.h"

typedef struct check_values {
    const char *path;
    mr_files plugins;
    bool json;
} check_values;

static const char *const remainders[] = {"keep", "drop", "pad", "even"};
static const char *const on_errors[] = {"fail", "skip"};

/* Bytes of a batch's field of fixed shape; -1 where the shape varies or the product overflows. */
static int64_t field_bytes(const mr_pipeline *pipeline, const mr_field *field) {
    int64_t bytes = mr_type_bytes(&field->type);
    if (bytes < 0 || __builtin_mul_overflow(bytes, mr_pipeline_settings(pipeline)->batch, &bytes)) {
        return -1;
    }
    return bytes;
}

/* Of all fields of fixed shape; *varies where there are others. */
static int64_t batch_bytes(const mr_pipeline *pipeline, bool *varies) {
    int64_t sum = 0;
    *varies = false;
    for (int32_t i = 0; i < mr_pipeline_n_fields(pipeline); i++) {
        int64_t bytes = field_bytes(pipeline, mr_pipeline_field(pipeline, i));
        if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum)) {
            *varies = true;
        }
    }
    return sum;
}

/* Again as JSON, but with 0.08 and not 0.080000000000000002. */
static void print_params(const char *params) {
    json_t *object = json_loads(params, 0, NULL);
    printf("    ");
    json_dumpf(object, stdout, JSON_REAL_PRECISION(15));
    printf("\n");
    json_decref(object);
}

static void print_stages(const mr_pipeline *pipeline) {
    char type[128];
    printf("stages\n");
    for (int32_t i = 0; i < mr_pipeline_n_stages(pipeline); i++) {
        const mr_stage *stage = mr_pipeline_stage(pipeline, i);
        printf("  %-20s %-10s %s\n", stage->name, stage->field,
               mr_type_text(&stage->out, type, sizeof type));
        print_params(stage->params);
    }
}

/* The stages that keep samples: pipelines whose caches have the same key share what they hold. */
static void print_caches(const mr_pipeline *pipeline) {
    char key[17];
    bool any = false;
    for (int32_t i = 1; i < mr_pipeline_n_stages(pipeline); i++) {
        if (mr_pipeline_cache_prefix(pipeline, i, key) == MR_OK) {
            printf("%s  after %-14s key %s\n", any ? "" : "caches\n",
                   mr_pipeline_stage(pipeline, i - 1)->name, key);
            any = true;
        }
    }
}

static void print_fields(const mr_pipeline *pipeline) {
    char type[128], bytes[32];
    printf("fields of a batch\n");
    for (int32_t i = 0; i < mr_pipeline_n_fields(pipeline); i++) {
        const mr_field *field = mr_pipeline_field(pipeline, i);
        int64_t size = field_bytes(pipeline, field);
        printf("  %-20s %-34s %s\n", field->name, mr_type_text(&field->type, type, sizeof type),
               size < 0 ? "varies" : mr_text_bytes(bytes, sizeof bytes, size));
    }
}

static void print_warnings(const mr_pipeline *pipeline) {
    const char *text;
    for (int32_t i = 0; (text = mr_pipeline_warning(pipeline, i)) != NULL; i++) {
        printf("%s  %s\n", i ? "" : "warnings\n", text);
    }
}

/* ---- The data ---- */
/* A document is right or wrong wherever it is looked at; its data need not be there. */
typedef struct data_facts {
    mr_outlook outlook;
    mr_error failure; /* code MR_OK: there is none */
} data_facts;

/* What is there and is no dataset; what is not there may be on another machine, and so may a
 * library or a server. */
static bool is_faulty(const mr_error *failure) {
    switch (failure->code) {
    case MR_E_PARAM:
    case MR_E_TYPE:
    case MR_E_LIMIT:
    case MR_E_CORRUPT:
        return true;
    case MR_E_NOT_FOUND:
        return failure->sys == 0;
    default:
        return false;
    }
}

static data_facts look_at_data(const mr_pipeline *pipeline) {
    data_facts facts = {.outlook = {.size = (uint32_t)sizeof facts.outlook}};
    mr_status status = mr_pipeline_outlook(pipeline, NULL, &facts.outlook, &facts.failure);
    facts.failure.code = status < 0 ? status : MR_OK;
    return facts;
}

static void print_blocks(const mr_outlook *outlook) {
    char blocks[32], shuffled[32], alive[32];
    if (outlook->blocks == 0) {
        return;
    }
    printf("  %s %s", mr_text_count(blocks, sizeof blocks, outlook->blocks),
           mr_text_plural(outlook->blocks, "block", "blocks"));
    if (outlook->shuffled > 0) {
        printf(", %s shuffled together in %d %s",
               mr_text_count(shuffled, sizeof shuffled, outlook->shuffled), outlook->lanes,
               mr_text_plural(outlook->lanes, "lane", "lanes"));
    }
    printf(", at most %s alive at once\n",
           mr_text_count(alive, sizeof alive, outlook->blocks_bound));
    if (outlook->blocks_met > 0) {
        printf("  a batch has samples of %.1f blocks; of %.1f if all were shuffled together\n",
               outlook->blocks_met, outlook->blocks_met_full);
    }
}

static void print_data(const data_facts *facts) {
    const mr_outlook *outlook = &facts->outlook;
    char samples[32], steps[32];
    printf("data\n");
    if (is_faulty(&facts->failure)) {
        printf("  cannot be used: %s\n", facts->failure.text);
        if (facts->failure.hint[0]) {
            printf("  hint: %s\n", facts->failure.hint);
        }
    } else if (facts->failure.code != MR_OK) {
        printf("  cannot be opened here: %s\n", facts->failure.text);
    } else if (outlook->samples < 0) {
        printf("  a stream\n");
    } else {
        printf("  %s %s in %s %s an epoch\n",
               mr_text_count(samples, sizeof samples, outlook->samples),
               mr_text_plural(outlook->samples, "sample", "samples"),
               mr_text_count(steps, sizeof steps, outlook->steps),
               mr_text_plural(outlook->steps, "batch", "batches"));
        print_blocks(outlook);
    }
}

static json_t *data_json(const data_facts *facts) {
    const mr_outlook *outlook = &facts->outlook;
    json_t *object = json_object();
    if (facts->failure.code != MR_OK) {
        json_object_set_new(object, "error", mr_error_json(&facts->failure));
        return object;
    }
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {{"samples", outlook->samples},
                   {"steps", outlook->steps},
                   {"memory_bound", outlook->memory_bound},
                   {"blocks", outlook->blocks},
                   {"blocks_bound", outlook->blocks_bound},
                   {"shuffled", outlook->shuffled},
                   {"lanes", outlook->lanes}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        json_object_set_new(object, figures[i].name, json_integer(figures[i].value));
    }
    json_object_set_new(object, "blocks_met", json_real(outlook->blocks_met));
    json_object_set_new(object, "blocks_met_full", json_real(outlook->blocks_met_full));
    return object;
}

static void print_memory(const mr_pipeline *pipeline, const data_facts *facts) {
    char bytes[32], bound[32];
    bool varies = false;
    int64_t sum = batch_bytes(pipeline, &varies);
    printf("memory\n  of a batch %s%s\n", mr_text_bytes(bytes, sizeof bytes, sum),
           varies ? ", and fields whose size varies" : "");
    if (facts->failure.code == MR_OK) {
        printf("  of a run at most %s for dense batches and reading\n",
               mr_text_bytes(bound, sizeof bound, facts->outlook.memory_bound));
    }
}

static int print_text(const mr_pipeline *pipeline) {
    data_facts facts = look_at_data(pipeline);
    const mr_settings *s = mr_pipeline_settings(pipeline);
    print_stages(pipeline);
    print_caches(pipeline);
    print_fields(pipeline);
    printf(
        "settings\n  batch %lld, seed %lld, epochs %lld, shuffle %s, remainder %s, on_error %s\n",
        (long long)s->batch, (long long)s->seed, (long long)s->epochs,
        s->shuffle ? "true" : "false", remainders[s->remainder], on_errors[s->on_error]);
    print_data(&facts);
    print_memory(pipeline, &facts);
    print_warnings(pipeline);
    printf("fingerprint\n  %s\n", mr_pipeline_fingerprint(pipeline));
    return is_faulty(&facts.failure) ? MR_EXIT_DATA : MR_EXIT_OK;
}

static json_t *type_json(const mr_type *type) {
    static const char *const layouts[] = {"plain", "HWC", "CHW"};
    json_t *object = json_object(), *dims = json_array();
    for (int32_t i = 0; i < type->n_dims; i++) {
        json_array_append_new(dims, type->dims[i] < 0 ? json_null() : json_integer(type->dims[i]));
    }
    json_object_set_new(object, "dtype", json_string(mr_dtype_name(type->dtype)));
    json_object_set_new(object, "shape", dims);
    json_object_set_new(object, "layout", json_string(layouts[type->layout]));
    return object;
}

static json_t *stage_json(const mr_pipeline *pipeline, int32_t i) {
    const mr_stage *stage = mr_pipeline_stage(pipeline, i);
    char key[17];
    json_t *object = json_object();
    json_object_set_new(object, "name", mr_json_text(stage->name));
    json_object_set_new(object, "field", mr_json_text(stage->field));
    json_object_set_new(object, "params", json_loads(stage->params, 0, NULL));
    json_object_set_new(object, "type", type_json(&stage->out));
    if (mr_pipeline_cache_prefix(pipeline, i, key) == MR_OK) {
        json_object_set_new(object, "cache_key", json_string(key));
    }
    return object;
}

static json_t *field_json(const mr_pipeline *pipeline, const mr_field *field) {
    int64_t bytes = field_bytes(pipeline, field);
    json_t *object = json_object();
    json_object_set_new(object, "name", mr_json_text(field->name));
    json_object_set_new(object, "type", type_json(&field->type));
    json_object_set_new(object, "batch_bytes", bytes < 0 ? json_null() : json_integer(bytes));
    return object;
}

static int print_json(const mr_pipeline *pipeline) {
    bool varies = false;
    json_t *object = json_object(), *stages = json_array(), *fields = json_array();
    for (int32_t i = 0; i < mr_pipeline_n_stages(pipeline); i++) {
        json_array_append_new(stages, stage_json(pipeline, i));
    }
    for (int32_t i = 0; i < mr_pipeline_n_fields(pipeline); i++) {
        json_array_append_new(fields, field_json(pipeline, mr_pipeline_field(pipeline, i)));
    }
    json_object_set_new(object, "fingerprint", mr_json_text(mr_pipeline_fingerprint(pipeline)));
    json_object_set_new(object, "batch_bytes", json_integer(batch_bytes(pipeline, &varies)));
    json_object_set_new(object, "varies", json_boolean(varies));
    json_t *warnings = json_array();
    const char *text;
    for (int32_t i = 0; (text = mr_pipeline_warning(pipeline, i)) != NULL; i++) {
        json_array_append_new(warnings, mr_json_text(text));
    }
    data_facts facts = look_at_data(pipeline);
    json_object_set_new(object, "data", data_json(&facts));
    json_object_set_new(object, "warnings", warnings);
    json_object_set_new(object, "stages", stages);
    json_object_set_new(object, "fields", fields);
    json_object_set_new(object, "document", json_loads(mr_pipeline_json(pipeline), 0, NULL));
    mr_json_print(object, MR_DIGITS_EXACT);
    return is_faulty(&facts.failure) ? MR_EXIT_DATA : MR_EXIT_OK;
}

static int run_check(const void *values) {
    const check_values *v = values;
    mr_error err = MR_ERROR_INIT;
    mr_plugins plugins = {0};
    mr_pipeline *pipeline = NULL;
    int code = MR_EXIT_OK;
    mr_status status = mr_plugins_open(&plugins, &v->plugins, &err);
    if (status != MR_OK) {
        code = mr_error_print(&err);
    } else if (mr_document_load(&pipeline, v->path, plugins.ops, &err) != MR_OK) {
        code = mr_error_print_document(&err, v->path);
    } else {
        code = v->json ? print_json(pipeline) : print_text(pipeline);
    }
    mr_pipeline_free(pipeline);
    mr_plugins_close(&plugins);
    return code;
}

static const mr_option_row operands[] = {
    MR_DOCUMENT_ROW(check_values),
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(check_values, json),
     .doc = "Print one line of JSON instead of text, with every default of the document."},
    MR_PLUGIN_ROW(check_values),
    {.name = NULL},
};

const mr_command mr_command_check = {
    .name = "check",
    .summary = "Check a pipeline; show types, shapes, memory and fingerprint.",
    .doc = "Checks a pipeline document and shows what each stage makes of a sample, the memory "
           "of a batch, and the fingerprint, which names all that determines the bytes of a "
           "sample. Then what a run would do and hold: samples, batches, blocks that are shuffled "
           "together and are in memory at once. Reads no samples; of most sources the first file "
           "or object tells the types. Data that is not there is told, and is no failure: the "
           "document may be meant for another machine. Data that is there and cannot be used, such "
           "as faulty labels or a folder without samples, is one: exit code 3.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(check_values),
    .run = run_check,
};
