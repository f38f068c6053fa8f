/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - memory that one process writes and others of this machine read.
 *
 * It is a file without a name (memfd): it goes with the last process that has it mapped or open,
 * however that ends, and leaves nothing behind. A child of fork does not have it mapped, but open,
 * until it ends or runs another program; so it keeps the memory of a parent that it outlives.
 * Others find it through /proc, as those who may look into the process can. Its size is fixed and
 * sealed, so nobody who has it mapped can be hurt by a cut. It takes memory only as far as it is
 * used, so it may be as large as the machine's memory.
 *
 * What is where, and when it may be read, is for the two sides to agree on; who reads treats it as
 * bytes of a stranger. */
#ifndef MR_IO_COMMON_H
#define MR_IO_COMMON_H

#include <millrace/types.h>

enum { MR_COMMON_ALIGN = 64 };

typedef struct mr_common {
    char *data; /* NULL: there is none */
    size_t size;
    int fd;
    size_t used, filled; /* taken; has memory behind it */
    void *last;          /* what was taken last */
} mr_common;

/* For another process: which file of which process it is. */
typedef struct mr_common_name {
    int64_t pid;
    int64_t fd; /* -1: there is none */
    uint64_t device, inode, size;
} mr_common_name;

/* False: this machine does not allow it. mr_common_close is for either. */
bool mr_common_open(mr_common *common, size_t size);
void mr_common_close(mr_common *common);
void mr_common_leave(mr_common *common); /* closed, but mapped: somebody may still read it here */
void mr_common_tell(const mr_common *common, mr_common_name *out);

/* Memory of so many bytes that begins at a multiple of MR_COMMON_ALIGN and stays taken; the first
 * begins at 0. It is zero, but where something was given back. NULL: there is no more. One thread
 * at a time. */
void *mr_common_take(mr_common *common, size_t size);

/* What nobody was told of can be taken again, if nothing was taken after it. */
void mr_common_give_back(mr_common *common, const void *taken);

/* Another process's, read-only. False: it is not there any more, is not what its name says, may be
 * cut, or may not be looked into. The view outlives the process. */
typedef struct mr_common_view {
    const char *data; /* NULL: there is none */
    size_t size;
} mr_common_view;

bool mr_common_look(mr_common_view *view, const mr_common_name *name);
void mr_common_look_away(mr_common_view *view);

#endif
