/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - all that is done to the files of one folder, written down in its order, and folders
 * made of a part of it: what a disk has when a process is killed or the power goes. faults.c calls
 * the functions of the first group; they do nothing until recording begins. */
#ifndef MR_RECORD_H
#define MR_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

void record_write(int fd, const struct iovec *pieces, int n, ssize_t done, off_t offset); /* -1:
                                                                       where the file stands */
void record_size(int fd, off_t size, bool well);
void record_grow(int fd, off_t size, bool well); /* to that at least */
void record_sync(int fd, bool well);
void record_open(int fd, int flags);
void record_rename(int from_folder, const char *from, int to_folder, const char *to, bool well);
void record_unlink(int folder, const char *path, bool well);

/* ---- For tests ---- */
void record_begin(const char *folder);
int record_end(void); /* how many things were done */
void record_forget(void);

/* Makes the folder, which is not there, from the first n. Killed: all of them, and of the next, if
 * it is a write, its first bytes. Power loss: what was synced, and of the rest of each file any
 * part in any order, in units of 512 bytes; of names that were made, changed and deleted since
 * their folder was synced, the first few. */
bool record_make_killed(const char *folder, int n, uint64_t *state);
bool record_make_lost(const char *folder, int n, uint64_t *state);

#endif
