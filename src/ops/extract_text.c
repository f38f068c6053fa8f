/* SPDX-License-Identifier: Apache-2.0 */
/* extract_text.c - the readable text of a web page, through libxml2's HTML parser.
 * MR_REQUIRES(libxml-2.0)
 *
 * No tree is made: as the parser goes through the page its text is written down in blocks, which
 * are chosen afterwards. The rule stands in the op's documentation, below. */
#include <libxml/HTMLparser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>
#include <stdio.h>
#include <string.h>

#include "codecs/html.h"
#include "codecs/unicode.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/kept.h"

#include <millrace/millrace.h>

typedef struct extract_params {
    int32_t part;
    int64_t min_length, max_depth, max_bytes;
} extract_params;

static const char *const part_names[] = {"main", "all", NULL};
enum { PART_MAIN, PART_ALL };

/* ---- Elements ---- */
enum {
    SKIP = 1u << 0,    /* nothing in it is text of the page */
    BLOCK = 1u << 1,   /* begins and ends a block */
    HEADING = 1u << 2, /* a block that belongs to the one after it */
    ASIDE = 1u << 3,   /* a block, of which nothing is the page's main part */
    LINK = 1u << 4,
    BREAK = 1u << 5, /* a line end */
    CELL = 1u << 6,  /* a space before it */
    AS_IS = 1u << 7  /* a block whose spaces stay */
};

typedef struct element {
    const char *name;
    unsigned traits;
} element;

/* In the order of names, for the search. */
static const element elements[] = {
    {"a", LINK},         {"address", BLOCK},    {"article", BLOCK}, {"aside", ASIDE},
    {"audio", SKIP},     {"blockquote", BLOCK}, {"body", BLOCK},    {"br", BREAK},
    {"button", SKIP},    {"canvas", SKIP},      {"caption", BLOCK}, {"center", BLOCK},
    {"dd", BLOCK},       {"details", BLOCK},    {"dialog", ASIDE},  {"dir", BLOCK},
    {"div", BLOCK},      {"dl", BLOCK},         {"dt", BLOCK},      {"embed", SKIP},
    {"fieldset", BLOCK}, {"figcaption", BLOCK}, {"figure", BLOCK},  {"footer", ASIDE},
    {"form", ASIDE},     {"frameset", SKIP},    {"h1", HEADING},    {"h2", HEADING},
    {"h3", HEADING},     {"h4", HEADING},       {"h5", HEADING},    {"h6", HEADING},
    {"head", SKIP},      {"header", BLOCK},     {"hr", BLOCK},      {"html", BLOCK},
    {"iframe", SKIP},    {"li", BLOCK},         {"main", BLOCK},    {"math", SKIP},
    {"menu", ASIDE},     {"nav", ASIDE},        {"noframes", SKIP}, {"noscript", SKIP},
    {"object", SKIP},    {"ol", BLOCK},         {"p", BLOCK},       {"pre", AS_IS},
    {"script", SKIP},    {"section", BLOCK},    {"select", SKIP},   {"style", SKIP},
    {"summary", BLOCK},  {"svg", SKIP},         {"table", BLOCK},   {"tbody", BLOCK},
    {"td", CELL},        {"template", SKIP},    {"textarea", SKIP}, {"tfoot", BLOCK},
    {"th", CELL},        {"thead", BLOCK},      {"title", SKIP},    {"tr", BLOCK},
    {"ul", BLOCK},       {"video", SKIP},
};

static unsigned traits_of(const xmlChar *name) {
    size_t from = 0, to = sizeof elements / sizeof *elements;
    while (from < to) {
        size_t middle = (from + to) / 2;
        int order = strcmp((const char *)name, elements[middle].name);
        if (order == 0) {
            return elements[middle].traits;
        }
        from = order > 0 ? middle + 1 : from;
        to = order > 0 ? to : middle;
    }
    return 0;
}

static bool is_hidden(const xmlChar **attributes) {
    for (size_t i = 0; attributes && attributes[i]; i += 2) {
        if (strcmp((const char *)attributes[i], "hidden") == 0) {
            return true;
        }
    }
    return false;
}

/* ---- Blocks ---- */
typedef struct block {
    size_t from, to;       /* its text */
    int64_t length, links; /* characters, and how many of them are in links */
    bool is_heading, is_aside, is_kept;
} block;

typedef struct page {
    const extract_params *params;
    htmlParserCtxtPtr parser;
    mr_kept *text;
    mr_kept blocks; /* of struct block; the last one is open */
    int64_t depth, skipped, asides, links, headings, as_is;
    bool space;         /* before the next character */
    bool space_is_link; /* it was first met in a link */
    mr_status status;
    mr_error *err;
} page;

static void stop(page *p, mr_status status) {
    if (p->status == MR_OK) {
        p->status = status;
        xmlStopParser(p->parser);
    }
}

static size_t n_blocks(const page *p) {
    return p->blocks.size / sizeof(block);
}

static block *block_at(const page *p, size_t i) {
    return (block *)(void *)p->blocks.bytes + i;
}

static block *last_block(const page *p) {
    return block_at(p, n_blocks(p) - 1);
}

/* Ends the open block. One without text is simply gone on with. */
static void begin_block(page *p) {
    block *last = n_blocks(p) > 0 ? last_block(p) : NULL;
    p->space = false;
    if (!last || last->length > 0) {
        last = mr_kept_room(&p->blocks, sizeof *last);
        if (!last) {
            stop(p, mr_fail_memory(p->err, sizeof *last));
            return;
        }
        p->blocks.size += sizeof *last;
    }
    *last = (block){.from = p->text->size,
                    .to = p->text->size,
                    .is_heading = p->headings > 0,
                    .is_aside = p->asides > 0};
}

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Adds bytes to the open block; a character is counted with its first. There is room. */
static void add_bytes(page *p, block *b, const uint8_t *bytes, size_t n, bool is_link) {
    int64_t characters = 0;
    for (size_t i = 0; i < n; i++) {
        characters += (bytes[i] & 0xC0) != 0x80;
    }
    memcpy(p->text->bytes + p->text->size, bytes, n);
    p->text->size += n;
    b->length += characters;
    b->links += is_link ? characters : 0;
    b->to = p->text->size;
}

/* Remembers a space, unless the block or a line of it begins here. */
static void note_space(page *p, const block *b) {
    if (!p->space && b->length > 0 && p->text->bytes[b->to - 1] != '\n') {
        p->space = true;
        p->space_is_link = p->links > 0;
    }
}

/* Up to the next space, or all where spaces stay. */
static const uint8_t *run_end(const page *p, const uint8_t *text, const uint8_t *end) {
    while (p->as_is == 0 && text < end && !is_space(*text)) {
        text++;
    }
    return p->as_is > 0 ? end : text;
}

/* ---- What the parser meets ---- */
static void on_text(void *user, const xmlChar *text, int length) {
    page *p = user;
    if (p->skipped > 0 || p->status != MR_OK || length <= 0 || n_blocks(p) == 0) {
        return;
    }
    if (!mr_kept_room(p->text, 2 * (size_t)length)) {
        stop(p, mr_fail_memory(p->err, (size_t)length));
        return;
    }
    block *b = last_block(p);
    const uint8_t *end = text + length;
    while (text < end) {
        const uint8_t *next = run_end(p, text, end);
        if (next == text) {
            note_space(p, b);
            text++;
            continue;
        }
        if (p->space) {
            add_bytes(p, b, (const uint8_t *)" ", 1, p->space_is_link);
            p->space = false;
        }
        add_bytes(p, b, text, (size_t)(next - text), p->links > 0);
        text = next;
    }
}

/* A line end inside of the block: no space before it, and none at the block's ends. */
static void add_break(page *p) {
    block *b = n_blocks(p) > 0 ? last_block(p) : NULL;
    p->space = false;
    if (!b || b->length == 0 || p->skipped > 0) {
        return;
    }
    if (!mr_kept_room(p->text, 1)) {
        stop(p, mr_fail_memory(p->err, 1));
        return;
    }
    add_bytes(p, b, (const uint8_t *)"\n", 1, false);
}

static void enter(page *p, unsigned traits, int64_t by) {
    p->asides += traits & ASIDE ? by : 0;
    p->links += traits & LINK ? by : 0;
    p->headings += traits & HEADING ? by : 0;
    p->as_is += traits & AS_IS ? by : 0;
    if (traits & (BLOCK | ASIDE | HEADING | AS_IS)) {
        begin_block(p);
    }
}

static void on_start(void *user, const xmlChar *name, const xmlChar **attributes) {
    page *p = user;
    unsigned traits = traits_of(name);
    if (++p->depth > p->params->max_depth) {
        stop(p, mr_fail(p->err, MR_E_LIMIT, "elements are nested deeper than max_depth (%lld)",
                        (long long)p->params->max_depth));
    }
    if (p->skipped > 0 || traits & SKIP || is_hidden(attributes)) {
        p->skipped++;
        return;
    }
    if (traits & BREAK) {
        add_break(p);
    } else if (traits & CELL && n_blocks(p) > 0) {
        note_space(p, last_block(p));
    } else {
        enter(p, traits, 1);
    }
}

static void on_end(void *user, const xmlChar *name) {
    page *p = user;
    p->depth--;
    if (p->skipped > 0) {
        p->skipped--;
        return;
    }
    enter(p, traits_of(name), -1);
}

/* ---- The choice ---- */
static void trim(const page *p, block *b) {
    while (b->to > b->from && is_space(p->text->bytes[b->to - 1])) {
        b->to--;
    }
}

/* Long enough, and not mostly links. */
static bool stands_alone(const extract_params *params, const block *b) {
    return !b->is_aside && !b->is_heading && b->length >= params->min_length &&
           3 * b->links <= b->length;
}

/* Of a run of short blocks or headings between `from` and `to`, which stand alone or are the ends.
 */
static void choose_between(const page *p, size_t from, size_t to, bool after, bool before) {
    for (size_t i = to; i > from; i--) { /* headings right before a kept block */
        block *b = block_at(p, i - 1);
        if (!b->is_heading || b->is_aside || !before) {
            break;
        }
        b->is_kept = true;
    }
    bool single = to - from == 1 && after && before;
    if (single && !block_at(p, from)->is_aside &&
        3 * block_at(p, from)->links <= block_at(p, from)->length) {
        block_at(p, from)->is_kept = true;
    }
}

static void choose_main(const page *p) {
    size_t n = n_blocks(p), next = 0; /* behind the last one that stands alone */
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (stands_alone(p->params, block_at(p, i))) {
            block_at(p, i)->is_kept = true;
            choose_between(p, next, i, any, true);
            any = true;
            next = i + 1;
        }
    }
}

/* Moves the kept blocks together, a line end between them. */
static void join(const page *p) {
    uint8_t *bytes = p->text->bytes;
    size_t to = 0;
    for (size_t i = 0; i < n_blocks(p); i++) {
        const block *b = block_at(p, i);
        if (!b->is_kept || b->to == b->from) {
            continue;
        }
        if (to > 0) {
            bytes[to++] = '\n'; /* there is room: see spread */
        }
        memmove(bytes + to, bytes + b->from, b->to - b->from);
        to += b->to - b->from;
    }
    p->text->size = to;
}

/* Blocks lie one behind the other, so that between two of them there must be room for a line end.
 */
static mr_status spread(const page *p, mr_error *err) {
    size_t n = n_blocks(p), end = p->text->size;
    if (!mr_kept_room(p->text, n)) {
        return mr_fail_memory(err, n);
    }
    for (size_t i = n; i > 0; i--) {
        block *b = block_at(p, i - 1);
        size_t length = b->to - b->from;
        memmove(p->text->bytes + b->from + i - 1, p->text->bytes + b->from, length);
        b->from += i - 1;
        b->to += i - 1;
    }
    p->text->size = end + n;
    return MR_OK;
}

static mr_status choose(page *p, mr_error *err) {
    for (size_t i = 0; i < n_blocks(p); i++) {
        trim(p, block_at(p, i));
    }
    while (n_blocks(p) > 0 && last_block(p)->length == 0) {
        p->blocks.size -= sizeof(block);
    }
    if (p->params->part == PART_MAIN) {
        choose_main(p);
    } else {
        for (size_t i = 0; i < n_blocks(p); i++) {
            block_at(p, i)->is_kept = true;
        }
    }
    MR_TRY(spread(p, err));
    join(p);
    return MR_OK;
}

/* ---- The parser ---- */
static void set_handlers(htmlParserCtxtPtr parser, page *p) {
    memset(parser->sax, 0, sizeof *parser->sax);
    parser->sax->startElement = on_start;
    parser->sax->endElement = on_end;
    parser->sax->characters = on_text;
    parser->sax->ignorableWhitespace = on_text;
    parser->userData = p;
    p->parser = parser;
}

/* Text that is UTF-8 is taken as such, whatever it says of itself; else libxml2 looks for a mark
 * and for a meta element, and takes the rest for Latin 1. */
static mr_status parse(page *p, const uint8_t *bytes, size_t size, bool is_utf8, mr_error *err) {
    htmlParserCtxtPtr parser = htmlCreateMemoryParserCtxt((const char *)bytes, (int)size);
    if (!parser) {
        return mr_fail_memory(err, size);
    }
    int options = HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET |
                  HTML_PARSE_COMPACT | (is_utf8 ? HTML_PARSE_IGNORE_ENC : 0);
    htmlCtxtUseOptions(parser, options);
    set_handlers(parser, p);
    if (is_utf8) {
        xmlSwitchEncoding(parser, XML_CHAR_ENCODING_UTF8);
    }
    htmlParseDocument(parser);
    bool no_memory = parser->errNo == XML_ERR_NO_MEMORY;
    htmlFreeParserCtxt(parser);
    MR_TRY(p->status);
    return no_memory ? mr_fail_memory(err, size) : MR_OK;
}

/* A page in UTF-8, without zero bytes, which libxml2 takes for the end of the page, and without
 * most of what has no text. NULL: no memory. */
static const uint8_t *made_ready(mr_call *call, const mr_view *in, size_t *size) {
    uint8_t *copy = mr_scratch(call, in->size);
    if (!copy) {
        return NULL;
    }
    *size = mr_html_bare(copy, in->data, in->size);
    for (uint8_t *at = copy; (at = memchr(at, 0, (size_t)(copy + *size - at))) != NULL;) {
        *at = ' ';
    }
    return copy;
}

static mr_status parse_page(page *p, mr_call *call, const mr_view *in, mr_error *err) {
    bool is_utf8 = mr_utf8_check(in->data, in->size) == in->size;
    size_t size = in->size;
    const uint8_t *bytes = is_utf8 ? made_ready(call, in, &size) : in->data;
    return bytes ? parse(p, bytes, size, is_utf8, err) : mr_fail_memory(err, in->size);
}

static mr_status extract(const extract_params *params, mr_call *call, const mr_view *in,
                         mr_error *err) {
    mr_kept *kept = call->state;
    page p = {.params = params, .text = kept, .err = err};
    mr_kept_begin(kept);
    if ((int64_t)in->size > params->max_bytes) {
        return mr_fail(err, MR_E_LIMIT, "the page has %zu bytes, more than max_bytes (%lld)",
                       in->size, (long long)params->max_bytes);
    }
    mr_status status = in->size > 0 ? parse_page(&p, call, in, err) : MR_OK;
    status = status == MR_OK ? choose(&p, err) : status;
    mr_kept_free(&p.blocks);
    MR_TRY(status);
    const mr_type type = {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)kept->size}};
    mr_kept_end(kept, &type, in);
    return MR_OK;
}

/* ---- The op ---- */
static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    if (in->dtype != MR_U8 || in->layout != MR_PLAIN || in->n_dims != 1) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs a page's bytes, uint8[?], not %s",
                       mr_type_text(in, text, sizeof text));
    }
    *out = (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    return MR_OK;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    MR_TRY(extract(params, call, in, err));
    *out = ((const mr_kept *)call->state)->type;
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    if (!mr_kept_has(call->state, in)) {
        MR_TRY(extract(params, call, in, err));
    }
    return mr_kept_give(call->state, out, err);
}

static mr_status open_kept(const void *params, void **state, mr_error *err) {
    (void)params;
    xmlInitParser();
    *state = mr_zalloc(1, sizeof(mr_kept));
    return *state ? MR_OK : mr_fail_memory(err, sizeof(mr_kept));
}

static void close_kept(void *state) {
    if (state) {
        mr_kept_free(state);
        mr_free(state);
    }
}

static const mr_param rows[] = {
    {.name = "part",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(extract_params, part),
     .fallback = "\"main\"",
     .choices = part_names,
     .doc = "The main part of the page, or all that can be read."},
    {.name = "min_length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(extract_params, min_length),
     .fallback = "80",
     .min = 0,
     .max = 1 << 24,
     .doc = "Characters that a block of the main part has, if it stands alone."},
    {.name = "max_depth",
     .kind = MR_PARAM_INT,
     .offset = offsetof(extract_params, max_depth),
     .fallback = "2000",
     .min = 1,
     .max = 1 << 20,
     .doc = "Refuse pages whose elements are nested deeper."},
    {.name = "max_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(extract_params, max_bytes),
     .fallback = "\"64MB\"",
     .min = 0,
     .max = 2147483647,
     .doc = "Refuse larger pages."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"part\": \"all\"}",
     "bytes:"
     "3c21646f63747970652068746d6c3e3c7469746c653e743c2f7469746c653e3c6e61763e3c6120687265663d783e6"
     "86f6d653c2f613e3c2f6e61763e3c68313e4f6e20206d696c6c733c2f68313e3c703e412072616365206c65616473"
     "20776174657220746f2074686520776865656c2026616d703b207475726e732069742e3c62723e536f20697420697"
     "32e3c703e53686f72742e3c703e54686520776865656c207475726e73207468652073746f6e6520616c6c20646179"
     "206c6f6e672e3c7461626c653e3c74723e3c74643e613c74643e623c2f7461626c653e3c7363726970743e6e6f3c2"
     "f7363726970743e",
     "13c9c8bbe2d0bee23f60b16f48530775"},
    {"{\"min_length\": 20}",
     "bytes:"
     "3c21646f63747970652068746d6c3e3c7469746c653e743c2f7469746c653e3c6e61763e3c6120687265663d783e6"
     "86f6d653c2f613e3c2f6e61763e3c68313e4f6e20206d696c6c733c2f68313e3c703e412072616365206c65616473"
     "20776174657220746f2074686520776865656c2026616d703b207475726e732069742e3c62723e536f20697420697"
     "32e3c703e53686f72742e3c703e54686520776865656c207475726e73207468652073746f6e6520616c6c20646179"
     "206c6f6e672e3c7461626c653e3c74723e3c74643e613c74643e623c2f7461626c653e3c7363726970743e6e6f3c2"
     "f7363726970743e",
     "0f235345d3fd77f02e36329d4c00d99d"},
    {NULL, NULL, NULL},
};

static void libraries(char *text, size_t size) {
    snprintf(text, size, "libxml2 %s", xmlParserVersion);
}

extern const mr_op_class mr_op_extract_text;
const mr_op_class mr_op_extract_text = {
    MR_OP_HEADER,
    .name = "extract_text",
    .summary = "Takes the readable text out of a web page.",
    .doc =
        "The page is parsed by libxml2. Scripts, styles, forms' controls, embedded things and "
        "elements marked hidden are left out. Block elements (p, div, li, tr, headings ...) "
        "begin and end a block; within a block runs of spaces become one, br a line end, table "
        "cells are set apart by a space, pre stays as it is. Blocks are joined by line ends. "
        "The main part: blocks of at least min_length characters, of which at most a third is in "
        "links, and that are not in nav, aside, footer, form, menu or dialog; headings right "
        "before such a block; and a single other block with as few links between two of them. "
        "Text that is UTF-8 is taken as UTF-8; other text as the page says, else as Latin 1. The "
        "output is UTF-8.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(extract_params),
    .params = rows,
    .plan = plan,
    .peek = peek,
    .open = open_kept,
    .close = close_kept,
    .run = run,
    .libraries = libraries,
    .examples = examples,
};
