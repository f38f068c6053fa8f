/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - see listing.h. An index is a head, then the starts, the folders, the names and the
 * folders' names, as they are in memory: it is mapped, and its pages belong to no process. */
#include "sources/listing.h"

#include <errno.h>
#include <limits.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/far.h"
#include "io/tree.h"
#include "io/whole.h"
#include "sources/labels.h"

/* Names one behind the other. */
typedef struct texts {
    char *v;
    size_t n, capacity;
} texts;

typedef struct mr_lister {
    const mr_strings *extensions;
    size_t root_length; /* on a server: with its slash; else 0 */
    char last_folder[1024];
    texts names, folder_names;
    int64_t *starts;
    int64_t n, capacity;
    mr_listed_folder *folders;
    int64_t n_folders, folder_capacity;
} mr_lister;

/* ---- Listing ---- */
static mr_status grow(void **v, int64_t n, int64_t *capacity, size_t size, mr_error *err) {
    if (n < *capacity) {
        return MR_OK;
    }
    int64_t larger = *capacity ? *capacity * 2 : 256;
    void *grown = realloc(*v, (size_t)larger * size);
    if (!grown) {
        return mr_fail_memory(err, (size_t)larger * size);
    }
    *v = grown;
    *capacity = larger;
    return MR_OK;
}

static mr_status add_text(texts *t, const char *text, mr_error *err) {
    size_t length = strlen(text) + 1;
    if (t->capacity - t->n < length) {
        size_t capacity = 2 * t->capacity + length + 4096;
        char *grown = realloc(t->v, capacity);
        if (!grown) {
            return mr_fail_memory(err, capacity);
        }
        t->v = grown;
        t->capacity = capacity;
    }
    memcpy(t->v + t->n, text, length);
    t->n += length;
    return MR_OK;
}

static mr_status add_file(void *user, const char *path, mr_error *err) {
    mr_lister *l = user;
    if (!mr_has_ending(l->extensions, path)) {
        return MR_OK;
    }
    MR_TRY(grow((void **)&l->starts, l->n, &l->capacity, sizeof *l->starts, err));
    l->starts[l->n] = (int64_t)l->names.n;
    MR_TRY(add_text(&l->names, path, err));
    l->n++;
    return MR_OK;
}

static mr_status add_folder(void *user, const char *path, const struct stat *info, mr_error *err) {
    mr_lister *l = user;
    MR_TRY(grow((void **)&l->folders, l->n_folders, &l->folder_capacity, sizeof *l->folders, err));
    l->folders[l->n_folders] = (mr_listed_folder){
        (uint64_t)info->st_dev, (uint64_t)info->st_ino, (uint64_t)info->st_mtim.tv_sec,
        (uint64_t)info->st_mtim.tv_nsec, l->folder_names.n};
    MR_TRY(add_text(&l->folder_names, path, err));
    l->n_folders++;
    return MR_OK;
}

/* Objects have no folders; what is before the first slash of a key is one. They come in the order
 * of their keys. */
static mr_status add_top_folder(mr_lister *l, const char *name, mr_error *err) {
    const char *slash = strchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) : 0;
    if (length == 0 || length >= sizeof l->last_folder ||
        (strlen(l->last_folder) == length && memcmp(l->last_folder, name, length) == 0)) {
        return MR_OK;
    }
    memcpy(l->last_folder, name, length);
    l->last_folder[length] = '\0';
    return add_folder(l, l->last_folder, &(struct stat){.st_dev = 0}, err);
}

static mr_status add_object(void *user, const char *path, mr_error *err) {
    mr_lister *l = user;
    char *name = strndup(path + l->root_length, mr_far_bare(path) - l->root_length);
    if (!name) {
        return mr_fail_memory(err, strlen(path));
    }
    bool hidden = name[0] == '.' || strstr(name, "/.");
    mr_status status = hidden ? MR_OK : add_top_folder(l, name, err);
    int64_t before = l->n;
    if (status == MR_OK && !hidden) {
        status = add_file(l, name, err);
    }
    if (status == MR_OK && l->n > before) {
        status = add_text(&l->names, path, err);
    }
    free(name);
    return status;
}

static mr_status walk_objects(mr_lister *l, const char *root, mr_error *err) {
    char *prefix = NULL;
    if (asprintf(&prefix, "%s%s", root, root[strlen(root) - 1] == '/' ? "" : "/") < 0) {
        return mr_fail_memory(err, strlen(root));
    }
    l->root_length = strlen(prefix);
    mr_status status = mr_far_list(prefix, add_object, l, err);
    free(prefix);
    return status;
}

static int compare_names(const void *a, const void *b, void *names) {
    return strcmp((const char *)names + *(const int64_t *)a,
                  (const char *)names + *(const int64_t *)b);
}

/* Memory that was taken in advance is given back. */
static void fit(mr_lister *l) {
    char *names = l->names.n > 0 ? realloc(l->names.v, l->names.n) : NULL;
    l->names.v = names ? names : l->names.v;
    int64_t *starts = l->n > 0 ? realloc(l->starts, (size_t)l->n * sizeof *starts) : NULL;
    l->starts = starts ? starts : l->starts;
}

static mr_status list(mr_listing *out, const mr_listing_config *config, mr_error *err) {
    mr_lister *l = mr_zalloc(1, sizeof *l);
    if (!l) {
        return mr_fail_memory(err, sizeof *l);
    }
    out->own = l;
    l->extensions = config->extensions;
    const mr_tree_visitor visitor = {.file = add_file, .folder = add_folder, .user = l};
    MR_TRY(mr_is_far(config->root) ? walk_objects(l, config->root, err)
                                   : mr_tree_walk(config->root, &visitor, config->log, err));
    if (l->n > 0) {
        qsort_r(l->starts, (size_t)l->n, sizeof *l->starts, compare_names, l->names.v);
        fit(l);
    }
    out->n = l->n;
    out->starts = l->starts;
    out->names = l->names.v;
    out->n_folders = l->n_folders;
    out->folders = l->folders;
    out->folder_names = l->folder_names.v;
    return MR_OK;
}

/* ---- The index ---- */
typedef struct head {
    char magic[8];
    uint64_t hash; /* of all that follows */
    uint64_t key;
    uint64_t n, n_folders, names_bytes, folder_names_bytes;
} head;

static const char magic[8] = {'m', 'r', 'f', 'i', 'l', 'e', 's', '1'};

static uint64_t key_of(const mr_listing_config *config) {
    uint64_t key = mr_hash64(config->root, strlen(config->root), 7);
    for (int32_t i = 0; i < config->extensions->n; i++) {
        const char *extension = config->extensions->v[i];
        key = mr_hash64(extension, strlen(extension) + 1, key);
    }
    return key;
}

static bool adds_up(const head *h, size_t size) {
    const uint64_t most = (uint64_t)1 << 40;
    return h->n < most && h->n_folders < most && h->names_bytes < most &&
           h->folder_names_bytes < most &&
           size == sizeof *h + h->n * sizeof(int64_t) + h->n_folders * sizeof(mr_listed_folder) +
                       h->names_bytes + h->folder_names_bytes;
}

/* A name at the very end of an index of objects would have no object behind it. */
static bool has_objects(const mr_listing *l, uint64_t names_bytes) {
    for (int64_t i = 0; i < l->n; i++) {
        size_t left = (size_t)(names_bytes - (uint64_t)l->starts[i]);
        size_t name = strnlen(l->names + l->starts[i], left);
        if (name + 1 >= left || !mr_is_far(l->names + l->starts[i] + name + 1)) {
            return false;
        }
    }
    return true;
}

static bool ends_with_zero(const char *text, uint64_t n) {
    return n == 0 || text[n - 1] == '\0';
}

bool mr_listing_parse(mr_listing *l, const void *data, size_t size, uint64_t key, bool objects) {
    const char *at = data;
    head h;
    if (size < sizeof h) {
        return false;
    }
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.key != key || !adds_up(&h, size)) {
        return false;
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* a fuzzer would never get past it */
    const size_t covered = offsetof(head, key);
    if (mr_hash64(at + covered, size - covered, 0) != h.hash) {
        return false;
    }
#endif
    l->n = (int64_t)h.n;
    l->n_folders = (int64_t)h.n_folders;
    l->starts = (const int64_t *)(const void *)(at += sizeof h);
    l->folders = (const mr_listed_folder *)(const void *)(at += h.n * sizeof *l->starts);
    l->names = at += h.n_folders * sizeof *l->folders;
    l->folder_names = at + h.names_bytes;
    bool within = ends_with_zero(l->names, h.names_bytes) &&
                  ends_with_zero(l->folder_names, h.folder_names_bytes);
    for (int64_t i = 0; within && i < l->n; i++) {
        within = l->starts[i] >= 0 && (uint64_t)l->starts[i] < h.names_bytes;
    }
    for (int64_t i = 0; within && i < l->n_folders; i++) {
        within = l->folders[i].name < h.folder_names_bytes;
    }
    return within && (!objects || has_objects(l, h.names_bytes));
}

static bool is_unchanged(const mr_listing *l, const mr_listed_folder *folder, const char *root) {
    char path[PATH_MAX];
    struct stat info;
    int n = snprintf(path, sizeof path, "%s/%s", root, l->folder_names + folder->name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
           (uint64_t)info.st_dev == folder->device && (uint64_t)info.st_ino == folder->inode &&
           (uint64_t)info.st_mtim.tv_sec == folder->seconds &&
           (uint64_t)info.st_mtim.tv_nsec == folder->nanoseconds;
}

static bool read_index(mr_listing *l, const mr_listing_config *config) {
    mr_error ignored = MR_ERROR_INIT;
    if (mr_map_open(&l->map, config->index, &ignored) < 0) {
        return false;
    }
    mr_map_keep_memory(&l->map);
    bool fits =
        mr_listing_parse(l, l->map.data, l->map.size, key_of(config), mr_is_far(config->root));
    for (int64_t i = 0; fits && i < l->n_folders && !mr_is_far(config->root); i++) {
        fits = is_unchanged(l, &l->folders[i], config->root);
    }
    if (!fits) {
        mr_listing_close(l);
    }
    return fits;
}

/* A folder that changed a moment ago may change once more without a new time. */
static bool is_settled(const mr_lister *l) {
    enum { SECONDS = 2 };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int64_t i = 0; i < l->n_folders; i++) {
        if ((int64_t)l->folders[i].seconds > (int64_t)now.tv_sec - SECONDS) {
            return false;
        }
    }
    return true;
}

/* ---- Writing ---- */
/* The index as one piece of memory, with the names in their order. */
static char *make_index(const mr_lister *l, uint64_t key, size_t *size) {
    head h = {.key = key,
              .n = (uint64_t)l->n,
              .n_folders = (uint64_t)l->n_folders,
              .names_bytes = l->names.n,
              .folder_names_bytes = l->folder_names.n};
    size_t starts = (size_t)l->n * sizeof *l->starts;
    size_t folders = (size_t)l->n_folders * sizeof *l->folders, name = 0;
    *size = sizeof h + starts + folders + l->names.n + l->folder_names.n;
    char *data = malloc(*size);
    if (!data) {
        return NULL;
    }
    memcpy(h.magic, magic, sizeof magic);
    memcpy(data + sizeof h + starts, l->folders, folders);
    char *names = data + sizeof h + starts + folders;
    for (int64_t i = 0; i < l->n; i++) {
        const char *text = l->names.v + l->starts[i];
        size_t length = strlen(text) + 1;
        length += l->root_length > 0 ? strlen(mr_listing_object(text)) + 1 : 0;
        memcpy(data + sizeof h + (size_t)i * sizeof name, &name, sizeof name);
        memcpy(names + name, text, length);
        name += length;
    }
    memcpy(names + name, l->folder_names.v, l->folder_names.n);
    memcpy(data, &h, sizeof h);
    const size_t covered = offsetof(head, key);
    h.hash = mr_hash64(data + covered, *size - covered, 0);
    memcpy(data, &h, sizeof h);
    return data;
}

static void say(const mr_listing_config *config, const char *what) {
    char text[700], name[512];
    if (config->log->write) {
        mr_text_escape(name, sizeof name, config->index);
        snprintf(text, sizeof text, "%s: %s", name, what);
        config->log->write(config->log->user, text);
    }
}

static void write_index(const mr_lister *l, const mr_listing_config *config) {
    mr_whole_file file;
    size_t size = 0;
    if (!is_settled(l)) {
        say(config, "not written: a folder changed in the last 2 seconds");
        return;
    }
    char *data = make_index(l, key_of(config), &size);
    int failed = data ? mr_whole_open(&file, config->index) : ENOMEM;
    if (failed == 0) {
        failed = mr_whole_close(&file, mr_whole_write(&file, data, size));
    }
    free(data);
    if (failed != 0) {
        say(config, "the index cannot be written");
    }
}

mr_status mr_listing_open(mr_listing *l, const mr_listing_config *config, mr_error *err) {
    *l = (mr_listing){.map.fd = -1};
    if (config->index[0] && read_index(l, config)) {
        return MR_OK;
    }
    MR_TRY(list(l, config, err));
    if (config->index[0] && l->n > 0) {
        write_index(l->own, config);
    }
    return MR_OK;
}

void mr_listing_close(mr_listing *l) {
    if (l->own) {
        free(l->own->names.v);
        free(l->own->folder_names.v);
        free(l->own->starts);
        free(l->own->folders);
        mr_free(l->own);
    }
    mr_map_close(&l->map);
    *l = (mr_listing){.map.fd = -1};
}
