/* SPDX-License-Identifier: Apache-2.0 */
/* segments_follow.h - a stream in a folder that is read while it grows. */
#ifndef MR_SOURCES_SEGMENTS_FOLLOW_H
#define MR_SOURCES_SEGMENTS_FOLLOW_H

#include <millrace/source.h>

#include "sources/entry_fields.h"

typedef struct mr_segments_follow mr_segments_follow;

typedef struct mr_segments_follow_config {
    const char *path;
    int64_t partitions; /* 0: as many as there are */
    int64_t quantum, from;
    int64_t until; /* number before which each partition ends; 0: never */
    const mr_entry_format *format;
} mr_segments_follow_config;

/* mr_segments_follow_close is due even if opening failed. */
mr_status mr_segments_follow_open(mr_segments_follow **out, const mr_segments_follow_config *config,
                                  mr_error *err);
void mr_segments_follow_close(mr_segments_follow *follow); /* NULL allowed */

/* As the functions of a source's table. */
void mr_segments_follow_shape(const mr_segments_follow *follow, mr_shape *out);
void mr_segments_follow_name(const mr_segments_follow *follow, int64_t sample, char *buffer,
                             size_t size);
mr_status mr_segments_follow_advance(mr_segments_follow *follow, int32_t partition, int64_t number,
                                     const mr_entry_sink *sink, mr_error *err);
mr_status mr_segments_follow_recall(const mr_segments_follow *follow, int32_t partition,
                                    int64_t number, const mr_entry_sink *sink, mr_error *err);
mr_status mr_segments_follow_oldest(const mr_segments_follow *follow, int32_t partition,
                                    int64_t *number, mr_error *err);
mr_status mr_segments_follow_newest(const mr_segments_follow *follow, int32_t partition,
                                    int64_t *number, mr_error *err);

#endif
