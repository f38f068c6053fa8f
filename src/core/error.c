/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - filling and printing the caller's mr_error. */
#include "core/error.h"

#include <millrace/millrace.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *mr_status_text(mr_status status) {
    switch (status) {
#define STATUS_TEXT(name, number, text)                                                            \
    case name:                                                                                     \
        return text;
        MR_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

static void start(mr_error *err, mr_status code, int sys) {
    err->code = code;
    err->sys = sys;
    err->hint[0] = '\0';
}

mr_status mr_fail(mr_error *err, mr_status code, const char *format, ...) {
    if (err) {
        va_list args;
        start(err, code, 0);
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return code;
}

mr_status mr_fail_errno(mr_error *err, mr_status code, int sys, const char *format, ...) {
    if (err) {
        char number[32];
        va_list args;
        start(err, code, sys);
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        const char *text = strerrordesc_np(sys);
        snprintf(number, sizeof number, "error %d", sys);
        snprintf(err->text + used, sizeof err->text - used, ": %s", text ? text : number);
    }
    return code;
}

mr_status mr_fail_memory(mr_error *err, size_t size) {
    return mr_fail(err, MR_E_MEMORY, "cannot allocate %zu bytes", size);
}

void mr_hint(mr_error *err, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->hint, sizeof err->hint, format, args);
        va_end(args);
    }
}

/* Called for every op of every sample, before anything failed: it only copies a name. */
void mr_error_at_op(mr_error *err, const char *op) {
    if (err) {
        size_t length = strnlen(op, sizeof err->op - 1);
        memcpy(err->op, op, length);
        err->op[length] = '\0';
    }
}

void mr_error_at_json(mr_error *err, const char *where) {
    if (err) {
        snprintf(err->where, sizeof err->where, "%s", where);
    }
}

void mr_error_at_sample(mr_error *err, int64_t sample, const char *source) {
    if (err) {
        err->sample = sample;
        mr_text_escape(err->source, sizeof err->source, source);
    }
}

static bool is_continuation(unsigned char byte) {
    return (byte & 0xC0) == 0x80;
}

/* Length of the well-formed UTF-8 sequence at s, or 0. Surrogates, overlong forms and code points
 * past U+10FFFF are not well-formed. */
static size_t utf8_length(const unsigned char *s) {
    if (s[0] < 0x80) {
        return 1;
    }
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        return is_continuation(s[1]) ? 2 : 0;
    }
    if (s[0] >= 0xE0 && s[0] <= 0xEF) {
        bool tail = is_continuation(s[1]) && is_continuation(s[2]);
        bool overlong = s[0] == 0xE0 && s[1] < 0xA0;
        bool surrogate = s[0] == 0xED && s[1] > 0x9F;
        return tail && !overlong && !surrogate ? 3 : 0;
    }
    if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        bool tail = is_continuation(s[1]) && is_continuation(s[2]) && is_continuation(s[3]);
        bool overlong = s[0] == 0xF0 && s[1] < 0x90;
        bool too_large = s[0] == 0xF4 && s[1] > 0x8F;
        return tail && !overlong && !too_large ? 4 : 0;
    }
    return 0;
}

static uint32_t code_point(const unsigned char *s, size_t length) {
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = s[0] & first_bits[length];
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (s[i] & 0x3F);
    }
    return code;
}

/* Characters that no terminal shows but that change what it shows: controls, marks that turn the
 * direction of writing round, so that a name reads as another, separators of lines, and what takes
 * no room at all. */
static bool is_unseen(uint32_t code) {
    static const uint32_t ranges[][2] = {
        {0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},       {0x61C, 0x61C},
        {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},
        {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (code >= ranges[i][0] && code <= ranges[i][1]) {
            return true;
        }
    }
    return false;
}

size_t mr_text_visible(const char *text) {
    size_t length = utf8_length((const unsigned char *)text);
    bool visible = length > 0 && !is_unseen(code_point((const unsigned char *)text, length));
    return visible ? length : 0;
}

/* Where the part of a text ends that may be shown: of an address on a server, what follows a
 * question mark may be a signature, and a fragment is ours (see io/far_name.h). */
static const unsigned char *end_of_public(const char *text) {
    bool is_http = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
    const char *pin = is_http || strncmp(text, "s3://", 5) == 0 ? strstr(text, "#size=") : NULL;
    size_t length = is_http ? strcspn(text, "?#") : strlen(text);
    return (const unsigned char *)(pin && pin < text + length ? pin : text + length);
}

char *mr_text_escape(char *buffer, size_t size, const char *text) {
    const unsigned char *s = (const unsigned char *)text, *end = end_of_public(text);
    size_t used = 0;
    while (s < end) {
        size_t length = mr_text_visible((const char *)s);
        bool raw = length > 0;
        size_t needed = raw ? length : 4;
        if (used + needed + 1 > size) {
            break;
        }
        if (raw) {
            memcpy(buffer + used, s, length);
        } else {
            snprintf(buffer + used, size - used, "\\x%02X", s[0]);
        }
        used += needed;
        s += raw ? length : 1;
    }
    buffer[used] = '\0';
    return buffer;
}

/* Appends to a text that may already be longer than its buffer, counting as snprintf does. */
static void append(char *buffer, size_t size, size_t *length, const char *format, ...)
    MR_PRINTF(4, 5);

static void append(char *buffer, size_t size, size_t *length, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = *length < size ? size - *length : 0;
    int n = vsnprintf(room ? buffer + *length : NULL, room, format, args);
    va_end(args);
    *length += n > 0 ? (size_t)n : 0;
}

static void append_place(const mr_error *err, char *buffer, size_t size, size_t *length) {
    if (err->source[0]) {
        append(buffer, size, length, "  file: %s", err->source);
        if (err->sample >= 0) {
            append(buffer, size, length, " (sample %lld", (long long)err->sample);
        }
        if (err->offset >= 0) {
            append(buffer, size, length, "%sbyte %lld", err->sample >= 0 ? ", " : " (",
                   (long long)err->offset);
        }
        append(buffer, size, length, "%s", err->sample >= 0 || err->offset >= 0 ? ")" : "");
        append(buffer, size, length, "\n");
    }
    if (err->op[0]) {
        append(buffer, size, length, "  op: %s\n", err->op);
    }
    if (err->where[0]) {
        append(buffer, size, length, "  at: %s\n", err->where);
    }
}

size_t mr_error_format(const mr_error *err, char *buffer, size_t size) {
    size_t length = 0;
    if (size > 0) {
        buffer[0] = '\0';
    }
    append(buffer, size, &length, "error: %s\n",
           err->text[0] ? err->text : mr_status_text(err->code));
    append_place(err, buffer, size, &length);
    if (err->hint[0]) {
        append(buffer, size, &length, "  hint: %s\n", err->hint);
    }
    return length;
}
