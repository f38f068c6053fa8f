/* SPDX-License-Identifier: Apache-2.0 */
/* petastorm.c - what Petastorm says about its columns, without running what it wrote.
 *
 * Petastorm keeps its schema as a Python pickle in the metadata of a data set. A pickle is a
 * program that may call anything; here its instructions only build a tree of what they name. A
 * class is its name, an object is the class with its arguments and its state, and nothing is looked
 * up or called. What a schema has no use for is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

#define STACK 1024
#define VALUES ((size_t)1 << 20) /* of one pickle: memory is bounded */

typedef enum value_kind {
    V_NONE,
    V_BOOL,
    V_INT,
    V_TEXT,
    V_CLASS,
    V_TUPLE,
    V_MAP,
    V_OBJECT
} value_kind;

typedef struct value value;

/* An item of a tuple or list, or a pair of a map. */
typedef struct cell {
    value *key, *item;
    struct cell *next;
} cell;

struct value {
    value_kind kind;
    int64_t number;
    mr_pq_bytes text; /* of a class its name, without the module */
    cell *first, *last;
    value *class, *arguments, *state; /* of an object; its `first` are the pairs set on it */
};

typedef struct machine {
    const uint8_t *at, *end;
    mr_arena arena;
    value *stack[STACK]; /* NULL is a mark */
    value **memo;
    size_t depth, n_memo, n_values;
    bool bad, done;
} machine;

static bool wrong(machine *m) {
    m->bad = true;
    return false;
}

static value *new_value(machine *m, value_kind kind) {
    value *v = m->n_values++ < VALUES ? mr_arena_take(&m->arena, sizeof *v) : NULL;
    if (!v) {
        wrong(m);
        return NULL;
    }
    *v = (value){.kind = kind};
    return v;
}

static bool push(machine *m, value *v) {
    if (m->depth == STACK || m->bad) {
        return wrong(m);
    }
    m->stack[m->depth++] = v;
    return true;
}

static value *pop(machine *m) {
    if (m->depth == 0 || !m->stack[m->depth - 1]) {
        wrong(m);
        return NULL;
    }
    return m->stack[--m->depth];
}

static bool add_cell(machine *m, value *to, value *key, value *item) {
    cell *c = m->n_values++ < VALUES && to ? mr_arena_take(&m->arena, sizeof *c) : NULL;
    if (!c) {
        return wrong(m);
    }
    *c = (cell){key, item, NULL};
    *(to->last ? &to->last->next : &to->first) = c;
    to->last = c;
    return true;
}

static uint64_t take_number(machine *m, size_t size) {
    uint64_t number = 0;
    if (size > (size_t)(m->end - m->at)) {
        wrong(m);
        return 0;
    }
    memcpy(&number, m->at, size);
    m->at += size;
    return number;
}

static mr_pq_bytes take_bytes(machine *m, uint64_t size) {
    if (size > (uint64_t)(m->end - m->at)) {
        wrong(m);
        return (mr_pq_bytes){NULL, 0};
    }
    mr_pq_bytes bytes = {m->at, (size_t)size};
    m->at += size;
    return bytes;
}

static mr_pq_bytes take_line(machine *m) {
    const uint8_t *newline = memchr(m->at, '\n', (size_t)(m->end - m->at));
    mr_pq_bytes line = take_bytes(m, newline ? (uint64_t)(newline - m->at) : UINT64_MAX);
    m->at += !m->bad;
    return line;
}

/* The items above the topmost mark become cells of `to`, in pairs or one by one; the mark goes too.
 */
static bool take_marked(machine *m, value *to, size_t below, bool pairs) {
    size_t mark = m->depth;
    while (mark > 0 && m->stack[mark - 1]) {
        mark--;
    }
    if (mark == 0 || mark - 1 < below || (pairs && (m->depth - mark) % 2)) {
        return wrong(m);
    }
    for (size_t i = mark; i < m->depth; i += pairs ? 2 : 1) {
        add_cell(m, to, pairs ? m->stack[i] : NULL, m->stack[i + pairs]);
    }
    m->depth = mark - 1;
    return !m->bad;
}

/* ---- Instructions ---- */
typedef void instruction(machine *m, uint8_t code);

static void op_constant(machine *m, uint8_t code) {
    value *v = new_value(m, code == 'N' ? V_NONE : V_BOOL);
    if (v) {
        v->number = code == 0x88;
        push(m, v);
    }
}

static void push_number(machine *m, int64_t number) {
    value *v = new_value(m, V_INT);
    if (v) {
        v->number = number;
        push(m, v);
    }
}

static void op_int(machine *m, uint8_t code) {
    uint64_t number = take_number(m, code == 'K' ? 1 : code == 'M' ? 2 : 4);
    push_number(m, code == 'J' ? (int32_t)(uint32_t)number : (int64_t)number);
}

static void op_float(machine *m, uint8_t code) {
    (void)code;
    take_number(m, 8);
    push_number(m, 0); /* no part of a schema that is wanted */
}

static void op_long(machine *m, uint8_t code) {
    uint64_t size = take_number(m, 1);
    (void)code;
    if (size > 8) {
        wrong(m);
        return;
    }
    uint64_t number = take_number(m, (size_t)size);
    uint64_t sign = size && size < 8 ? (uint64_t)1 << (size * 8 - 1) : 0;
    push_number(m, (int64_t)((number ^ sign) - sign));
}

static void op_int_line(machine *m, uint8_t code) {
    mr_pq_bytes line = take_line(m);
    char digits[24] = "";
    (void)code;
    if (m->bad || line.size >= sizeof digits) {
        wrong(m);
        return;
    }
    memcpy(digits, line.data, line.size);
    push_number(m, strtoll(digits, NULL, 10));
}

static void push_text(machine *m, mr_pq_bytes text) {
    value *v = m->bad ? NULL : new_value(m, V_TEXT);
    if (v) {
        v->text = text;
        push(m, v);
    }
}

static void op_text(machine *m, uint8_t code) {
    bool is_short = code == 0x8c || code == 'U' || code == 'C';
    push_text(m, take_bytes(m, take_number(m, is_short ? 1 : code == 0x8d ? 8 : 4)));
}

static void op_text_line(machine *m, uint8_t code) {
    (void)code;
    push_text(m, take_line(m));
}

static void op_class(machine *m, uint8_t code) {
    mr_pq_bytes name = {NULL, 0};
    if (code == 'c') {
        take_line(m);
        name = take_line(m);
    } else {
        value *top = pop(m), *module = pop(m);
        if (!top || !module || top->kind != V_TEXT) {
            wrong(m);
            return;
        }
        name = top->text;
    }
    value *v = new_value(m, V_CLASS);
    if (v) {
        v->text = name;
        push(m, v);
    }
}

static void op_tuple(machine *m, uint8_t code) {
    value *v = new_value(m, V_TUPLE), *items[3];
    int n = code >= 0x85 && code <= 0x87 ? code - 0x84 : 0;
    if (code == 't' || code == 'l') {
        take_marked(m, v, 0, false);
    }
    for (int i = n; i-- > 0;) {
        items[i] = pop(m);
    }
    for (int i = 0; i < n && !m->bad; i++) {
        add_cell(m, v, NULL, items[i]);
    }
    push(m, v);
}

static void op_map(machine *m, uint8_t code) {
    value *v = new_value(m, V_MAP);
    if (code == 'd') {
        take_marked(m, v, 0, true);
    }
    push(m, v);
}

static value *below_mark(machine *m) {
    size_t at = m->depth;
    while (at > 0 && m->stack[at - 1]) {
        at--;
    }
    return at >= 2 ? m->stack[at - 2] : NULL;
}

static void op_add_many(machine *m, uint8_t code) {
    value *to = below_mark(m);
    if (!to) {
        wrong(m);
        return;
    }
    take_marked(m, to, 1, code == 'u');
}

static void op_add_one(machine *m, uint8_t code) {
    value *item = pop(m), *key = code == 's' ? pop(m) : NULL;
    value *to = m->depth > 0 ? m->stack[m->depth - 1] : NULL;
    if (!m->bad) {
        add_cell(m, to, key, item);
    }
}

static void op_object(machine *m, uint8_t code) {
    if (code == 0x92) {
        pop(m); /* arguments by name */
    }
    value *arguments = pop(m), *class = pop(m), *v = new_value(m, V_OBJECT);
    if (v && !m->bad) {
        v->class = class;
        v->arguments = arguments;
        push(m, v);
    }
}

static void op_build(machine *m, uint8_t code) {
    value *state = pop(m), *object = m->depth > 0 ? m->stack[m->depth - 1] : NULL;
    (void)code;
    if (!object) {
        wrong(m);
        return;
    }
    object->state = state;
}

static void op_mark(machine *m, uint8_t code) {
    (void)code;
    push(m, NULL);
}

static void op_pop(machine *m, uint8_t code) {
    (void)code;
    m->depth -= m->depth > 0;
}

static void op_skip(machine *m, uint8_t code) {
    take_number(m, code == 0x80 ? 1 : 8); /* protocol, frame */
}

static void op_stop(machine *m, uint8_t code) {
    (void)code;
    m->done = true;
}

static size_t memo_place(machine *m, uint8_t code) {
    char digits[12] = "";
    if (code == 0x94) {
        return m->n_memo;
    }
    if (code == 'p' || code == 'g') {
        mr_pq_bytes line = take_line(m);
        memcpy(digits, line.data ? (const char *)line.data : "",
               line.size < sizeof digits ? line.size : 0);
        return (size_t)strtoul(digits, NULL, 10);
    }
    return (size_t)take_number(m, code == 'q' || code == 'h' ? 1 : 4);
}

static void op_remember(machine *m, uint8_t code) {
    size_t at = memo_place(m, code);
    value *top = m->depth > 0 ? m->stack[m->depth - 1] : NULL;
    if (m->bad || !top || at > m->n_memo || at >= VALUES) {
        wrong(m);
        return;
    }
    if ((m->n_memo & (m->n_memo - 1)) == 0 && at == m->n_memo) { /* full at powers of two */
        value **larger = realloc(m->memo, (m->n_memo ? m->n_memo * 2 : 1) * sizeof *larger);
        if (!larger) {
            wrong(m);
            return;
        }
        m->memo = larger;
    }
    m->memo[at] = top;
    m->n_memo += at == m->n_memo;
}

static void op_recall(machine *m, uint8_t code) {
    size_t at = memo_place(m, code);
    if (m->bad || at >= m->n_memo) {
        wrong(m);
        return;
    }
    push(m, m->memo[at]);
}

static instruction *const instructions[256] = {
    ['N'] = op_constant,  [0x88] = op_constant, [0x89] = op_constant, ['K'] = op_int,
    ['M'] = op_int,       ['J'] = op_int,       ['G'] = op_float,     [0x8a] = op_long,
    ['I'] = op_int_line,  ['X'] = op_text,      [0x8c] = op_text,     [0x8d] = op_text,
    ['U'] = op_text,      ['T'] = op_text,      ['C'] = op_text,      ['B'] = op_text,
    ['V'] = op_text_line, ['c'] = op_class,     [0x93] = op_class,    [')'] = op_tuple,
    [']'] = op_tuple,     [0x85] = op_tuple,    [0x86] = op_tuple,    [0x87] = op_tuple,
    ['t'] = op_tuple,     ['l'] = op_tuple,     ['}'] = op_map,       ['d'] = op_map,
    ['u'] = op_add_many,  ['e'] = op_add_many,  ['s'] = op_add_one,   ['a'] = op_add_one,
    ['R'] = op_object,    [0x81] = op_object,   [0x92] = op_object,   ['b'] = op_build,
    ['('] = op_mark,      ['0'] = op_pop,       [0x80] = op_skip,     [0x95] = op_skip,
    ['.'] = op_stop,      ['q'] = op_remember,  ['r'] = op_remember,  ['p'] = op_remember,
    [0x94] = op_remember, ['h'] = op_recall,    ['j'] = op_recall,    ['g'] = op_recall,
};

static value *run(machine *m) {
    while (!m->done && !m->bad) {
        uint8_t code = (uint8_t)take_number(m, 1);
        if (m->bad || !instructions[code]) {
            wrong(m);
            return NULL;
        }
        instructions[code](m, code);
    }
    return m->bad ? NULL : pop(m);
}

/* ---- The schema ---- */
static bool text_is(mr_pq_bytes text, const char *word) {
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static value *member(const value *map, const char *name) {
    for (const cell *c = map ? map->first : NULL; c; c = c->next) {
        if (c->key && c->key->kind == V_TEXT && text_is(c->key->text, name)) {
            return c->item;
        }
    }
    return NULL;
}

static value *item(const value *tuple, int index) {
    const cell *c = tuple ? tuple->first : NULL;
    while (c && index-- > 0) {
        c = c->next;
    }
    return c ? c->item : NULL;
}

static bool set_dtype(const value *class, mr_pq_tensor *out) {
    out->text = class->kind == V_CLASS &&
                (text_is(class->text, "str_") || text_is(class->text, "unicode_") ||
                 text_is(class->text, "bytes_") || text_is(class->text, "string_") ||
                 text_is(class->text, "Decimal"));
    for (int32_t d = 0; d <= MR_BOOL && class->kind == V_CLASS; d++) {
        const char *name = mr_dtype_name((mr_dtype)d);
        if (text_is(class->text, name) || (d == MR_BOOL && text_is(class->text, "bool_"))) {
            out->type.dtype = (mr_dtype)d;
            return true;
        }
    }
    return out->text;
}

static bool set_shape(const value *shape, mr_pq_tensor *out) {
    for (const cell *c = shape->first; c; c = c->next) {
        if (out->type.n_dims == MR_MAX_DIMS) {
            return false;
        }
        out->type.dims[out->type.n_dims++] = c->item->kind == V_INT ? c->item->number : -1;
    }
    return shape->kind == V_TUPLE;
}

static bool set_codec(const value *codec, mr_pq_tensor *out) {
    static const char *const names[] = {"ScalarCodec", "NdarrayCodec", "CompressedNdarrayCodec",
                                        "CompressedImageCodec"};
    if (codec->kind == V_NONE) {
        out->codec = MR_PQ_SCALAR_CODEC;
        return true;
    }
    value *class = codec->class;
    /* Older pickles make objects by a helper whose first argument is the class. */
    if (class && codec->arguments && item(codec->arguments, 0) &&
        item(codec->arguments, 0)->kind == V_CLASS) {
        class = item(codec->arguments, 0);
    }
    for (int32_t i = 0; class && i < 4; i++) {
        if (text_is(class->text, names[i])) {
            out->codec = (mr_pq_petastorm_codec)i;
            return true;
        }
    }
    return false;
}

/* A name that were cut short would be that of no column, or of another one. */
static mr_status set_name(mr_pq_bytes text, mr_pq_tensor *out, mr_error *err) {
    if (text.size >= sizeof out->name) {
        char start[61], safe[256];
        snprintf(start, sizeof start, "%.60s", (const char *)text.data);
        return mr_fail(err, MR_E_LIMIT,
                       "Petastorm's field \"%s...\" has a name of %zu bytes; at most %zu are read",
                       mr_text_escape(safe, sizeof safe, start), text.size, sizeof out->name - 1);
    }
    if (text.size && memchr(text.data, 0, text.size)) {
        return mr_fail(err, MR_E_CORRUPT, "a name in Petastorm's schema has a zero byte");
    }
    snprintf(out->name, sizeof out->name, "%.*s", (int)text.size, (const char *)text.data);
    return MR_OK;
}

/* UnischemaField(name, numpy_dtype, shape, codec, nullable) */
static mr_status read_field(const value *field, mr_pq_tensor *out, mr_error *err) {
    const value *arguments = field->kind == V_OBJECT ? field->arguments : NULL;
    const value *parts[5];
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 5; i++) {
        parts[i] = item(arguments, i);
    }
    if (!parts[0] || !parts[1] || !parts[2] || !parts[3] || parts[0]->kind != V_TEXT) {
        return mr_fail(err, MR_E_CORRUPT, "Petastorm's schema has a field without name or type");
    }
    MR_TRY(set_name(parts[0]->text, out, err));
    out->nullable = parts[4] && parts[4]->number;
    if (!set_dtype(parts[1], out) || !set_shape(parts[2], out) || !set_codec(parts[3], out)) {
        return mr_fail(err, MR_E_UNSUPPORTED,
                       "Petastorm's field \"%s\" has a type or codec of its own", out->name);
    }
    return MR_OK;
}

static mr_status read_schema(const value *root, mr_pq_tensor *out, int32_t capacity, int32_t *n,
                             mr_error *err) {
    const value *fields = root && root->kind == V_OBJECT ? member(root->state, "_fields") : NULL;
    if (!fields) {
        return mr_fail(err, MR_E_CORRUPT, "Petastorm's schema is damaged, or not one");
    }
    for (const cell *c = fields->first; c; c = c->next) {
        if (*n == capacity) {
            return mr_fail(err, MR_E_LIMIT, "Petastorm's schema has more than %d fields", capacity);
        }
        MR_TRY(read_field(c->item, &out[*n], err));
        (*n)++;
    }
    return MR_OK;
}

mr_status mr_pq_petastorm(mr_pq_bytes pickle, mr_pq_tensor *out, int32_t capacity, int32_t *n,
                          mr_error *err) {
    machine *m = mr_zalloc(1, sizeof *m);
    *n = 0;
    if (!m) {
        return mr_fail_memory(err, sizeof *m);
    }
    m->at = pickle.data;
    m->end = pickle.data + pickle.size;
    mr_status status = read_schema(run(m), out, capacity, n, err);
    mr_arena_free(&m->arena);
    free(m->memo);
    free(m);
    return status;
}
