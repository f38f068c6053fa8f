/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - words and figures. Everything here is for reading: no locale changes it but the
 * character set, so that output can be compared. */
#include "text.h"

#include <millrace/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 80 };

char *mr_text_safe(char *buffer, size_t size, const char *text) {
    size_t used = 0;
    while (*text) {
        size_t length = mr_text_visible(text);
        size_t needed = length ? length : 4;
        if (used + needed >= size) {
            break;
        }
        if (length) {
            memcpy(buffer + used, text, length);
        } else {
            snprintf(buffer + used, size - used, "\\x%02X", (unsigned)(unsigned char)*text);
        }
        used += needed;
        text += length ? length : 1;
    }
    buffer[used] = '\0';
    return buffer;
}

void mr_text_html(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

json_t *mr_json_text(const char *text) {
    if (!text) {
        return json_null();
    }
    json_t *plain = json_string(text);
    if (plain) {
        return plain;
    }
    size_t size = strlen(text) * 4 + 1;
    char *safe = malloc(size);
    json_t *escaped = safe ? json_string(mr_text_safe(safe, size, text)) : NULL;
    free(safe);
    return escaped;
}

void mr_json_print(json_t *object, size_t digits) {
    json_dumpf(object, stdout, JSON_REAL_PRECISION(digits));
    putchar('\n');
    json_decref(object);
}

char *mr_text_bytes(char *buffer, size_t size, int64_t bytes) {
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes / 1000;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    if (bytes < 1000) {
        snprintf(buffer, size, "%lld bytes", (long long)bytes);
    } else {
        snprintf(buffer, size, "%.1f %s", value, units[unit]);
    }
    return buffer;
}

char *mr_text_count(char *buffer, size_t size, int64_t number) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    size_t used = 0;
    for (int i = 0; i < length && used + 2 < size; i++) {
        buffer[used++] = digits[i];
        int left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-') {
            buffer[used++] = ',';
        }
    }
    buffer[used] = '\0';
    return buffer;
}

char *mr_text_rate(char *buffer, size_t size, double rate) {
    if (rate >= 100 && rate < 1e15) {
        return mr_text_count(buffer, size, (int64_t)(rate + 0.5));
    }
    snprintf(buffer, size, "%.3g", rate);
    return buffer;
}

char *mr_text_time(char *buffer, size_t size, double seconds) {
    long long total = seconds < 3.6e9 ? (long long)(seconds + 0.5) : 3600000000LL;
    if (total < 3600) {
        snprintf(buffer, size, "%lld:%02lld", total / 60, total % 60);
    } else {
        snprintf(buffer, size, "%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
    }
    return buffer;
}

const char *mr_text_plural(int64_t n, const char *one, const char *many) {
    return n == 1 ? one : many;
}

/* Prints one word, on a new line if it does not fit; returns the column after it. */
static int put_word(FILE *out, const char *word, int length, int column, int indent, bool first) {
    int space = first ? 0 : 1;
    if (!first && column + space + length > COLUMNS) {
        fprintf(out, "\n%*s%.*s", indent, "", length, word);
        return indent + length;
    }
    fprintf(out, "%*s%.*s", space, "", length, word);
    return column + space + length;
}

static const char *wrap_paragraph(FILE *out, const char *text, int at, int indent) {
    bool first = true;
    while (*text && !(text[0] == '\n' && text[1] == '\n')) {
        int length = (int)strcspn(text, " \n");
        if (length > 0) {
            at = put_word(out, text, length, at, indent, first);
            first = false;
        }
        text += length;
        if (*text && !(text[0] == '\n' && text[1] == '\n')) {
            text++;
        }
    }
    fputc('\n', out);
    return text;
}

void mr_text_wrap(FILE *out, const char *text, int at, int indent) {
    text = wrap_paragraph(out, text, at, indent);
    while (*text) {
        text += strspn(text, "\n");
        if (*text) {
            fprintf(out, "\n%*s", indent, "");
            text = wrap_paragraph(out, text, indent, indent);
        }
    }
}

bool mr_terminal(FILE *stream) {
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

mr_terminal_size mr_terminal_size_now(void) {
    struct winsize size = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    return known ? (mr_terminal_size){size.ws_col, size.ws_row} : (mr_terminal_size){80, 24};
}

bool mr_colour(FILE *stream) {
    const char *no_colour = getenv("NO_COLOR");
    return mr_terminal(stream) && !(no_colour && *no_colour);
}
