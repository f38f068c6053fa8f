/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - the header of a .npy file: a magic number, a version, a length, and then a Python
 * dictionary as text. Of Python only what numpy itself writes there is understood: three keys in
 * any order, quoted strings, True, False, and a tuple of numbers. Anything else is refused. */
#include "codecs/npy.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

typedef struct reader {
    const char *file, *at, *end;
    mr_error *err;
} reader;

typedef enum key { DESCR, FORTRAN_ORDER, SHAPE, N_KEYS } key;
static const char *const key_names[N_KEYS] = {"descr", "fortran_order", "shape"};

/* ---- Pieces of the text ---- */
static mr_status bad_header(const reader *r, const char *what) {
    if (r->err) {
        r->err->offset = r->at - r->file;
    }
    return mr_fail(r->err, MR_E_CORRUPT, "the .npy header is damaged: %s", what);
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n')) {
        r->at++;
    }
}

static bool take(reader *r, const char *word) {
    size_t n = strlen(word);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

/* A quoted string without escapes, of at most `size` - 1 characters. */
static mr_status take_string(reader *r, char *out, size_t size) {
    skip_blanks(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) {
        return bad_header(r, "wanted a quoted string");
    }
    const char *start = r->at + 1;
    const char *close = memchr(start, *r->at, (size_t)(r->end - start));
    if (!close || (size_t)(close - start) >= size || memchr(start, '\\', (size_t)(close - start))) {
        return bad_header(r, "a string that nobody writes there");
    }
    snprintf(out, size, "%.*s", (int)(close - start), start);
    r->at = close + 1;
    return MR_OK;
}

static mr_status take_number(reader *r, int64_t *out) {
    int64_t value = 0;
    const char *start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *r->at - '0', &value)) {
            return bad_header(r, "a number that is too large");
        }
        r->at++;
    }
    *out = value;
    return r->at > start ? MR_OK : bad_header(r, "wanted a number");
}

/* ---- The three values ---- */
typedef struct dtype_row {
    const char *descr;
    mr_dtype dtype;
} dtype_row;

/* The first of a type is the one that is written. */
static const dtype_row dtypes[] = {
    {"|u1", MR_U8},  {"<u1", MR_U8},  {"|i1", MR_I8},  {"<i1", MR_I8},  {"<i2", MR_I16},
    {"<u2", MR_U16}, {"<i4", MR_I32}, {"<u4", MR_U32}, {"<i8", MR_I64}, {"<u8", MR_U64},
    {"<f2", MR_F16}, {"<f4", MR_F32}, {"<f8", MR_F64}, {"|b1", MR_BOOL}};

static mr_status unsupported_dtype(const reader *r, const char *descr) {
    char shown[80];
    mr_text_escape(shown, sizeof shown, descr);
    if (strchr(descr, 'O')) {
        mr_fail(r->err, MR_E_UNSUPPORTED, "the array holds Python objects (%s)", shown);
        mr_hint(r->err, "save numbers: np.stack(...).astype(...)");
    } else if (descr[0] == '>') {
        mr_fail(r->err, MR_E_UNSUPPORTED, "the array is big-endian (%s)", shown);
        mr_hint(r->err, "save it as a.astype(a.dtype.newbyteorder('<'))");
    } else {
        mr_fail(r->err, MR_E_UNSUPPORTED, "elements of type %s are not supported", shown);
        mr_hint(r->err,
                "whole numbers, bool, float16, float32 and float64 are: save a.astype(...)");
    }
    return MR_E_UNSUPPORTED;
}

static mr_status read_descr(reader *r, mr_npy *out) {
    char descr[64];
    skip_blanks(r);
    if (r->at < r->end && *r->at == '[') {
        mr_fail(r->err, MR_E_UNSUPPORTED, "the array has named fields");
        mr_hint(r->err, "save each field as a file of its own");
        return MR_E_UNSUPPORTED;
    }
    MR_TRY(take_string(r, descr, sizeof descr));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].descr, descr) == 0) {
            out->dtype = dtypes[i].dtype;
            return MR_OK;
        }
    }
    return unsupported_dtype(r, descr);
}

static mr_status read_order(reader *r) {
    if (take(r, "False")) {
        return MR_OK;
    }
    if (!take(r, "True")) {
        return bad_header(r, "fortran_order is neither True nor False");
    }
    mr_fail(r->err, MR_E_UNSUPPORTED, "the array is in Fortran order: its samples lie scattered");
    mr_hint(r->err, "save it as np.ascontiguousarray(a)");
    return MR_E_UNSUPPORTED;
}

static mr_status read_dim(reader *r, mr_npy *out) {
    int64_t dim = 0;
    MR_TRY(take_number(r, &dim));
    if (out->n_dims == MR_NPY_DIMS) {
        return mr_fail(r->err, MR_E_UNSUPPORTED, "the array has more than %d dimensions",
                       MR_NPY_DIMS);
    }
    out->dims[out->n_dims++] = dim;
    return MR_OK;
}

/* "()", "(5,)", "(5, 6)": what tells "(5)", a mere number, from a tuple is the comma. */
static mr_status read_shape(reader *r, mr_npy *out) {
    bool comma = false;
    if (!take(r, "(")) {
        return bad_header(r, "shape is not a tuple");
    }
    while (!take(r, ")")) {
        if (out->n_dims > 0 && !comma) {
            return bad_header(r, "wanted a comma in the shape");
        }
        MR_TRY(read_dim(r, out));
        comma = take(r, ",");
    }
    return out->n_dims == 1 && !comma ? bad_header(r, "shape is not a tuple") : MR_OK;
}

/* ---- The dictionary ---- */
static mr_status read_key(reader *r, key *out) {
    char name[32];
    MR_TRY(take_string(r, name, sizeof name));
    for (int i = 0; i < N_KEYS; i++) {
        if (strcmp(key_names[i], name) == 0) {
            *out = (key)i;
            return take(r, ":") ? MR_OK : bad_header(r, "wanted a colon");
        }
    }
    return bad_header(r, "a key that nobody writes there");
}

static mr_status read_value(reader *r, key which, mr_npy *out) {
    switch (which) {
    case DESCR:
        return read_descr(r, out);
    case FORTRAN_ORDER:
        return read_order(r);
    default:
        return read_shape(r, out);
    }
}

static mr_status read_dictionary(reader *r, mr_npy *out) {
    bool seen[N_KEYS] = {false};
    bool comma = true;
    if (!take(r, "{")) {
        return bad_header(r, "wanted a dictionary");
    }
    while (!take(r, "}")) {
        key which = DESCR;
        if (!comma) {
            return bad_header(r, "wanted a comma");
        }
        MR_TRY(read_key(r, &which));
        if (seen[which]) {
            return bad_header(r, "a key stands there twice");
        }
        seen[which] = true;
        MR_TRY(read_value(r, which, out));
        comma = take(r, ",");
    }
    skip_blanks(r);
    if (r->at < r->end) {
        return bad_header(r, "more text behind the dictionary");
    }
    bool all = seen[DESCR] && seen[FORTRAN_ORDER] && seen[SHAPE];
    return all ? MR_OK : bad_header(r, "descr, fortran_order or shape is missing");
}

/* ---- The frame ---- */
static mr_status too_short(size_t size, mr_error *err) {
    return mr_fail(err, MR_E_CORRUPT, "the file ends inside its .npy header, after %zu bytes",
                   size);
}

/* Finds the text of the header. */
static mr_status read_frame(const unsigned char *file, size_t size, reader *r) {
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    if (memcmp(file, magic, size < sizeof magic ? size : sizeof magic) != 0) {
        return mr_fail(r->err, MR_E_UNSUPPORTED, "not a .npy file");
    }
    if (size < 8) {
        return too_short(size, r->err);
    }
    if (file[6] < 1 || file[6] > 3 || file[7] != 0) {
        return mr_fail(r->err, MR_E_UNSUPPORTED, "version %u.%u of .npy is not known", file[6],
                       file[7]);
    }
    size_t start = file[6] == 1 ? 10 : 12;
    if (size < start) {
        return too_short(size, r->err);
    }
    uint32_t length = file[8] | (uint32_t)file[9] << 8;
    if (start == 12) {
        length |= (uint32_t)file[10] << 16 | (uint32_t)file[11] << 24;
    }
    if (length > MR_NPY_HEADER_MAX) {
        return mr_fail(r->err, MR_E_LIMIT, "a .npy header of %u bytes is more than %d", length,
                       MR_NPY_HEADER_MAX);
    }
    if (size - start < length) {
        return too_short(size, r->err);
    }
    r->file = (const char *)file;
    r->at = r->file + start;
    r->end = r->at + length;
    return MR_OK;
}

static mr_status check_size(size_t size, mr_npy *out, mr_error *err) {
    int64_t bytes = (int64_t)mr_dtype_size(out->dtype), end = 0;
    for (int32_t i = 0; i < out->n_dims; i++) {
        if (__builtin_mul_overflow(bytes, out->dims[i], &bytes)) {
            return mr_fail(err, MR_E_CORRUPT, "the array's shape is larger than any file");
        }
    }
    bool endless = __builtin_add_overflow(bytes, out->offset, &end);
    if (endless || end != (int64_t)size) {
        mr_fail(err, MR_E_CORRUPT, "the file has %zu bytes, its header promises %lld and %lld",
                size, (long long)out->offset, (long long)bytes);
        mr_hint(err, "%s",
                !endless && end < (int64_t)size
                    ? "nothing may follow the array: save it alone in a file"
                    : "it was cut short, or is still being written");
        if (err) {
            err->offset = !endless && end < (int64_t)size ? end : (int64_t)size;
        }
        return MR_E_CORRUPT;
    }
    out->bytes = bytes;
    return MR_OK;
}

mr_status mr_npy_parse(const void *file, size_t size, mr_npy *out, mr_error *err) {
    mr_npy npy = {0};
    reader r = {.err = err};
    if (size == 0) {
        return mr_fail(err, MR_E_CORRUPT, "the file is empty");
    }
    MR_TRY(read_frame(file, size, &r));
    npy.offset = r.end - r.file;
    MR_TRY(read_dictionary(&r, &npy));
    MR_TRY(check_size(size, &npy, err));
    *out = npy;
    return MR_OK;
}

/* ---- Writing ---- */
static const char *descr_of(mr_dtype dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (dtypes[i].dtype == dtype) {
            return dtypes[i].descr;
        }
    }
    return NULL;
}

/* As numpy writes it: version 1.0, blanks up to a multiple of 64 bytes, a newline. */
size_t mr_npy_header(mr_dtype dtype, const int64_t *dims, int32_t n_dims,
                     char out[MR_NPY_WRITTEN_MAX]) {
    enum { FRAME = 10 };
    const char *descr = descr_of(dtype);
    if (!descr || n_dims > MR_NPY_DIMS) {
        return 0;
    }
    memset(out, ' ', MR_NPY_WRITTEN_MAX);
    int at = FRAME + snprintf(out + FRAME, MR_NPY_WRITTEN_MAX - FRAME,
                              "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int32_t i = 0; i < n_dims; i++) {
        at += snprintf(out + at, MR_NPY_WRITTEN_MAX - (size_t)at, "%s%lld%s", i > 0 ? " " : "",
                       (long long)dims[i], i + 1 < n_dims || n_dims == 1 ? "," : "");
    }
    at += snprintf(out + at, MR_NPY_WRITTEN_MAX - (size_t)at, "), }");
    size_t size = ((size_t)at + 1 + 63) / 64 * 64;
    out[at] = ' ';
    out[size - 1] = '\n';
    memcpy(out, "\x93NUMPY\1", 8); /* and the zero that ends it */
    out[8] = (char)((size - FRAME) & 0xFF);
    out[9] = (char)((size - FRAME) >> 8);
    return size;
}
