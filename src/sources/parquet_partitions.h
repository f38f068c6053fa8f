/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_partitions.h - columns that stand in the folders of files, as in "year=2024/month=5". */
#ifndef MR_SOURCES_PARQUET_PARTITIONS_H
#define MR_SOURCES_PARQUET_PARTITIONS_H

#include "sources/parquet_set.h"

/* The partitions of all files, from their paths alone; the first file's footer must be there, since
 * a column of the files goes before a folder of the same name. Only those that `columns` asks for.
 */
mr_status mr_pq_set_partitions(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err);

/* After the rows are known: a null in the folders of a file that has some. */
mr_status mr_pq_set_check_partitions(const mr_pq_set *set, const mr_pq_nulls *nulls, mr_error *err);
void mr_pq_set_partitions_free(mr_pq_set *set);

/* Whether one of the folders is what a pattern for columns means. */
bool mr_pq_set_names_partition(const mr_pq_set *set, const char *pattern);

#endif
