/* SPDX-License-Identifier: Apache-2.0 */
/* shard_index.c - see shard_index.h.
 *
 * wds2idx: a line "v1.2 SAMPLES", then for each sample a line of "EXTENSION OFFSET SIZE NAME" for
 * each of its parts. (v1.1 has no NAME, so that it does not tell which files are parts, and is not
 * used.) tfrecord2idx: for each record a line "OFFSET SIZE". */
#include "sources/shard_index.h"

#include <millrace/millrace.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/tar.h"
#include "core/error.h"
#include "core/memory.h"
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
/* Which files are parts of samples, and where samples begin, is decided by the names, as it is
 * where there is no index: wds2idx also lists files that are no parts. */
typedef struct parts {
    const char *key; /* of the sample that was marked last; in the index */
    size_t key_length;
    int64_t size; /* of the shard, at most */
    int64_t last; /* the end of the last file */
    int64_t end;  /* of the last part of a sample */
} parts;

static bool mark_part(mr_shards *shards, parts *p, const text *name) {
    mr_tar_part found;
    if (!mr_tar_name_part(name->at, (size_t)(name->end - name->at), &found)) {
        return true;
    }
    if (!p->key || p->key_length != found.key_length ||
        memcmp(p->key, name->at, found.key_length) != 0) {
        p->key = name->at;
        p->key_length = found.key_length;
        if (mr_shards_mark(shards, p->end, 1, NULL) < 0) {
            return false;
        }
    }
    p->end = p->last;
    return true;
}

/* The files of a line, which lie behind those before. */
static bool read_files(mr_shards *shards, text *t, parts *p) {
    text word, name;
    int64_t offset = 0, length = 0;
    bool any = false;
    for (; next_word(t, &word); any = true) {
        if (!next_number(t, &offset) || !next_number(t, &length) || !next_word(t, &name) ||
            offset % MR_TAR_BLOCK != 0 || offset < p->last + MR_TAR_BLOCK || offset > p->size ||
            length > p->size - offset) {
            return false;
        }
        int64_t padded = (length + MR_TAR_BLOCK - 1) / MR_TAR_BLOCK * MR_TAR_BLOCK;
        if (padded > p->size - offset) {
            return false;
        }
        p->last = offset + padded;
        if (!mark_part(shards, p, &name)) {
            return false;
        }
    }
    return any;
}

/* Behind the last part there are no more: what else is there is left out. */
static bool ends_there(const unsigned char *data, int64_t size, int64_t at) {
    mr_error ignored = MR_ERROR_INIT;
    mr_tar_part found;
    mr_status status = MR_E_MEMORY;
    mr_tar_entry *entry = mr_zalloc(1, sizeof *entry);
    if (entry) {
        entry->next = at;
        do {
            status = mr_tar_next(data, (size_t)size, entry->next, entry, &ignored);
        } while (status == MR_OK && !mr_tar_part_of(entry, &found));
    }
    mr_free(entry);
    return status == MR_END;
}

bool mr_shard_index_parse_tar(mr_shards *shards, const char *index, size_t n,
                              const unsigned char *data, int64_t size) {
    text t = {index, index + n}, version;
    parts p = {.size = size};
    int64_t n_lines = 0;
    if (!next_word(&t, &version) || !is_word(&version, "v1.2") || !next_number(&t, &n_lines) ||
        !next_line(&t)) {
        return false;
    }
    for (int64_t i = 0; i < n_lines; i++) {
        if (!read_files(shards, &t, &p) || (!next_line(&t) && t.at != t.end)) {
            return false;
        }
    }
    mr_shards_end(shards, p.end);
    return t.at == t.end && (!data || ends_there(data, size, p.end));
}

/* ---- Reading tfrecord2idx ---- */
bool mr_shard_index_parse_tfrecord(mr_shards *shards, const char *index, size_t n, bool whole,
                                   int64_t size) {
    text t = {index, index + n};
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
    return end == size || (!whole && end > 0);
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

/* The size of a compressed shard is not known before it is unpacked. */
static int64_t most_of(const mr_shards *shards, const mr_shard_data *data) {
    return data->data ? (int64_t)data->size : shards->max_unpacked;
}

bool mr_shard_index_read_tar(mr_shards *shards, const mr_shard *shard, const mr_shard_data *data,
                             int32_t choice, const mr_log *log) {
    mr_map map;
    char *path;
    if (choice == MR_INDEX_NONE || !map_index(shard->path, &map, &path)) {
        return false;
    }
    const marks before = {shards->n_pieces, shards->n_samples};
    bool well = map.size > 0 && mr_shard_index_parse_tar(shards, (const char *)map.data, map.size,
                                                         data->data, most_of(shards, data));
    well = settle(shards, before, well, path, log);
    mr_map_close(&map);
    free(path);
    return well;
}

bool mr_shard_index_read_tfrecord(mr_shards *shards, const mr_shard *shard,
                                  const mr_shard_data *data, int32_t choice, const mr_log *log) {
    mr_map map;
    char *path;
    if (choice == MR_INDEX_NONE || !map_index(shard->path, &map, &path)) {
        return false;
    }
    const marks before = {shards->n_pieces, shards->n_samples};
    bool well =
        map.size > 0 && mr_shard_index_parse_tfrecord(shards, (const char *)map.data, map.size,
                                                      data->data != NULL, most_of(shards, data));
    well = settle(shards, before, well, path, log);
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
    if (strpbrk(name, " \t\n\v\f\r")) { /* this format has no way to write it */
        index->on = false;
        index->has_space = true;
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
    index->text = NULL;
    index->on = false;
}

void mr_shard_index_write_tar(mr_shard_index *index, bool well, bool *said, const mr_log *log) {
    char head[64];
    if (index->has_space && !*said) {
        say(log, index->shard->path,
            "no index is written for shards like this one: it has a name "
            "with a space, which the index has no way to write");
        *said = true;
    }
    snprintf(head, sizeof head, "v1.2 %lld\n", (long long)index->n_samples);
    write_index(index, well, head, "\n", log);
}

void mr_shard_index_write_tfrecord(mr_shard_index *index, bool well, const mr_log *log) {
    write_index(index, well, "", "", log);
}
