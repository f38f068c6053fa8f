/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - samples are rows of text files: JSON lines, CSV, or plain lines; also compressed.
 *
 * One pass when the files are opened counts rows and notes where blocks begin, a few megabytes
 * apart; nothing is kept of a row. A block is parsed when it is unpacked, into columns: numbers as
 * numbers, text and lists in one piece of memory. A row that is not as it should be is known by
 * then and said when it is filled. */
#include <jansson.h>
#include <math.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/csv.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/letters.h"
#include "core/memory.h"
#include "core/name_table.h"
#include "core/number.h"
#include "io/far_name.h"
#include "sources/shards.h"

enum { MOST_FIELDS = MR_FIELDS_LIMIT - 1, FIELD_NAME = 256, LOOK_AT = 1000 };
enum { BY_NAME, JSON_LINES, CSV, PLAIN };

static const char *const format_names[] = {"auto", "jsonl", "csv", "text", NULL};

/* dtype MR_U8 with length -1 is text. length: -1 varies, 0 a single value. */
typedef struct column {
    char name[FIELD_NAME], key[FIELD_NAME];
    mr_dtype dtype;
    int64_t length;
    int32_t position;         /* in a row of CSV; -1: not found yet */
    int32_t next;             /* column that comes from the same key or position; -1: none */
    bool has_text, has_whole; /* while looking */
    bool has_real, has_bool, has_list, has_none;
} column;

typedef struct params {
    mr_strings path, fields;
    int32_t format;
    const char *delimiter;
    bool header;
    int64_t block_bytes, max_unpacked_bytes;
    int32_t kind; /* not parameters from here on: found by check */
    char separator;
    column *columns;
    int32_t n_columns, capacity;
    mr_name_table keys;   /* the first column of each */
    int32_t *at_position; /* (CSV) likewise, of each position; -1: none */
    int32_t n_positions;  /* up to the last that somebody takes */
    uint64_t header_hash;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, path),
     .min_len = 1,
     .max_len = 1000000,
     .doc = "Files: names, patterns with braces or wildcards, folders. Endings .gz and .zst are "
            "unpacked."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, fields),
     .fallback = "[]",
     .max_len = MOST_FIELDS,
     .doc = "Columns or keys to take, each a field: \"NAME:TYPE\" with a type of text, int64, "
            "float32, float64 or bool; of JSON also lists, [] or [8]: \"box:float32[4]\"; under "
            "another name: \"label=class:int64\". Empty: all there are, typed by looking at the "
            "first 1,000 rows."},
    {.name = "format",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, format),
     .fallback = "\"auto\"",
     .choices = format_names,
     .doc =
         "auto: by the first file's ending: .jsonl, .ndjson and .json; .csv and .tsv; else plain "
         "text."},
    {.name = "delimiter",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, delimiter),
     .fallback = "\"\"",
     .doc = "The character between the cells of CSV; empty: a comma, in .tsv a tab."},
    {.name = "header",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(params, header),
     .fallback = "true",
     .doc = "The first row of each CSV file has the columns' names; else they are called c0, c1, "
            "and so on."},
    {.name = "block_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, block_bytes),
     .fallback = "\"4MB\"",
     .min = 1,
     .max = 1e12,
     .doc = "Read and parse about as much at once."},
    {.name = "max_unpacked_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, max_unpacked_bytes),
     .fallback = "\"4GB\"",
     .min = 1,
     .max = 1e15,
     .doc = "Refuse compressed files that have more."},
    {.name = NULL},
};

static const char *const endings[] = {
    ".jsonl",    ".ndjson",    ".json",     ".csv",        ".tsv",    ".txt",     ".csv.gz",
    ".jsonl.gz", ".jsonl.zst", ".csv.zst",  ".tsv.gz",     ".txt.gz", ".txt.zst", ".ndjson.gz",
    ".tsv.zst",  ".json.gz",   ".json.zst", ".ndjson.zst", NULL};

typedef struct lines {
    const params *params;
    mr_shards shards;
    bool *wanted;         /* columns */
    int64_t *first_lines; /* of pieces, in their file, from 1 on */
    int64_t capacity_lines;
} lines;

/* ---- Formats ---- */
static bool has_ending(const char *path, const char *ending) {
    size_t length = strlen(path), n = strlen(ending);
    static const char *const packed[] = {"", ".gz", ".zst", ".zstd"};
    for (int i = 0; i < 4; i++) {
        size_t m = strlen(packed[i]);
        if (length > n + m && strcmp(path + length - m, packed[i]) == 0 &&
            memcmp(path + length - m - n, ending, n) == 0) {
            return true;
        }
    }
    return false;
}

static int32_t format_of(const char *path) {
    if (has_ending(path, ".jsonl") || has_ending(path, ".ndjson") || has_ending(path, ".json")) {
        return JSON_LINES;
    }
    return has_ending(path, ".csv") || has_ending(path, ".tsv") ? CSV : PLAIN;
}

static mr_status choose_format(params *p, const char *path, mr_error *err) {
    p->kind = p->format == BY_NAME ? format_of(path) : p->format;
    p->separator = has_ending(path, ".tsv") ? '\t' : ',';
    if (p->delimiter[0]) {
        p->separator = p->delimiter[0];
    }
    if (strlen(p->delimiter) > 1 || p->separator == '"' || p->separator == '\n' ||
        p->separator == '\r') {
        return mr_fail(err, MR_E_PARAM, "the delimiter is one character, and no quote");
    }
    return MR_OK;
}

/* The next row, with its end where it is CSV. */
static bool next_row(const params *p, mr_text *text, mr_text *row, bool *is_bad) {
    *is_bad = false;
    return p->kind == CSV ? mr_csv_row(text, p->separator, row, is_bad)
                          : mr_text_line(text, p->kind == PLAIN, row);
}

static mr_text text_of(const unsigned char *data, size_t size) {
    mr_text text = {(const char *)data, (const char *)data + size};
    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        text.at += 3; /* a mark that some programs put in front of UTF-8 */
    }
    return text;
}

static int64_t count_line_ends(const char *from, const char *to) {
    int64_t n = 0;
    while (from < to && (from = memchr(from, '\n', (size_t)(to - from))) != NULL) {
        from++;
        n++;
    }
    return n;
}

/* ---- What is wrong with a line of JSON ---- */
typedef enum wrong { NO_JSON, NO_OBJECT, TOO_LARGE } wrong;

typedef struct complaint {
    wrong wrong;
    char text[96]; /* what the parser says */
} complaint;

/* MR_OK: *out is the line's object. MR_E_CORRUPT: it has none, and *why says why. MR_E_MEMORY. */
static mr_status load_object(const mr_text *row, json_t **out, complaint *why) {
    json_error_t error = {.text = ""};
    json_t *value = NULL;
    mr_status status = mr_json_load(&value, row->at, (size_t)(row->end - row->at),
                                    JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (status == MR_E_MEMORY || json_is_object(value)) {
        *out = value;
        return status;
    }
    bool too_large = !value && json_error_code(&error) == json_error_numeric_overflow;
    *why = (complaint){.wrong = value ? NO_OBJECT : too_large ? TOO_LARGE : NO_JSON};
    mr_text_escape(why->text, sizeof why->text, value ? "it is another value" : error.text);
    json_decref(value);
    return MR_E_CORRUPT;
}

static mr_status complain(const complaint *why, int64_t line, mr_error *err) {
    if (why->wrong == TOO_LARGE) {
        mr_fail(err, MR_E_CORRUPT, "line %lld has a number that is too large: %s", (long long)line,
                why->text);
        mr_hint(err, "whole numbers have 64 bits: write a larger one as text, in quotes, or with a "
                     "point or exponent, 1e20");
    } else {
        mr_fail(err, MR_E_CORRUPT, "line %lld is not a JSON object: %s", (long long)line,
                why->text);
        mr_hint(err,
                "JSON lines have an object on each line, and no list around them; \"on_error\": "
                "\"skip\" leaves bad lines out");
    }
    return MR_E_CORRUPT;
}

/* ---- Fields that are declared ---- */
static bool copy_name(char *out, const char *from, size_t n) {
    if (n == 0 || n >= FIELD_NAME || memchr(from, '\0', n)) {
        return false;
    }
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

static bool parse_type(const params *p, const char *text, column *out) {
    static const char *const names[] = {"text", "int64", "float32", "float64", "bool"};
    static const mr_dtype types[] = {MR_U8, MR_I64, MR_F32, MR_F64, MR_BOOL};
    size_t n = strcspn(text, "[");
    int found = -1;
    char *end;
    for (int i = 0; i < 5; i++) {
        found = strlen(names[i]) == n && memcmp(names[i], text, n) == 0 ? i : found;
    }
    if (found < 0 || (text[n] && (found == 0 || p->kind != JSON_LINES))) {
        return false;
    }
    out->dtype = types[found];
    out->length = found == 0 ? -1 : 0;
    if (text[n] == '\0') {
        return true;
    }
    if (strcmp(text + n, "[]") == 0) {
        out->length = -1;
        return true;
    }
    out->length = strtoll(text + n + 1, &end, 10);
    return out->length > 0 && out->length <= INT32_MAX && strcmp(end, "]") == 0;
}

static mr_status put_column(params *p, const column *own, mr_error *err) {
    if (p->n_columns == MOST_FIELDS) {
        return mr_fail(err, MR_E_LIMIT, "more than %d columns", MOST_FIELDS);
    }
    if (!p->columns || p->n_columns == p->capacity) {
        int32_t capacity = p->capacity ? 2 * p->capacity : 8;
        column *grown = realloc(p->columns, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        p->columns = grown;
        p->capacity = capacity;
    }
    int32_t i = p->n_columns++, first = mr_name_table_find(&p->keys, own->key, strlen(own->key));
    p->columns[i] = *own;
    p->columns[i].next = -1;
    if (first >= 0) {
        p->columns[i].next = p->columns[first].next;
        p->columns[first].next = i;
    }
    return mr_name_table_put(&p->keys, own->key, strlen(own->key), i, err);
}

static mr_status declare(params *p, const char *text, mr_error *err) {
    const char *equals = strchr(text, '='), *key = equals ? equals + 1 : text;
    const char *colon = strrchr(key, ':');
    column own = {.position = -1};
    if (!colon || !parse_type(p, colon + 1, &own) ||
        !copy_name(own.key, key, (size_t)(colon - key)) ||
        !copy_name(own.name, text, (size_t)((equals ? equals : colon) - text))) {
        mr_fail(err, MR_E_PARAM, "'%.64s' does not declare a field", text);
        mr_hint(err, "write \"label:int64\", \"caption:text\", or of JSON \"box:float32[4]\"");
        return MR_E_PARAM;
    }
    return put_column(p, &own, err);
}

/* ---- Numbers in text ---- */
static bool parse_whole(const char *data, size_t n, int64_t *out) {
    bool minus = n > 0 && data[0] == '-';
    size_t i = minus || (n > 0 && data[0] == '+');
    int64_t value = 0;
    if (i == n) {
        return false;
    }
    for (; i < n; i++) {
        int digit = data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, minus ? -digit : digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

static bool parse_real(const char *data, size_t n, double *out) {
    char copy[64], *end;
    if (n == 0 || n >= sizeof copy || memchr(" \t\r\n\v\f", data[0], 6)) {
        return false;
    }
    memcpy(copy, data, n);
    copy[n] = '\0';
    *out = mr_number_parse(copy, &end);
    return end == copy + n && !strpbrk(copy, "xX");
}

static bool parse_bool(const char *data, size_t n, bool *out) {
    *out = (n == 4 && mr_same_letters(data, "true", 4)) || (n == 1 && *data == '1');
    return *out || (n == 5 && mr_same_letters(data, "false", 5)) || (n == 1 && *data == '0');
}

/* ---- Looking at the first rows ---- */
static column *find_column(params *p, const char *key) {
    int32_t i = mr_name_table_find(&p->keys, key, strlen(key));
    return i >= 0 ? &p->columns[i] : NULL;
}

static mr_status add_column(params *p, const char *name, size_t n, int32_t position,
                            mr_error *err) {
    column own = {.position = position};
    if (!copy_name(own.key, name, n)) {
        mr_fail(err, MR_E_LIMIT, "a column without a name, or with one of more than %d bytes",
                FIELD_NAME - 1);
        mr_hint(err, "declare those to take with `fields`");
        return MR_E_LIMIT;
    }
    memcpy(own.name, own.key, sizeof own.key);
    return put_column(p, &own, err);
}

static void look_at_cell(column *c, const mr_cell *cell) {
    int64_t whole;
    double real;
    bool truth;
    if (cell->size == 0) {
        c->has_none = true;
    } else if (parse_whole(cell->data, cell->size, &whole)) {
        c->has_whole = true;
    } else if (parse_real(cell->data, cell->size, &real)) {
        c->has_real = true;
    } else if (parse_bool(cell->data, cell->size, &truth)) {
        c->has_bool = true;
    } else {
        c->has_text = true;
    }
}

static void look_at_value(column *c, json_t *value) {
    if (json_is_array(value) && json_array_size(value) > 0) {
        c->has_list = true;
        for (size_t i = 0; i < json_array_size(value); i++) {
            json_t *item = json_array_get(value, i);
            c->has_whole = c->has_whole || json_is_integer(item);
            c->has_real = c->has_real || json_is_real(item);
            c->has_text = c->has_text || !json_is_number(item);
        }
        return;
    }
    c->has_list = c->has_list || json_is_array(value);
    c->has_none = c->has_none || json_is_null(value);
    c->has_whole = c->has_whole || json_is_integer(value);
    c->has_real = c->has_real || json_is_real(value);
    c->has_bool = c->has_bool || json_is_boolean(value);
    c->has_text = c->has_text || json_is_string(value) || json_is_object(value);
}

static void settle_type(column *c) {
    bool number = c->has_whole || c->has_real;
    c->dtype = MR_U8;
    c->length = -1;
    if (c->has_text || (c->has_bool && (number || c->has_none || c->has_list))) {
        return;
    }
    if (number || c->has_list) {
        c->dtype = c->has_real || c->has_none ? MR_F32 : MR_I64;
        c->length = c->has_list ? -1 : 0;
    } else if (c->has_bool) {
        c->dtype = MR_BOOL;
        c->length = 0;
    }
}

static mr_status look_at_members(params *p, json_t *object, mr_error *err) {
    json_t *value;
    const char *key;
    json_object_foreach(object, key, value) {
        column *c = find_column(p, key);
        if (!c) {
            MR_TRY(add_column(p, key, strlen(key), -1, err));
            c = &p->columns[p->n_columns - 1];
        }
        look_at_value(c, value);
    }
    return MR_OK;
}

/* A bad line is a bad sample, when its turn comes. */
static mr_status look_at_json(params *p, const mr_text *row, complaint *why, mr_error *err) {
    json_t *object = NULL;
    mr_status status = load_object(row, &object, why);
    if (status == MR_E_MEMORY) {
        return mr_fail_memory(err, (size_t)(row->end - row->at));
    }
    status = status == MR_OK ? look_at_members(p, object, err) : MR_OK;
    json_decref(object);
    return status;
}

static void look_at_csv(params *p, mr_text row) {
    mr_cell cell;
    bool is_last = false;
    for (int32_t position = 0; !is_last; position++) {
        is_last = mr_csv_cell(&row, p->separator, &cell);
        if (position < p->n_positions && p->at_position[position] >= 0) {
            look_at_cell(&p->columns[p->at_position[position]], &cell);
        }
    }
}

/* Of two columns of one name the first is taken. */
static void place_columns(params *p, const char *name, size_t n, int32_t position) {
    int32_t i = mr_name_table_find(&p->keys, name, n);
    for (; i >= 0; i = p->columns[i].next) {
        column *c = &p->columns[i];
        c->position = c->position < 0 ? position : c->position;
    }
}

/* Columns that were found by looking may have one name and different places. */
static mr_status note_positions(params *p, mr_error *err) {
    p->n_positions = 0;
    for (int32_t i = 0; i < p->n_columns; i++) {
        int32_t position = p->columns[i].position;
        p->n_positions = position >= p->n_positions ? position + 1 : p->n_positions;
    }
    p->at_position = mr_zalloc((size_t)p->n_positions + 1, sizeof *p->at_position);
    if (!p->at_position) {
        return mr_fail_memory(err, (size_t)p->n_positions * sizeof *p->at_position);
    }
    for (int32_t i = 0; i < p->n_positions; i++) {
        p->at_position[i] = -1;
    }
    for (int32_t i = p->n_columns - 1; i >= 0; i--) {
        column *c = &p->columns[i];
        c->next = p->at_position[c->position];
        p->at_position[c->position] = i;
    }
    return MR_OK;
}

/* The names of CSV's columns: from the first row, or by their numbers. */
static mr_status name_columns(params *p, mr_text row, bool add, mr_error *err) {
    mr_cell cell;
    bool is_last = false;
    char name[FIELD_NAME];
    for (int32_t position = 0; !is_last; position++) {
        is_last = mr_csv_cell(&row, p->separator, &cell);
        size_t n = cell.size < sizeof name ? mr_cell_copy(&cell, name) : sizeof name;
        if (!p->header) {
            n = (size_t)snprintf(name, sizeof name, "c%d", position);
        }
        if (add) {
            MR_TRY(add_column(p, name, n, position, err));
        } else if (n < sizeof name) {
            place_columns(p, name, n, position);
        }
    }
    return MR_OK;
}

static mr_status check_found(const params *p, mr_error *err) {
    for (int32_t i = 0; i < p->n_columns; i++) {
        if (p->columns[i].position < 0) {
            return mr_fail(err, MR_E_PARAM, "there is no column '%s'", p->columns[i].key);
        }
    }
    return MR_OK;
}

/* Without its end, which may be written in two ways. */
static uint64_t hash_row(const mr_text *row) {
    size_t n = (size_t)(row->end - row->at);
    while (n > 0 && (row->at[n - 1] == '\n' || row->at[n - 1] == '\r')) {
        n--;
    }
    return mr_hash64(row->at, n, 0);
}

static mr_status look_at_header(params *p, mr_text *text, bool add, mr_error *err) {
    mr_text row, rest = *text;
    bool is_bad;
    if (!next_row(p, &rest, &row, &is_bad)) {
        return mr_fail(err, MR_E_PARAM, "the file has no rows");
    }
    MR_TRY(name_columns(p, row, add, err));
    if (p->header) {
        p->header_hash = hash_row(&row);
        *text = rest;
    }
    MR_TRY(check_found(p, err));
    return note_positions(p, err);
}

/* Where no line is an object, the first one says what is wrong. */
static mr_status look_at_lines(params *p, const mr_shard_head *head, mr_text text, mr_error *err) {
    const char *data = (const char *)head->data, *first = NULL;
    mr_text row;
    complaint why = {.wrong = NO_JSON}, first_why = why;
    for (int i = 0; i < LOOK_AT && mr_text_line(&text, false, &row); i++) {
        if (text.at == text.end && !head->whole && i > 0) {
            break; /* a line that goes on behind what was read */
        }
        mr_status status = look_at_json(p, &row, &why, err);
        if (status < 0) {
            return mr_shard_blame(status, head->path, row.at - data, err);
        }
        first_why = first ? first_why : why;
        first = first ? first : row.at;
    }
    if (p->n_columns > 0 || !first || !first_why.text[0]) {
        return MR_OK;
    }
    complain(&first_why, count_line_ends(data, first) + 1, err);
    return mr_shard_blame(MR_E_CORRUPT, head->path, first - data, err);
}

static void look_at_rows(params *p, const mr_shard_head *head, mr_text text) {
    mr_text row;
    bool is_bad;
    for (int i = 0; i < LOOK_AT && next_row(p, &text, &row, &is_bad); i++) {
        if (text.at == text.end && !head->whole && i > 0) {
            break; /* a row that goes on behind what was read */
        }
        if (!is_bad) {
            look_at_csv(p, row);
        }
    }
}

static mr_status look(params *p, const mr_shard_head *head, mr_error *err) {
    mr_text text = text_of(head->data, head->size);
    bool add = p->n_columns == 0;
    if (p->kind == CSV) {
        MR_TRY(look_at_header(p, &text, add, err));
    }
    if (add && p->kind == JSON_LINES) {
        MR_TRY(look_at_lines(p, head, text, err));
    } else if (add) {
        look_at_rows(p, head, text);
    }
    for (int32_t i = 0; add && i < p->n_columns; i++) {
        settle_type(&p->columns[i]);
    }
    return p->n_columns > 0 ? MR_OK : mr_fail(err, MR_E_PARAM, "the file has no rows");
}

static mr_status check(void *params_, mr_error *err) {
    enum { HEAD = 4 << 20 };
    params *p = params_;
    mr_shard_head head;
    p->columns = NULL;
    p->at_position = NULL;
    p->n_columns = p->capacity = p->n_positions = 0;
    p->keys = (mr_name_table){.n = 0};
    mr_status status = mr_shards_head(&head, &p->path, endings, HEAD, err);
    if (status == MR_OK) {
        status = choose_format(p, head.path, err);
    }
    for (int32_t i = 0; status == MR_OK && p->kind != PLAIN && i < p->fields.n; i++) {
        status = declare(p, p->fields.v[i], err);
    }
    if (status == MR_OK && p->kind == PLAIN) {
        const column text = {.name = "text", .key = "text", .dtype = MR_U8, .length = -1};
        status = put_column(p, &text, err);
    } else if (status == MR_OK && (p->n_columns == 0 || p->kind == CSV)) {
        status = mr_shard_blame(look(p, &head, err), head.path, -1, err);
    }
    free(head.data);
    return status;
}

static void forget(void *params_) {
    params *p = params_;
    free(p->columns);
    mr_free(p->at_position);
    mr_name_table_free(&p->keys);
    p->columns = NULL;
    p->at_position = NULL;
    p->n_columns = p->capacity = p->n_positions = 0;
}

static mr_status describe(const void *params_, mr_field *fields, int32_t capacity,
                          int32_t *n_fields, mr_error *err) {
    const params *p = params_;
    (void)err;
    *n_fields = p->n_columns + 1;
    if (capacity < *n_fields) {
        return MR_OK;
    }
    for (int32_t i = 0; i < p->n_columns; i++) {
        const column *c = &p->columns[i];
        const mr_type type = {.dtype = c->dtype, .n_dims = c->length != 0, .dims = {c->length}};
        fields[i] = (mr_field){c->name, type, false};
    }
    fields[p->n_columns] = (mr_field){"row", {.dtype = MR_I64}, true};
    return MR_OK;
}

/* ---- Finding the rows ---- */
static mr_status skip_header(const params *p, mr_text *text, const char *data, mr_error *err) {
    mr_text row;
    bool is_bad;
    if (p->kind != CSV || !p->header || !next_row(p, text, &row, &is_bad)) {
        return MR_OK;
    }
    if (hash_row(&row) != p->header_hash) {
        mr_fail(err, MR_E_CORRUPT, "the first row is not the first file's");
        mr_hint(err, "files that are read together have the same columns in the same order");
        return mr_shard_blame(MR_E_CORRUPT, "", row.at - data, err);
    }
    return MR_OK;
}

static mr_status note_line(lines *l, int64_t piece, int64_t line, mr_error *err) {
    if (piece >= l->capacity_lines) {
        int64_t capacity = 2 * piece + 64;
        int64_t *grown = realloc(l->first_lines, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        l->first_lines = grown;
        l->capacity_lines = capacity;
    }
    l->first_lines[piece] = line;
    return MR_OK;
}

static mr_status unclosed(const char *base, const char *row, mr_error *err) {
    const long long line = count_line_ends(base, row) + 1;
    mr_fail(err, MR_E_CORRUPT,
            "line %lld has a quote that is not closed, or text after one that is", line);
    return mr_shard_blame(MR_E_CORRUPT, "", row - base, err);
}

static mr_status walk(void *user, mr_shards *shards, const mr_shard *shard,
                      const unsigned char *data, size_t size, mr_error *err) {
    lines *l = user;
    const params *p = l->params;
    const char *base = (const char *)data;
    mr_text text = text_of(data, size), row;
    int64_t n = 0;
    bool is_bad;
    (void)shard;
    MR_TRY(skip_header(p, &text, base, err));
    const char *start = text.at;
    int64_t line = count_line_ends(base, start) + 1;
    while (next_row(p, &text, &row, &is_bad)) {
        if (is_bad) {
            return unclosed(base, row.at, err);
        }
        n++;
        if (text.at - start >= p->block_bytes) {
            MR_TRY(note_line(l, shards->n_pieces, line, err));
            MR_TRY(mr_shards_mark(shards, start - base, n, err));
            line += count_line_ends(start, text.at);
            start = text.at;
            n = 0;
        }
    }
    mr_shards_end(shards, text.at - base);
    if (n == 0) {
        return MR_OK;
    }
    MR_TRY(note_line(l, shards->n_pieces, line, err));
    return mr_shards_mark(shards, start - base, n, err);
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    lines *l = mr_zalloc(1, sizeof *l);
    if (!l) {
        return mr_fail_memory(err, sizeof *l);
    }
    *state = l;
    l->params = p;
    l->wanted = mr_zalloc((size_t)l->params->n_columns, sizeof *l->wanted);
    if (!l->wanted) {
        return mr_fail_memory(err, (size_t)l->params->n_columns);
    }
    for (int32_t i = 0; i < l->params->n_columns; i++) {
        l->wanted[i] = !wanted->fields || wanted->fields[i];
    }
    const mr_shards_config config = {
        .patterns = &l->params->path,
        .endings = endings,
        .block_bytes = l->params->block_bytes,
        .max_unpacked = l->params->max_unpacked_bytes,
        .runs = true,
        .walk = walk,
        .user = l,
    };
    MR_TRY(mr_shards_open(&l->shards, &config, err));
    const uint64_t form[] = {(uint64_t)l->params->kind, (uint64_t)l->params->separator,
                             l->params->header, l->params->header_hash};
    return mr_shards_meaning(&l->shards, describe, p, &l->params->fields,
                             mr_hash64(form, sizeof form, 0), err);
}

static void close_(void *state) {
    lines *l = state;
    if (l) {
        mr_shards_close(&l->shards);
        free(l->first_lines);
        mr_free(l->wanted);
        mr_free(l);
    }
}

/* ---- Parsing a block ---- */
/* A value: a number where its field is one, else where it lies in memory and how many there are. */
typedef struct value {
    union {
        int64_t whole;
        float single;
        double real;
        bool truth;
        int64_t start;
    };
    int64_t n;
} value;

enum { GOOD, BAD_ROW, BAD_COLUMN }; /* BAD_COLUMN + i: column i */

/* A row that is bad: few are, so what to say of it is not kept for each row. */
typedef struct bad_line {
    int64_t row, line;
    complaint why; /* of JSON */
} bad_line;

typedef struct table {
    int64_t n_rows, capacity_rows;
    bad_line *bad_lines; /* by row */
    int64_t n_bad_lines, capacity_bad_lines;
    value *values; /* n_columns for each row */
    int32_t *bad;
    int64_t *offsets; /* of rows in the file */
    char *memory;     /* text and lists */
    size_t n, capacity;
} table;

static char *reserve(table *t, size_t size) {
    size_t n = (t->n + 7) / 8 * 8;
    if (n + size > t->capacity) {
        size_t capacity = 2 * t->capacity + size + 4096;
        char *grown = realloc(t->memory, capacity);
        if (!grown) {
            return NULL;
        }
        t->memory = grown;
        t->capacity = capacity;
    }
    t->n = n + size;
    return t->memory + n;
}

/* False: no memory. */
static bool put_text(table *t, value *v, const char *data, size_t n) {
    char *at = reserve(t, n + 1);
    if (at) {
        memcpy(at, data, n);
        v->start = at - t->memory;
        v->n = (int64_t)n;
    }
    return at != NULL;
}

static bool put_cell_text(table *t, value *v, const mr_cell *cell) {
    char *at = reserve(t, cell->size + 1);
    if (at) {
        v->start = at - t->memory;
        v->n = (int64_t)mr_cell_copy(cell, at);
    }
    return at != NULL;
}

/* A number as its field wants it; false: it is not one. */
static bool put_cell_number(const column *c, value *v, const mr_cell *cell) {
    double real = NAN;
    switch (c->dtype) {
    case MR_I64:
        return parse_whole(cell->data, cell->size, &v->whole);
    case MR_BOOL:
        return parse_bool(cell->data, cell->size, &v->truth);
    default:
        if (cell->size > 0 && !parse_real(cell->data, cell->size, &real)) {
            return false;
        }
        if (c->dtype == MR_F32) {
            v->single = (float)real;
        } else {
            v->real = real;
        }
        return true;
    }
}

static bool put_json_number(mr_dtype dtype, void *out, json_t *item) {
    double real = json_is_number(item) ? json_number_value(item) : NAN;
    float single = (float)real;
    int64_t whole = json_integer_value(item);
    bool truth = json_is_true(item);
    switch (dtype) {
    case MR_I64:
        memcpy(out, &whole, sizeof whole);
        return json_is_integer(item);
    case MR_BOOL:
        memcpy(out, &truth, sizeof truth);
        return json_is_boolean(item);
    case MR_F32:
        memcpy(out, &single, sizeof single);
        return !item || json_is_number(item) || json_is_null(item);
    default:
        memcpy(out, &real, sizeof real);
        return !item || json_is_number(item) || json_is_null(item);
    }
}

static mr_status no_memory(mr_error *err) {
    return mr_fail_memory(err, 0);
}

/* A string, or nothing for null and what is missing; other values as JSON. */
static mr_status put_json_text(table *t, value *v, json_t *item, mr_error *err) {
    if (!item || json_is_null(item)) {
        return put_text(t, v, "", 0) ? MR_OK : no_memory(err);
    }
    if (json_is_string(item)) {
        return put_text(t, v, json_string_value(item), json_string_length(item)) ? MR_OK
                                                                                 : no_memory(err);
    }
    char *text = json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    bool kept = text && put_text(t, v, text, strlen(text));
    free(text);
    return kept ? MR_OK : no_memory(err);
}

static mr_status put_json_list(table *t, const column *c, value *v, json_t *item, bool *good,
                               mr_error *err) {
    size_t n = json_array_size(item), each = mr_dtype_size(c->dtype);
    *good = json_is_array(item) && (c->length < 0 || n == (size_t)c->length);
    char *at = reserve(t, n * each + 1);
    if (!at) {
        return no_memory(err);
    }
    v->start = at - t->memory;
    v->n = (int64_t)n;
    for (size_t i = 0; *good && i < n; i++) {
        *good = put_json_number(c->dtype, at + i * each, json_array_get(item, i));
    }
    return MR_OK;
}

static mr_status put_json(table *t, const column *c, value *v, json_t *item, bool *good,
                          mr_error *err) {
    *good = true;
    if (c->dtype == MR_U8) {
        return put_json_text(t, v, item, err);
    }
    if (c->length != 0) {
        return put_json_list(t, c, v, item, good, err);
    }
    *good = put_json_number(c->dtype, &v->whole, item);
    return MR_OK;
}

static mr_status parse_json(const lines *l, table *t, const mr_text *row, value *values,
                            int32_t *bad, complaint *why, mr_error *err) {
    json_t *object = NULL;
    mr_status status = load_object(row, &object, why);
    if (status == MR_E_MEMORY) {
        return no_memory(err);
    }
    *bad = status == MR_OK ? GOOD : BAD_ROW;
    status = MR_OK;
    for (int32_t i = 0; *bad == GOOD && status == MR_OK && i < l->params->n_columns; i++) {
        const column *c = &l->params->columns[i];
        bool good = true;
        if (l->wanted[i]) {
            status = put_json(t, c, &values[i], json_object_get(object, c->key), &good, err);
        }
        *bad = good ? GOOD : BAD_COLUMN + i;
    }
    json_decref(object);
    return status;
}

static mr_status put_cell(const lines *l, table *t, int32_t position, const mr_cell *cell,
                          value *values, int32_t *bad, mr_error *err) {
    const params *p = l->params;
    int32_t i = position < p->n_positions ? p->at_position[position] : -1;
    for (; i >= 0; i = p->columns[i].next) {
        const column *c = &p->columns[i];
        if (!l->wanted[i]) {
            continue;
        }
        if (c->dtype == MR_U8) {
            if (!put_cell_text(t, &values[i], cell)) {
                return no_memory(err);
            }
        } else if (!put_cell_number(c, &values[i], cell)) {
            *bad = *bad == GOOD ? BAD_COLUMN + i : *bad;
        }
    }
    return MR_OK;
}

/* A row that is too short lacks columns. */
static void check_length(const lines *l, int32_t n, int32_t *bad) {
    for (int32_t i = 0; i < l->params->n_columns; i++) {
        if (l->wanted[i] && l->params->columns[i].position >= n && *bad == GOOD) {
            *bad = BAD_COLUMN + i;
        }
    }
}

static mr_status parse_csv(const lines *l, table *t, mr_text row, value *values, int32_t *bad,
                           mr_error *err) {
    mr_cell cell;
    bool is_last = false;
    int32_t n = 0;
    for (; !is_last; n++) {
        is_last = mr_csv_cell(&row, l->params->separator, &cell);
        MR_TRY(put_cell(l, t, n, &cell, values, bad, err));
    }
    check_length(l, n, bad);
    return MR_OK;
}

static mr_status parse_row(const lines *l, table *t, const mr_text *row, bool is_bad,
                           complaint *why, mr_error *err) {
    value *values = &t->values[t->n_rows * l->params->n_columns];
    int32_t *bad = &t->bad[t->n_rows++];
    if (is_bad) {
        *bad = BAD_ROW;
        return MR_OK;
    }
    if (l->params->kind == JSON_LINES) {
        return parse_json(l, t, row, values, bad, why, err);
    }
    if (l->params->kind == CSV) {
        return parse_csv(l, t, *row, values, bad, err);
    }
    return put_text(t, values, row->at, (size_t)(row->end - row->at)) ? MR_OK : no_memory(err);
}

static mr_status keep_bad(table *t, int64_t line, const complaint *why, mr_error *err) {
    if (t->n_bad_lines == t->capacity_bad_lines) {
        int64_t capacity = 2 * t->capacity_bad_lines + 8;
        bad_line *grown = realloc(t->bad_lines, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return no_memory(err);
        }
        t->bad_lines = grown;
        t->capacity_bad_lines = capacity;
    }
    t->bad_lines[t->n_bad_lines++] = (bad_line){t->n_rows - 1, line, *why};
    return MR_OK;
}

/* first: the number of the text's first line. */
static mr_status parse_rows(const lines *l, table *t, mr_text text, int64_t offset, int64_t first,
                            mr_error *err) {
    const char *base = text.at, *counted = text.at;
    complaint why = {.wrong = NO_JSON};
    mr_text row;
    bool is_bad;
    while (next_row(l->params, &text, &row, &is_bad)) {
        if (t->n_rows == t->capacity_rows) {
            t->n_rows++; /* one too many */
            break;
        }
        t->offsets[t->n_rows] = offset + (row.at - base);
        MR_TRY(parse_row(l, t, &row, is_bad, &why, err));
        if (t->bad[t->n_rows - 1] != GOOD) {
            first += count_line_ends(counted, row.at);
            counted = row.at;
            MR_TRY(keep_bad(t, first, &why, err));
        }
    }
    return t->n_rows == t->capacity_rows
               ? MR_OK
               : mr_fail(err, MR_E_CORRUPT, "the file is another one than when the run began");
}

static mr_status make_table(const lines *l, table *t, int64_t n_rows, mr_error *err) {
    size_t n = (size_t)n_rows;
    t->capacity_rows = n_rows;
    t->values = mr_zalloc(n * (size_t)l->params->n_columns, sizeof *t->values);
    t->bad = mr_zalloc(n, sizeof *t->bad);
    t->offsets = mr_zalloc(n, sizeof *t->offsets);
    return t->values && t->bad && t->offsets ? MR_OK : mr_fail_memory(err, n * sizeof *t->values);
}

static int64_t rows_of(const lines *l, int64_t block) {
    int64_t end = block + 1 < l->shards.n_blocks ? mr_shards_first_sample(&l->shards, block + 1)
                                                 : l->shards.n_samples;
    return end - mr_shards_first_sample(&l->shards, block);
}

static mr_status parse_block(const lines *l, const mr_block *block, table *t, mr_error *err) {
    const mr_shards *s = &l->shards;
    const mr_shard_block *own = &s->blocks[block->number];
    const mr_shard *shard = &s->v[own->shard];
    unsigned char *owned = NULL;
    mr_bytes bytes;
    MR_TRY(make_table(l, t, rows_of(l, block->number), err));
    MR_TRY(mr_shards_unpack(s, block, &bytes, &owned, err));
    const mr_shard_piece piece = mr_shards_piece(s, block, owned, own->first_piece);
    size_t size = owned ? (size_t)(shard->end - piece.offset) : bytes.size;
    const mr_text text = {(const char *)piece.data, (const char *)piece.data + size};
    mr_status status = parse_rows(l, t, text, piece.offset, l->first_lines[own->first_piece], err);
    free(owned);
    return mr_shard_blame(status, shard->path, piece.offset, err);
}

static void drop(const void *state, int32_t part, void *unpacked) {
    table *t = unpacked;
    (void)state;
    (void)part;
    mr_free(t->values);
    mr_free(t->bad);
    mr_free(t->offsets);
    free(t->bad_lines);
    free(t->memory);
    mr_free(t);
}

static mr_status unpack(const void *state, const mr_block *block, int32_t part, void **out,
                        mr_error *err) {
    table *t = mr_zalloc(1, sizeof *t);
    (void)part;
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    *out = t;
    return parse_block(state, block, t, err);
}

/* ---- Blocks ---- */
static void shape(const void *state, mr_shape *out) {
    mr_shards_shape(&((const lines *)state)->shards, out);
    out->keeps_bytes = false;
}

static int64_t first_sample(const void *state, int64_t block) {
    return mr_shards_first_sample(&((const lines *)state)->shards, block);
}

/* The text, and what is made of it. */
static int64_t block_bytes(const void *state, int64_t block) {
    const lines *l = state;
    int64_t each = l->params->n_columns * (int64_t)sizeof(value) + 12;
    return 2 * mr_shards_block_bytes(&l->shards, block) + rows_of(l, block) * each;
}

static mr_status locate(const void *state, int64_t block, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    return mr_shards_locate(&((const lines *)state)->shards, block, extents, capacity, n, err);
}

/* ---- Samples ---- */
static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const mr_shard *shard = mr_shards_of_sample(&((const lines *)state)->shards, sample);
    const int64_t row = sample - shard->first_sample + 1;
    snprintf(buffer, size, "%.*s, row %lld", (int)mr_path_public(shard->path), shard->path,
             (long long)row);
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    return mr_shards_identify(&((const lines *)state)->shards, sample, out);
}

static int compare_rows(const void *a, const void *b) {
    const bad_line *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

static mr_status bad_row(const lines *l, const table *t, int64_t row, mr_error *err) {
    const int32_t bad = t->bad[row];
    const bad_line key = {.row = row}, *found = bsearch(&key, t->bad_lines, (size_t)t->n_bad_lines,
                                                        sizeof key, compare_rows);
    const long long line = found ? (long long)found->line : 0;
    if (bad == BAD_ROW && l->params->kind == JSON_LINES && found) {
        complain(&found->why, line, err);
    } else if (bad == BAD_ROW) {
        mr_fail(err, MR_E_CORRUPT, "line %lld is not valid CSV", line);
    } else {
        const column *c = &l->params->columns[bad - BAD_COLUMN];
        mr_fail(err, MR_E_CORRUPT, "line %lld: column %s is missing or not %s%s", line, c->key,
                mr_dtype_name(c->dtype), c->length ? ", as many as declared" : "");
        mr_hint(err, "declare its type with `fields`: \"%s:text\" takes anything", c->key);
    }
    if (err) {
        err->offset = t->offsets[row];
    }
    return MR_E_CORRUPT;
}

static void fill_column(const column *c, const table *t, const value *v, mr_view *field) {
    size_t each = mr_dtype_size(c->dtype);
    if (c->length == 0) {
        memcpy(field->data, &v->whole, each);
    } else if (c->length > 0) {
        memcpy(field->data, t->memory + v->start, each * (size_t)v->n);
    } else {
        field->data = t->memory + v->start;
        field->size = each * (size_t)v->n;
        field->type.dims[0] = v->n;
    }
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const lines *l = state;
    const table *t = block ? block->parts[0] : NULL;
    const int32_t n = l->params->n_columns;
    if (!t) {
        return mr_fail(err, MR_E_INTERNAL, "a sample without its block");
    }
    int64_t row = sample - block->first;
    if (t->bad[row] != GOOD) {
        return bad_row(l, t, row, err);
    }
    for (int32_t i = 0; i < n; i++) {
        if (mr_is_wanted(&fields[i])) {
            fill_column(&l->params->columns[i], t, &t->values[row * n + i], &fields[i]);
        }
    }
    if (mr_is_wanted(&fields[n])) {
        memcpy(fields[n].data, &sample, sizeof sample);
    }
    return MR_OK;
}

static void gather_row(const lines *l, const table *t, int64_t row, int64_t i, int64_t sample,
                       const mr_column *columns) {
    const int32_t n = l->params->n_columns;
    for (int32_t c = 0; c < n; c++) {
        if (columns[c].data) {
            mr_view field = {.data = (char *)columns[c].data + (size_t)i * columns[c].stride};
            fill_column(&l->params->columns[c], t, &t->values[row * n + c], &field);
        } else if (columns[c].pieces) {
            const value *v = &t->values[row * n + c];
            size_t each = mr_dtype_size(l->params->columns[c].dtype);
            columns[c].pieces[i] = (mr_piece){t->memory + v->start, (size_t)v->n * each};
        }
    }
    if (columns[n].data) {
        memcpy((char *)columns[n].data + (size_t)i * columns[n].stride, &sample, sizeof sample);
    }
}

static mr_status gather(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *columns, mr_error *err) {
    const lines *l = state;
    for (int64_t i = 0; i < n; i++) {
        const table *t = blocks[i]->parts[0];
        int64_t row = samples[i] - blocks[i]->first;
        if (t->bad[row] != GOOD) {
            return bad_row(l, t, row, err);
        }
        gather_row(l, t, row, i, samples[i], columns);
    }
    return MR_OK;
}

extern const mr_source_class mr_source_lines;
const mr_source_class mr_source_lines = {
    MR_SOURCE_HEADER,
    .name = "lines",
    .summary = "Rows of text files: JSON lines, CSV, or plain lines; also compressed.",
    .doc =
        "Fields: one for each column or key, of plain text the field text; on request row (int64, "
        "from 0 on over all files). By looking, a column of whole numbers is int64, of numbers "
        "float32, of truth values bool, of lists of numbers a list of any length, anything else "
        "text (bytes of UTF-8; objects as JSON). A cell that is empty, null or missing is NaN "
        "where numbers are float, empty where they are text, and else a bad sample, as is "
        "whatever does not fit its field's type. Empty lines count only in plain text. Cells of "
        "CSV may be quoted, with line ends and doubled quotes inside. Rows are counted in one pass "
        "when the run opens; files are read in blocks cut at row ends, a compressed file is one "
        "block.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .forget = forget,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .sample_name = sample_name,
    .first_sample = first_sample,
    .block_bytes = block_bytes,
    .locate = locate,
    .unpack = unpack,
    .drop = drop,
    .fill = fill,
    .gather = gather,
    .identify = identify,
    .also = "csv tsv jsonl json text text_lines",
};
