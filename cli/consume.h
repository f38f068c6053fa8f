/* SPDX-License-Identifier: Apache-2.0 */
/* consume.h - a stand-in for the training step: time that passes after each batch. */
#ifndef MR_CLI_CONSUME_H
#define MR_CLI_CONSUME_H

#include <millrace/millrace.h>

#include "stop.h"

typedef struct mr_consume {
    int64_t *ns; /* of each step; the list is gone through again and again */
    int64_t n;   /* 0: no time passes */
} mr_consume;

/* "12ms", or a file with such a time on each line; NULL: no time passes. */
mr_status mr_consume_read(mr_consume *out, const char *text, mr_error *err);
void mr_consume_free(mr_consume *consume);

/* Ends sooner when a signal ends the run. */
void mr_consume_step(const mr_consume *consume, int64_t step, const mr_stop *stop);

#endif
