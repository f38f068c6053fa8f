/* SPDX-License-Identifier: Apache-2.0 */
/* shard_index.c - see shard_index.h.
 *
 * wds2idx: a line "v1.2 SAMPLES", then for each sample a line of "EXTENSION OFFSET SIZE NAME" for
 * each of its parts (v1.1: without NAME). tfrecord2idx: for each record a line "OFFSET SIZE". */
#include "sources/shard_index.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/tar.h"
#include "core/error.h"
#include "io/whole.h"

const char *const mr_shard_index_choices[] = {"read", "write", "none", NULL};

static void say(const mr_log *log, const char *path, const char *what) {
    char text[700], name[512];
    if (log->write) {
        mr_text_escape(name, sizeof name, path);
        snprintf(text, sizeof text, "%s: %s", name, what);
        log->write(log->user, text);
    }
}

/* ---- Finding it ---- */
/* SHARD.idx, or with .idx in place of the last ending. */
static char *path_of(const char *shard, bool replace) {
    const char *slash = strrchr(shard, '/'), *dot = strrchr(slash ? slash : shard, '.');
    size_t n = replace && dot ? (size_t)(dot - shard) : strlen(shard);
    char *path = NULL;
    return asprintf(&path, "%.*s.idx", (int)n, shard) < 0 ? NULL : path;
}

static bool map_index(const char *shard, mr_map *map, char **path) {
    mr_error ignored = MR_ERROR_INIT;
    for (int replace = 0; replace < 2; replace++) {
        *path = path_of(shard, replace);
        if (*path && mr_path_is_newer(*path, shard) && mr_map_open(map, *path, &ignored) == MR_OK) {
            return true;
        }
        free(*path);
    }
    *path = NULL;
    return false;
}

/* ---- Words and numbers ---- */
typedef struct text {
    const char *at, *end;
} text;

/* The next word of the line; false: the line ends. */
static bool next_word(text *t, text *word) {
    while (t->at < t->end && *t->at == ' ') {
        t->at++;
    }
    word->at = t->at;
    while (t->at < t->end && *t->at != ' ' && *t->at != '\n') {
        t->at++;
    }
    word->end = t->at;
    return word->end > word->at;
}

static bool next_line(text *t) {
    while (t->at < t->end && *t->at == ' ') {
        t->at++;
    }
    if (t->at == t->end || *t->at != '\n') {
        return false;
    }
    t->at++;
    return true;
}

static bool next_number(text *t, int64_t *out) {
    text word;
    if (!next_word(t, &word)) {
        return false;
    }
    *out = 0;
    for (const char *c = word.at; c < word.end; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *c - '0', out)) {
            return false;
        }
    }
    return true;
}

static bool is_word(const text *word, const char *expected) {
    size_t n = strlen(expected);
    return (size_t)(word->end - word->at) == n && memcmp(word->at, expected, n) == 0;
}

/* ---- Reading wds2idx ---- */
/* One sample's parts, which lie behind `end`; *end becomes the end of the last. */
static bool read_parts(text *t, bool names, int64_t size, int64_t *end) {
    text word;
    int64_t offset = 0, length = 0, last = *end;
    bool any = false;
    while (next_word(t, &word)) {
        if (!next_number(t, &offset) || !next_number(t, &length) ||
            (names && !next_word(t, &word)) || offset % MR_TAR_BLOCK != 0 ||
            offset < last + MR_TAR_BLOCK || offset > size || length > size - offset) {
            return false;
        }
        int64_t padded = (length + MR_TAR_BLOCK - 1) / MR_TAR_BLOCK * MR_TAR_BLOCK;
        if (padded > size - offset) {
            return false;
        }
        last = offset + padded;
        any = true;
    }
    *end = last;
    return any;
}

static bool ends_there(const unsigned char *data, int64_t size, int64_t at) {
    for (int64_t i = at; i < size && i < at + MR_TAR_BLOCK; i++) {
        if (data[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool read_tar(mr_shards *shards, text t, const unsigned char *data, int64_t size) {
    text version;
    int64_t n = 0, end = 0;
    if (!next_word(&t, &version) || !next_number(&t, &n) || !next_line(&t)) {
        return false;
    }
    bool names = is_word(&version, "v1.2");
    if (!names && !is_word(&version, "v1.1")) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        if (mr_shards_mark(shards, end, 1, NULL) < 0 || !read_parts(&t, names, size, &end) ||
            (!next_line(&t) && t.at != t.end)) {
            return false;
        }
    }
    mr_shards_end(shards, end);
    return t.at == t.end && ends_there(data, size, end);
}

/* ---- Reading tfrecord2idx ---- */
static bool read_tfrecord(mr_shards *shards, text t, int64_t size) {
    int64_t offset = 0, length = 0, end = 0;
    while (t.at < t.end) {
        if (!next_number(&t, &offset) || !next_number(&t, &length) ||
            (!next_line(&t) && t.at != t.end) || offset != end || length < 16 ||
            length > size - end || mr_shards_mark(shards, offset, 1, NULL) < 0) {
            return false;
        }
        end += length;
    }
    mr_shards_end(shards, end);
    return end == size;
}

/* What was marked by an index that turned out wrong is taken back. */
typedef struct marks {
    int64_t pieces, samples;
} marks;

static bool settle(mr_shards *shards, marks before, bool well, const char *path,
                   const mr_log *log) {
    if (!well) {
        shards->n_pieces = before.pieces;
        shards->n_samples = before.samples;
        say(log, path, "the index does not fit its shard and is not used");
    }
    return well;
}

bool mr_shard_index_read_tar(mr_shards *shards, const mr_shard *shard, const unsigned char *data,
                             size_t size, int32_t choice, const mr_log *log) {
    mr_map map;
    char *path;
    if (choice == MR_INDEX_NONE || !map_index(shard->path, &map, &path)) {
        return false;
    }
    const marks before = {shards->n_pieces, shards->n_samples};
    const text t = {(const char *)map.data, (const char *)map.data + map.size};
    bool well =
        settle(shards, before, map.size > 0 && read_tar(shards, t, data, (int64_t)size), path, log);
    mr_map_close(&map);
    free(path);
    return well;
}

bool mr_shard_index_read_tfrecord(mr_shards *shards, const mr_shard *shard, size_t size,
                                  int32_t choice, const mr_log *log) {
    mr_map map;
    char *path;
    if (choice == MR_INDEX_NONE || !map_index(shard->path, &map, &path)) {
        return false;
    }
    const marks before = {shards->n_pieces, shards->n_samples};
    const text t = {(const char *)map.data, (const char *)map.data + map.size};
    bool well =
        settle(shards, before, map.size > 0 && read_tfrecord(shards, t, (int64_t)size), path, log);
    mr_map_close(&map);
    free(path);
    return well;
}

/* ---- Making it ---- */
static bool make_room(mr_shard_index *index, size_t more) {
    if (index->length + more > index->capacity) {
        size_t capacity = index->capacity * 2 + more;
        char *grown = realloc(index->text, capacity);
        if (!grown) {
            return false;
        }
        index->text = grown;
        index->capacity = capacity;
    }
    return true;
}

static void MR_PRINTF(2, 3) append(mr_shard_index *index, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !make_room(index, (size_t)n + 1)) {
        index->on = false;
        return;
    }
    va_start(args, format);
    vsnprintf(index->text + index->length, (size_t)n + 1, format, args);
    va_end(args);
    index->length += (size_t)n;
}

void mr_shard_index_begin(mr_shard_index *index, const mr_shard *shard, int32_t choice) {
    *index = (mr_shard_index){.shard = shard, .on = choice == MR_INDEX_WRITE};
}

void mr_shard_index_sample(mr_shard_index *index) {
    if (index->on && index->n_samples++ > 0) {
        append(index, "\n");
    }
}

void mr_shard_index_part(mr_shard_index *index, const char *extension, int64_t offset, int64_t size,
                         const char *name) {
    if (!index->on) {
        return;
    }
    if (strpbrk(name, " \n")) { /* this format has no way to write it */
        index->on = false;
        return;
    }
    bool first = index->length == 0 || index->text[index->length - 1] == '\n';
    append(index, "%s%s %lld %lld %s", first ? "" : " ", extension, (long long)offset,
           (long long)size, name);
}

void mr_shard_index_record(mr_shard_index *index, int64_t offset, int64_t size) {
    if (index->on) {
        append(index, "%lld %lld\n", (long long)offset, (long long)size);
    }
}

static int write_file(const char *path, const char *head, const mr_shard_index *index,
                      const char *tail) {
    mr_whole_file file;
    int failed = mr_whole_open(&file, path);
    if (failed != 0) {
        return failed;
    }
    failed = mr_whole_write(&file, head, strlen(head));
    failed = failed ? failed : mr_whole_write(&file, index->text, index->length);
    failed = failed ? failed : mr_whole_write(&file, tail, strlen(tail));
    return mr_whole_close(&file, failed);
}

static void write_index(mr_shard_index *index, bool well, const char *head, const char *tail,
                        const mr_log *log) {
    char *path = index->on && well && index->length > 0 ? path_of(index->shard->path, false) : NULL;
    if (path && write_file(path, head, index, tail) != 0) {
        say(log, path, "the index cannot be written");
    }
    free(path);
    free(index->text);
    *index = (mr_shard_index){.on = false};
}

void mr_shard_index_write_tar(mr_shard_index *index, bool well, const mr_log *log) {
    char head[64];
    snprintf(head, sizeof head, "v1.2 %lld\n", (long long)index->n_samples);
    write_index(index, well, head, "\n", log);
}

void mr_shard_index_write_tfrecord(mr_shard_index *index, bool well, const mr_log *log) {
    write_index(index, well, "", "", log);
}
