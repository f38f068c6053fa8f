/* SPDX-License-Identifier: Apache-2.0 */
/* made_text.h - a text that is written like a file and ends up in memory. */
#ifndef MR_TRACE_MADE_TEXT_H
#define MR_TRACE_MADE_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include <millrace/millrace.h>

typedef mr_status mr_text_writer(FILE *out, const void *context, mr_error *err);

/* *out is freed with mr_free. */
mr_status mr_make_text(char **out, mr_text_writer *write, const void *context, mr_error *err);

/* A line of JSON. Takes the object; NULL: there was no memory for it. */
mr_status mr_put_json(FILE *out, json_t *object, mr_error *err);

#endif
