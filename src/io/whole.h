/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - a file that takes its name only once it is whole. Until then whatever had the name
 * stays; a failure leaves nothing behind. Permissions stay, and links lead where they led. What
 * cannot be replaced is written as it is: devices, pipes, our own output, files without a name. */
#ifndef MR_IO_WHOLE_H
#define MR_IO_WHOLE_H

#include <limits.h>
#include <stddef.h>

typedef struct mr_whole_file {
    int fd;
    char target[PATH_MAX];    /* the file itself where the path is a link to it */
    char temporary[PATH_MAX]; /* its name until it is whole; "": written in place */
} mr_whole_file;

/* All return 0 or an errno. */
int mr_whole_open(mr_whole_file *file, const char *path);

int mr_whole_write(const mr_whole_file *file, const void *data, size_t size);

/* Closes it; where nothing failed (0, else an errno that is given back) it gets its name. */
int mr_whole_close(mr_whole_file *file, int failed);

#endif
