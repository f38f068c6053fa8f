/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - what every part of millrace shares: statuses, errors, element types, views.
 *
 * Included by millrace.h (for callers), op.h (for authors of ops) and source.h (for authors of
 * sources); nobody needs to include it alone. */
#ifndef MILLRACE_TYPES_H
#define MILLRACE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MR_API __attribute__((visibility("default")))
#define MR_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define MR_INLINE static inline __attribute__((unused))
#else
#define MR_INLINE static inline
#define MR_API
#define MR_PRINTF(format_at, first_at)
#endif

/* ---- Status ---------------------------------------------------------------------------------
 * Zero is success, negative is failure, positive is "success, and ...". Numbers never change. */
#define MR_STATUS_MAP(X)                                                                           \
    X(MR_OK, 0, "ok")                                                                              \
    X(MR_END, 1, "end of the stream")                                                              \
    X(MR_LATER, 2, "not yet")                                                                      \
    X(MR_E_PARAM, -1, "invalid parameter")                                                         \
    X(MR_E_MEMORY, -2, "out of memory")                                                            \
    X(MR_E_IO, -3, "input/output error")                                                           \
    X(MR_E_NOT_FOUND, -4, "not found")                                                             \
    X(MR_E_CORRUPT, -5, "damaged data")                                                            \
    X(MR_E_LIMIT, -6, "over a limit")                                                              \
    X(MR_E_UNSUPPORTED, -7, "not supported")                                                       \
    X(MR_E_TYPE, -8, "types do not fit")                                                           \
    X(MR_E_STATE, -9, "saved state does not fit")                                                  \
    X(MR_E_CANCELLED, -10, "cancelled")                                                            \
    X(MR_E_FORKED, -11, "used in a forked child")                                                  \
    X(MR_E_INTERNAL, -12, "internal error")                                                        \
    X(MR_E_HOST, -13, "failure in a function of the caller's")

typedef enum mr_status {
#define MR_STATUS_ENUM(name, number, text) name = number,
    MR_STATUS_MAP(MR_STATUS_ENUM)
#undef MR_STATUS_ENUM
} mr_status;

/* ---- Errors ---------------------------------------------------------------------------------
 * The caller owns the struct and passes it last; NULL is allowed everywhere. It is written only
 * on failure. Text is always terminated. Bytes of file names that are not printable UTF-8 appear
 * as \xNN, so every string here is valid UTF-8. */
typedef struct mr_error {
    mr_status code;
    int sys;          /* errno, or 0 */
    int64_t sample;   /* index in the dataset, or -1 */
    int64_t offset;   /* byte in the source, or -1 */
    char op[32];      /* "decode_image", or "" */
    char where[128];  /* place in the pipeline document, "$.ops[1].size", or "" */
    char source[512]; /* file the sample comes from, or "" */
    char text[512];   /* what is wrong */
    char hint[256];   /* what to do about it, or "" */
} mr_error;

#define MR_ERROR_INIT                                                                              \
    { MR_OK, 0, -1, -1, "", "", "", "", "" }

/* ---- Element types and shapes ---------------------------------------------------------------- */
#define MR_DTYPE_MAP(X)                                                                            \
    X(MR_U8, "uint8", 1)                                                                           \
    X(MR_I32, "int32", 4)                                                                          \
    X(MR_I64, "int64", 8)                                                                          \
    X(MR_F16, "float16", 2)                                                                        \
    X(MR_BF16, "bfloat16", 2)                                                                      \
    X(MR_F32, "float32", 4)                                                                        \
    X(MR_F64, "float64", 8)                                                                        \
    X(MR_I8, "int8", 1)                                                                            \
    X(MR_I16, "int16", 2)                                                                          \
    X(MR_U16, "uint16", 2)                                                                         \
    X(MR_U32, "uint32", 4)                                                                         \
    X(MR_U64, "uint64", 8)                                                                         \
    X(MR_BOOL, "bool", 1)

typedef enum mr_dtype {
#define MR_DTYPE_ENUM(name, text, size) name,
    MR_DTYPE_MAP(MR_DTYPE_ENUM)
#undef MR_DTYPE_ENUM
} mr_dtype;

#define MR_MAX_DIMS 6

/* What the axes of a tensor mean, where ops must know. */
typedef enum mr_layout {
    MR_PLAIN, /* no meaning: labels, bytes, numbers */
    MR_HWC,   /* an image, channels last */
    MR_CHW    /* an image, planes */
} mr_layout;

/* The type of one sample's field. A dimension of -1 varies from sample to sample.
 * Encoded data (a JPEG file, a name) is a one-dimensional MR_U8 tensor of varying length. */
typedef struct mr_type {
    mr_dtype dtype;
    mr_layout layout;
    int32_t n_dims;
    int64_t dims[MR_MAX_DIMS];
} mr_type;

/* A named part of a sample. A sample has as many as it has; more than this is a mistake. */
#define MR_FIELDS_LIMIT 65535

typedef struct mr_field {
    const char *name;
    mr_type type;
    bool optional; /* delivered only where the pipeline's "fields" asks for it */
} mr_field;

/* Memory with a type; never owns. All dimensions are known, elements are contiguous. */
typedef struct mr_view {
    mr_type type;
    void *data;
    size_t size; /* bytes */
} mr_view;

/* ---- Runs of rows ----------------------------------------------------------------------------
 * One field of many samples. Dense: every value is of `type`, all dimensions known, and begins
 * `stride` bytes after the one before. Ragged (pieces is not NULL): value i is pieces[i], of the
 * type's elements in whatever shape. What is read need not be aligned; what is written is, to its
 * elements. */
typedef struct mr_piece {
    void *data;
    size_t size; /* bytes */
} mr_piece;

typedef struct mr_column {
    mr_type type;
    void *data;
    size_t stride;
    mr_piece *pieces;
} mr_column;

/* ---- Memory ---------------------------------------------------------------------------------
 * `align` is a power of two, at least 64 for batches. alloc returns NULL on failure. Called from
 * several threads at once. */
typedef struct mr_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *memory, size_t size);
    void *user;
} mr_allocator;

MR_API const char *mr_status_text(mr_status status);
MR_API const char *mr_dtype_name(mr_dtype dtype);
MR_API size_t mr_dtype_size(mr_dtype dtype);

/* Bytes of a tensor of this type, or -1 while a dimension varies, or -2 on overflow. */
MR_API int64_t mr_type_bytes(const mr_type *type);

/* "uint8[?, ?, 3] HWC"; returns buffer. */
MR_API char *mr_type_text(const mr_type *type, char *buffer, size_t size);

/* Fills the error (NULL allowed) and returns `code`, so that `return mr_fail(...)` reads well.
 * sample, offset, op, where and source are left as they are. */
MR_API mr_status mr_fail(mr_error *err, mr_status code, const char *format, ...) MR_PRINTF(3, 4);

/* Adds advice to an error that is already set; NULL allowed. */
MR_API void mr_hint(mr_error *err, const char *format, ...) MR_PRINTF(2, 3);

/* Bytes of the character that `text` begins with; 0 where that is not UTF-8, or is one that is not
 * seen but changes what is: a control character, a mark that turns the direction of writing. What
 * came from elsewhere reaches a terminal without those. */
MR_API size_t mr_text_visible(const char *text);

#ifdef __cplusplus
}
#endif
#endif
