/* SPDX-License-Identifier: Apache-2.0 */
/* name_table.h - which number a name has, where there may be thousands of names. */
#ifndef MR_CORE_NAME_TABLE_H
#define MR_CORE_NAME_TABLE_H

#include <millrace/types.h>

typedef struct mr_name_slot {
    size_t start, length; /* of the name, in the table's text */
    int32_t number;       /* -1: the slot is free */
} mr_name_slot;

/* Begins as zeros. */
typedef struct mr_name_table {
    mr_name_slot *slots; /* n_slots, a power of two: more than twice as many as there are names */
    size_t n_slots;
    int32_t n;
    char *text; /* copies of the names */
    size_t n_text, capacity;
} mr_name_table;

/* A name that is there keeps the number it has. */
mr_status mr_name_table_put(mr_name_table *table, const char *name, size_t length, int32_t number,
                            mr_error *err);
int32_t mr_name_table_find(const mr_name_table *table, const char *name, size_t length); /* or -1 */
void mr_name_table_free(mr_name_table *table);

#endif
