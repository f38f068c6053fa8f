/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_file.c - a Parquet file by its name, described. The reader itself opens no files. */
#include <millrace/parquet.h>

#include "core/error.h"
#include "io/map.h"
#include "parquet/parquet.h"

static mr_status describe(const mr_map *map, bool json, char **out, mr_error *err) {
    mr_pq_file *file = NULL;
    int64_t footer = 0;
    if (map->size < MR_PQ_TAIL) {
        return mr_fail(err, MR_E_CORRUPT, "not a Parquet file: it has %zu bytes", map->size);
    }
    const unsigned char *end = map->data + map->size;
    MR_TRY(mr_pq_tail(end - MR_PQ_TAIL, (int64_t)map->size, &footer, err));
    MR_TRY(mr_pq_open(&file, end - footer, (size_t)footer, (int64_t)map->size, err));
    mr_status status = mr_pq_describe(file, json, out, err);
    mr_pq_close(file);
    return status;
}

mr_status mr_parquet_describe(const char *path, bool json, char **out, mr_error *err) {
    mr_map map = {0};
    *out = NULL;
    mr_status status = mr_map_open(&map, path, err);
    if (status == MR_OK) {
        status = describe(&map, json, out, err);
        mr_map_close(&map);
    }
    if (status < 0) {
        mr_error_at_sample(err, -1, path);
    }
    return status;
}
