/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.h - what a trainer says about samples that it was given: values, by which those are
 * chosen that are shown again, and numbers that come back with them. As bytes of a journal, and in
 * memory. Pure. */
#ifndef MR_PLAN_FEEDBACK_H
#define MR_PLAN_FEEDBACK_H

#include <millrace/types.h>

typedef struct mr_said {
    int64_t step;  /* the first to be planned with it */
    int64_t after; /* the last step that was delivered when it was said */
    int64_t n, width;
    bool has_values;
    uint64_t *ids;
    double *values; /* one for each id, where there are any */
    float *extra;   /* `width` for each id */
} mr_said;

#define MR_FEEDBACK_MAX ((int64_t)1 << 30) /* bytes of one */

/* Takes memory for n ids. MR_E_LIMIT: too much at once. Freed by mr_said_free. */
mr_status mr_said_new(mr_said **out, int64_t n, bool has_values, int64_t width, mr_error *err);
void mr_said_free(mr_said *said); /* NULL allowed */

size_t mr_said_bytes(const mr_said *said);
void mr_said_save(const mr_said *said, unsigned char *out); /* mr_said_bytes of them */

/* MR_E_CORRUPT: these bytes are none. */
mr_status mr_said_load(mr_said **out, const void *bytes, size_t size, mr_error *err);

#endif
