/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - a whole file as memory, read-only, for sources whose samples lie in one file as they are.
 *
 * The size is taken once, when the file is opened. A file that is cut shorter while it is mapped
 * ends the process with SIGBUS at the first touch behind its new end: no check can prevent that. */
#ifndef MR_IO_MAP_H
#define MR_IO_MAP_H

#include <millrace/types.h>

typedef struct mr_map {
    const unsigned char *data; /* NULL where the file is empty */
    size_t size;
    int fd; /* of the file that is mapped, whatever its name means by now; -1: none */
} mr_map;

/* Maps a regular file, or a copy of an object on a server, which is on disk as long as the map. On
 * failure the map is empty and may be closed all the same. */
mr_status mr_map_open(mr_map *map, const char *path, mr_error *err);
void mr_map_close(mr_map *map);

/* Closes the file and keeps the memory: where there are more files than may be open at once. */
void mr_map_keep_memory(mr_map *map);

#endif
