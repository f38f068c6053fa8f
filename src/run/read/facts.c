/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - see facts.h.
 *
 * A condition is one or more comparisons of a field with a number, joined by "and":
 * "label < 10", "label >= 2 and weight != 0". What cannot be told without reading is refused: a
 * source that can decide by itself, as Parquet can, has a `where` of its own. */
#include "run/read/facts.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* ---- One field of one sample ---- */
typedef struct column {
    const mr_facts *facts;
    int32_t field;
    mr_view *views;
    unsigned char memory[64];
} column;

static mr_status no_such_field(const mr_pipeline *p, const char *name, mr_error *err) {
    char shown[64];
    mr_text_escape(shown, sizeof shown, name);
    mr_fail(err, MR_E_PARAM, "source %s has no field \"%s\" that is a single number",
            p->source->name, shown);
    mr_hint(err, "a view looks at numbers of the source, as a label is, before any op");
    return MR_E_PARAM;
}

static mr_status open_column(column *own, const mr_facts *facts, const char *name, size_t length,
                             mr_error *err) {
    const mr_pipeline *p = facts->pipeline;
    *own = (column){.facts = facts, .field = -1};
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        const char *field = p->slots[f].name;
        if (strlen(field) == length && memcmp(field, name, length) == 0 &&
            p->slots[f].type.n_dims == 0) {
            own->field = f;
        }
    }
    if (own->field < 0) {
        char copy[64];
        size_t n = length < sizeof copy - 1 ? length : sizeof copy - 1;
        memcpy(copy, name, n);
        copy[n] = '\0';
        return no_such_field(p, copy, err);
    }
    if (mr_dataset_is_read(facts->dataset) && own->field == 0) {
        mr_fail(err, MR_E_UNSUPPORTED, "field \"%s\" is known only once it is read",
                p->slots[0].name);
        mr_hint(err, "use the source's own `where` if it has one");
        return MR_E_UNSUPPORTED;
    }
    own->views = mr_zalloc((size_t)p->n_source_fields, sizeof *own->views);
    return own->views ? MR_OK : mr_fail_memory(err, 64);
}

static double number_of(const mr_view *view) {
    switch (view->type.dtype) {
    case MR_I64:
        return (double)*(const int64_t *)view->data;
    case MR_I32:
        return *(const int32_t *)view->data;
    case MR_I16:
        return *(const int16_t *)view->data;
    case MR_I8:
        return *(const int8_t *)view->data;
    case MR_U64:
        return (double)*(const uint64_t *)view->data;
    case MR_U32:
        return *(const uint32_t *)view->data;
    case MR_U16:
        return *(const uint16_t *)view->data;
    case MR_F32:
        return (double)*(const float *)view->data;
    case MR_F64:
        return *(const double *)view->data;
    default:
        return *(const uint8_t *)view->data;
    }
}

static mr_status value_of(column *own, int64_t sample, double *out, mr_error *err) {
    const mr_pipeline *p = own->facts->pipeline;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        own->views[f] = (mr_view){.type = p->slots[f].type, .size = MR_UNWANTED};
    }
    mr_view *view = &own->views[own->field];
    view->data = own->memory;
    view->size = mr_dtype_size(view->type.dtype);
    MR_TRY(mr_dataset_fill(own->facts->dataset, NULL, sample, own->views, err));
    if (view->data != own->memory) {
        memcpy(own->memory, view->data, view->size);
        view->data = own->memory;
    }
    *out = number_of(view);
    return MR_OK;
}

/* ---- Conditions ---- */
typedef enum comparison {
    LESS,
    AT_MOST,
    MORE,
    AT_LEAST,
    EQUAL,
    DIFFERENT,
    N_COMPARISONS
} comparison;

static const char *const comparison_texts[N_COMPARISONS] = {
    [LESS] = "<",      [AT_MOST] = "<=", [MORE] = ">",
    [AT_LEAST] = ">=", [EQUAL] = "==",   [DIFFERENT] = "!=",
};

typedef struct term {
    column column;
    comparison how;
    double number;
} term;

enum { MOST_TERMS = 16 };

typedef struct condition {
    term terms[MOST_TERMS];
    int32_t n;
} condition;

static bool holds(comparison how, double a, double b) {
    switch (how) {
    case LESS:
        return a < b;
    case AT_MOST:
        return a <= b;
    case MORE:
        return a > b;
    case AT_LEAST:
        return a >= b;
    case EQUAL:
        return a == b;
    default:
        return a != b;
    }
}

static mr_status not_a_condition(const char *text, mr_error *err) {
    char shown[128];
    mr_text_escape(shown, sizeof shown, text);
    mr_fail(err, MR_E_PARAM, "\"%s\" is not a condition", shown);
    mr_hint(err, "write a field, one of < <= > >= == != and a number, several joined by \"and\"");
    return MR_E_PARAM;
}

static const char *skip_spaces(const char *text) {
    return text + strspn(text, " \t");
}

static const char *read_comparison(const char *text, comparison *out) {
    for (int i = N_COMPARISONS - 1; i >= 0; i--) { /* "<=" before "<" */
        static const comparison order[N_COMPARISONS] = {LESS,     MORE,  AT_MOST,
                                                        AT_LEAST, EQUAL, DIFFERENT};
        const char *symbol = comparison_texts[order[i]];
        if (strncmp(text, symbol, strlen(symbol)) == 0) {
            *out = order[i];
            return text + strlen(symbol);
        }
    }
    return NULL;
}

static mr_status read_term(const mr_facts *facts, const char *whole, const char **at, term *out,
                           mr_error *err) {
    const char *name = skip_spaces(*at);
    size_t length = strcspn(name, " \t<>=!");
    const char *symbol = read_comparison(skip_spaces(name + length), &out->how);
    char *end = NULL;
    if (length == 0 || !symbol) {
        return not_a_condition(whole, err);
    }
    out->number = strtod(symbol, &end);
    if (end == symbol) {
        return not_a_condition(whole, err);
    }
    *at = skip_spaces(end);
    return open_column(&out->column, facts, name, length, err);
}

static void close_condition(condition *c) {
    for (int32_t i = 0; i < c->n; i++) {
        mr_free(c->terms[i].column.views);
    }
}

static mr_status read_condition(const mr_facts *facts, const char *text, condition *out,
                                mr_error *err) {
    const char *at = text;
    for (out->n = 0; out->n < MOST_TERMS;) {
        MR_TRY(read_term(facts, text, &at, &out->terms[out->n], err));
        out->n++;
        if (!*at) {
            return MR_OK;
        }
        if (strncmp(at, "and", 3) != 0 || (at[3] != ' ' && at[3] != '\t')) {
            return not_a_condition(text, err);
        }
        at += 3;
    }
    return mr_fail(err, MR_E_LIMIT, "a condition has at most %d comparisons", MOST_TERMS);
}

static mr_status evaluate(condition *c, int64_t sample, bool *out, mr_error *err) {
    *out = true;
    for (int32_t i = 0; *out && i < c->n; i++) {
        double value;
        MR_TRY(value_of(&c->terms[i].column, sample, &value, err));
        *out = holds(c->terms[i].how, value, c->terms[i].number);
    }
    return MR_OK;
}

/* ---- What a selection asks ---- */
static mr_status name_of(void *user, int64_t sample, const char **name, size_t *size,
                         mr_error *err) {
    mr_facts *facts = user;
    (void)err;
    mr_dataset_name(facts->dataset, sample, facts->name, sizeof facts->name);
    *name = facts->name;
    *size = strlen(facts->name);
    return MR_OK;
}

static mr_status where(void *user, int32_t step, const char *text, int64_t first, int64_t count,
                       uint64_t *bits, mr_error *err) {
    condition c = {.n = 0};
    (void)step;
    mr_status status = read_condition(user, text, &c, err);
    for (int64_t i = 0; status == MR_OK && i < count; i++) {
        bool taken = false;
        status = evaluate(&c, first + i, &taken, err);
        bits[i / 64] |= (uint64_t)taken << (i % 64);
    }
    close_condition(&c);
    return status;
}

static mr_status weights(void *user, int32_t step, const char *field, int64_t first, int64_t count,
                         double *out, mr_error *err) {
    column own = {0};
    (void)step;
    mr_status status = open_column(&own, user, field, strlen(field), err);
    for (int64_t i = 0; status == MR_OK && i < count; i++) {
        status = value_of(&own, first + i, &out[i], err);
    }
    mr_free(own.views);
    return status;
}

static mr_status classes(void *user, int32_t step, const char *field, int64_t first, int64_t count,
                         int64_t *out, mr_error *err) {
    column own = {0};
    (void)step;
    mr_status status = open_column(&own, user, field, strlen(field), err);
    for (int64_t i = 0; status == MR_OK && i < count; i++) {
        double value = 0;
        status = value_of(&own, first + i, &value, err);
        out[i] = (int64_t)value;
    }
    mr_free(own.views);
    return status;
}

mr_sample_facts mr_facts_of(mr_facts *facts) {
    return (mr_sample_facts){
        .name = name_of, .where = where, .weights = weights, .classes = classes, .user = facts};
}
