/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - an error says what, where and what to do; a script reads it from the exit code. */
#include "errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define BOLD_RED "\033[1;31m"
#define BOLD_YELLOW "\033[1;33m"
#define BOLD_GREEN "\033[1;32m"
#define CYAN "\033[36m"
#define PLAIN "\033[0m"

enum { DOCUMENT_MAX = 16 << 20, SHOWN = 76 };

const mr_exit_row mr_exit_rows[] = {
    {MR_EXIT_OK, "success"},
    {MR_EXIT_DIFFERENT,
     "a difference (digest, ops), damage (cache verify) or no room (cache warm) was found"},
    {MR_EXIT_USAGE, "wrong usage, or an error in the pipeline document"},
    {MR_EXIT_DATA, "bad data: a sample that cannot be read as what it should be"},
    {MR_EXIT_SYSTEM, "the system: not found, not allowed, input/output, memory"},
    {MR_EXIT_STATE, "a saved state that is damaged or does not fit"},
    {130, "ended by SIGINT (Ctrl-C); what was done so far is reported and saved"},
    {MR_EXIT_PIPE, "the reader of standard output went away"},
    {143, "ended by SIGTERM; what was done so far is reported and saved"},
    {0, NULL},
};

static int exit_code(const mr_error *err) {
    bool data = err->sample >= 0;
    switch (err->code) {
    case MR_OK:
    case MR_END:
    case MR_LATER:
        return MR_EXIT_OK;
    case MR_E_PARAM:
    case MR_E_TYPE:
    case MR_E_LIMIT:
    case MR_E_UNSUPPORTED:
        return data ? MR_EXIT_DATA : MR_EXIT_USAGE;
    case MR_E_CORRUPT:
    case MR_E_HOST:
        return MR_EXIT_DATA;
    case MR_E_STATE:
        return MR_EXIT_STATE;
    case MR_E_MEMORY:
    case MR_E_IO:
    case MR_E_NOT_FOUND:
    case MR_E_CANCELLED:
    case MR_E_FORKED:
    case MR_E_INTERNAL:
        return MR_EXIT_SYSTEM;
    }
    return MR_EXIT_SYSTEM;
}

/* The word before the colon gets the colour. */
static void print_line(const char *line, bool colour) {
    int length = (int)strlen(line);
    const char *start = line + strspn(line, " ");
    const char *colon = memchr(line, ':', (size_t)length);
    if (!colour || !colon) {
        fprintf(stderr, "%.*s\n", length, line);
        return;
    }
    const char *tint = strncmp(start, "error", 5) == 0  ? BOLD_RED
                       : strncmp(start, "hint", 4) == 0 ? BOLD_GREEN
                                                        : CYAN;
    fprintf(stderr, "%.*s%s%.*s" PLAIN "%.*s\n", (int)(start - line), line, tint,
            (int)(colon + 1 - start), start, length - (int)(colon + 1 - line), colon + 1);
}

/* Messages may carry what the user typed: nothing of it may reach the terminal as a command. */
static void print_text(const mr_error *err) {
    char text[sizeof(mr_error) + 256], safe[4 * sizeof text];
    fflush(stdout); /* what was printed before comes first, also where both go to one file */
    mr_error_format(err, text, sizeof text);
    bool colour = mr_colour(stderr);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        print_line(mr_text_safe(safe, sizeof safe, line), colour);
    }
}

int mr_error_print(const mr_error *err) {
    print_text(err);
    return exit_code(err);
}

static const char *find_line(const char *text, long number) {
    for (long i = 1; i < number && text; i++) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text;
}

/* Prints the character at `s` so that it takes one column; returns its length. */
static size_t print_character(const char *s) {
    size_t length = mr_text_visible(s);
    if (length > 0) {
        fprintf(stderr, "%.*s", (int)length, s);
        return length;
    }
    fputc(*s == '\t' ? ' ' : '?', stderr);
    return 1;
}

/* Prints the part of a line around a column (in characters, from 1), then a caret under it. */
static void print_excerpt(const char *line, long number, long column) {
    const char *end = line + strcspn(line, "\r\n");
    long first = column > SHOWN ? column - SHOWN / 2 : 1;
    fprintf(stderr, "  %5ld | ", number);
    for (long at = 1; line < end && at < first + SHOWN; at++) {
        size_t length = mr_text_visible(line);
        line += at < first ? (length ? length : 1) : print_character(line);
    }
    fprintf(stderr, "\n        | %*s^\n", (int)(column > first ? column - first : 0), "");
}

static bool find_place(const mr_error *err, long *line, long *column) {
    const char *at = strstr(err->text, "line ");
    bool found = at && sscanf(at, "line %ld, column %ld", line, column) == 2;
    return found && *line > 0 && *column >= 0;
}

/* Names the document unless the message does (where the system refused to open it) or it is about
 * another file; with line and column in the form that editors jump to. */
static void name_document(mr_error *err, const char *path, long line, long column) {
    char safe[sizeof err->source - 48];
    mr_text_safe(safe, sizeof safe, path);
    if (line > 0) {
        snprintf(err->source, sizeof err->source, "%s:%ld:%ld", safe, line, column);
    } else if (err->sys == 0 && err->source[0] == '\0') {
        snprintf(err->source, sizeof err->source, "%s", safe);
    }
}

int mr_error_print_document(const mr_error *err, const char *path) {
    mr_error named = *err;
    long line = 0, column = 0;
    char *text = NULL;
    size_t size = 0;
    bool placed = err->where[0] == '\0' && find_place(err, &line, &column);
    name_document(&named, path, placed ? line : 0, column);
    print_text(&named);
    if (placed && mr_file_load(path, DOCUMENT_MAX, &text, &size, NULL) == MR_OK) {
        const char *at = find_line(text, line);
        if (at) {
            print_excerpt(at, line, column);
        }
        mr_free(text);
    }
    return exit_code(err);
}

void mr_warning_print(const char *text) {
    bool colour = mr_colour(stderr);
    fprintf(stderr, "%swarning:%s %s\n", colour ? BOLD_YELLOW : "", colour ? PLAIN : "", text);
}

static json_t *text_or_null(const char *text) {
    return *text ? mr_json_text(text) : json_null();
}

static json_t *number_or_null(int64_t number) {
    return number >= 0 ? json_integer(number) : json_null();
}

json_t *mr_error_json(const mr_error *err) {
    json_t *object = json_object();
    json_object_set_new(object, "status", json_string(mr_status_text(err->code)));
    json_object_set_new(object, "text", mr_json_text(err->text));
    json_object_set_new(object, "hint", text_or_null(err->hint));
    json_object_set_new(object, "file", text_or_null(err->source));
    json_object_set_new(object, "sample", number_or_null(err->sample));
    json_object_set_new(object, "offset", number_or_null(err->offset));
    json_object_set_new(object, "op", text_or_null(err->op));
    json_object_set_new(object, "where", text_or_null(err->where));
    return object;
}
