/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c - reading tokenizer.json. */
#include "codecs/tokenizer.h"

#include <jansson.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"

#include <millrace/millrace.h>

#define MAX_TOKENS (1 << 24)

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
    "|\\s+(?!\\S)|\\s+";
static const char llama3_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static mr_status refuse(mr_error *err, const char *what) {
    mr_fail(err, MR_E_UNSUPPORTED, "this tokenizer.json asks for what is not done here: %s", what);
    mr_hint(err, "byte-level BPE with GPT-2's or Llama 3's pre-tokenizer is");
    return MR_E_UNSUPPORTED;
}

static mr_status malformed(mr_error *err, const char *what) {
    return mr_fail(err, MR_E_CORRUPT, "the tokenizer.json is malformed: %s", what);
}

/* ---- JSON ---- */
static const char *text_of(json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_set(json_t *value) {
    return value && !json_is_null(value) && !json_is_false(value);
}

static bool is_type(json_t *object, const char *type) {
    return strcmp(text_of(object, "type"), type) == 0;
}

static bool read_id(json_t *value, int32_t *id) {
    json_int_t number = json_integer_value(value);
    *id = (int32_t)number;
    return json_is_integer(value) && number >= 0 && number < INT32_MAX;
}

/* ---- Bytes of tokens: GPT-2 writes each byte as a printable character ---- */
static bool is_own_character(int byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
}

/* The byte of a character, or -1. Bytes that are not printable come from U+0100 on, in order. */
static int byte_of(uint32_t character) {
    if (character < 256) {
        return is_own_character((int)character) ? (int)character : -1;
    }
    uint32_t place = 256;
    for (int byte = 0; byte < 256; byte++) {
        if (!is_own_character(byte) && place++ == character) {
            return byte;
        }
    }
    return -1;
}

/* Writes the bytes that a token's text stands for; false: it is no byte-level text. */
static bool decode_token(const char *token, size_t size, uint8_t *out, size_t *n) {
    const uint8_t *at = (const uint8_t *)token, *end = at + size;
    *n = 0;
    while (at < end) {
        uint32_t length = 0;
        int byte = byte_of(mr_utf8_get(at, &length)); /* jansson gives valid UTF-8 only */
        if (byte < 0) {
            return false;
        }
        out[(*n)++] = (uint8_t)byte;
        at += length;
    }
    return true;
}

/* ---- Vocabulary ---- */
static mr_token_entry *entry_of(const mr_tokenizer *t, const uint8_t *bytes, size_t size) {
    size_t at = (size_t)mr_hash64(bytes, size, 0) & t->entry_mask;
    for (;; at = (at + 1) & t->entry_mask) {
        mr_token_entry *entry = &t->entries[at];
        if (entry->id < 0 ||
            (entry->size == size && memcmp(t->bytes + entry->at, bytes, size) == 0)) {
            return entry;
        }
    }
}

int32_t mr_token_find(const mr_tokenizer *t, const uint8_t *bytes, size_t size) {
    return entry_of(t, bytes, size)->id;
}

static size_t places_for(size_t n) {
    size_t places = 4;
    while (places < 2 * n + 2) {
        places *= 2;
    }
    return places;
}

static mr_status make_room(mr_tokenizer *t, json_t *vocab, mr_error *err) {
    const char *key = NULL;
    json_t *value = NULL;
    size_t bytes = 1, places = places_for(json_object_size(vocab));
    json_object_foreach(vocab, key, value) {
        bytes += strlen(key);
    }
    if (json_object_size(vocab) > MAX_TOKENS || bytes > UINT32_MAX) {
        return mr_fail(err, MR_E_LIMIT, "the vocabulary has more than %d tokens", MAX_TOKENS);
    }
    t->entries = mr_zalloc(places, sizeof *t->entries);
    t->bytes = mr_zalloc(1, bytes);
    t->entry_mask = places - 1;
    if (!t->entries || !t->bytes) {
        return mr_fail_memory(err, places * sizeof *t->entries + bytes);
    }
    for (size_t i = 0; i < places; i++) {
        t->entries[i].id = -1;
    }
    return MR_OK;
}

/* Tokens that are no byte-level text can only be added tokens: they never come of merges. */
static mr_status read_vocab(mr_tokenizer *t, json_t *vocab, mr_error *err) {
    const char *key = NULL;
    json_t *value = NULL;
    MR_TRY(make_room(t, vocab, err));
    json_object_foreach(vocab, key, value) {
        size_t n = 0;
        int32_t id = 0;
        uint8_t *bytes = t->bytes + t->n_bytes;
        if (!read_id(value, &id)) {
            return malformed(err, "a token's id is no number");
        }
        if (!decode_token(key, strlen(key), bytes, &n)) {
            continue;
        }
        mr_token_entry *entry = entry_of(t, bytes, n);
        *entry = (mr_token_entry){(uint32_t)t->n_bytes, (uint32_t)n, id};
        t->n_bytes += n;
    }
    for (int byte = 0; byte < 256; byte++) {
        const uint8_t one = (uint8_t)byte;
        t->byte_ids[byte] = mr_token_find(t, &one, 1);
        if (t->byte_ids[byte] < 0) {
            return refuse(err, "a vocabulary that has no token for some byte");
        }
    }
    return MR_OK;
}

/* ---- Merges ---- */
static mr_merge *merge_entry(mr_tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & t->merge_mask;
    while (t->merges[at].left >= 0 &&
           (t->merges[at].left != left || t->merges[at].right != right)) {
        at = (at + 1) & t->merge_mask;
    }
    return &t->merges[at];
}

/* "left right", or ["left", "right"]. */
static bool read_pair(json_t *merge, const char *part[2], size_t size[2]) {
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t i = 0; i < 2; i++) {
            part[i] = json_string_value(json_array_get(merge, i));
            size[i] = part[i] ? strlen(part[i]) : 0;
        }
        return part[0] && part[1];
    }
    part[0] = json_string_value(merge);
    const char *space = part[0] ? strchr(part[0], ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) {
        return false;
    }
    part[1] = space + 1;
    size[0] = (size_t)(space - part[0]);
    size[1] = strlen(part[1]);
    return true;
}

/* memory: room for the longest merge, in bytes of the file. */
static mr_status add_merge(mr_tokenizer *t, json_t *merge, uint32_t rank, uint8_t *memory,
                           size_t room, mr_error *err) {
    const char *part[2] = {NULL, NULL};
    size_t size[2] = {0, 0}, n = 0, m = 0;
    if (!read_pair(merge, part, size)) {
        return malformed(err, "a merge is no pair of tokens");
    }
    if (size[0] + size[1] > room || !decode_token(part[0], size[0], memory, &n) ||
        !decode_token(part[1], size[1], memory + n, &m)) {
        return malformed(err, "a merge of tokens that are not in the vocabulary");
    }
    mr_merge made = {mr_token_find(t, memory, n), mr_token_find(t, memory + n, m), rank,
                     mr_token_find(t, memory, n + m)};
    if (made.left < 0 || made.right < 0 || made.id < 0) {
        return malformed(err, "a merge of tokens that are not in the vocabulary");
    }
    *merge_entry(t, made.left, made.right) = made;
    return MR_OK;
}

static mr_status read_merges(mr_tokenizer *t, json_t *merges, mr_error *err) {
    size_t n = json_array_size(merges), places = places_for(n), room = t->n_bytes + 1;
    uint8_t *memory = mr_zalloc(1, room);
    t->merges = n <= MAX_TOKENS ? mr_zalloc(places, sizeof *t->merges) : NULL;
    t->merge_mask = places - 1;
    mr_status status = MR_OK;
    if (!memory || !t->merges) {
        mr_free(memory);
        return mr_fail_memory(err, places * sizeof(mr_merge));
    }
    for (size_t i = 0; i < places; i++) {
        t->merges[i].left = -1;
    }
    for (size_t i = 0; status == MR_OK && i < n; i++) {
        status = add_merge(t, json_array_get(merges, i), (uint32_t)i, memory, room / 2, err);
    }
    mr_free(memory);
    return status;
}

static mr_status read_model(mr_tokenizer *t, json_t *model, mr_error *err) {
    const char *type = text_of(model, "type");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (type[0] && strcmp(type, "BPE") != 0) {
        return refuse(err, "a model other than BPE");
    }
    if (is_set(json_object_get(model, "dropout"))) {
        return refuse(err, "dropout");
    }
    if (text_of(model, "continuing_subword_prefix")[0] || text_of(model, "end_of_word_suffix")[0]) {
        return refuse(err, "a prefix or suffix of subwords");
    }
    if (!json_is_object(vocab) || !json_is_array(merges)) {
        return malformed(err, "model has no vocab or no merges");
    }
    t->ignore_merges = is_set(json_object_get(model, "ignore_merges"));
    MR_TRY(read_vocab(t, vocab, err));
    return read_merges(t, merges, err);
}

/* ---- Pre-tokenizer ---- */
static mr_status read_split(mr_tokenizer *t, json_t *split, mr_error *err) {
    const char *pattern = text_of(json_object_get(split, "pattern"), "Regex");
    if (!is_type(split, "Split") || strcmp(text_of(split, "behavior"), "Isolated") != 0 ||
        is_set(json_object_get(split, "invert"))) {
        return refuse(err, "a pre-tokenizer other than Split (isolated) and ByteLevel");
    }
    t->split = strcmp(pattern, gpt2_pattern) == 0     ? MR_SPLIT_GPT2
               : strcmp(pattern, llama3_pattern) == 0 ? MR_SPLIT_LLAMA3
                                                      : MR_SPLIT_NONE;
    return t->split == MR_SPLIT_NONE ? refuse(err, "a pattern other than GPT-2's and Llama 3's")
                                     : MR_OK;
}

static mr_status read_byte_level(mr_tokenizer *t, json_t *level, bool alone, mr_error *err) {
    json_t *regex = json_object_get(level, "use_regex");
    bool uses_regex = !regex || is_set(regex);
    if (!is_type(level, "ByteLevel")) {
        return refuse(err, "a pre-tokenizer other than ByteLevel");
    }
    t->add_prefix_space = is_set(json_object_get(level, "add_prefix_space"));
    if (!alone && (uses_regex || t->add_prefix_space)) {
        return refuse(err, "ByteLevel with a pattern or a space of its own behind Split");
    }
    t->split = uses_regex ? MR_SPLIT_GPT2 : t->split;
    return MR_OK;
}

static mr_status read_pre_tokenizer(mr_tokenizer *t, json_t *pre, mr_error *err) {
    json_t *parts = json_object_get(pre, "pretokenizers");
    if (!is_type(pre, "Sequence")) {
        return read_byte_level(t, pre, true, err);
    }
    if (json_array_size(parts) != 2) {
        return refuse(err, "a sequence of pre-tokenizers other than Split and ByteLevel");
    }
    MR_TRY(read_split(t, json_array_get(parts, 0), err));
    return read_byte_level(t, json_array_get(parts, 1), false, err);
}

/* ---- Post-processor: what stands around a text ---- */
static mr_status put_around(mr_tokenizer *t, bool before, json_t *id, mr_error *err) {
    int32_t *n = before ? &t->n_before : &t->n_after, number = 0;
    if (!read_id(id, &number) || *n == (int32_t)(sizeof t->before / sizeof *t->before)) {
        return malformed(err, "a template's special token");
    }
    (before ? t->before : t->after)[(*n)++] = number;
    return MR_OK;
}

static mr_status put_special(mr_tokenizer *t, bool before, json_t *specials, json_t *piece,
                             mr_error *err) {
    json_t *ids = json_object_get(json_object_get(specials, text_of(piece, "id")), "ids");
    if (json_array_size(ids) == 0) {
        return malformed(err, "a template's special token has no id");
    }
    for (size_t i = 0; i < json_array_size(ids); i++) {
        MR_TRY(put_around(t, before, json_array_get(ids, i), err));
    }
    return MR_OK;
}

static mr_status read_template(mr_tokenizer *t, json_t *post, mr_error *err) {
    json_t *single = json_object_get(post, "single"),
           *specials = json_object_get(post, "special_tokens");
    bool before = true;
    for (size_t i = 0; i < json_array_size(single); i++) {
        json_t *piece = json_array_get(single, i),
               *special = json_object_get(piece, "SpecialToken");
        if (special) {
            MR_TRY(put_special(t, before, specials, special, err));
        } else if (before && json_object_get(piece, "Sequence")) {
            before = false;
        } else {
            return refuse(err, "a template that repeats the text");
        }
    }
    return before ? malformed(err, "a template without the text") : MR_OK;
}

static mr_status read_one_post(mr_tokenizer *t, json_t *post, mr_error *err) {
    if (!post || json_is_null(post) || is_type(post, "ByteLevel")) {
        return MR_OK;
    }
    if (is_type(post, "RobertaProcessing")) {
        MR_TRY(put_around(t, true, json_array_get(json_object_get(post, "cls"), 1), err));
        return put_around(t, false, json_array_get(json_object_get(post, "sep"), 1), err);
    }
    return is_type(post, "TemplateProcessing") ? read_template(t, post, err)
                                               : refuse(err, "an unknown post-processor");
}

static mr_status read_post(mr_tokenizer *t, json_t *post, mr_error *err) {
    json_t *parts = json_object_get(post, "processors");
    if (!is_type(post, "Sequence")) {
        return read_one_post(t, post, err);
    }
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = json_array_get(parts, i);
        if (t->n_before + t->n_after > 0 && !is_type(part, "ByteLevel")) {
            return refuse(err, "several templates");
        }
        MR_TRY(read_one_post(t, part, err));
    }
    return MR_OK;
}

/* ---- Added tokens ---- */
static mr_status read_one_added(mr_added *added, json_t *token, mr_error *err) {
    const char *content = text_of(token, "content");
    json_t *normalized = json_object_get(token, "normalized");
    if (!read_id(json_object_get(token, "id"), &added->id)) {
        return malformed(err, "an added token has no id");
    }
    if (is_set(json_object_get(token, "single_word"))) {
        return refuse(err, "added tokens that must be whole words");
    }
    added->size = strlen(content);
    added->text = mr_zalloc(1, added->size + 1);
    if (!added->text) {
        return mr_fail_memory(err, added->size + 1);
    }
    memcpy(added->text, content, added->size);
    added->lstrip = is_set(json_object_get(token, "lstrip"));
    added->rstrip = is_set(json_object_get(token, "rstrip"));
    added->normalized =
        normalized ? is_set(normalized) : !is_set(json_object_get(token, "special"));
    return MR_OK;
}

static mr_status read_added(mr_tokenizer *t, json_t *list, mr_error *err) {
    size_t n = json_array_size(list);
    if (n > MAX_TOKENS) {
        return mr_fail(err, MR_E_LIMIT, "there are %zu added tokens", n);
    }
    t->added = mr_zalloc(n, sizeof *t->added);
    if (!t->added) {
        return mr_fail_memory(err, n * sizeof *t->added);
    }
    for (; t->n_added < n; t->n_added++) {
        MR_TRY(read_one_added(&t->added[t->n_added], json_array_get(list, t->n_added), err));
    }
    return MR_OK;
}

/* ---- The whole ---- */
static mr_status read_document(mr_tokenizer *t, json_t *root, mr_error *err) {
    if (!json_is_object(root)) {
        return malformed(err, "not an object");
    }
    if (is_set(json_object_get(root, "normalizer"))) {
        return refuse(err, "a normalizer");
    }
    if (is_set(json_object_get(root, "truncation")) || is_set(json_object_get(root, "padding"))) {
        return refuse(err, "truncation or padding");
    }
    mr_classes_make(&t->classes);
    MR_TRY(read_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), err));
    MR_TRY(read_post(t, json_object_get(root, "post_processor"), err));
    MR_TRY(read_added(t, json_object_get(root, "added_tokens"), err));
    return read_model(t, json_object_get(root, "model"), err);
}

/* A SentencePiece model begins with its first piece: field 1, its length, and in it field 1, text.
 */
static bool is_sentencepiece(const uint8_t *bytes, size_t size) {
    return size > 3 && bytes[0] == 0x0A && bytes[1] < 0x80 && bytes[2] == 0x0A &&
           bytes[3] < bytes[1];
}

static mr_status refuse_file(const void *bytes, size_t size, const json_error_t *why,
                             mr_error *err) {
    if (is_sentencepiece(bytes, size)) {
        mr_fail(err, MR_E_UNSUPPORTED, "this tokenizer is a SentencePiece model");
        mr_hint(err,
                "give a tokenizer.json with byte-level BPE, or encode the texts beforehand and "
                "load them with the source tokens");
        return MR_E_UNSUPPORTED;
    }
    return mr_fail(err, MR_E_CORRUPT, "the tokenizer is not JSON: line %d: %s", why->line,
                   why->text);
}

mr_status mr_tokenizer_make(mr_tokenizer **out, const void *json, size_t size, mr_error *err) {
    json_t *root = NULL;
    json_error_t error;
    mr_tokenizer *t = *out = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    mr_status status = mr_json_load(&root, json, size, 0, &error);
    if (status == MR_E_MEMORY) {
        return mr_fail_memory(err, size);
    }
    if (status < 0) {
        return refuse_file(json, size, &error, err);
    }
    status = read_document(t, root, err);
    json_decref(root);
    return status;
}

void mr_tokenizer_free(mr_tokenizer *t) {
    if (!t) {
        return;
    }
    for (size_t i = 0; t->added && i < t->n_added; i++) {
        mr_free(t->added[i].text);
    }
    mr_free(t->added);
    mr_free(t->entries);
    mr_free(t->bytes);
    mr_free(t->merges);
    mr_free(t);
}
