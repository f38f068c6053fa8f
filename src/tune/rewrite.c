/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.c - other orders of a pipeline's ops that may be cheaper: found by what ops are known to
 * do, not by what they cost. Whoever uses one compares the bytes and measures: a rule that is wrong
 * for some parameters then shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "plan/pipeline.h"
#include "tune/cut.h"
#include <millrace/tune.h>

/* ---- Rules ---- */
typedef enum op_group {
    POINTWISE = 1, /* each pixel by itself, whatever stands around it */
    CROPS = 2,     /* leaves pixels out */
    LOOKS = 4,     /* at more than the pixel: its result depends on what is left of the image */
    FEWER = 8,     /* fewer channels */
    RESIZES = 16
} op_group;

static const struct {
    const char *name;
    int groups;
} known[] = {
    {"normalize", POINTWISE}, {"to_float", POINTWISE},
    {"cast", POINTWISE},      {"invert", POINTWISE},
    {"solarize", POINTWISE},  {"posterize", POINTWISE},
    {"clip", POINTWISE},      {"grayscale", POINTWISE | FEWER},
    {"center_crop", CROPS},   {"random_crop", CROPS},
    {"crop", CROPS},          {"color_jitter", LOOKS},
    {"autocontrast", LOOKS},  {"equalize", LOOKS},
    {"gaussian_blur", LOOKS}, {"sharpness", LOOKS},
    {"resize", RESIZES},
};

/* An op of the first group before one of the second is cheaper the other way round. */
static const struct {
    int before, behind;
    bool same;
    const char *why;
} rules[] = {
    {POINTWISE, CROPS, true, "fewer pixels to work on"},
    {LOOKS, CROPS, false, "fewer pixels to work on"},
    {RESIZES, FEWER, false, "fewer channels to resize"},
};

static int groups_of(const char *name) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].groups;
        }
    }
    return 0;
}

/* ---- Documents ---- */
static json_t *op_at(json_t *ops, int32_t i) {
    return json_array_get(ops, (size_t)i);
}

static const char *name_of(json_t *op) {
    const char *name = json_object_iter_key(json_object_iter(op));
    return name ? name : "";
}

/* Ops that work on several fields, or on two different ones, are left alone. */
static bool share_a_field(json_t *a, json_t *b) {
    json_t *first = json_object_get(json_object_iter_value(json_object_iter(a)), "field");
    json_t *second = json_object_get(json_object_iter_value(json_object_iter(b)), "field");
    return !json_is_array(first) && !json_is_array(second) &&
           (first == second || (first && second && json_equal(first, second)));
}

/* The rule for an op and the next. */
static bool find_rule(json_t *ops, int32_t i, bool same, size_t *rule) {
    json_t *a = op_at(ops, i), *b = op_at(ops, i + 1);
    int before = groups_of(name_of(a)), behind = groups_of(name_of(b));
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        if (rules[r].same == same && (before & rules[r].before) && (behind & rules[r].behind) &&
            share_a_field(a, b)) {
            *rule = r;
            return true;
        }
    }
    return false;
}

static void swap(json_t *ops, int32_t i) {
    json_t *first = json_incref(op_at(ops, i));
    json_array_remove(ops, (size_t)i);
    json_array_insert_new(ops, (size_t)i + 1, first);
}

/* ---- Finding ---- */
static void add(mr_rewrites *out, json_t *document, bool same, const char *text) {
    if (out->n < MR_REWRITES_MAX) {
        mr_rewrite *own = &out->list[out->n];
        own->document = json_dumps(document, JSON_REAL_PRECISION(17));
        own->same_bytes = same;
        snprintf(own->text, sizeof own->text, "%s", text);
        out->n += own->document != NULL;
    }
}

/* Moves that change no byte, all together: each makes room for the next. */
static void find_same(mr_rewrites *out, json_t *document) {
    json_t *ops = json_object_get(document, "ops");
    char text[sizeof out->list[0].text] = "";
    int32_t n = (int32_t)json_array_size(ops);
    size_t rule = 0, used = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        if (!find_rule(ops, i, true, &rule)) {
            continue;
        }
        int more =
            snprintf(text + used, sizeof text - used, "%s%s before %s (%s)", used ? ", " : "",
                     name_of(op_at(ops, i + 1)), name_of(op_at(ops, i)), rules[rule].why);
        used = used + (size_t)more < sizeof text ? used + (size_t)more : sizeof text - 1;
        swap(ops, i);
        i = i > 1 ? i - 2 : -1; /* what moved may move on */
    }
    if (used > 0) {
        add(out, document, true, text);
    }
}

static void find_other(mr_rewrites *out, json_t *document) {
    json_t *ops = json_object_get(document, "ops");
    char text[sizeof out->list[0].text];
    size_t rule = 0;
    for (int32_t i = 0; i + 1 < (int32_t)json_array_size(ops); i++) {
        if (find_rule(ops, i, false, &rule)) {
            snprintf(text, sizeof text, "%s before %s (%s)", name_of(op_at(ops, i + 1)),
                     name_of(op_at(ops, i)), rules[rule].why);
            swap(ops, i);
            add(out, document, false, text);
            swap(ops, i);
        }
    }
}

/* Photos that are made smaller may be decoded smaller. */
static void find_scale(mr_rewrites *out, json_t *document) {
    json_t *ops = json_object_get(document, "ops");
    for (int32_t i = 0; i + 1 < (int32_t)json_array_size(ops); i++) {
        json_t *decode = json_object_get(op_at(ops, i), "decode_image");
        const char *next = name_of(op_at(ops, i + 1));
        if (decode && json_is_false(json_object_get(decode, "dct_scale")) &&
            (strcmp(next, "resize") == 0 || strcmp(next, "random_resized_crop") == 0)) {
            json_object_set_new(decode, "dct_scale", json_true());
            add(out, document, false, "decode_image with dct_scale (fewer frequencies to decode)");
            json_object_set_new(decode, "dct_scale", json_false());
        }
    }
}

/* A caller of another version may have room for fewer. */
static void give(mr_rewrites *out, mr_rewrites *own) {
    size_t head = offsetof(mr_rewrites, list);
    size_t room = out->size > head ? (out->size - head) / sizeof own->list[0] : 0;
    while ((size_t)own->n > room) {
        free(own->list[--own->n].document);
    }
    mr_give_sized(out, own, sizeof *own);
}

mr_status mr_rewrites_find(const mr_pipeline *pipeline, mr_rewrites *out, mr_error *err) {
    mr_rewrites found = {.n = 0};
    give(out, &found);
    json_t *document = mr_document_of(pipeline);
    if (!document) {
        return mr_fail_memory(err, 0);
    }
    find_same(&found, document);
    json_decref(document);
    document = mr_document_of(pipeline); /* the others are of the document as it is */
    find_other(&found, document);
    find_scale(&found, document);
    json_decref(document);
    give(out, &found);
    return MR_OK;
}

void mr_rewrites_free(mr_rewrites *rewrites) {
    for (int32_t i = 0; i < rewrites->n; i++) {
        free(rewrites->list[i].document);
    }
    rewrites->n = 0;
}
