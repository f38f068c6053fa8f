/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_files.c - see parquet_files.h. A footer that is kept is filed under the file's identity,
 * and only if that was the same before the footer was read and afterwards. */
#include "sources/parquet_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/file.h"

#include <millrace/millrace.h>

/* ---- Bytes ---- */
mr_status mr_pq_read_bytes(const char *path, int64_t offset, int64_t size, void *to,
                           mr_error *err) {
    const mr_extent extent = {.path = path, .offset = offset, .length = size, .limit = INT64_MAX};
    mr_open_extent open;
    MR_TRY(mr_extent_open(&extent, &open, err));
    mr_status status = mr_extent_read(&open, to, err);
    mr_extent_close(&open);
    return status;
}

/* ---- Footers from files ---- */
/* The end of an open file in memory: all of its footer. */
typedef struct file_end {
    uint8_t *bytes;
    int64_t size;   /* that were read */
    int64_t footer; /* the last of them that are the footer */
} file_end;

static mr_status read_end(const mr_open_extent *file, int64_t size, file_end *out, mr_error *err) {
    mr_open_extent end = *file;
    uint8_t *bytes = realloc(out->bytes, (size_t)size);
    if (!bytes) {
        return mr_fail_memory(err, (size_t)size);
    }
    out->bytes = bytes;
    out->size = size;
    end.offset = file->file_size - size;
    end.size = (size_t)size;
    MR_TRY(mr_extent_read(&end, bytes, err));
    return mr_pq_tail(bytes + size - MR_PQ_TAIL, file->file_size, &out->footer, err);
}

/* Most footers are found by one read. */
static mr_status find_footer(const mr_open_extent *file, file_end *out, mr_error *err) {
    const int64_t guess = 32768, size = file->file_size;
    if (size < MR_PQ_TAIL) {
        return mr_fail(err, MR_E_CORRUPT, "%lld bytes are too few for a Parquet file",
                       (long long)size);
    }
    MR_TRY(read_end(file, size < guess ? size : guess, out, err));
    return out->footer > out->size ? read_end(file, out->footer, out, err) : MR_OK;
}

static mr_status parse_end(const mr_open_extent *file, mr_pq_file **out, uint64_t hash[2],
                           mr_error *err) {
    file_end end = {0};
    mr_status status = find_footer(file, &end, err);
    if (status == MR_OK) {
        const uint8_t *footer = end.bytes + end.size - end.footer;
        status = mr_pq_open(out, footer, (size_t)end.footer, file->file_size, err);
        const mr_hash128 found = mr_hash(footer, (size_t)end.footer);
        hash[0] = found.low;
        hash[1] = found.high;
    }
    free(end.bytes);
    return status;
}

/* ---- Footers that are kept ---- */
/* Before the bytes of mr_pq_index. */
typedef struct kept_head {
    uint64_t hash[2];
    int64_t file_size;
} kept_head;

static mr_hash128 key_of(const uint64_t identity[2]) {
    const uint64_t words[3] = {0x6d72706766310001, identity[0], identity[1]};
    return mr_hash(words, sizeof words);
}

static bool find_kept(const mr_pq_keep *keep, mr_pq_set_file *file, uint64_t hash[2]) {
    const mr_hash128 key = key_of(file->identity);
    void *value = NULL;
    size_t size = 0;
    kept_head head;
    bool found = keep->keeper->find(keep->keeper->user, keep->store, &key.low, &value, &size) &&
                 size > sizeof head;
    if (found) {
        memcpy(&head, value, sizeof head);
        found = mr_pq_open_index(&file->file, (uint8_t *)value + sizeof head, size - sizeof head,
                                 head.file_size, NULL) == MR_OK;
    }
    if (found) {
        memcpy(hash, head.hash, sizeof head.hash);
    }
    free(value);
    return found;
}

static void put_kept(const mr_pq_keep *keep, const mr_pq_set_file *file, int64_t file_size,
                     const uint64_t hash[2]) {
    const mr_hash128 key = key_of(file->identity);
    kept_head head = {{hash[0], hash[1]}, file_size};
    void *index = NULL;
    size_t size = 0;
    if (!keep->keeper || mr_pq_index(file->file, &index, &size, NULL) < 0) {
        return;
    }
    uint8_t *value = malloc(sizeof head + size);
    if (value) {
        memcpy(value, &head, sizeof head);
        memcpy(value + sizeof head, index, size);
        keep->keeper->put(keep->keeper->user, keep->store, &key.low, value, sizeof head + size);
    }
    free(value);
    free(index);
}

mr_status mr_pq_read_footer(const char *path, const mr_pq_keep *keep, mr_pq_set_file *out,
                            uint64_t hash[2], mr_error *err) {
    const mr_extent whole = {.path = path, .length = -1, .limit = INT64_MAX};
    uint64_t after[2];
    mr_open_extent file;
    out->stamped = mr_file_stamp(path, out->stamp);
    out->named = keep->keeper && mr_file_identity(path, INT64_MAX, out->identity);
    if (out->named && find_kept(keep, out, hash)) {
        return MR_OK;
    }
    MR_TRY(mr_extent_open(&whole, &file, err));
    mr_status status = parse_end(&file, &out->file, hash, err);
    out->named = out->named && mr_open_extent_identity(&file, after) &&
                 memcmp(after, out->identity, sizeof after) == 0;
    if (status == MR_OK && out->named) {
        put_kept(keep, out, file.file_size, hash);
    }
    mr_extent_close(&file);
    return status;
}

/* ---- _metadata ---- */
bool mr_pq_is_metadata(const char *path) {
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "_metadata") == 0;
}

/* The file that a row group lies in; NULL: it has not one. */
static const char *file_of(const mr_pq_file *metadata, int32_t group) {
    const mr_pq_chunk *chunks = metadata->groups[group].chunks;
    for (int32_t c = 0; c < metadata->n_columns; c++) {
        if (!chunks[c].file || strcmp(chunks[c].file, chunks[0].file) != 0) {
            return NULL;
        }
    }
    return chunks[0].file;
}

static bool leads_out(const char *name) {
    return name[0] == '/' || strncmp(name, "../", 3) == 0 || strstr(name, "/../") != NULL;
}

static mr_status add_file(mr_pq_set *set, const char *folder, int32_t first, int32_t n,
                          mr_error *err) {
    const char *name = file_of(set->metadata, first);
    char *path = NULL;
    if (leads_out(name)) {
        return mr_fail(err, MR_E_CORRUPT, "row group %d lies outside the folder: %.200s", first,
                       name);
    }
    if (asprintf(&path, "%s%s", folder, name) < 0) {
        return mr_fail_memory(err, strlen(name));
    }
    const mr_extent nothing = {.path = path, .length = 0, .limit = 0};
    mr_open_extent open;
    set->paths.v[set->paths.n++] = path;
    mr_pq_set_file *file = &set->files[set->n_files];
    file->root = folder;
    file->stamped = mr_file_stamp(path, file->stamp);
    MR_TRY(mr_extent_open(&nothing, &open, err));
    mr_extent_close(&open);
    set->n_files++;
    return mr_pq_part(&file->file, set->metadata, first, n, open.file_size, err);
}

static mr_status add_files(mr_pq_set *set, const char *folder, mr_error *err) {
    const mr_pq_file *metadata = set->metadata;
    for (int32_t g = 0, end; g < metadata->n_groups; g = end) {
        const char *name = file_of(metadata, g);
        if (!name) {
            return mr_fail(err, MR_E_UNSUPPORTED, "row group %d does not lie in one other file", g);
        }
        for (end = g + 1; end < metadata->n_groups; end++) {
            const char *next = file_of(metadata, end);
            if (!next || strcmp(next, name) != 0) {
                break;
            }
        }
        MR_TRY(add_file(set, folder, g, end - g, err));
    }
    return MR_OK;
}

static mr_status take_files(mr_pq_set *set, mr_error *err) {
    size_t n = (size_t)set->metadata->n_groups;
    set->files = mr_zalloc(n, sizeof *set->files);
    set->paths.v = mr_zalloc(n, sizeof *set->paths.v);
    set->paths.n = 0;
    return set->files && set->paths.v ? MR_OK : mr_fail_memory(err, n * sizeof *set->files);
}

mr_status mr_pq_set_from_metadata(mr_pq_set *set, mr_error *err) {
    const mr_pq_keep nowhere = {0};
    mr_pq_set_file file = {0};
    MR_TRY(mr_pq_read_footer(set->paths.v[0], &nowhere, &file, set->fingerprint, err));
    set->metadata = file.file;
    if (!set->metadata || set->metadata->n_groups == 0) {
        return mr_fail(err, MR_E_NOT_FOUND, "it names no row group");
    }
    set->folder = set->paths.v[0]; /* it begins with that */
    char *name = strrchr(set->folder, '/');
    *(name ? name + 1 : set->folder) = '\0';
    free(set->paths.v);
    set->paths = (mr_names){0};
    MR_TRY(take_files(set, err));
    return add_files(set, set->folder, err);
}
