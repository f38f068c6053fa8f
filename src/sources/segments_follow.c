/* SPDX-License-Identifier: Apache-2.0 */
/* segments_follow.c - see segments_follow.h. A partition has a reader once there is anything to
 * read; the reader remembers an entry that was not taken. */
#include "sources/segments_follow.h"

#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/partition.h"
#include "io/stream_find.h"
#include "plan/merge.h"

typedef struct tail {
    mr_stream_reader *reader;
    mr_entry refused; /* read, and the sink took no more */
    bool has_refused;
} tail;

struct mr_segments_follow {
    mr_segments_follow_config config;
    mr_stream_folder folder;
    mr_merge merge;
    tail *partitions;
};

/* ---- Opening ---- */
static mr_status count_partitions(mr_segments_follow *follow, mr_error *err) {
    mr_stream_segment *segments = NULL;
    int64_t n = 0;
    if (follow->config.partitions > 0) {
        follow->merge.partitions = (int32_t)follow->config.partitions;
        return MR_OK;
    }
    MR_TRY(mr_stream_segments(&follow->folder, MR_ALL_PARTITIONS, &segments, &n, err));
    follow->merge.partitions = n > 0 ? (int32_t)segments[n - 1].partition + 1 : 1;
    mr_free(segments);
    return MR_OK;
}

/* What a run begins with must still be there; what it goes on with is seen when it is read. */
static mr_status open_follow(mr_segments_follow *follow, mr_error *err) {
    if (strlen(follow->config.path) >= sizeof follow->folder.path) {
        return mr_fail(err, MR_E_PARAM, "the folder's path is too long");
    }
    MR_TRY(mr_stream_folder_open(&follow->folder, follow->config.path, 0, err));
    follow->merge.quantum = follow->config.quantum;
    follow->merge.from = follow->config.from;
    MR_TRY(count_partitions(follow, err));
    follow->partitions = mr_zalloc((size_t)follow->merge.partitions, sizeof *follow->partitions);
    return follow->partitions
               ? MR_OK
               : mr_fail_memory(err, (size_t)follow->merge.partitions * sizeof(tail));
}

mr_status mr_segments_follow_open(mr_segments_follow **out, const mr_segments_follow_config *config,
                                  mr_error *err) {
    mr_segments_follow *follow = mr_zalloc(1, sizeof *follow);
    *out = follow;
    if (!follow) {
        return mr_fail_memory(err, sizeof *follow);
    }
    follow->config = *config;
    follow->folder.dir = -1;
    return open_follow(follow, err);
}

void mr_segments_follow_close(mr_segments_follow *follow) {
    if (follow) {
        for (int32_t i = 0; follow->partitions && i < follow->merge.partitions; i++) {
            mr_stream_reader_close(follow->partitions[i].reader);
        }
        mr_free(follow->partitions);
        mr_stream_folder_close(&follow->folder);
        mr_free(follow);
    }
}

/* Not how much there is: that changes while the run goes on. */
void mr_segments_follow_shape(const mr_segments_follow *follow, mr_shape *out) {
    const mr_segments_follow_config *c = &follow->config;
    uint64_t format = mr_entry_format_hash(c->format);
    const uint64_t words[5] = {follow->folder.id ^ format, (uint64_t)follow->merge.partitions,
                               (uint64_t)c->quantum, (uint64_t)c->from, (uint64_t)c->until};
    mr_hash128 hash = mr_hash(words, sizeof words);
    out->partitions = follow->merge.partitions;
    out->quantum = c->quantum;
    out->from = c->from;
    out->samples = c->until > 0 ? (c->until - c->from) * follow->merge.partitions : -1;
    out->fingerprint[0] = hash.low;
    out->fingerprint[1] = hash.high;
    out->mapped = true;
}

void mr_segments_follow_name(const mr_segments_follow *follow, int64_t sample, char *buffer,
                             size_t size) {
    mr_merge_place place = mr_merge_at(&follow->merge, sample);
    snprintf(buffer, size, "%s (partition %" PRId32 ", entry %" PRId64 ")", follow->folder.path,
             place.partition, place.number);
}

/* ---- Reading ---- */
/* MR_END: the partition has nothing yet. */
static mr_status open_reader(const mr_segments_follow *follow, tail *own, int32_t number,
                             int64_t from, mr_error *err) {
    mr_error failure = MR_ERROR_INIT;
    mr_status status =
        mr_stream_reader_open(&own->reader, follow->folder.path, (uint32_t)number, from, &failure);
    if (status == MR_E_NOT_FOUND) {
        return MR_END;
    }
    if (status < 0 && err) {
        *err = failure;
    }
    return status;
}

static mr_status give(mr_segments_follow *follow, int32_t number, int64_t from,
                      const mr_entry_sink *sink, mr_error *err) {
    tail *own = &follow->partitions[number];
    mr_status status = own->reader ? MR_OK : open_reader(follow, own, number, from, err);
    if (own->has_refused) {
        own->has_refused = !sink->take(sink->user, &own->refused);
        status = own->has_refused ? MR_END : MR_OK;
    }
    while (status == MR_OK) {
        status = mr_stream_next(own->reader, &own->refused, err);
        own->has_refused = status == MR_OK && !sink->take(sink->user, &own->refused);
        status = own->has_refused ? MR_END : status;
    }
    return status == MR_END ? MR_OK : status;
}

mr_status mr_segments_follow_advance(mr_segments_follow *follow, int32_t number, int64_t from,
                                     const mr_entry_sink *sink, mr_error *err) {
    mr_json_packer packer = {.size = 0};
    const mr_entry_sink through = mr_entry_through(follow->config.format, &packer, sink);
    mr_status status = give(follow, number, from, &through, err);
    mr_json_packer_free(&packer);
    return status;
}

mr_status mr_segments_follow_recall(const mr_segments_follow *follow, int32_t partition,
                                    int64_t number, const mr_entry_sink *sink, mr_error *err) {
    mr_entry_cursor cursor = {.fd = -1};
    mr_entry entry;
    mr_json_packer packer = {.size = 0};
    const mr_entry_sink through = mr_entry_through(follow->config.format, &packer, sink);
    mr_status status =
        mr_stream_find(&follow->folder, (uint32_t)partition, number, &cursor, &entry, err);
    if (status == MR_OK && !through.take(through.user, &entry)) {
        status = mr_fail_memory(err, entry.size);
    }
    mr_json_packer_free(&packer);
    mr_entry_cursor_free(&cursor);
    return status;
}

mr_status mr_segments_follow_oldest(const mr_segments_follow *follow, int32_t partition,
                                    int64_t *number, mr_error *err) {
    mr_stream_segment *segments = NULL;
    int64_t n = 0;
    MR_TRY(mr_stream_segments(&follow->folder, (uint32_t)partition, &segments, &n, err));
    *number = n > 0 ? segments[0].first : 0;
    mr_free(segments);
    return MR_OK;
}

mr_status mr_segments_follow_newest(const mr_segments_follow *follow, int32_t partition,
                                    int64_t *number, mr_error *err) {
    int64_t first = 0;
    mr_status status =
        mr_stream_bounds(follow->folder.path, (uint32_t)partition, &first, number, err);
    if (status == MR_E_NOT_FOUND) { /* nobody has written to it yet */
        *number = 0;
        return MR_OK;
    }
    return status;
}
