/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - see facts.h.
 *
 * A condition is one or more comparisons of a field with a number, or with the name of one of its
 * classes, joined by "and": "label < 10", "label != 'hot dog' and weight != 0". */
#include "run/read/facts.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/params.h"
#include "run/read/numbers.h"

/* ---- Fields ---- */
typedef struct field_cursor {
    const mr_pipeline *pipeline;
    int32_t i;
} field_cursor;

static const char *next_field(void *user) {
    field_cursor *cursor = user;
    const mr_pipeline *p = cursor->pipeline;
    return cursor->i < p->n_source_fields ? p->variables[cursor->i++].name : NULL;
}

static mr_status no_such_field(const mr_pipeline *p, const char *name, mr_error *err) {
    char shown[64];
    field_cursor cursor = {p, 0};
    const char *nearest = mr_nearest_name(name, next_field, &cursor);
    mr_text_escape(shown, sizeof shown, name);
    mr_fail(err, MR_E_PARAM, "source %s has no field \"%s\"", p->source->name, shown);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"?", nearest);
    } else {
        mr_hint(err, "a view looks at fields of the source, before any op");
    }
    return MR_E_PARAM;
}

static bool source_has(const mr_pipeline *p, const char *param) {
    for (const mr_param *row = p->source->params; row && row->name; row++) {
        if (strcmp(row->name, param) == 0) {
            return true;
        }
    }
    return false;
}

static mr_status not_a_number(const mr_pipeline *p, int32_t field, mr_error *err) {
    char type[128];
    const char *name = p->variables[field].name;
    mr_fail(err, MR_E_PARAM, "field \"%s\" is %s, not a single number", name,
            mr_type_text(&p->variables[field].type, type, sizeof type));
    if (source_has(p, "where")) {
        mr_hint(err,
                "a view compares numbers; source %s has a condition of its own, which compares "
                "text too: \"where\": [\"==\", \"%s\", \"text\"]",
                p->source->name, name);
    } else {
        mr_hint(err, "a view compares numbers, and with == and != names of classes, which come "
                     "from folders, lists and tables of labels (source files): keep a number for "
                     "each text in a column of its own");
    }
    return MR_E_PARAM;
}

static mr_status find_field(const mr_facts *facts, const char *name, size_t length, int32_t *out,
                            mr_error *err) {
    const mr_pipeline *p = facts->pipeline;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        const char *field = p->variables[f].name;
        if (strlen(field) == length && memcmp(field, name, length) == 0) {
            *out = f;
            return p->variables[f].type.n_dims == 0 ? MR_OK : not_a_number(p, f, err);
        }
    }
    char copy[64];
    size_t n = length < sizeof copy - 1 ? length : sizeof copy - 1;
    memcpy(copy, name, n);
    copy[n] = '\0';
    return no_such_field(p, copy, err);
}

/* The numbers of all samples, found out once. */
static mr_status open_column(mr_facts *facts, int32_t field, const double **out, mr_error *err) {
    size_t fields = (size_t)facts->pipeline->n_source_fields;
    size_t samples = (size_t)facts->dataset->shape.samples;
    facts->numbers = facts->numbers ? facts->numbers : mr_zalloc(fields, sizeof(double *));
    if (!facts->numbers) {
        return mr_fail_memory(err, fields * sizeof(double *));
    }
    if (!facts->numbers[field]) {
        double *numbers = mr_zalloc(samples, sizeof *numbers);
        if (!numbers) {
            return mr_fail_memory(err, samples * sizeof *numbers);
        }
        facts->numbers[field] = numbers;
        mr_status status = mr_numbers_list(facts->dataset, facts->pipeline, field, MR_NUMBER_VALUE,
                                           facts->log, numbers, err);
        if (status < 0) {
            mr_free(numbers);
            facts->numbers[field] = NULL;
            return status;
        }
    }
    *out = facts->numbers[field];
    return MR_OK;
}

static mr_status open_named(mr_facts *facts, const char *name, const double **out, mr_error *err) {
    int32_t field = 0;
    MR_TRY(find_field(facts, name, strlen(name), &field, err));
    return open_column(facts, field, out, err);
}

void mr_facts_close(mr_facts *facts) {
    for (int32_t f = 0; facts->numbers && f < facts->pipeline->n_source_fields; f++) {
        mr_free(facts->numbers[f]);
    }
    mr_free(facts->numbers);
    facts->numbers = NULL;
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
    const double *column;
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

/* Whole numbers below are told apart, also from those that are larger. */
static const double EXACT = 9007199254740992.0;

static mr_status not_a_condition(const char *text, mr_error *err) {
    char shown[128];
    mr_text_escape(shown, sizeof shown, text);
    mr_fail(err, MR_E_PARAM, "\"%s\" is not a condition", shown);
    mr_hint(
        err,
        "write a field, one of < <= > >= == != and a number, or == or != and the name of a "
        "class ('hot dog'), several joined by \"and\"; a field whose name has blanks or signs in "
        "it goes between quotes: 'age (years)' > 30");
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

/* ---- Names of classes ---- */
typedef struct class_cursor {
    const mr_dataset *dataset;
    int32_t field;
    int64_t i;
} class_cursor;

static const char *next_class(void *user) {
    class_cursor *cursor = user;
    return mr_dataset_class_name(cursor->dataset, cursor->field, cursor->i++);
}

static mr_status no_such_class(const mr_facts *facts, int32_t field, const char *name,
                               mr_error *err) {
    char shown[128], near[128];
    class_cursor cursor = {facts->dataset, field, 0};
    const char *known = facts->pipeline->variables[field].name;
    const bool any = mr_dataset_class_name(facts->dataset, field, 0) != NULL;
    const char *nearest = any ? mr_nearest_name(name, next_class, &cursor) : NULL;
    mr_text_escape(shown, sizeof shown, name);
    mr_text_escape(near, sizeof near, nearest ? nearest : "");
    mr_fail(err, MR_E_PARAM,
            any ? "field \"%s\" has no class \"%s\""
                : "field \"%s\" has numbers, and no classes: it cannot be \"%s\"",
            known, shown);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"?", near);
    } else if (!any) {
        mr_hint(err, "compare it with a number");
    }
    return MR_E_PARAM;
}

static mr_status number_of_class(const mr_facts *facts, int32_t field, const char *name,
                                 double *out, mr_error *err) {
    const char *class = NULL;
    for (int64_t i = 0; (class = mr_dataset_class_name(facts->dataset, field, i)) != NULL; i++) {
        if (strcmp(class, name) == 0) {
            *out = (double)i;
            return MR_OK;
        }
    }
    return no_such_class(facts, field, name, err);
}

enum { CLASS_NAME = 1024 };

/* A name between quotes of either kind, or a word; false: there is none. *at moves behind it. */
static bool take_name(const char **at, char name[CLASS_NAME]) {
    const char *from = skip_spaces(*at);
    const char *end = *from == '"' ? "\"" : *from == '\'' ? "'" : " \t";
    const bool quoted = *end == *from;
    from += quoted;
    size_t length = strcspn(from, end);
    if (length == 0 || length >= CLASS_NAME || (quoted && from[length] == '\0')) {
        return false;
    }
    memcpy(name, from, length);
    name[length] = '\0';
    *at = from + length + quoted;
    return true;
}

static mr_status read_name(const mr_facts *facts, const char *whole, const char **at, int32_t field,
                           term *out, mr_error *err) {
    char name[CLASS_NAME];
    if (!take_name(at, name)) {
        return not_a_condition(whole, err);
    }
    mr_status status = number_of_class(facts, field, name, &out->number, err);
    if (status == MR_OK && out->how != EQUAL && out->how != DIFFERENT) {
        mr_fail(err, MR_E_PARAM, "names of classes have no order: %s cannot be asked of them",
                comparison_texts[out->how]);
        mr_hint(err, "compare with == or !=, or with the class's number");
        return MR_E_PARAM;
    }
    return status;
}

/* The field's name: between quotes, those of pandas too, or a word. NULL: there is none. *at moves
 * behind it. */
static const char *take_field(const char **at, size_t *length) {
    const char *name = skip_spaces(*at);
    const char quote[] = {*name, '\0'};
    const bool quoted = *name && strchr("'\"`", *name);
    name += quoted;
    *length = strcspn(name, quoted ? quote : " \t<>=!");
    *at = name + *length + (quoted && name[*length]);
    return *length > 0 && (!quoted || name[*length]) ? name : NULL;
}

static mr_status read_term(mr_facts *facts, const char *whole, const char **at, term *out,
                           mr_error *err) {
    size_t length = 0;
    const char *name = take_field(at, &length);
    const char *symbol = read_comparison(skip_spaces(*at), &out->how);
    char *end = NULL;
    int32_t field = 0;
    if (!name || !symbol || !*skip_spaces(symbol)) {
        return not_a_condition(whole, err);
    }
    MR_TRY(find_field(facts, name, length, &field, err));
    out->number = mr_number_parse(symbol, &end);
    *at = end;
    if (end == symbol || (*end && !strchr(" \t", *end))) { /* 3d is a name */
        *at = symbol;
        MR_TRY(read_name(facts, whole, at, field, out, err));
    }
    if (!(out->number > -EXACT && out->number < EXACT)) {
        mr_fail(err, MR_E_LIMIT, "a condition compares with numbers between -2^53 and 2^53");
        mr_hint(err, "columns are compared as float64, which has no more digits");
        return MR_E_LIMIT;
    }
    *at = skip_spaces(*at);
    return open_column(facts, field, &out->column, err);
}

static mr_status read_condition(mr_facts *facts, const char *text, condition *out, mr_error *err) {
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

static bool holds_for(const condition *c, int64_t sample) {
    for (int32_t i = 0; i < c->n; i++) {
        const double *column = c->terms[i].column;
        if (!column || !holds(c->terms[i].how, column[sample], c->terms[i].number)) {
            return false;
        }
    }
    return true;
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
    MR_TRY(read_condition(user, text, &c, err));
    for (int64_t i = 0; i < count; i++) {
        bits[i / 64] |= (uint64_t)holds_for(&c, first + i) << (i % 64);
    }
    return MR_OK;
}

static mr_status weights(void *user, int32_t step, const char *field, int64_t first, int64_t count,
                         double *out, mr_error *err) {
    const double *column = NULL;
    (void)step;
    mr_status status = open_named(user, field, &column, err);
    if (!column) {
        return status;
    }
    memcpy(out, column + first, (size_t)count * sizeof *out);
    return MR_OK;
}

static mr_status classes(void *user, int32_t step, const char *field, int64_t first, int64_t count,
                         int64_t *out, mr_error *err) {
    const double *column = NULL;
    (void)step;
    mr_status status = open_named(user, field, &column, err);
    if (!column) {
        return status;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = (int64_t)column[first + i];
    }
    return MR_OK;
}

mr_sample_facts mr_facts_of(mr_facts *facts) {
    return (mr_sample_facts){
        .name = name_of, .where = where, .weights = weights, .classes = classes, .user = facts};
}
