/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_set.h - Parquet files as one table: their footers, which of their columns are wanted, and
 * which rows a condition leaves. */
#ifndef MR_SOURCES_PARQUET_SET_H
#define MR_SOURCES_PARQUET_SET_H

#include <millrace/source.h>

#include "io/patterns.h"
#include "parquet/parquet.h"

/* A field that is delivered; `field.column` is of the first file. */
typedef struct mr_pq_set_field {
    mr_pq_field field;
    bool ragged;
    bool text; /* rows of a string column: pointed at, never copied */
} mr_pq_set_field;

/* A column that stands in the files' folders: int64 where all are whole numbers, else a text. */
typedef struct mr_pq_partition {
    const char *name;
    bool is_number;
} mr_pq_partition;

typedef struct mr_pq_partition_value {
    const char *text;
    int64_t number;
    bool is_number, is_null;
} mr_pq_partition_value;

/* Where what is found out about files is kept for the next run. */
typedef struct mr_pq_keep {
    const mr_keeper *keeper; /* NULL: nowhere */
    const char *store;       /* the folder */
} mr_pq_keep;

typedef struct mr_pq_set_file {
    const char *path;
    const char *root; /* the folder that was asked for, or NULL */
    mr_pq_file *file;
    int32_t *columns;              /* of the set's columns in this file */
    json_t *folders;               /* what the path says: see mr_pq_partitions */
    mr_pq_partition_value *values; /* of the set's partitions */
    uint64_t identity[2];          /* when the footer was read */
    uint64_t stamp[2];             /* likewise, of mr_file_stamp */
    bool named, stamped;           /* there is an identity, a stamp */
} mr_pq_set_file;

/* A row group with rows that are wanted. */
typedef struct mr_pq_set_group {
    int32_t file, group;
    int64_t first;  /* sample */
    int64_t rows;   /* that are wanted */
    uint32_t *kept; /* their numbers; NULL: all */
} mr_pq_set_group;

typedef struct mr_pq_set {
    mr_names paths;
    mr_pq_file *metadata; /* whose columns all files have, where there is one ... */
    char *folder;         /* ... and the folder that it lies in */
    mr_pq_set_file *files;
    int64_t n_files;
    int32_t *columns; /* of the first file: those that were asked for */
    int32_t n_columns;
    mr_pq_set_field *fields;
    int32_t n_fields;
    mr_pq_partition *partitions;
    int32_t n_partitions;
    bool has_index; /* a row's number is a field, since no column is called so */
    mr_pq_set_group *groups;
    int64_t n_groups;
    int64_t samples;
    uint64_t fingerprint[2];
} mr_pq_set;

typedef struct mr_pq_set_config {
    const mr_strings *paths;
    const mr_strings *columns; /* names and patterns; empty: all */
    const char *where;         /* a condition as JSON, or "" */
    mr_pq_nulls nulls;
    bool ragged; /* lists are never dense */
    const mr_log *log;
    mr_pq_keep keep;
    uint32_t cpu; /* features that may be used */
} mr_pq_set_config;

/* The first file's schema alone, for the fields. */
mr_status mr_pq_set_describe(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err);

/* All files, and the rows. The fields must be those of an earlier description, or NULL. */
mr_status mr_pq_set_open(mr_pq_set *set, const mr_pq_set_config *config, const mr_pq_set *described,
                         mr_error *err);
void mr_pq_set_close(mr_pq_set *set); /* a zeroed one is allowed */

#endif
