/* SPDX-License-Identifier: Apache-2.0 */
/* cache_stat.c - millrace cache stat: what a store holds, of which pipelines, and how well it
 * serves them. */
/* MR_REQUIRES(lmdb) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache_parts.h"
#include "errors.h"
#include "text.h"

/* ---- Taking notes -------------------------------------------------------------------------- */

typedef struct way {
    mr_store_way found;
    char *text;
} way;

typedef struct ways {
    way *list;
    size_t n;
    bool no_memory;
} ways;

static void note_way(void *user, const mr_store_way *found) {
    ways *all = user;
    way *grown = realloc(all->list, (all->n + 1) * sizeof *grown);
    char *text = strdup(found->text);
    all->list = grown ? grown : all->list;
    if (!grown || !text) {
        free(text);
        all->no_memory = true;
        return;
    }
    all->list[all->n++] = (way){*found, text};
}

static void free_ways(ways *all) {
    for (size_t i = 0; i < all->n; i++) {
        free(all->list[i].text);
    }
    free(all->list);
}

/* What was used last comes first. */
static int compare_ways(const void *a, const void *b) {
    const mr_store_way *first = &((const way *)a)->found, *second = &((const way *)b)->found;
    if (first->used != second->used) {
        return first->used > second->used ? -1 : 1;
    }
    return strcmp(first->prefix, second->prefix);
}

/* ---- A way in short ------------------------------------------------------------------------ */

static bool is_default(const mr_param *rows, const char *name, const json_t *value) {
    for (; rows && rows->name; rows++) {
        if (rows->fallback && strcmp(rows->name, name) == 0) {
            json_t *fallback = json_loads(rows->fallback, JSON_DECODE_ANY, NULL);
            bool same = json_equal(fallback, value) ||
                        (json_is_number(fallback) && json_is_number(value) &&
                         json_number_value(fallback) == json_number_value(value));
            json_decref(fallback);
            return same;
        }
    }
    return false;
}

/* Prints " > NAME {params}" without the parameters that are as they are anyway. False: it is not
 * of that form, and nothing was printed. */
static bool print_op(const char *text, size_t length) {
    const char *space = memchr(text, ' ', length);
    size_t name_length = space ? (size_t)(space - text) : length;
    char name[64], key_name[64];
    snprintf(name, sizeof name, "%.*s", (int)name_length, text);
    const mr_op_class *op = mr_op_find(name);
    json_t *params = space ? json_loadb(space + 1, length - name_length - 1, 0, NULL) : NULL;
    const char *key;
    json_t *value;
    void *next;
    if (!op || !params) {
        json_decref(params);
        return false;
    }
    json_object_foreach_safe(params, next, key, value) {
        snprintf(key_name, sizeof key_name, "%s", key);
        if (is_default(op->params, key_name, value)) {
            json_object_del(params, key_name);
        }
    }
    printf(" > %s", name);
    if (json_object_size(params) > 0) {
        printf(" ");
        json_dumpf(params, stdout, JSON_REAL_PRECISION(6));
    }
    json_decref(params);
    return true;
}

static void print_way_text(const char *text) {
    char safe[1024];
    const char *end = strstr(text, " > ");
    if (!*text) {
        printf("(its run goes on, or was killed)\n"); /* they take notes as they end */
        return;
    }
    mr_text_safe(safe, sizeof safe, text);
    printf("%.*s", end ? (int)(end - text) : (int)strlen(safe), safe);
    while (end) {
        const char *op = end + 3;
        end = strstr(op, " > ");
        size_t length = end ? (size_t)(end - op) : strlen(op);
        if (!print_op(op, length)) {
            printf(" > %.*s", (int)length, op);
        }
    }
    printf("\n");
}

/* ---- Text ---------------------------------------------------------------------------------- */

static char *age_text(char *buffer, size_t size, int64_t then) {
    static const struct {
        int64_t seconds;
        const char *unit;
    } steps[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    int64_t age = (int64_t)time(NULL) - then;
    size_t i = 0;
    age = age > 0 ? age : 0;
    while (i < 3 && age < 2 * steps[i].seconds) {
        i++;
    }
    if (then == 0) {
        snprintf(buffer, size, "-");
    } else {
        snprintf(buffer, size, "%lld %s ago", (long long)(age / steps[i].seconds), steps[i].unit);
    }
    return buffer;
}

static char *hit_text(char *buffer, size_t size, const mr_store_way *w) {
    int64_t asked = w->hits + w->misses;
    if (asked == 0) {
        snprintf(buffer, size, "-");
    } else {
        snprintf(buffer, size, "%.1f%%", 100 * (double)w->hits / (double)asked);
    }
    return buffer;
}

static void print_way(const way *w) {
    char entries[32], bytes[32], hits[32], used[32], made[32];
    printf("  %11s  %10s  %6s  %-10s  %-10s  ",
           mr_text_count(entries, sizeof entries, w->found.entries),
           mr_text_bytes(bytes, sizeof bytes, w->found.bytes),
           hit_text(hits, sizeof hits, &w->found), age_text(used, sizeof used, w->found.used),
           age_text(made, sizeof made, w->found.made));
    print_way_text(w->text);
}

static void print_store(const mr_store_info *info, const ways *all) {
    char path[4096], limit[32], taken[32], entries[32], bytes[32];
    printf("%s\n", mr_text_safe(path, sizeof path, info->path));
    printf("  %s on disk, limit %s; %s %s, %s\n",
           mr_text_bytes(taken, sizeof taken, info->file_bytes),
           mr_text_bytes(limit, sizeof limit, info->limit),
           mr_text_count(entries, sizeof entries, info->entries),
           mr_text_plural(info->entries, "entry", "entries"),
           mr_text_bytes(bytes, sizeof bytes, info->bytes));
    if (all->n > 0) {
        printf("  %11s  %10s  %6s  %-10s  %-10s  %s\n", "entries", "bytes", "hits", "last used",
               "first used", "of any dataset by way of");
    }
    for (size_t i = 0; i < all->n; i++) {
        print_way(&all->list[i]);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *way_json(const way *w) {
    json_t *object = json_object();
    json_object_set_new(object, "key", json_string(w->found.prefix));
    json_object_set_new(object, "text", *w->text ? mr_json_text(w->text) : json_null());
    json_object_set_new(object, "entries", json_integer(w->found.entries));
    json_object_set_new(object, "bytes", json_integer(w->found.bytes));
    json_object_set_new(object, "hits", json_integer(w->found.hits));
    json_object_set_new(object, "misses", json_integer(w->found.misses));
    json_object_set_new(object, "first_used",
                        w->found.made ? json_integer(w->found.made) : json_null());
    json_object_set_new(object, "last_used",
                        w->found.used ? json_integer(w->found.used) : json_null());
    return object;
}

static json_t *store_json(const mr_store_info *info, const ways *all) {
    json_t *object = json_object(), *array = json_array();
    for (size_t i = 0; i < all->n; i++) {
        json_array_append_new(array, way_json(&all->list[i]));
    }
    json_object_set_new(object, "path", mr_json_text(info->path));
    json_object_set_new(object, "limit", json_integer(info->limit));
    json_object_set_new(object, "disk_bytes", json_integer(info->file_bytes));
    json_object_set_new(object, "entries", json_integer(info->entries));
    json_object_set_new(object, "bytes", json_integer(info->bytes));
    json_object_set_new(object, "pipelines", array);
    return object;
}

/* ---- The action ---------------------------------------------------------------------------- */

static mr_status stat_store(const char *params, json_t *stores, bool json, mr_error *err) {
    ways all = {0};
    const mr_store_visitor visitor = {.size = sizeof visitor, .way = note_way, .user = &all};
    mr_store_info info = {.size = (uint32_t)sizeof info};
    mr_status status = mr_store_stat(params, &visitor, &info, err);
    if (status == MR_OK && all.no_memory) {
        status = mr_fail(err, MR_E_MEMORY, "out of memory");
    }
    if (status == MR_OK && all.n > 0) {
        qsort(all.list, all.n, sizeof *all.list, compare_ways);
    }
    if (status == MR_OK && json) {
        json_array_append_new(stores, store_json(&info, &all));
    } else if (status == MR_OK) {
        print_store(&info, &all);
    }
    free_ways(&all);
    return status;
}

int mr_cache_stat(const mr_cache_values *v, const mr_cache_targets *t) {
    mr_error err = MR_ERROR_INIT;
    json_t *stores = json_array();
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < t->n; i++) {
        if (!t->list[i].again) {
            status = stat_store(t->list[i].params, stores, v->json, &err);
        }
    }
    if (status == MR_OK && v->json) {
        mr_json_print(json_pack("{s:O}", "stores", stores), MR_DIGITS_SHORT);
    }
    json_decref(stores);
    return status == MR_OK ? MR_EXIT_OK : mr_error_print(&err);
}
