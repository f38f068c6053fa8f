/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_partitions.c - see parquet_partitions.h. A folder's values are whole numbers where they
 * all are in all files, else texts. */
#include "sources/parquet_partitions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

#include <millrace/millrace.h>

/* ---- What the paths say ---- */
static mr_status read_paths(mr_pq_set *set, mr_error *err) {
    for (int64_t i = 0; i < set->n_files; i++) {
        mr_pq_set_file *file = &set->files[i];
        const char *path = set->paths.v[i];
        file->folders = mr_pq_partitions(file->root, path);
        if (!file->folders) {
            return mr_fail_memory(err, strlen(path));
        }
        if (json_object_size(file->folders) != json_object_size(set->files[0].folders)) {
            return mr_fail(err, MR_E_PARAM, "%s and %s lie in different folders of the form a=b",
                           set->paths.v[0], path);
        }
    }
    return MR_OK;
}

static bool is_asked_for(const mr_strings *columns, const char *name) {
    bool asked = columns->n == 0;
    for (int32_t i = 0; !asked && i < columns->n; i++) {
        asked = mr_pq_matches(columns->v[i], name);
    }
    return asked;
}

bool mr_pq_set_names_partition(const mr_pq_set *set, const char *pattern) {
    const char *name;
    json_t *value;
    json_object_foreach(set->files[0].folders, name, value) {
        if (mr_pq_find(set->files[0].file, name) < 0 && mr_pq_matches(pattern, name)) {
            return true;
        }
    }
    return false;
}

/* ---- Values ---- */
static bool as_number(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *out = number;
    return text[0] && strchr("-0123456789", text[0]) && *end == '\0' && errno == 0;
}

static mr_status read_value(const mr_pq_set *set, const mr_pq_set_file *file, const char *name,
                            const mr_pq_nulls *nulls, mr_pq_partition_value *out, mr_error *err) {
    json_t *value = json_object_get(file->folders, name);
    if (!value) {
        return mr_fail(err, MR_E_PARAM, "%s lies in no folder %s=...",
                       set->paths.v[file - set->files], name);
    }
    out->is_null = json_is_null(value);
    out->text = json_is_null(value) ? "" : json_string_value(value);
    out->number = nulls->fill > -1e18 && nulls->fill < 1e18 ? (int64_t)nulls->fill : 0;
    out->is_number = json_is_null(value) || as_number(out->text, &out->number);
    return MR_OK;
}

static mr_status add_partition(mr_pq_set *set, const mr_pq_nulls *nulls, const char *name,
                               mr_error *err) {
    int32_t p = set->n_partitions++;
    set->partitions[p] = (mr_pq_partition){.name = name, .is_number = true};
    for (int64_t i = 0; i < set->n_files; i++) {
        mr_pq_set_file *file = &set->files[i];
        MR_TRY(read_value(set, file, name, nulls, &file->values[p], err));
        set->partitions[p].is_number = set->partitions[p].is_number && file->values[p].is_number;
        set->fingerprint[0] =
            mr_hash64(file->values[p].text, strlen(file->values[p].text) + 1, set->fingerprint[0]);
    }
    return MR_OK;
}

static mr_status take_memory(mr_pq_set *set, size_t n, mr_error *err) {
    set->partitions = mr_zalloc(n + 1, sizeof *set->partitions);
    bool lost = !set->partitions;
    for (int64_t i = 0; !lost && i < set->n_files; i++) {
        set->files[i].values = mr_zalloc(n + 1, sizeof *set->files[i].values);
        lost = !set->files[i].values;
    }
    return lost ? mr_fail_memory(err, n * sizeof *set->partitions) : MR_OK;
}

mr_status mr_pq_set_partitions(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err) {
    const char *name;
    json_t *value;
    MR_TRY(read_paths(set, err));
    MR_TRY(take_memory(set, json_object_size(set->files[0].folders), err));
    json_object_foreach(set->files[0].folders, name, value) {
        if (mr_pq_find(set->files[0].file, name) < 0 && is_asked_for(config->columns, name)) {
            MR_TRY(add_partition(set, &config->nulls, name, err));
        }
    }
    return MR_OK;
}

mr_status mr_pq_set_check_partitions(const mr_pq_set *set, const mr_pq_nulls *nulls,
                                     mr_error *err) {
    for (int64_t g = 0; nulls->policy == MR_PQ_NULL_ERROR && g < set->n_groups; g++) {
        const mr_pq_set_file *file = &set->files[set->groups[g].file];
        for (int32_t p = 0; p < set->n_partitions; p++) {
            if (file->values[p].is_null) {
                mr_fail(err, MR_E_TYPE, "%s: %s is null", file->path, set->partitions[p].name);
                mr_hint(err, "say what nulls become: \"nulls\": \"fill\" or \"mask\"");
                return MR_E_TYPE;
            }
        }
    }
    return MR_OK;
}

void mr_pq_set_partitions_free(mr_pq_set *set) {
    for (int64_t i = 0; set->files && i < set->n_files; i++) {
        json_decref(set->files[i].folders);
        mr_free(set->files[i].values);
    }
    mr_free(set->partitions);
}
