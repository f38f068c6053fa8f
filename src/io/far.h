/* SPDX-License-Identifier: Apache-2.0 */
/* far.h - objects on servers, read at once by whoever calls: for opening a dataset, where headers,
 * indexes and sizes are looked at. The samples of a run come by run/read/far_origin.c. */
#ifndef MR_IO_FAR_H
#define MR_IO_FAR_H

#include "core/far_limits.h"
#include "io/far_name.h"

/* Looks up the versions of all far names that have none, many at once; each becomes a new string
 * in place of the old. Objects that are not there are an error. limits NULL, here and below: those
 * that hold for the thread. */
mr_status mr_far_pin_names(char **names, int32_t n, const mr_far_limits *limits, mr_error *err);

/* Bytes of an object, large ranges by several requests at once. */
mr_status mr_far_read(const char *path, int64_t offset, size_t size, void *to,
                      const mr_far_limits *limits, mr_error *err);

/* Every object whose key begins with what an s3 name has, in bytewise order of keys: its name, with
 * a pin. */
typedef mr_status mr_far_visit(void *user, const char *name, mr_error *err);
mr_status mr_far_list(const char *path, mr_far_visit *visit, void *user, mr_error *err);

/* A page of a listing: ListObjectsV2's answer with encoding-type=url. *more: another page follows,
 * after `token`. False: it is no such page. */
typedef struct mr_far_page {
    char *token; /* freed with free; NULL: this is the last page */
} mr_far_page;
typedef bool mr_far_entry(void *user, const char *key, size_t key_length, const mr_far_pin *pin);
bool mr_far_parse_page(char *text, size_t size, mr_far_page *page, mr_far_entry *entry, void *user);

#endif
