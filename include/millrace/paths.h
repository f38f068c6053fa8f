/* SPDX-License-Identifier: Apache-2.0 */
/* paths.h - what a path names, as sources take paths: files, folders, patterns, objects on
 * servers. */
#ifndef MILLRACE_PATHS_H
#define MILLRACE_PATHS_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file or an object. The strings live as long as the call that gets them. */
typedef struct mr_path_info {
    uint32_t size;       /* sizeof(mr_path_info), set by the library */
    const char *name;    /* of an object without what follows a question mark: that may be secret */
    int64_t bytes;       /* -1: the server does not say */
    const char *version; /* of a file its time of change, "2026-01-31T12:00:00Z"; of an object its
                            ETag, else its time of change; "": the server names none */
} mr_path_info;

/* Anything but MR_OK ends the listing, and is what it returns. */
typedef mr_status mr_path_visit(void *user, const mr_path_info *info, mr_error *err);

/* Visits every file that a path names: a file, a folder (all below it but names with a dot before
 * them), wildcards, braces; an address of http or https; an object of S3 or all below a prefix.
 * Folders and wildcards in bytewise order, braces as written. Nothing but names and versions is
 * read. */
MR_API mr_status mr_paths_list(const char *path, mr_path_visit *visit, void *user, mr_error *err);

#ifdef __cplusplus
}
#endif

#endif
