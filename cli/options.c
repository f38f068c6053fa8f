/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - arguments into structs. Long options only (and -h), as --name VALUE or
 * --name=VALUE, before or after operands; "--" ends them. Numbers are read strictly: a typing
 * mistake must not become another number. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

typedef struct parser {
    const mr_command *command;
    int n;
    char *const *arguments;
    int at;       /* the next argument */
    int operands; /* taken so far */
    void *values;
    mr_error *err;
} parser;

bool mr_number_read(const char *text, int64_t *out) {
    const char *digits = text + (*text == '-');
    if (strspn(digits, "0123456789") != strlen(digits) || *digits == '\0') {
        return false;
    }
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    *out = number;
    return errno == 0;
}

static mr_status usage_hint(const parser *p) {
    mr_hint(p->err, "see: millrace help %s", p->command->name);
    return p->err->code;
}

static mr_status bad_number(const parser *p, const mr_option_row *row, const char *text) {
    long long min = row->min, max = row->max;
    if (row->max == INT64_MAX) {
        mr_fail(p->err, MR_E_PARAM, "--%s wants a whole number of at least %lld, not \"%s\"",
                row->name, min, text);
    } else {
        mr_fail(p->err, MR_E_PARAM, "--%s wants a whole number from %lld to %lld, not \"%s\"",
                row->name, min, max, text);
    }
    usage_hint(p);
    return MR_E_PARAM;
}

static mr_status set_number(const parser *p, const mr_option_row *row, const char *text,
                            int64_t *to) {
    int64_t number = 0;
    if (row->or_auto && strcmp(text, "auto") == 0) {
        *to = -1;
        return MR_OK;
    }
    if (!mr_number_read(text, &number) || number < row->min || number > row->max) {
        return bad_number(p, row, text);
    }
    *to = number;
    return MR_OK;
}

typedef struct choice_names {
    const char *const *next;
} choice_names;

static const char *next_choice(void *user) {
    choice_names *names = user;
    return *names->next ? *names->next++ : NULL;
}

static mr_status bad_choice(const parser *p, const mr_option_row *row, const char *text) {
    char list[128] = "";
    for (int32_t i = 0; row->choices[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
    bool option = row->argument != NULL;
    mr_fail(p->err, MR_E_PARAM, "%s%s cannot be \"%s\"", option ? "--" : "", row->name, text);
    choice_names names = {row->choices};
    const char *nearest = mr_nearest_word(text, next_choice, &names);
    if (nearest) {
        mr_hint(p->err, "did you mean \"%s\"? Known: %s", nearest, list);
    } else {
        mr_hint(p->err, "known: %s", list);
    }
    return MR_E_PARAM;
}

static mr_status set_choice(const parser *p, const mr_option_row *row, const char *text,
                            int32_t *to) {
    for (int32_t i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], text) == 0) {
            *to = i;
            return MR_OK;
        }
    }
    return bad_choice(p, row, text);
}

static mr_status add_file(const parser *p, const mr_option_row *row, const char *text,
                          mr_files *to) {
    if (to->n == MR_FILES_MAX) {
        return mr_fail(p->err, MR_E_PARAM, "%s%s is given more than %d times",
                       row->argument ? "--" : "", row->name, MR_FILES_MAX);
    }
    to->v[to->n++] = text;
    return MR_OK;
}

static mr_status set_value(const parser *p, const mr_option_row *row, const char *text) {
    void *to = (char *)p->values + row->offset;
    switch (row->kind) {
    case MR_OPTION_FLAG:
        *(bool *)to = true;
        return MR_OK;
    case MR_OPTION_INT:
        return set_number(p, row, text, to);
    case MR_OPTION_TEXT:
    case MR_OPTION_FILE:
        *(const char **)to = text;
        return MR_OK;
    case MR_OPTION_FILES:
        return add_file(p, row, text, to);
    case MR_OPTION_CHOICE:
        return set_choice(p, row, text, to);
    }
    return mr_fail(p->err, MR_E_INTERNAL, "option --%s has no kind", row->name);
}

/* A number's fallback may lie outside its range: -1 for "not given". */
static mr_status set_fallbacks(const parser *p, const mr_option_row *rows) {
    for (; rows && rows->name; rows++) {
        if (rows->fallback && rows->kind == MR_OPTION_INT) {
            mr_number_read(rows->fallback, (int64_t *)(void *)((char *)p->values + rows->offset));
        } else if (rows->fallback) {
            mr_status status = set_value(p, rows, rows->fallback);
            if (status != MR_OK) {
                return status;
            }
        }
    }
    return MR_OK;
}

static const char *next_option(void *user) {
    const mr_option_row **row = user;
    return *row && (*row)->name ? (*row)++->name : NULL;
}

static const mr_option_row *find_option(const parser *p, const char *name, size_t length) {
    for (const mr_option_row *row = p->command->options; row && row->name; row++) {
        if (strlen(row->name) == length && strncmp(row->name, name, length) == 0) {
            return row;
        }
    }
    return NULL;
}

static const mr_option_row *find_letter(const parser *p, const char *argument) {
    for (const mr_option_row *row = p->command->options; row && row->name; row++) {
        if (row->letter && row->letter == argument[1] && argument[2] == '\0') {
            return row;
        }
    }
    return NULL;
}

static mr_status unknown_option(const parser *p, const char *argument) {
    mr_fail(p->err, MR_E_PARAM, "unknown option %s", argument);
    const mr_option_row *row = p->command->options;
    const char *nearest = mr_nearest_word(argument + strspn(argument, "-"), next_option, &row);
    if (nearest) {
        mr_hint(p->err, "did you mean --%s? See: millrace help %s", nearest, p->command->name);
        return MR_E_PARAM;
    }
    usage_hint(p);
    return MR_E_PARAM;
}

static mr_status take_option(parser *p, const char *argument) {
    bool is_long = argument[1] == '-';
    const char *name = is_long ? argument + 2 : argument + 1;
    const char *equals = is_long ? strchr(name, '=') : NULL;
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const mr_option_row *row = is_long ? find_option(p, name, length) : find_letter(p, argument);
    if (!row) {
        return unknown_option(p, argument);
    }
    if (row->kind == MR_OPTION_FLAG) {
        return equals ? mr_fail(p->err, MR_E_PARAM, "--%s takes no value", row->name)
                      : set_value(p, row, NULL);
    }
    if (!equals && p->at == p->n) {
        mr_fail(p->err, MR_E_PARAM, "--%s needs a value: --%s %s", row->name, row->name,
                row->argument);
        usage_hint(p);
        return MR_E_PARAM;
    }
    return set_value(p, row, equals ? equals + 1 : p->arguments[p->at++]);
}

static mr_status take_operand(parser *p, const char *argument) {
    const mr_option_row *row = p->command->operands;
    for (int i = 0; row && row->name && i < p->operands; i++) {
        row++;
    }
    if (!row || !row->name) {
        mr_fail(p->err, MR_E_PARAM, "one argument too many: \"%s\"", argument);
        usage_hint(p);
        return MR_E_PARAM;
    }
    p->operands += row->kind != MR_OPTION_FILES; /* takes all that follow */
    return set_value(p, row, argument);
}

/* What takes all that follows is never passed by. */
static bool has_files(const parser *p, const mr_option_row *row) {
    const void *value = (const char *)p->values + row->offset;
    return row->kind == MR_OPTION_FILES && ((const mr_files *)value)->n > 0;
}

static mr_status check_operands(const parser *p) {
    const mr_option_row *row = p->command->operands;
    for (int i = 0; row && row->name; i++, row++) {
        if (i >= p->operands && !row->fallback && !has_files(p, row)) {
            mr_fail(p->err, MR_E_PARAM, "%s is missing", row->name);
            usage_hint(p);
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

static bool asks_for_help(int n, char *const *arguments) {
    for (int i = 0; i < n && strcmp(arguments[i], "--") != 0; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

mr_status mr_options_fill(const mr_command *command, int n, char *const *arguments, void *values,
                          bool *help, mr_error *err) {
    parser p = {command, n, arguments, 0, 0, values, err};
    *help = asks_for_help(n, arguments);
    if (*help) {
        return MR_OK;
    }
    mr_status status = set_fallbacks(&p, command->options);
    bool only_operands = false;
    while (status == MR_OK && p.at < n) {
        const char *argument = arguments[p.at++];
        if (!only_operands && strcmp(argument, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argument[0] == '-' && argument[1] != '\0') {
            status = take_option(&p, argument);
        } else {
            status = take_operand(&p, argument);
        }
    }
    return status == MR_OK ? check_operands(&p) : status;
}
