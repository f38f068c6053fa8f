/* SPDX-License-Identifier: Apache-2.0 */
/* where.c - conditions over columns: what statistics rule out, and which rows are left.
 *
 * One question underlies both: how does a value compare with a literal? Below, equal, above, or not
 * at all (NaN). For rows the answer is found value by value; for statistics it is a set of answers,
 * since values lie between two bounds. Operators are tables over the four answers, so the two ways
 * cannot disagree about what an operator means. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/letters.h"
#include "core/number.h"
#include "kernels/half.h"
#include "parquet/parts.h"

#define NESTING 64
#define FEW 8 /* literals that are compared one after the other; among more is searched */

/* How a value compares with a literal. */
enum { BELOW, EQUAL, ABOVE, UNORDERED, ANSWERS };

/* Truth of a condition for a row, and as a set of bits what it may be for some rows. */
enum { FALSE_ROW = 0, TRUE_ROW = 1, NULL_ROW = 2 };
enum { MAY_FALSE = 1 << FALSE_ROW, MAY_TRUE = 1 << TRUE_ROW, MAY_NULL = 1 << NULL_ROW };

typedef enum operator_kind {
    OP_COMPARE,
    OP_IN, /* truth[EQUAL] tells in from not_in */
    OP_NULL,
    OP_AND,
    OP_OR,
    OP_NOT
} operator_kind;

typedef struct operator_row {
    const char *name;
    operator_kind kind;
    uint8_t
        truth[ANSWERS]; /* of comparisons, by answer; of OP_NULL truth[0]: whether null is true */
} operator_row;

static const operator_row operators[] = {
    {"==", OP_COMPARE, {0, 1, 0, 0}},
    {"!=", OP_COMPARE, {1, 0, 1, 1}},
    {"<", OP_COMPARE, {1, 0, 0, 0}},
    {"<=", OP_COMPARE, {1, 1, 0, 0}},
    {">", OP_COMPARE, {0, 0, 1, 0}},
    {">=", OP_COMPARE, {0, 1, 1, 0}},
    {"in", OP_IN, {0, 1, 0, 0}},
    {"not_in", OP_IN, {1, 0, 1, 1}},
    {"is_null", OP_NULL, {1}},
    {"not_null", OP_NULL, {0}},
    {"and", OP_AND, {0}},
    {"or", OP_OR, {0}},
    {"not", OP_NOT, {0}},
};

/* A literal in the terms of a column. Integers: `whole`, or a little more than it (`beyond`), or
 * past all of the type (`side` -1 below all, 1 above all). */
typedef struct literal {
    int64_t whole;
    double real;
    mr_pq_bytes text;
    int32_t side;
    bool beyond;
} literal;

typedef struct node {
    const operator_row *op;
    int32_t column; /* in where->columns; -1: a constant, from the path */
    uint8_t constant;
    literal *literals;
    struct node *children;
    int32_t n_literals, n_children;
} node;

struct mr_pq_where {
    const mr_pq_file *file;
    node root;
    int32_t *columns;
    int32_t n_columns;
    mr_arena arena;
};

/* ---- Parsing ---- */
typedef struct parser {
    mr_pq_where *where;
    json_t *partitions;
    mr_error *err;
} parser;

static mr_status malformed(const parser *p, const char *why) {
    mr_fail(p->err, MR_E_PARAM, "where: %s", why);
    mr_hint(p->err, "a condition is written as [\">\", \"age\", 30], conditions are joined as "
                    "[\"and\", A, B]");
    return MR_E_PARAM;
}

static const operator_row *find_operator(const char *name) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (name && strcmp(operators[i].name, name) == 0) {
            return &operators[i];
        }
    }
    return NULL;
}

static void *take(const parser *p, size_t count, size_t size) {
    void *memory = mr_arena_take(&p->where->arena, count * size + 1);
    return memory ? memset(memory, 0, count * size + 1) : NULL;
}

static int32_t add_column(mr_pq_where *where, int32_t column) {
    int32_t at = 0;
    while (at < where->n_columns && where->columns[at] != column) {
        at++;
    }
    where->columns[at] = column;
    where->n_columns += at == where->n_columns;
    return at;
}

static bool is_float(mr_dtype dtype) {
    return dtype == MR_F16 || dtype == MR_F32 || dtype == MR_F64;
}

static bool is_text(const mr_pq_column *column) {
    return column->items == 0 || column->logical == MR_PQ_UUID ||
           (column->physical == MR_PQ_FIXED && column->dtype == MR_U8);
}

/* uint64 values are compared as int64 with the top bit turned, which keeps their order. */
static int64_t turned(uint64_t value) {
    return (int64_t)(value ^ (uint64_t)1 << 63);
}

static void set_integer(const mr_pq_column *column, int64_t value, literal *out) {
    out->whole = value;
    if (column->dtype == MR_U64) {
        out->side = value < 0 ? -1 : 0;
        out->whole = turned((uint64_t)value);
    }
}

/* A number with a fraction, or too large for int64, against integers. */
static void set_real(const mr_pq_column *column, double value, literal *out) {
    const double limit = 9223372036854775808.0; /* 2^63 */
    if (column->dtype == MR_U64 && value >= limit && value < 2 * limit) {
        out->whole = turned((uint64_t)value); /* a whole number: so large ones have no fraction */
        return;
    }
    if (value >= limit || value < -limit) {
        out->side = value < 0 ? -1 : 1;
        return;
    }
    int64_t whole = (int64_t)value;
    whole -= (double)whole > value; /* towards minus infinity */
    set_integer(column, whole, out);
    out->beyond = (double)whole != value;
}

/* Dates and times as people write them, numbers that JSON has not, decimals as they are. */
static bool set_text(const mr_pq_column *column, const char *text, literal *out) {
    mr_pq_whole found;
    char *end;
    if (column->logical == MR_PQ_DECIMAL) {
        out->real = mr_number_parse(text, &end);
        return *text && !*end && strspn(text, "-+.0123456789eE") == strlen(text);
    }
    if (is_float(column->dtype) || !mr_pq_whole_of_text(column, text, &found)) {
        return false;
    }
    out->whole = column->dtype == MR_U64 ? turned((uint64_t)found.value) : found.value;
    out->side = column->dtype == MR_U64 && text[0] == '-' ? -1 : found.side;
    out->beyond = found.beyond;
    return true;
}

static const char *words_for(const mr_pq_column *column) {
    switch (column->logical) {
    case MR_PQ_DATE:
        return "a number of days, or a text such as \"2024-05-31\"";
    case MR_PQ_TIME:
        return "a number, or a text such as \"12:30:00\"";
    case MR_PQ_TIMESTAMP:
        return column->utc ? "a number, or a text such as \"2024-05-31 12:30:00+00:00\""
                           : "a number, or a text such as \"2024-05-31 12:30:00\" without a zone";
    default:
        return is_text(column) ? "a text" : column->dtype == MR_BOOL ? "true or false" : "a number";
    }
}

static const char *kind_of(const mr_pq_column *column) {
    switch (column->logical) {
    case MR_PQ_DATE:
        return "dates";
    case MR_PQ_TIME:
        return "times";
    case MR_PQ_TIMESTAMP:
        return "moments";
    case MR_PQ_DECIMAL:
        return "decimals";
    default:
        return is_text(column) ? "text" : mr_dtype_name(column->dtype);
    }
}

static mr_status refuse_literal(const parser *p, const mr_pq_column *column, const json_t *json) {
    enum { SHOWN = 40 };
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII |
                                      JSON_REAL_PRECISION(15));
    mr_fail(p->err, MR_E_PARAM,
            "where: column \"%s\" is compared with %s, not with %.*s%s: it holds %s", column->name,
            words_for(column), SHOWN, text ? text : "this value",
            text && strlen(text) > SHOWN ? "..." : "", kind_of(column));
    free(text);
    return MR_E_PARAM;
}

static mr_status parse_literal(const parser *p, const mr_pq_column *column, json_t *json,
                               literal *out) {
    bool text = is_text(column);
    if (text && json_is_string(json)) {
        char *copy = take(p, json_string_length(json), 1);
        if (!copy) {
            return mr_fail_memory(p->err, json_string_length(json));
        }
        memcpy(copy, json_string_value(json), json_string_length(json));
        out->text = (mr_pq_bytes){(const uint8_t *)copy, json_string_length(json)};
        return MR_OK;
    }
    if (column->dtype == MR_BOOL && json_is_boolean(json)) {
        out->whole = json_is_true(json);
        return MR_OK;
    }
    if (json_is_string(json) && column->dtype != MR_BOOL &&
        set_text(column, json_string_value(json), out)) {
        return MR_OK;
    }
    if (text || column->dtype == MR_BOOL || !json_is_number(json)) {
        return refuse_literal(p, column, json);
    }
    out->real = json_number_value(json);
    if (is_float(column->dtype)) {
        return MR_OK;
    }
    if (json_is_integer(json)) {
        set_integer(column, json_integer_value(json), out);
    } else {
        set_real(column, out->real, out);
    }
    return MR_OK;
}

static uint8_t answer_texts(mr_pq_bytes a, mr_pq_bytes b) {
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    order = order ? order : (a.size > b.size) - (a.size < b.size);
    return order < 0 ? BELOW : order > 0 ? ABOVE : EQUAL;
}

/* In the order of the values that they stand for; of one column, so of one kind. */
static int by_value(const void *a, const void *b) {
    const literal *x = a, *y = b;
    if (x->text.data) {
        return (int)answer_texts(x->text, y->text) - EQUAL;
    }
    if (x->side != y->side) {
        return x->side < y->side ? -1 : 1;
    }
    if (x->whole != y->whole) {
        return x->whole < y->whole ? -1 : 1;
    }
    if (x->beyond != y->beyond) {
        return x->beyond ? 1 : -1;
    }
    return (x->real > y->real) - (x->real < y->real);
}

/* Of integers `real` is a second way to say the same, which is not to be sorted by. */
static void sort_literals(const mr_pq_column *column, node *n) {
    for (int32_t i = 0; !is_float(column->dtype) && i < n->n_literals; i++) {
        n->literals[i].real = 0;
    }
    qsort(n->literals, (size_t)n->n_literals, sizeof *n->literals, by_value);
}

static mr_status parse_literals(const parser *p, const mr_pq_column *column, json_t *json,
                                node *out) {
    bool many = out->op->kind == OP_IN;
    size_t n = many ? json_array_size(json) : 1;
    if (many != json_is_array(json)) {
        return malformed(p,
                         many ? "\"in\" takes an array of values" : "one value is compared with");
    }
    out->literals = take(p, n, sizeof *out->literals);
    if (!out->literals) {
        return mr_fail_memory(p->err, n * sizeof *out->literals);
    }
    out->n_literals = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        json_t *value = many ? json_array_get(json, i) : json;
        MR_TRY(parse_literal(p, column, value, &out->literals[i]));
    }
    if (n > 1) {
        sort_literals(column, out);
    }
    return MR_OK;
}

static uint8_t answer_reals(double a, double b) {
    return a < b ? BELOW : a > b ? ABOVE : a == b ? EQUAL : UNORDERED;
}

static uint8_t answer_wholes(int64_t a, int64_t b) {
    return a < b ? BELOW : a > b ? ABOVE : EQUAL;
}

static uint8_t answer_number(const char *value, json_t *json) {
    char *whole_end, *real_end;
    errno = 0;
    long long whole = strtoll(value, &whole_end, 10);
    if (*value && !*whole_end && !errno && json_is_integer(json)) {
        return answer_wholes(whole, json_integer_value(json)); /* however large */
    }
    double real = mr_number_parse(value, &real_end);
    return *value && !*real_end ? answer_reals(real, json_number_value(json)) : UNORDERED;
}

/* true and false as writers spell them. */
static uint8_t answer_boolean(const char *value, json_t *json) {
    bool is_true = mr_same_word(value, "true");
    if (!is_true && !mr_same_word(value, "false")) {
        return UNORDERED;
    }
    return answer_wholes(is_true, json_is_true(json));
}

/* A value from the path is text; it is a number where it is compared with one. */
static uint8_t answer_partition(const char *value, json_t *json) {
    if (json_is_string(json)) {
        mr_pq_bytes a = {(const uint8_t *)value, strlen(value)};
        mr_pq_bytes b = {(const uint8_t *)json_string_value(json), json_string_length(json)};
        return answer_texts(a, b);
    }
    return json_is_boolean(json) ? answer_boolean(value, json) : answer_number(value, json);
}

/* A partition's literals can be of any kind, but for null, objects and arrays. */
static mr_status check_partition_literals(const parser *p, const node *n, json_t *operand) {
    bool many = n->op->kind == OP_IN;
    if (many != json_is_array(operand)) {
        return malformed(p, "\"in\" takes an array, other operators take one value");
    }
    for (size_t i = 0; i < (many ? json_array_size(operand) : 1); i++) {
        json_t *value = many ? json_array_get(operand, i) : operand;
        if (!json_is_string(value) && !json_is_number(value) && !json_is_boolean(value)) {
            return malformed(p, "a column of the folders is compared with a text, a number, true "
                                "or false; [\"is_null\", NAME] finds nulls");
        }
    }
    return MR_OK;
}

static mr_status parse_partition(const parser *p, json_t *value, json_t *operand, node *out) {
    const operator_row *op = out->op;
    out->column = -1;
    if (op->kind == OP_NULL) {
        out->constant = json_is_null(value) == op->truth[0];
        return MR_OK;
    }
    MR_TRY(check_partition_literals(p, out, operand));
    if (json_is_null(value)) {
        out->constant = NULL_ROW;
        return MR_OK;
    }
    bool negated = op->kind == OP_IN && !op->truth[EQUAL], found = false;
    const char *text = json_string_value(value);
    for (size_t i = 0; op->kind == OP_IN && i < json_array_size(operand); i++) {
        found = found || answer_partition(text, json_array_get(operand, i)) == EQUAL;
    }
    out->constant =
        op->kind == OP_IN ? found != negated : op->truth[answer_partition(text, operand)];
    return MR_OK;
}

static mr_status parse_leaf(const parser *p, json_t *json, node *out) {
    const char *name = json_string_value(json_array_get(json, 1));
    json_t *operand = json_array_get(json, 2);
    json_t *partition = name ? json_object_get(p->partitions, name) : NULL;
    if (!name || json_array_size(json) != (out->op->kind == OP_NULL ? 2 : 3)) {
        return malformed(p, "an operator takes a column and, but for is_null, a value");
    }
    if (partition) {
        return parse_partition(p, partition, operand, out);
    }
    int32_t column = mr_pq_find(p->where->file, name), bytes, path;
    if (column < 0 && mr_pq_is_bytes_and_path(p->where->file, name, &bytes, &path)) {
        column = bytes; /* an image goes by the struct's name */
    }
    if (column < 0) {
        int32_t unused;
        int32_t *none = take(p, (size_t)p->where->file->n_columns, sizeof *none);
        mr_status status = mr_pq_select(p->where->file, &name, 1, none, &unused, p->err);
        return status < 0 ? status : malformed(p, "a struct cannot be compared; name a member");
    }
    if (p->where->file->columns[column].max_rep > 0) {
        return mr_fail(p->err, MR_E_PARAM,
                       "where: column \"%s\" has lists; only single values can "
                       "be compared",
                       name);
    }
    out->column = add_column(p->where, column);
    return out->op->kind == OP_NULL
               ? MR_OK
               : parse_literals(p, &p->where->file->columns[column], operand, out);
}

static mr_status parse_node(const parser *p, json_t *json, int32_t depth, node *out) {
    out->op = find_operator(json_string_value(json_array_get(json, 0)));
    size_t n = json_array_size(json);
    if (!json_is_array(json) || !out->op || depth == NESTING) {
        return malformed(p, "a condition is an array that begins with an operator: == != < <= > >= "
                            "in not_in is_null not_null and or not");
    }
    if (out->op->kind < OP_AND) {
        return parse_leaf(p, json, out);
    }
    if (n < 2 || (out->op->kind == OP_NOT && n != 2)) {
        return malformed(p, "\"and\" and \"or\" take conditions, \"not\" takes one");
    }
    out->children = take(p, n - 1, sizeof *out->children);
    if (!out->children) {
        return mr_fail_memory(p->err, n * sizeof *out->children);
    }
    out->n_children = (int32_t)(n - 1);
    for (int32_t i = 0; i < out->n_children; i++) {
        MR_TRY(parse_node(p, json_array_get(json, (size_t)i + 1), depth + 1, &out->children[i]));
    }
    return MR_OK;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Columns ascend for callers; nodes follow. */
static void renumber(node *n, const int32_t *old, const int32_t *sorted, int32_t n_columns) {
    for (int32_t i = 0; i < n->n_children; i++) {
        renumber(&n->children[i], old, sorted, n_columns);
    }
    if (n->op->kind < OP_AND && n->column >= 0) {
        const int32_t *found =
            bsearch(&old[n->column], sorted, (size_t)n_columns, sizeof *sorted, by_number);
        n->column = found ? (int32_t)(found - sorted) : -1;
    }
}

mr_status mr_pq_where_new(mr_pq_where **out, const mr_pq_file *file, json_t *condition,
                          json_t *partitions, mr_error *err) {
    mr_pq_where *where = mr_zalloc(1, sizeof *where);
    parser p = {where, partitions, err};
    *out = NULL;
    int32_t *sorted = where ? take(&p, (size_t)file->n_columns, sizeof *sorted) : NULL;
    if (sorted) {
        where->columns = take(&p, (size_t)file->n_columns, sizeof *where->columns);
    }
    if (!where || !where->columns) {
        mr_pq_where_free(where);
        return mr_fail_memory(err, sizeof *where);
    }
    where->file = file;
    mr_status status = parse_node(&p, condition, 0, &where->root);
    if (status < 0) {
        mr_pq_where_free(where);
        return status;
    }
    memcpy(sorted, where->columns, (size_t)where->n_columns * sizeof *sorted);
    qsort(sorted, (size_t)where->n_columns, sizeof *sorted, by_number);
    renumber(&where->root, where->columns, sorted, where->n_columns);
    where->columns = sorted;
    *out = where;
    return MR_OK;
}

void mr_pq_where_free(mr_pq_where *where) {
    if (where) {
        mr_arena_free(&where->arena);
        free(where);
    }
}

int32_t mr_pq_where_columns(const mr_pq_where *where, const int32_t **columns) {
    *columns = where->columns;
    return where->n_columns;
}

/* ---- Answers ---- */
typedef void integer_answers(const uint8_t *values, int64_t n, int64_t whole, uint8_t *out);

#define ANSWER_INTEGERS(type, load)                                                                \
    static void answer_##type(const uint8_t *values, int64_t n, int64_t whole, uint8_t *out) {     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type v;                                                                                \
            memcpy(&v, values + (size_t)i * sizeof v, sizeof v);                                   \
            int64_t a = load;                                                                      \
            out[i] = (uint8_t)(EQUAL + (a > whole) - (a < whole));                                 \
        }                                                                                          \
    }
ANSWER_INTEGERS(uint8_t, v)
ANSWER_INTEGERS(int16_t, v)
ANSWER_INTEGERS(uint16_t, v)
ANSWER_INTEGERS(int32_t, v)
ANSWER_INTEGERS(uint32_t, v)
ANSWER_INTEGERS(int64_t, v)
ANSWER_INTEGERS(uint64_t, turned(v))

static void answer_int8_t(const uint8_t *values, int64_t n, int64_t whole, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t a = (int64_t)(values[i] ^ 0x80) - 0x80;
        out[i] = (uint8_t)(EQUAL + (a > whole) - (a < whole));
    }
}

static integer_answers *const answers_by_dtype[] = {
    [MR_BOOL] = answer_uint8_t, [MR_U8] = answer_uint8_t,   [MR_I8] = answer_int8_t,
    [MR_I16] = answer_int16_t,  [MR_U16] = answer_uint16_t, [MR_I32] = answer_int32_t,
    [MR_U32] = answer_uint32_t, [MR_I64] = answer_int64_t,  [MR_U64] = answer_uint64_t,
};

static void answer_integers(mr_dtype dtype, const void *values, int64_t n, const literal *l,
                            uint8_t *out) {
    if (l->side) {
        memset(out, l->side < 0 ? ABOVE : BELOW, (size_t)n);
        return;
    }
    answers_by_dtype[dtype](values, n, l->whole, out);
    for (int64_t i = 0; l->beyond && i < n; i++) {
        out[i] = out[i] == EQUAL ? BELOW : out[i]; /* the literal is a little more */
    }
}

static double real_at(mr_dtype dtype, const void *values, int64_t i) {
    uint16_t half;
    float single;
    double value;
    if (dtype == MR_F16) {
        memcpy(&half, (const uint8_t *)values + i * 2, sizeof half);
        return (double)mr_float_of_f16(half);
    }
    if (dtype == MR_F32) {
        memcpy(&single, (const uint8_t *)values + i * 4, sizeof single);
        return (double)single;
    }
    memcpy(&value, (const uint8_t *)values + i * 8, sizeof value);
    return value;
}

/* How n values of a column, in a vector's form, compare with a literal. */
static void answer(const mr_pq_column *column, const void *values, int64_t n, const literal *l,
                   uint8_t *out) {
    if (column->items == 0) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = answer_texts(((const mr_pq_bytes *)values)[i], l->text);
        }
    } else if (is_text(column)) {
        size_t size = (size_t)column->items;
        for (int64_t i = 0; i < n; i++) {
            mr_pq_bytes value = {(const uint8_t *)values + (size_t)i * size, size};
            out[i] = answer_texts(value, l->text);
        }
    } else if (is_float(column->dtype)) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = answer_reals(real_at(column->dtype, values, i), l->real);
        }
    } else {
        answer_integers(column->dtype, values, n, l, out);
    }
}

/* ---- Statistics ---- */
/* A bound in a vector's form; false where it cannot be used. */
static bool bound_value(const mr_pq_column *column, mr_pq_bytes bound, mr_pq_bytes *out,
                        uint8_t room[16]) {
    size_t width = mr_pq_physical_size(column);
    if (!bound.data || column->physical == MR_PQ_INT96 || column->logical == MR_PQ_INTERVAL) {
        return false;
    }
    if (column->physical != MR_PQ_BYTES && bound.size != width) {
        return false;
    }
    const void *in = column->physical == MR_PQ_BYTES ? (const void *)&bound : bound.data;
    if (mr_pq_converts(column)) {
        if (mr_pq_convert(column, in, room, 1, NULL) < 0) {
            return false;
        }
        *out = (mr_pq_bytes){room, mr_pq_cell_size(column)};
        return true;
    }
    *out = bound;
    return true;
}

/* The answer for one bound; UNORDERED where there is none to be had. */
static uint8_t answer_bound(const mr_pq_column *column, mr_pq_bytes bound, const literal *l) {
    uint8_t room[16] = {0}, out = UNORDERED;
    mr_pq_bytes value;
    if (column->items == 0 && bound.data) {
        answer(column, &bound, 1, l, &out);
    } else if (column->items > 0 && bound_value(column, bound, &value, room)) {
        answer(column, value.data, 1, l, &out);
    }
    return out;
}

typedef struct known {
    const mr_pq_statistics *statistics;
    int64_t n;     /* values and nulls */
    bool all_null; /* as a page index may say */
} known;

/* The answers that values between the bounds can give, as bits. */
static uint32_t possible_answers(const mr_pq_column *column, const known *k, const literal *l) {
    const uint32_t all = 1 << BELOW | 1 << EQUAL | 1 << ABOVE | 1 << UNORDERED;
    uint8_t low = answer_bound(column, k->statistics->min, l);
    uint8_t high = answer_bound(column, k->statistics->max, l);
    uint32_t possible = is_float(column->dtype) ? 1 << UNORDERED : 0; /* NaN is in no bound */
    if (low == UNORDERED || high == UNORDERED) {
        return all;
    }
    possible |= low == BELOW ? 1 << BELOW : 0;
    possible |= low != ABOVE && high != BELOW ? 1 << EQUAL : 0;
    possible |= high == ABOVE ? 1 << ABOVE : 0;
    return possible;
}

static uint32_t may_of_answers(const operator_row *op, uint32_t possible) {
    uint32_t may = 0;
    for (int a = 0; a < ANSWERS; a++) {
        may |= possible >> a & 1 ? (op->truth[a] ? MAY_TRUE : MAY_FALSE) : 0;
    }
    return may;
}

static uint32_t may_compare(const node *n, const mr_pq_column *column, const known *k) {
    uint32_t nulls = column->max_def == 0 || k->statistics->nulls == 0 ? 0 : MAY_NULL;
    if (k->all_null || (k->n > 0 && k->statistics->nulls == k->n)) {
        return MAY_NULL;
    }
    if (n->op->kind == OP_COMPARE) {
        return nulls | may_of_answers(n->op, possible_answers(column, k, &n->literals[0]));
    }
    bool negated = !n->op->truth[EQUAL];
    uint32_t found = MAY_FALSE; /* whether a value is among the literals */
    for (int32_t i = 0; i < n->n_literals; i++) {
        uint32_t possible = possible_answers(column, k, &n->literals[i]);
        found |= possible >> EQUAL & 1 ? MAY_TRUE : 0;
        if (possible == 1 << EQUAL) {
            found = MAY_TRUE;
            break;
        }
    }
    if (negated) {
        found = (found & MAY_TRUE ? MAY_FALSE : 0) | (found & MAY_FALSE ? MAY_TRUE : 0);
    }
    return nulls | found;
}

static uint32_t may_null(const node *n, const mr_pq_column *column, const known *k) {
    bool all = k->all_null || (k->n > 0 && k->statistics->nulls == k->n);
    bool none = column->max_def == 0 || k->statistics->nulls == 0;
    uint32_t if_null = n->op->truth[0] ? MAY_TRUE : MAY_FALSE;
    uint32_t if_not = n->op->truth[0] ? MAY_FALSE : MAY_TRUE;
    return (none ? 0 : if_null) | (all ? 0 : if_not);
}

static uint8_t both(operator_kind kind, uint8_t a, uint8_t b) {
    uint8_t decides = kind == OP_AND ? FALSE_ROW : TRUE_ROW;
    if (a == decides || b == decides) {
        return decides;
    }
    return a == NULL_ROW || b == NULL_ROW ? NULL_ROW : !decides;
}

static uint32_t may_join(operator_kind kind, uint32_t a, uint32_t b) {
    uint32_t may = 0;
    for (uint8_t x = 0; x < 3; x++) {
        for (uint8_t y = 0; y < 3; y++) {
            may |= a >> x & 1 && b >> y & 1 ? 1u << both(kind, x, y) : 0;
        }
    }
    return may;
}

static uint32_t may_be(const mr_pq_where *where, const node *n, const known *columns) {
    const operator_kind kind = n->op->kind;
    if (kind < OP_AND && n->column < 0) {
        return 1u << n->constant;
    }
    if (kind < OP_AND) {
        const mr_pq_column *column = &where->file->columns[where->columns[n->column]];
        const known *k = &columns[n->column];
        return kind == OP_NULL ? may_null(n, column, k) : may_compare(n, column, k);
    }
    uint32_t may = may_be(where, &n->children[0], columns);
    if (kind == OP_NOT) {
        return (may & MAY_NULL) | (may & MAY_TRUE ? MAY_FALSE : 0) |
               (may & MAY_FALSE ? MAY_TRUE : 0);
    }
    for (int32_t i = 1; i < n->n_children; i++) {
        may = may_join(kind, may, may_be(where, &n->children[i], columns));
    }
    return may;
}

static void known_of_group(const mr_pq_where *where, int32_t group, known *out) {
    for (int32_t i = 0; i < where->n_columns; i++) {
        const mr_pq_chunk *chunk = &where->file->groups[group].chunks[where->columns[i]];
        out[i] = (known){&chunk->statistics, chunk->n_values, false};
    }
}

static mr_pq_verdict verdict_of(uint32_t may) {
    return may == MAY_TRUE ? MR_PQ_ALL_ROWS : may & MAY_TRUE ? MR_PQ_SOME_ROWS : MR_PQ_NO_ROW;
}

mr_pq_verdict mr_pq_where_group(const mr_pq_where *where, int32_t group) {
    known *columns = mr_zalloc((size_t)where->n_columns + 1, sizeof *columns);
    if (!columns) {
        return MR_PQ_SOME_ROWS; /* always true enough */
    }
    known_of_group(where, group, columns);
    mr_pq_verdict verdict = verdict_of(may_be(where, &where->root, columns));
    free(columns);
    return where->file->groups[group].rows == 0 ? MR_PQ_NO_ROW : verdict;
}

/* ---- Pages ---- */
static int by_row(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The page of each column that has the rows from `row` on. Rows ascend from call to call. */
static void known_of_pages(const mr_pq_where *where, const mr_pq_pages *pages, int32_t *at,
                           int64_t row, known *columns) {
    for (int32_t i = 0; i < where->n_columns; i++) {
        if (pages[i].n == 0) {
            continue;
        }
        while (at[i] + 1 < pages[i].n && pages[i].pages[at[i] + 1].first_row <= row) {
            at[i]++;
        }
        const mr_pq_page *page = &pages[i].pages[at[i]];
        columns[i] = (known){&page->statistics, 0, page->all_null};
    }
}

/* Rows at which some page begins, and the end. */
static int64_t *cuts_of(const mr_pq_where *where, int32_t group, const mr_pq_pages *pages,
                        size_t *n_cuts) {
    size_t n = 2;
    for (int32_t i = 0; i < where->n_columns; i++) {
        n += (size_t)pages[i].n;
    }
    int64_t *cuts = mr_zalloc(n, sizeof *cuts);
    if (cuts) {
        *n_cuts = 0;
        cuts[(*n_cuts)++] = 0;
        cuts[(*n_cuts)++] = where->file->groups[group].rows;
        for (int32_t i = 0; i < where->n_columns; i++) {
            for (int32_t p = 0; p < pages[i].n; p++) {
                cuts[(*n_cuts)++] = pages[i].pages[p].first_row;
            }
        }
        qsort(cuts, n, sizeof *cuts, by_row);
    }
    return cuts;
}

static void choose_cuts(const mr_pq_where *where, const mr_pq_pages *pages, const int64_t *cuts,
                        size_t n_cuts, int32_t *at, known *columns, mr_pq_range *out,
                        int32_t *n_out) {
    *n_out = 0;
    for (size_t c = 0; c + 1 < n_cuts; c++) {
        if (cuts[c] == cuts[c + 1]) {
            continue;
        }
        known_of_pages(where, pages, at, cuts[c], columns);
        if (!(may_be(where, &where->root, columns) & MAY_TRUE)) {
            continue;
        }
        if (*n_out > 0 && out[*n_out - 1].to == cuts[c]) {
            out[*n_out - 1].to = cuts[c + 1];
        } else {
            out[(*n_out)++] = (mr_pq_range){cuts[c], cuts[c + 1]};
        }
    }
}

mr_status mr_pq_where_pages(const mr_pq_where *where, int32_t group, const mr_pq_pages *pages,
                            mr_pq_range **ranges, int32_t *n_ranges, mr_error *err) {
    size_t n_cuts = 0;
    int64_t *cuts = cuts_of(where, group, pages, &n_cuts);
    int32_t *at = mr_zalloc((size_t)where->n_columns + 1, sizeof *at);
    known *columns = mr_zalloc((size_t)where->n_columns + 1, sizeof *columns);
    *ranges = cuts ? mr_zalloc(n_cuts, sizeof **ranges) : NULL;
    mr_status status = MR_OK;
    if (cuts && at && columns && *ranges) {
        known_of_group(where, group, columns);
        choose_cuts(where, pages, cuts, n_cuts, at, columns, *ranges, n_ranges);
    } else {
        free(*ranges);
        *ranges = NULL;
        status = mr_fail_memory(err, n_cuts * sizeof **ranges);
    }
    free(cuts);
    free(at);
    free(columns);
    return status;
}

/* ---- Rows ---- */
/* What is true of the rows [from, from + n) of the row group, which all columns have. */
typedef struct rows_part {
    const mr_pq_where *where;
    const mr_pq_vector *const *vectors;
    const int64_t *positions; /* of the first row, in each vector */
    int64_t n;
} rows_part;

/* Whether a value is among sorted literals. */
static bool is_among(const mr_pq_column *column, const void *value, const node *n) {
    int32_t low = 0, high = n->n_literals;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        uint8_t found = UNORDERED;
        answer(column, value, 1, &n->literals[middle], &found);
        if (found == EQUAL || found == UNORDERED) {
            return found == EQUAL;
        }
        if (found == BELOW) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

static void leaf_rows(const rows_part *part, const node *n, uint8_t *out) {
    const mr_pq_vector *vector = part->vectors[n->column];
    const mr_pq_column *column = vector->column;
    int64_t at = part->positions[n->column];
    const uint8_t *valid = vector->valid ? vector->valid + at : NULL;
    const uint8_t *values = (const uint8_t *)vector->values + (size_t)at * mr_pq_cell_size(column);
    uint8_t answers[256];
    for (int64_t i = 0; i < part->n; i++) {
        out[i] = n->op->kind == OP_NULL ? n->op->truth[0] == (valid && !valid[i]) : FALSE_ROW;
    }
    bool search = n->n_literals > FEW;
    for (int64_t i = 0; search && i < part->n; i++) {
        out[i] = is_among(column, values + (size_t)i * mr_pq_cell_size(column), n);
    }
    for (int32_t l = 0; !search && l < n->n_literals; l++) {
        answer(column, values, part->n, &n->literals[l], answers);
        for (int64_t i = 0; i < part->n; i++) {
            bool hit = n->op->kind == OP_IN ? answers[i] == EQUAL : n->op->truth[answers[i]];
            out[i] |= hit;
        }
    }
    for (int64_t i = 0; n->op->kind == OP_IN && !n->op->truth[EQUAL] && i < part->n; i++) {
        out[i] = !out[i];
    }
    for (int64_t i = 0; n->op->kind != OP_NULL && valid && i < part->n; i++) {
        out[i] = valid[i] ? out[i] : NULL_ROW;
    }
}

static void node_rows(const rows_part *part, const node *n, uint8_t *out) {
    uint8_t other[256];
    if (n->op->kind < OP_AND && n->column < 0) {
        memset(out, n->constant, (size_t)part->n);
        return;
    }
    if (n->op->kind < OP_AND) {
        leaf_rows(part, n, out);
        return;
    }
    node_rows(part, &n->children[0], out);
    for (int64_t i = 0; n->op->kind == OP_NOT && i < part->n; i++) {
        out[i] = out[i] == NULL_ROW ? NULL_ROW : !out[i];
    }
    for (int32_t c = 1; c < n->n_children; c++) {
        node_rows(part, &n->children[c], other);
        for (int64_t i = 0; i < part->n; i++) {
            out[i] = both(n->op->kind, out[i], other[i]);
        }
    }
}

/* Where a row is in a vector, or -1; and how many rows are there, from it on or before the next. */
static int64_t find_row(const mr_pq_vector *vector, int64_t row, int64_t *n) {
    if (!vector->ranges) {
        *n = vector->n_rows - row;
        return row;
    }
    for (int32_t r = 0; r < vector->n_ranges; r++) {
        const mr_pq_range *range = &vector->ranges[r];
        if (row < range->from) {
            *n = range->from - row;
            return -1;
        }
        if (row < range->to) {
            *n = range->to - row;
            return vector->range_start[r] + row - range->from;
        }
    }
    *n = INT64_MAX;
    return -1;
}

mr_status mr_pq_where_rows(const mr_pq_where *where, int32_t group,
                           const mr_pq_vector *const *vectors, uint8_t *bitmap, int64_t *n_rows,
                           mr_error *err) {
    int64_t rows = where->file->groups[group].rows;
    int64_t *positions = mr_zalloc((size_t)where->n_columns + 1, sizeof *positions);
    uint8_t truth[256];
    *n_rows = 0;
    if (!positions) {
        return mr_fail_memory(err, (size_t)where->n_columns * sizeof *positions);
    }
    memset(bitmap, 0, (size_t)(rows + 7) / 8);
    for (int64_t row = 0; row < rows;) {
        rows_part part = {where, vectors, positions, rows - row < 256 ? rows - row : 256};
        bool here = true;
        for (int32_t i = 0; i < where->n_columns; i++) {
            int64_t n;
            positions[i] = find_row(vectors[i], row, &n);
            here = here && positions[i] >= 0;
            part.n = n < part.n ? n : part.n;
        }
        if (here) {
            node_rows(&part, &where->root, truth);
        }
        for (int64_t i = 0; here && i < part.n; i++) {
            bool is_true = truth[i] == TRUE_ROW;
            bitmap[(row + i) / 8] |= (uint8_t)(is_true << ((row + i) % 8));
            *n_rows += is_true;
        }
        row += part.n;
    }
    free(positions);
    return MR_OK;
}
