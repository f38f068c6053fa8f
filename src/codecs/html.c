/* SPDX-License-Identifier: Apache-2.0 */
/* html.c - see html.h.
 *
 * Most bytes of a web page are in attributes, scripts and styles, which a parser goes through with
 * care for nothing where only the text is wanted. Here only what is written as everybody writes it
 * is understood; a function that meets anything else returns false, and the rest of the page is
 * left as it is. So what libxml2 makes of broken pages is decided by libxml2. */
#include "codecs/html.h"
#include "core/letters.h"

#include <stdbool.h>
#include <string.h>

enum {
    NAME_MAX_LENGTH = 32,
    PIECE_MAX = 1 << 20 /* longer values and comments some parsers cut off */
};

typedef struct page {
    const uint8_t *at, *end; /* from here on nothing is decided yet */
    uint8_t *to;
} page;

static void keep(page *p, const uint8_t *upto) {
    size_t n = (size_t)(upto - p->at);
    memmove(p->to, p->at, n);
    p->to += n;
    p->at = upto;
}

static void leave_out(page *p, const uint8_t *upto) {
    p->at = upto;
}

/* ---- Characters ---- */
static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(uint8_t c) {
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool is_name(uint8_t c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == ':';
}

static const uint8_t *skip_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_blank(*at)) {
        at++;
    }
    return at;
}

/* The end of the name that begins here, or NULL where none does. */
static const uint8_t *name_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *from = at;
    if (at == end || !is_letter(*at)) {
        return NULL;
    }
    while (at < end && is_name(*at)) {
        at++;
    }
    return at < end && at - from <= NAME_MAX_LENGTH ? at : NULL;
}

/* Whether two names of n letters are one. */
static bool is_same(const uint8_t *name, const uint8_t *letters, size_t n) {
    return mr_same_letters((const char *)name, (const char *)letters, n);
}

static bool is_word(const uint8_t *from, const uint8_t *to, const char *word) {
    size_t n = strlen(word);
    return (size_t)(to - from) == n && is_same(from, (const uint8_t *)word, n);
}

static bool is_one_of(const uint8_t *from, const uint8_t *to, const char *const words[]) {
    while (*words && !is_word(from, to, *words)) {
        words++;
    }
    return *words != NULL;
}

/* ---- Elements whose content is no markup, to all parsers or to some ---- */
static const char *const programs[] = {"script", "style", NULL};
static const char *const texts[] = {"title", "textarea", "iframe", NULL};
static const char *const others[] = {"xmp", "noembed", "noframes", "plaintext", NULL};

/* Up to the end tag of `name`, where nothing before it might be taken for the end or for another
 * beginning: to libxml2 an element at once behind <script> or <style> may end that. Without it
 * NULL. */
static const uint8_t *content_end(const page *p, const uint8_t *name, size_t length, bool program) {
    const uint8_t *at = p->at;
    while ((at = memchr(at, '<', (size_t)(p->end - at))) != NULL) {
        if ((size_t)(p->end - at) < length + 3) { /* no shorter than <script */
            return NULL;
        }
        if (at[1] == '/') {
            bool ends = is_same(at + 2, name, length) &&
                        (is_blank(at[2 + length]) || at[2 + length] == '>');
            return ends ? at : NULL;
        }
        bool first = at == p->at && is_letter(at[1]);
        if (!program || first || is_word(at + 1, at + 7, "script")) {
            return NULL;
        }
        at++;
    }
    return NULL;
}

static bool take_content(page *p, const uint8_t *name, const uint8_t *end, bool closed) {
    bool program = is_one_of(name, end, programs);
    if (is_one_of(name, end, others)) {
        return false;
    }
    if (!program && !is_one_of(name, end, texts)) {
        return true;
    }
    const uint8_t *to = closed ? NULL : content_end(p, name, (size_t)(end - name), program);
    if (!to) {
        return false;
    }
    if (program) {
        leave_out(p, to);
    } else {
        keep(p, to);
    }
    return true;
}

/* ---- Tags ---- */

/* The end of a value, its quotes included. */
static const uint8_t *value_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *from = at;
    if (at < end && (*at == '"' || *at == '\'')) {
        const uint8_t *quote = memchr(at + 1, *at, (size_t)(end - at - 1));
        return quote && quote - from < PIECE_MAX ? quote + 1 : NULL;
    }
    while (at < end && !is_blank(*at) && *at != '>') {
        if (strchr("\"'<=`", *at)) {
            return NULL;
        }
        at++;
    }
    return at > from && at < end && at - from < PIECE_MAX ? at : NULL;
}

static bool ends_attribute(const uint8_t *at, const uint8_t *end) {
    return end - at >= 2 && (is_blank(*at) || *at == '>' || (at[0] == '/' && at[1] == '>'));
}

/* Of a tag whose name was kept: an attribute with the blanks before it. */
static bool take_attribute(page *p, const uint8_t *from) {
    const uint8_t *to = name_end(from, p->end);
    if (!to || from == p->at) {
        return false;
    }
    if (*to != '=') { /* may be one with blanks before its = : the next would begin with it */
        keep(p, to);
        return true;
    }
    const uint8_t *end = value_end(to + 1, p->end);
    if (!end || !ends_attribute(end, p->end)) {
        return false;
    }
    if (is_word(from, to, "hidden")) {
        keep(p, end);
    } else {
        leave_out(p, end);
    }
    return true;
}

static bool take_start_tag(page *p) {
    const uint8_t *name = p->at + 1, *end = name_end(name, p->end);
    if (!end) {
        return false;
    }
    for (keep(p, end);;) {
        const uint8_t *next = skip_blanks(p->at, p->end);
        bool closed = p->end - next >= 2 && next[0] == '/' && next[1] == '>';
        if (closed || (next < p->end && *next == '>')) {
            keep(p, next + 1 + closed);
            return take_content(p, name, end, closed);
        }
        if (!take_attribute(p, next)) {
            return false;
        }
    }
}

static bool take_end_tag(page *p) {
    const uint8_t *end = name_end(p->at + 2, p->end);
    end = end ? skip_blanks(end, p->end) : NULL;
    if (!end || end == p->end || *end != '>') {
        return false;
    }
    keep(p, end + 1);
    return true;
}

/* ---- All else that begins with < ---- */
static bool take_comment(page *p) {
    const uint8_t *from = p->at + 4;
    const uint8_t *to = memmem(from, (size_t)(p->end - from), "--", 2);
    bool abrupt = from < p->end && (*from == '>' || (*from == '-' && to != from));
    if (!to || p->end - to < 3 || to[2] != '>' || abrupt || to - from > PIECE_MAX) {
        return false;
    }
    keep(p, from);
    leave_out(p, to);
    keep(p, to + 3);
    return true;
}

static bool take_doctype(page *p) {
    const uint8_t *to = memchr(p->at, '>', (size_t)(p->end - p->at));
    size_t quotes = 0;
    if (!to || to - p->at < 9 || !is_word(p->at + 2, p->at + 9, "doctype")) {
        return false;
    }
    for (const uint8_t *at = p->at + 1; at < to; at++) {
        if (*at == '\'' || *at == '<' || *at == '[') {
            return false;
        }
        quotes += *at == '"';
    }
    keep(p, to + 1);
    return quotes % 2 == 0;
}

static bool take_markup(page *p) {
    size_t left = (size_t)(p->end - p->at);
    if (left < 4) {
        return false;
    }
    if (memcmp(p->at, "<!--", 4) == 0) {
        return take_comment(p);
    }
    if (p->at[1] == '!') {
        return take_doctype(p);
    }
    return p->at[1] == '/' ? take_end_tag(p) : take_start_tag(p);
}

size_t mr_html_bare(uint8_t *to, const uint8_t *from, size_t size) {
    page p = {from, from + size, to};
    bool understood = true;
    while (understood && p.at < p.end) {
        const uint8_t *tag = memchr(p.at, '<', (size_t)(p.end - p.at));
        keep(&p, tag ? tag : p.end);
        understood = tag && take_markup(&p);
    }
    keep(&p, p.end);
    return (size_t)(p.to - to);
}
