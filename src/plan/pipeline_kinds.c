/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_kinds.c - "kinds": {"mask": "mask"}: what fields are to ops that change an image's
 * geometry. By name, for the same array may be a picture in one dataset and a mask in another. */
#include "plan/compiler.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

/* Boxes are of the format that their word says. */
static const struct {
    const char *word;
    mr_kind kind;
    mr_box_format format;
} known[] = {
    {"mask", MR_KIND_MASK, MR_BOX_CORNERS},      {"boxes", MR_KIND_BOXES, MR_BOX_CORNERS},
    {"boxes_xywh", MR_KIND_BOXES, MR_BOX_SIZES}, {"boxes_cxcywh", MR_KIND_BOXES, MR_BOX_CENTER},
    {"points", MR_KIND_POINTS, MR_BOX_CORNERS},
};

/* Its place in the table; -1: there is no such kind. */
static int find_word(const char *word) {
    for (int i = 0; word && i < (int)(sizeof known / sizeof *known); i++) {
        if (strcmp(known[i].word, word) == 0) {
            return i;
        }
    }
    return -1;
}

/* "boxes", or {"boxes": {"min_visible": 0.25}}. */
static const char *word_of(json_t *given) {
    return json_is_object(given) && json_object_size(given) == 1
               ? json_object_iter_key(json_object_iter(given))
               : json_string_value(given);
}

static int find_kind(const mr_compiler *c, const char *name) {
    return find_word(word_of(json_object_get(c->pipeline->kinds, name)));
}

mr_kind mr_kind_of_name(const mr_compiler *c, const char *name) {
    int at = find_kind(c, name);
    return at < 0 ? MR_KIND_ANY : known[at].kind;
}

mr_box_format mr_format_of_boxes(const mr_compiler *c, const char *name) {
    int at = find_kind(c, name);
    return at < 0 ? MR_BOX_CORNERS : known[at].format;
}

double mr_min_visible(const mr_compiler *c, const char *name) {
    json_t *given = json_object_get(c->pipeline->kinds, name);
    json_t *boxes = json_is_object(given) ? json_object_get(given, word_of(given)) : NULL;
    return json_number_value(json_object_get(boxes, "min_visible"));
}

static mr_status refuse(const mr_compiler *c, const char *field, const char *text) {
    char where[128], shown[64];
    mr_text_escape(shown, sizeof shown, field);
    snprintf(where, sizeof where, "$.kinds.%s", shown);
    mr_error_at_json(c->err, where);
    return mr_fail(c->err, MR_E_PARAM, "%s", text);
}

static mr_status check_kind(const mr_compiler *c, const char *field, json_t *given) {
    int at = find_word(word_of(given));
    if (at < 0) {
        return refuse(c, field,
                      "a kind must be \"mask\", \"boxes\", \"boxes_xywh\", \"boxes_cxcywh\" or "
                      "\"points\"");
    }
    json_t *params = json_is_object(given) ? json_object_get(given, known[at].word) : NULL;
    json_t *least = json_object_get(params, "min_visible");
    bool taken =
        json_object_size(params) == (least ? 1 : 0) && (!least || known[at].kind == MR_KIND_BOXES);
    double share = json_number_value(least);
    if ((params && !json_is_object(params)) || !taken || (least && !json_is_number(least)) ||
        share < 0 || share > 1) {
        return refuse(c, field, "a kind may say {\"boxes\": {\"min_visible\": 0 to 1}}");
    }
    return MR_OK;
}

mr_status mr_compile_kinds(mr_compiler *c, json_t *document) {
    json_t *kinds = json_object_get(document, "kinds"), *given;
    const char *field;
    if (!kinds) {
        return MR_OK;
    }
    if (!json_is_object(kinds)) {
        mr_error_at_json(c->err, "$.kinds");
        mr_fail(c->err, MR_E_PARAM, "kinds must be an object of field names and kinds");
        mr_hint(c->err, "write \"kinds\": {\"mask\": \"mask\"}");
        return MR_E_PARAM;
    }
    json_object_foreach(kinds, field, given) {
        MR_TRY(check_kind(c, field, given));
    }
    c->pipeline->kinds = json_object_size(kinds) > 0 ? json_incref(kinds) : NULL;
    return MR_OK;
}

static bool had_variable(const mr_pipeline *p, const char *name) {
    for (int32_t i = 0; i < p->n_variables; i++) {
        if (strcmp(p->variables[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static mr_status no_field(const mr_compiler *c, const char *field) {
    const mr_pipeline *p = c->pipeline;
    char shown[64], text[160], list[200] = "";
    size_t n = 0;
    mr_text_escape(shown, sizeof shown, field);
    for (int32_t i = 0; i < p->n_variables && n < sizeof list; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "",
                              p->variables[i].name);
    }
    snprintf(text, sizeof text, "kinds has \"%s\", but there is no such field", shown);
    refuse(c, field, text);
    mr_hint(c->err, "fields: %s", list);
    return MR_E_PARAM;
}

mr_status mr_check_kinds(mr_compiler *c) {
    const char *field;
    json_t *word;
    json_object_foreach(c->pipeline->kinds, field, word) {
        if (!had_variable(c->pipeline, field)) {
            return no_field(c, field);
        }
    }
    return MR_OK;
}
