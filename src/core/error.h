/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - helpers around mr_error for use inside the library. */
#ifndef MR_CORE_ERROR_H
#define MR_CORE_ERROR_H

#include <millrace/types.h>

/* Passes a failure up. */
#define MR_TRY(expression)                                                                         \
    do {                                                                                           \
        mr_status mr_try_status = (expression);                                                    \
        if (mr_try_status < 0) {                                                                   \
            return mr_try_status;                                                                  \
        }                                                                                          \
    } while (0)

/* As mr_fail, with errno's number and text added. */
mr_status mr_fail_errno(mr_error *err, mr_status code, int sys, const char *format, ...)
    MR_PRINTF(4, 5);

mr_status mr_fail_memory(mr_error *err, size_t size);

/* An empty error, for where one is needed per sample: clearing all its text would cost more than
 * making a small sample. */
static inline void mr_error_clear(mr_error *err) {
    err->code = MR_OK;
    err->sys = 0;
    err->sample = -1;
    err->offset = -1;
    err->op[0] = err->where[0] = err->source[0] = err->text[0] = err->hint[0] = '\0';
}

/* Name the place of a failure that is already set; NULL allowed. */
void mr_error_at_op(mr_error *err, const char *op);
void mr_error_at_json(mr_error *err, const char *where);
void mr_error_at_sample(mr_error *err, int64_t sample, const char *source);

/* Copies text into a buffer, writing what mr_text_visible does not count as \xNN. An address on a
 * server ends before its query, which may be a secret. Returns buffer. */
char *mr_text_escape(char *buffer, size_t size, const char *text);

#endif
