/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - the files below a folder, sorted by their names; kept in an index where one is
 * wanted, so that millions of files are listed once.
 *
 * An index also has the time and number of every folder that was read. A file that comes, goes or
 * is renamed changes the time of its folder: where all folders are as they were, so is the listing.
 * Checking that takes a look at each folder instead of at each file. An index of objects on a
 * server is taken as it is: it has their versions, and one that was replaced is found out when it
 * is read. */
#ifndef MR_SOURCES_LISTING_H
#define MR_SOURCES_LISTING_H

#include <millrace/source.h>

#include "io/map.h"

/* A folder as it was when it was read. */
typedef struct mr_listed_folder {
    uint64_t device, inode, seconds, nanoseconds;
    uint64_t name; /* in folder_names: below the root, "" for the root itself */
} mr_listed_folder;

typedef struct mr_listing {
    int64_t n;
    const int64_t *starts; /* of names, in their order */
    const char *names;     /* below the root, each with a zero at its end; on a server, the object's
                              own name with its version follows, likewise: mr_listing_object */
    int64_t n_folders;
    const mr_listed_folder *folders;
    const char *folder_names;

    mr_map map; /* of the index they come from; else they are these: */
    struct mr_lister *own;
} mr_listing;

typedef struct mr_listing_config {
    const char *root;
    const mr_strings *extensions; /* of files to take; none: all */
    const char *index;            /* "": none */
    const mr_log *log;
} mr_listing_config;

/* mr_listing_close is due even on failure. */
mr_status mr_listing_open(mr_listing *listing, const mr_listing_config *config, mr_error *err);
void mr_listing_close(mr_listing *listing);

/* Of a listing whose root is on a server: what to read for a name of it. */
static inline const char *mr_listing_object(const char *name) {
    while (*name++) {
    }
    return name;
}

/* What an index says, as far as it is one: `key` names root and extensions; objects: of a root on a
 * server. */
bool mr_listing_parse(mr_listing *listing, const void *data, size_t size, uint64_t key,
                      bool objects);

#endif
