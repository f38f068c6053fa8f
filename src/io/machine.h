/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - what a choice between disk, memory and network depends on. */
#ifndef MR_IO_MACHINE_H
#define MR_IO_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* The kind of file system of a folder or file, if it lies on another machine: "NFS"; else NULL. */
const char *mr_network_of_file(int fd);

/* Does reading there go through a network or through another program? */
bool mr_path_is_far(const char *path);

/* Bytes of memory that the machine has, or that a control group leaves us. */
int64_t mr_machine_memory(void);

#endif
