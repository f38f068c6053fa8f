/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - the tree of the schema as a list of columns, and columns as fields.
 *
 * A list is written as a group around a repeated group around the element, or, by older writers,
 * with one of these missing; a map as a group around repeated pairs. Levels count what is there,
 * whatever it is called, so all forms decode alike; only names need to know which groups are
 * wrappers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/params.h"
#include "parquet/parts.h"

#define NESTING 64
#define NAME_MAX_BYTES 4096

enum { REQUIRED, OPTIONAL, REPEATED };
enum { CONVERTED_MAP = 1, CONVERTED_MAP_KEY_VALUE = 2, CONVERTED_LIST = 3 };
enum { LOGICAL_MAP = 2, LOGICAL_LIST = 3 };

/* ---- Types ---- */
static const struct {
    mr_pq_logical logical;
    int32_t per_second, bits;
    bool is_unsigned;
} converted_types[] = {
    [0] = {MR_PQ_STRING, 0, 0, false},       [4] = {MR_PQ_ENUM, 0, 0, false},
    [5] = {MR_PQ_DECIMAL, 0, 0, false},      [6] = {MR_PQ_DATE, 0, 0, false},
    [7] = {MR_PQ_TIME, 1000, 0, false},      [8] = {MR_PQ_TIME, 1000000, 0, false},
    [9] = {MR_PQ_TIMESTAMP, 1000, 0, false}, [10] = {MR_PQ_TIMESTAMP, 1000000, 0, false},
    [11] = {MR_PQ_INTEGER, 0, 8, true},      [12] = {MR_PQ_INTEGER, 0, 16, true},
    [13] = {MR_PQ_INTEGER, 0, 32, true},     [14] = {MR_PQ_INTEGER, 0, 64, true},
    [15] = {MR_PQ_INTEGER, 0, 8, false},     [16] = {MR_PQ_INTEGER, 0, 16, false},
    [17] = {MR_PQ_INTEGER, 0, 32, false},    [18] = {MR_PQ_INTEGER, 0, 64, false},
    [19] = {MR_PQ_JSON, 0, 0, false},        [20] = {MR_PQ_BSON, 0, 0, false},
    [21] = {MR_PQ_INTERVAL, 0, 0, false},
};

static const mr_pq_logical logical_types[] = {
    [1] = MR_PQ_STRING, [4] = MR_PQ_ENUM,      [5] = MR_PQ_DECIMAL,  [6] = MR_PQ_DATE,
    [7] = MR_PQ_TIME,   [8] = MR_PQ_TIMESTAMP, [10] = MR_PQ_INTEGER, [11] = MR_PQ_NULLS,
    [12] = MR_PQ_JSON,  [13] = MR_PQ_BSON,     [14] = MR_PQ_UUID,    [15] = MR_PQ_FLOAT16,
};

static bool has_converted(const mr_pq_element *element) {
    return element->converted >= 0 &&
           (size_t)element->converted < sizeof converted_types / sizeof *converted_types;
}

/* Writers say a type twice, for readers old and new. Where the two differ in what values are made
 * of, one of them is damaged, and nothing tells which. */
static bool is_contradicted(const mr_pq_column *column, const mr_pq_element *element) {
    mr_pq_logical other =
        has_converted(element) ? converted_types[element->converted].logical : MR_PQ_NO_LOGICAL;
    if (element->logical == 0 || other == MR_PQ_NO_LOGICAL) {
        return false;
    }
    if (column->logical == MR_PQ_DECIMAL && other == MR_PQ_DECIMAL) {
        bool says = element->precision > 0; /* else the older word is there without its numbers */
        return says && (element->scale != element->logical_scale ||
                        element->precision != element->logical_precision);
    }
    if (column->logical == MR_PQ_INTEGER && other == MR_PQ_INTEGER) {
        return column->bits != converted_types[element->converted].bits ||
               column->is_unsigned != converted_types[element->converted].is_unsigned;
    }
    return (column->logical == MR_PQ_DECIMAL) != (other == MR_PQ_DECIMAL);
}

static void set_logical(mr_pq_column *column, const mr_pq_element *element) {
    size_t n_logical = sizeof logical_types / sizeof *logical_types;
    column->scale = element->scale;
    column->precision = element->precision;
    if (element->logical > 0) {
        column->scale = element->logical_scale;
        column->precision = element->logical_precision;
        bool known = (size_t)element->logical < n_logical && logical_types[element->logical];
        column->logical = known ? logical_types[element->logical] : MR_PQ_UNKNOWN_LOGICAL;
        column->per_second = element->per_second;
        column->utc = element->utc;
        column->bits = element->bits;
        column->is_unsigned = column->logical == MR_PQ_INTEGER && !element->is_signed;
    } else if (has_converted(element)) {
        column->logical = converted_types[element->converted].logical;
        column->per_second = converted_types[element->converted].per_second;
        column->bits = converted_types[element->converted].bits;
        column->is_unsigned = converted_types[element->converted].is_unsigned;
        column->utc = column->per_second > 0;
    }
    if (is_contradicted(column, element)) {
        column->refused = "the schema says its type twice, and not the same";
    }
}

/* A logical type on a physical one that cannot carry it says nothing. */
static bool logical_fits(const mr_pq_column *column) {
    bool integer = column->physical == MR_PQ_INT32 || column->physical == MR_PQ_INT64;
    int32_t size = column->physical == MR_PQ_FIXED ? column->fixed_size : 0;
    switch (column->logical) {
    case MR_PQ_INTEGER:
        return column->physical == MR_PQ_INT64 ? column->bits == 64
               : column->physical == MR_PQ_INT32
                   ? column->bits == 8 || column->bits == 16 || column->bits == 32
                   : false;
    case MR_PQ_DECIMAL:
        return (integer || column->physical == MR_PQ_FIXED || column->physical == MR_PQ_BYTES) &&
               column->scale >= 0 && column->scale <= 1000;
    case MR_PQ_DATE:
        return column->physical == MR_PQ_INT32;
    case MR_PQ_TIME:
    case MR_PQ_TIMESTAMP:
        return integer;
    case MR_PQ_UUID:
        return size == 16;
    case MR_PQ_INTERVAL:
        return size == 12;
    case MR_PQ_FLOAT16:
        return size == 2;
    default:
        return true;
    }
}

static mr_dtype integer_dtype(const mr_pq_column *column) {
    bool plain = !column->is_unsigned;
    switch (column->bits) {
    case 8:
        return plain ? MR_I8 : MR_U8;
    case 16:
        return plain ? MR_I16 : MR_U16;
    case 32:
        return plain ? MR_I32 : MR_U32;
    default:
        return plain ? MR_I64 : MR_U64;
    }
}

static void set_dtype(mr_pq_column *column) {
    static const mr_dtype by_physical[] = {MR_BOOL, MR_I32, MR_I64, MR_I64,
                                           MR_F32,  MR_F64, MR_U8,  MR_U8};
    column->items = column->physical == MR_PQ_BYTES   ? 0
                    : column->physical == MR_PQ_FIXED ? column->fixed_size
                                                      : 1;
    column->dtype = by_physical[column->physical];
    if (column->logical == MR_PQ_INTEGER) {
        column->dtype = integer_dtype(column);
    } else if (column->logical == MR_PQ_DECIMAL) {
        column->dtype = MR_F64;
        column->items = 1;
    } else if (column->logical == MR_PQ_FLOAT16) {
        column->dtype = MR_F16;
        column->items = 1;
    }
}

static mr_status set_type(mr_pq_column *column, const mr_pq_element *element, mr_error *err) {
    if (element->physical < 0 || element->physical > MR_PQ_FIXED) {
        return mr_fail(err, MR_E_CORRUPT, "column \"%s\": its type, %d, is unknown", column->path,
                       element->physical);
    }
    column->physical = (mr_pq_physical)element->physical;
    column->fixed_size = element->fixed_size;
    if (column->physical == MR_PQ_FIXED &&
        (column->fixed_size < 1 || column->fixed_size > 1 << 24)) {
        return mr_fail(err, MR_E_CORRUPT, "column \"%s\": its fixed length is %d", column->path,
                       column->fixed_size);
    }
    set_logical(column, element);
    if (!logical_fits(column)) {
        column->logical = MR_PQ_UNKNOWN_LOGICAL;
        column->is_unsigned = false;
    }
    set_dtype(column);
    return MR_OK;
}

/* ---- The tree ---- */
typedef struct walk {
    mr_pq_file *file;
    const mr_pq_element *elements;
    int32_t n, at; /* next element */
    mr_pq_column *columns;
    mr_error *err;
    char name[NAME_MAX_BYTES], path[NAME_MAX_BYTES]; /* of where we are; cut where too long */
} walk;

/* A node on the way from the root, and how much of the walk's name and path is its. */
typedef struct place {
    size_t name_size, path_size;
    int32_t def, rep, depth;
    uint8_t list_def[MR_PQ_DEPTH];
} place;

/* What a group is to its children. */
typedef enum wrapper { MEMBER, LIST_ITEM, LIST_ELEMENT, MAP_PAIR, MAP_MEMBER } wrapper;

static size_t add_name(char *to, size_t used, mr_pq_bytes name) {
    size_t room = NAME_MAX_BYTES - 2 - used;
    size_t copied = name.size < room ? name.size : room;
    if (used > 0) {
        to[used++] = '.';
    }
    memcpy(to + used, name.data, copied);
    return used + copied;
}

static bool is_list(const mr_pq_element *element) {
    return element->logical == LOGICAL_LIST ||
           (!element->logical && element->converted == CONVERTED_LIST);
}

static bool is_map(const mr_pq_element *element) {
    return element->logical == LOGICAL_MAP ||
           (!element->logical &&
            (element->converted == CONVERTED_MAP || element->converted == CONVERTED_MAP_KEY_VALUE));
}

static bool text_is(mr_pq_bytes text, const char *word, size_t size) {
    return text.size == size && memcmp(text.data, word, size) == 0;
}

/* Whether the repeated group of a list is only there to hold the element. The rules for older
 * writers are those of the format's specification. */
static bool holds_element(const mr_pq_element *list, const mr_pq_element *repeated) {
    static const char tuple[] = "_tuple";
    mr_pq_bytes before = list->name, name = repeated->name;
    bool is_tuple = name.size == before.size + sizeof tuple - 1 &&
                    (before.size == 0 || memcmp(name.data, before.data, before.size) == 0) &&
                    memcmp(name.data + before.size, tuple, sizeof tuple - 1) == 0;
    return repeated->n_children == 1 && !text_is(name, "array", 5) && !is_tuple;
}

static mr_status walk_node(walk *w, place here, wrapper as, const mr_pq_element *parent,
                           int32_t position);

static mr_status take_levels(walk *w, place *here, const mr_pq_element *element) {
    here->def += element->repetition != REQUIRED;
    if (element->repetition == REPEATED) {
        if (here->rep == MR_PQ_DEPTH) {
            return mr_fail(w->err, MR_E_UNSUPPORTED,
                           "column \"%s\": more than %d lists in each other", w->path, MR_PQ_DEPTH);
        }
        here->list_def[here->rep++] = (uint8_t)here->def;
    }
    return MR_OK;
}

static mr_status add_column(walk *w, const place *here, const mr_pq_element *element) {
    mr_pq_column *column = &w->columns[w->file->n_columns++];
    mr_pq_bytes name = {(const uint8_t *)w->name, here->name_size};
    mr_pq_bytes path = {(const uint8_t *)w->path, here->path_size};
    column->name = mr_pq_take_text(w->file->memory, name);
    column->path = mr_pq_take_text(w->file->memory, path);
    if (!column->name || !column->path) {
        return mr_fail_memory(w->err, name.size + path.size);
    }
    column->max_def = here->def;
    column->max_rep = here->rep;
    memcpy(column->list_def, here->list_def, sizeof column->list_def);
    return set_type(column, element, w->err);
}

static wrapper child_kind(wrapper as, const mr_pq_element *parent, const mr_pq_element *element) {
    if (as == LIST_ITEM) {
        return holds_element(parent, element) ? LIST_ELEMENT : MEMBER;
    }
    if (as == MAP_PAIR) {
        return MAP_MEMBER;
    }
    return is_list(element) ? LIST_ITEM : is_map(element) ? MAP_PAIR : MEMBER;
}

/* Wrappers add nothing to the name; members of a map's pairs are its key and its value. */
static void take_name(walk *w, place *here, wrapper as, const mr_pq_element *element,
                      int32_t position) {
    static const mr_pq_bytes members[] = {{(const uint8_t *)"key", 3},
                                          {(const uint8_t *)"value", 5}};
    here->path_size = add_name(w->path, here->path_size, element->name);
    if (as == MEMBER) {
        here->name_size = add_name(w->name, here->name_size, element->name);
    } else if (as == MAP_MEMBER) {
        here->name_size = add_name(w->name, here->name_size, members[position > 0]);
    }
}

static mr_status walk_children(walk *w, const place *here, wrapper kind,
                               const mr_pq_element *element) {
    for (int32_t i = 0; i < element->n_children; i++) {
        MR_TRY(walk_node(w, *here, kind, element, i));
    }
    return MR_OK;
}

static mr_status walk_node(walk *w, place here, wrapper as, const mr_pq_element *parent,
                           int32_t position) {
    if (w->at == w->n || here.depth == NESTING) {
        return mr_fail(w->err, MR_E_CORRUPT, "the schema is damaged or nested too deeply");
    }
    const mr_pq_element *element = &w->elements[w->at++];
    bool leaf = element->n_children == 0 && element->physical >= 0;
    if (element->repetition < REQUIRED || element->repetition > REPEATED ||
        element->n_children < 0) {
        return mr_fail(w->err, MR_E_CORRUPT, "the schema is damaged");
    }
    if ((as == LIST_ITEM || as == MAP_PAIR) && element->repetition != REPEATED) {
        as = MEMBER; /* not what it is said to be: an ordinary group */
    }
    here.depth++;
    take_name(w, &here, as, element, position);
    MR_TRY(take_levels(w, &here, element));
    return leaf ? add_column(w, &here, element)
                : walk_children(w, &here, child_kind(as, parent, element), element);
}

/* Two columns of one name are told apart by their paths. */
static mr_status tell_apart(const mr_pq_file *file, mr_pq_column *columns, mr_error *err) {
    size_t places = 16;
    while (places < (size_t)file->n_columns * 2) {
        places *= 2;
    }
    int32_t *table = mr_zalloc(places, sizeof *table); /* column + 1, by hash of its name */
    if (!table) {
        return mr_fail_memory(err, places * sizeof *table);
    }
    for (int32_t i = 0; i < file->n_columns; i++) {
        size_t at = mr_hash64(columns[i].name, strlen(columns[i].name), 0) & (places - 1);
        while (table[at] && strcmp(columns[table[at] - 1].name, columns[i].name) != 0) {
            at = (at + 1) & (places - 1);
        }
        if (table[at]) {
            columns[i].name = columns[i].path;
        } else {
            table[at] = i + 1;
        }
    }
    free(table);
    return MR_OK;
}

mr_status mr_pq_schema(mr_pq_file *file, const mr_pq_element *elements, int32_t n, mr_error *err) {
    const place root = {0};
    walk *w = mr_zalloc(1, sizeof *w);
    mr_pq_column *columns = mr_pq_take(file->memory, (size_t)n, sizeof *columns);
    if (!w || !columns) {
        free(w);
        return mr_fail_memory(err, (size_t)n * sizeof *columns);
    }
    w->file = file;
    w->elements = elements;
    w->n = n;
    w->at = 1;
    w->columns = columns;
    w->err = err;
    file->n_columns = 0;
    mr_status status = walk_children(w, &root, MEMBER, &elements[0]);
    if (status == MR_OK && w->at != n) {
        status = mr_fail(err, MR_E_CORRUPT, "the schema has %d elements too many", n - w->at);
    }
    free(w);
    file->columns = columns;
    return status < 0 ? status : tell_apart(file, columns, err);
}

/* ---- Names ---- */
static bool class_matches(const char **pattern, char c) {
    const char *p = *pattern + 1;
    bool negated = *p == '!' || *p == '^', found = false;
    p += negated;
    do {
        if (p[0] && p[1] == '-' && p[2] && p[2] != ']') {
            found = found || (c >= p[0] && c <= p[2]);
            p += 3;
        } else {
            found = found || *p == c;
            p += *p != '\0';
        }
    } while (*p && *p != ']');
    *pattern = p;
    return found != negated;
}

/* The last star takes one character more each time the rest does not fit: linear in the text for
 * each star, with no recursion. */
bool mr_pq_matches(const char *pattern, const char *text) {
    const char *star = NULL, *retry = NULL;
    while (*text) {
        const char *p = pattern;
        bool fits = *p == '?' || (*p == '[' && strchr(p, ']') ? class_matches(&p, *text)
                                                              : *p && *p == *text && *p != '*');
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (fits) {
            pattern = p + 1;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static bool names_column(const char *pattern, const mr_pq_column *column) {
    size_t length = strlen(pattern);
    return strcmp(pattern, column->name) == 0 || strcmp(pattern, column->path) == 0 ||
           (strncmp(pattern, column->name, length) == 0 && column->name[length] == '.') ||
           (strpbrk(pattern, "*?[") && mr_pq_matches(pattern, column->name));
}

typedef struct name_list {
    const mr_pq_file *file;
    int32_t at;
} name_list;

static const char *next_name(void *user) {
    name_list *list = user;
    return list->at < list->file->n_columns ? list->file->columns[list->at++].name : NULL;
}

static mr_status no_such_column(const mr_pq_file *file, const char *pattern, mr_error *err) {
    name_list list = {file, 0};
    const char *nearest = mr_nearest_name(pattern, next_name, &list);
    mr_fail(err, MR_E_PARAM, "no column fits \"%s\"", pattern);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"?", nearest);
    } else {
        mr_hint(err, "millrace parquet FILE lists the columns");
    }
    return MR_E_PARAM;
}

mr_status mr_pq_select(const mr_pq_file *file, const char *const *patterns, int32_t n_patterns,
                       int32_t *out, int32_t *n_out, mr_error *err) {
    *n_out = 0;
    for (int32_t p = 0; p < n_patterns; p++) {
        bool found = false;
        for (int32_t c = 0; c < file->n_columns && !found; c++) {
            found = names_column(patterns[p], &file->columns[c]);
        }
        if (!found) {
            return no_such_column(file, patterns[p], err);
        }
    }
    for (int32_t c = 0; c < file->n_columns; c++) {
        bool wanted = n_patterns == 0;
        for (int32_t p = 0; p < n_patterns && !wanted; p++) {
            wanted = names_column(patterns[p], &file->columns[c]);
        }
        if (wanted) {
            out[(*n_out)++] = c;
        }
    }
    return MR_OK;
}

int32_t mr_pq_find(const mr_pq_file *file, const char *name) {
    for (int32_t c = 0; c < file->n_columns; c++) {
        if (strcmp(file->columns[c].name, name) == 0 || strcmp(file->columns[c].path, name) == 0) {
            return c;
        }
    }
    return -1;
}

/* ---- Fields ---- */
static void value_type(const mr_pq_column *column, int64_t length, mr_type *out) {
    bool text = column->items == 0;
    out->dtype = column->dtype;
    if (column->max_rep == 0 && !text) {
        out->n_dims = column->physical == MR_PQ_FIXED && column->logical != MR_PQ_FLOAT16 &&
                              column->logical != MR_PQ_DECIMAL
                          ? 1
                          : 0;
        out->dims[0] = column->items;
        return;
    }
    out->n_dims = 1;
    out->dims[0] = column->max_rep == 1 && !text && length > 0 ? length : -1;
    if (column->items > 1) {
        out->dims[out->n_dims++] = column->items;
    }
}

int32_t mr_pq_fields(const mr_pq_file *file, int32_t column, mr_pq_null_policy policy,
                     int64_t length, mr_pq_field out[MR_PQ_FIELDS]) {
    const mr_pq_column *c = &file->columns[column];
    int32_t n = 0, depths = c->max_rep + (c->items == 0);
    memset(out, 0, sizeof *out * MR_PQ_FIELDS);
    snprintf(out[n].name, sizeof out[n].name, "%s", c->name);
    out[n].role = MR_PQ_VALUES;
    value_type(c, length, &out[n].type);
    n++;
    if (policy == MR_PQ_NULL_MASK && c->max_def > c->max_rep) {
        snprintf(out[n].name, sizeof out[n].name, "%s.mask", c->name);
        out[n].role = MR_PQ_MASK;
        out[n].type = (mr_type){.dtype = MR_BOOL, .n_dims = c->max_rep > 0, .dims = {-1}};
        out[n].type.dims[0] = c->max_rep == 1 && length > 0 ? length : -1;
        n++;
    }
    for (int32_t depth = 1; depth < depths; depth++) {
        bool only = depths == 2;
        snprintf(out[n].name, sizeof out[n].name, only ? "%s.lengths" : "%s.lengths%d", c->name,
                 depth);
        out[n].role = MR_PQ_LENGTHS;
        out[n].depth = depth;
        out[n].type = (mr_type){.dtype = MR_I64, .n_dims = 1, .dims = {-1}};
        n++;
    }
    for (int32_t i = 0; i < n; i++) {
        out[i].column = column;
    }
    return n;
}

int64_t mr_pq_list_length(const mr_pq_file *file, int32_t column) {
    int64_t length = 0;
    if (file->columns[column].max_rep != 1) {
        return 0;
    }
    for (int32_t g = 0; g < file->n_groups; g++) {
        int64_t rows = file->groups[g].rows, values = file->groups[g].chunks[column].n_values;
        if (rows == 0) {
            continue;
        }
        if (file->groups[g].chunks[column].statistics.nulls > 0 || values % rows != 0 ||
            (length && values / rows != length)) {
            return 0;
        }
        length = values / rows;
    }
    return length;
}

/* ---- Names of the format's constants ---- */
static const char *name_of(const char *const *names, size_t n, int32_t i) {
    return i >= 0 && (size_t)i < n && names[i] ? names[i] : "unknown";
}

#define NAME_OF(names, i) name_of(names, sizeof(names) / sizeof *(names), i)

const char *mr_pq_physical_name(mr_pq_physical physical) {
    static const char *const names[] = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                        "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
    return NAME_OF(names, (int32_t)physical);
}

const char *mr_pq_logical_name(mr_pq_logical logical) {
    static const char *const names[] = {"",         "STRING",  "ENUM",    "JSON", "BSON",
                                        "INT",      "DECIMAL", "DATE",    "TIME", "TIMESTAMP",
                                        "INTERVAL", "UUID",    "FLOAT16", "NULL", "unknown"};
    return NAME_OF(names, (int32_t)logical);
}

const char *mr_pq_codec_name(int32_t codec) {
    static const char *const names[] = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO",
                                        "BROTLI",       "LZ4",    "ZSTD", "LZ4_RAW"};
    return NAME_OF(names, codec);
}

const char *mr_pq_encoding_name(int32_t encoding) {
    static const char *const names[] = {"PLAIN",
                                        NULL,
                                        "PLAIN_DICTIONARY",
                                        "RLE",
                                        "BIT_PACKED",
                                        "DELTA_BINARY_PACKED",
                                        "DELTA_LENGTH_BYTE_ARRAY",
                                        "DELTA_BYTE_ARRAY",
                                        "RLE_DICTIONARY",
                                        "BYTE_STREAM_SPLIT",
                                        "ALP"};
    return NAME_OF(names, encoding);
}
