/* SPDX-License-Identifier: Apache-2.0 */
/* braces.c - see braces.h. The first pair is replaced by each of its words, and what comes of it is
 * expanded in turn: words may have braces themselves. */
#include "io/braces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

typedef struct pair {
    const char *open, *close;
} pair;

typedef struct expansion {
    mr_braces_take *take;
    void *user;
} expansion;

/* ---- Finding a pair ---- */
static const char *close_of(const char *open) {
    int64_t depth = 0;
    const char *at = open;
    do {
        depth += (*at == '{') - (*at == '}');
        at++;
    } while (depth > 0);
    return at - 1;
}

/* The first brace that has its other one; *n is how many there are. From the end on, a brace has
 * its other one if more were closed than opened behind it. */
static bool find_pair(const char *text, pair *out, int64_t *n) {
    int64_t closed = 0;
    out->open = NULL;
    *n = 0;
    for (const char *at = text + strlen(text); at-- > text;) {
        if (*at == '{' && closed > 0) {
            out->open = at;
            closed--;
            ++*n;
        }
        closed += *at == '}';
    }
    out->close = out->open ? close_of(out->open) : NULL;
    return out->open != NULL;
}

/* ---- Words ---- */
static mr_status expand(const char *pattern, const expansion *to, mr_error *err);

static mr_status put_in(const char *pattern, const pair *at, const char *word, size_t length,
                        const expansion *to, mr_error *err) {
    char *name = NULL;
    if (asprintf(&name, "%.*s%.*s%s", (int)(at->open - pattern), pattern, (int)length, word,
                 at->close + 1) < 0) {
        return mr_fail_memory(err, strlen(pattern));
    }
    mr_status status = expand(name, to, err);
    free(name);
    return status;
}

/* Up to the next comma that is not inside of other braces, or to the end. */
static size_t word_length(const char *word, const char *end) {
    int64_t depth = 0;
    const char *at = word;
    for (; at < end && (depth > 0 || *at != ','); at++) {
        depth += (*at == '{') - (*at == '}');
    }
    return (size_t)(at - word);
}

static mr_status expand_words(const char *pattern, const pair *at, const expansion *to,
                              mr_error *err) {
    const char *word = at->open + 1;
    mr_status status = MR_OK;
    while (status == MR_OK && word <= at->close) {
        size_t length = word_length(word, at->close);
        status = put_in(pattern, at, word, length, to, err);
        word += length + 1;
    }
    return status;
}

/* ---- Ranges ---- */
typedef struct range {
    long long from, to, step;
    int digits;
    bool letters;
} range;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A number of up to 18 digits; what follows it, or NULL: it is not one. *padded becomes true where
 * it begins with a 0 that is not all of it. */
static const char *read_number(const char *text, const char *end, long long *out, int *length,
                               bool *padded) {
    const char *digits = text + (*text == '-');
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 18 || digits + n > end) {
        return NULL;
    }
    *out = strtoll(text, NULL, 10);
    *length = (int)(digits + n - text);
    *padded = *padded || (digits[0] == '0' && n > 1);
    return digits + n;
}

static const char *read_ends(const char *text, const char *end, range *out) {
    int first = 0, last = 0;
    bool padded = false;
    if (end - text >= 4 && is_letter(text[0]) && memcmp(text + 1, "..", 2) == 0 &&
        is_letter(text[3]) && (text[0] >= 'a') == (text[3] >= 'a')) {
        *out = (range){.from = text[0], .to = text[3], .letters = true};
        return text + 4;
    }
    const char *at = read_number(text, end, &out->from, &first, &padded);
    if (!at || end - at < 3 || memcmp(at, "..", 2) != 0) {
        return NULL;
    }
    at = read_number(at + 2, end, &out->to, &last, &padded);
    out->digits = !padded ? 0 : first > last ? first : last;
    return at;
}

/* "FROM..TO" or "FROM..TO..STEP", of which the step's sign does not count. */
static bool read_range(const pair *at, range *out) {
    int length = 0;
    bool padded = false;
    *out = (range){.step = 1};
    const char *rest = read_ends(at->open + 1, at->close, out);
    out->step = 1;
    if (rest && at->close - rest >= 3 && memcmp(rest, "..", 2) == 0) {
        rest = read_number(rest + 2, at->close, &out->step, &length, &padded);
        out->step = out->step < 0 ? -out->step : out->step;
    }
    return rest == at->close && out->step > 0;
}

static long long count_of(const range *r) {
    return (r->to > r->from ? r->to - r->from : r->from - r->to) / r->step + 1;
}

static mr_status expand_range(const char *pattern, const pair *at, const expansion *to,
                              mr_error *err) {
    range r;
    if (!read_range(at, &r) || count_of(&r) > MR_BRACES_NAMES) {
        mr_fail(err, MR_E_PARAM, "braces are {0000..0123} or {a..e}, at most %d names, or {a,b,c}",
                MR_BRACES_NAMES);
        return MR_E_PARAM;
    }
    mr_status status = MR_OK;
    long long n = count_of(&r), by = r.to < r.from ? -r.step : r.step;
    for (long long i = 0; status == MR_OK && i < n; i++) {
        char word[32];
        int length = r.letters ? snprintf(word, sizeof word, "%c", (char)(r.from + i * by))
                               : snprintf(word, sizeof word, "%0*lld", r.digits, r.from + i * by);
        status = put_in(pattern, at, word, (size_t)length, to, err);
    }
    return status;
}

/* No deeper than there are pairs. */
static mr_status expand(const char *pattern, const expansion *to, mr_error *err) {
    pair at;
    int64_t n = 0;
    if (!find_pair(pattern, &at, &n)) {
        return to->take(to->user, pattern, err);
    }
    if (n > MR_BRACES_PAIRS) {
        return mr_fail(err, MR_E_LIMIT, "more than %d pairs of braces", MR_BRACES_PAIRS);
    }
    bool is_list = at.open + 1 + word_length(at.open + 1, at.close) < at.close;
    return is_list ? expand_words(pattern, &at, to, err) : expand_range(pattern, &at, to, err);
}

mr_status mr_braces_expand(const char *pattern, mr_braces_take *take, void *user, mr_error *err) {
    const expansion to = {take, user};
    return expand(pattern, &to, err);
}
