/* SPDX-License-Identifier: Apache-2.0 */
/* segments.c - samples are the entries of a stream in a folder (millrace/stream.h): as it is when
 * the run opens, or as it grows (segments_follow.c).
 *
 * What follows is the stream as it is: what is appended later is not looked at.

 * A block is a run of entries of about 4 MB. Where blocks begin is found without reading what lies
 * between: a head can be recognised from anywhere in a segment. A sample is a number of a
 * partition, so an entry that is damaged is a sample that is bad, whose place is known. */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <millrace/source.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/entry_cursor.h"
#include "io/partition.h"
#include "sources/entry_fields.h"
#include "sources/segments_follow.h"

enum { BLOCK = 4 << 20, PEEK = 16384 };

typedef struct params {
    const char *path;
    bool follow;
    int64_t partitions, quantum, from, until;
    mr_entry_format format;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, path),
     .doc = "The stream's folder."},
    {.name = "follow",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(params, follow),
     .fallback = "false",
     .doc = "Go on with what is appended while the run goes on, in the stream's order; without it "
            "a run sees what is there when it opens."},
    {.name = "partitions",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, partitions),
     .fallback = "0",
     .min = 0,
     .max = MR_PARTITIONS_MAX,
     .doc = "With follow: how many partitions take part; 0: as many as there are at the start."},
    {.name = "quantum",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, quantum),
     .fallback = "1",
     .min = 1,
     .max = 1 << 20,
     .doc = "With follow: how many entries are taken of a partition before it is the next one's "
            "turn."},
    {.name = "from",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, from),
     .fallback = "0",
     .min = 0,
     .max = 0x1p47,
     .doc = "With follow: the number of the first entry, in each partition."},
    {.name = "until",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, until),
     .fallback = "0",
     .min = 0,
     .max = 0x1p47,
     .doc = "With follow: the run ends before this entry of each partition; 0: never."},
    MR_ENTRY_FORMAT_ROW(params),
    {.name = NULL},
};

typedef struct block {
    int64_t first;  /* sample */
    int64_t number; /* of the first entry */
    int64_t offset, length;
    int32_t segment;
} block;

typedef struct stream {
    const mr_entry_format *format;
    mr_segments_follow *follow; /* then the rest is not used */
    mr_stream_folder folder;
    mr_stream_segment *segments; /* by partition, then by number */
    char **paths;
    int64_t n_segments;
    block *blocks; /* one more than there are: its first is the number of samples */
    int64_t n_blocks, room;
    int64_t samples, missing;
    int64_t next; /* number, in the partition that is looked at */
} stream;

static mr_status check(void *p, mr_error *err) {
    params *own = p;
    bool whole = (own->until - own->from) % own->quantum == 0;
    if (own->follow && own->until > 0 && (own->until <= own->from || !whole)) {
        mr_fail(err, MR_E_PARAM, "until comes after from, by a multiple of quantum");
        mr_hint(err, "use \"until\": %" PRId64, own->from + own->quantum);
        return MR_E_PARAM;
    }
    if (own->format.schema.n > 0 && !own->follow) {
        mr_fail(err, MR_E_PARAM, "entries have a schema only while a stream is followed");
        mr_hint(err, "add \"follow\": true, and \"until\" for a run that ends");
        return MR_E_PARAM;
    }
    return mr_entry_format_check(&own->format, err);
}

/* ---- Opening: where blocks begin ---- */
static mr_status reserve_block(stream *s, mr_error *err) {
    if (s->n_blocks + 2 > s->room) {
        int64_t room = s->room ? 2 * s->room : 64;
        block *grown = realloc(s->blocks, (size_t)room * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)room * sizeof *grown);
        }
        s->blocks = grown;
        s->room = room;
    }
    return MR_OK;
}

/* Ends the last block at byte `end`, before entry `number`. */
static void end_block(stream *s, int64_t end, int64_t number) {
    block *last = &s->blocks[s->n_blocks - 1];
    last->length = end - last->offset;
    s->samples = last->first + number - last->number;
    s->next = number;
}

static mr_status begin_block(stream *s, int64_t segment, int64_t at, int64_t number,
                             mr_error *err) {
    MR_TRY(reserve_block(s, err));
    s->blocks[s->n_blocks++] =
        (block){.first = s->samples, .number = number, .offset = at, .segment = (int32_t)segment};
    return MR_OK;
}

/* From the last block's beginning to the last whole entry of the segment. */
static mr_status end_segment(stream *s, mr_entry_cursor *cursor, mr_error *err) {
    mr_entry entry;
    mr_status status = MR_OK;
    cursor->at = s->blocks[s->n_blocks - 1].offset;
    cursor->expected = s->blocks[s->n_blocks - 1].number;
    while (status == MR_OK) {
        status = mr_entry_cursor_next(cursor, &entry, err);
    }
    end_block(s, cursor->at, cursor->expected);
    if (s->samples == s->blocks[s->n_blocks - 1].first) {
        s->n_blocks--; /* it has no whole entry */
    }
    return status < 0 ? status : MR_OK;
}

static mr_status cut_segment(stream *s, int64_t segment, mr_entry_cursor *cursor, mr_error *err) {
    mr_entry_head head;
    int64_t at = MR_ENTRY_HEAD, before = s->n_blocks;
    mr_status status = mr_entry_cursor_seek(cursor, &at, &head, err);
    while (status == MR_OK) {
        int64_t length = (int64_t)mr_entry_bytes(head.size, head.key_size);
        bool goes_on = head.number >= s->next && head.number < INT64_MAX - (1 << 20);
        if (goes_on && s->n_blocks > before) {
            end_block(s, at, head.number);
        }
        if (goes_on) {
            s->missing += s->n_blocks > before ? 0 : head.number - s->next;
            MR_TRY(begin_block(s, segment, at, head.number, err));
        }
        at += goes_on && length < BLOCK ? BLOCK : length;
        status = mr_entry_cursor_seek(cursor, &at, &head, err);
    }
    MR_TRY(status);
    return s->n_blocks > before ? end_segment(s, cursor, err) : MR_OK;
}

static mr_status open_segment(stream *s, int64_t i, mr_error *err) {
    const mr_stream_segment *segment = &s->segments[i];
    const mr_stream_segment_file_name name = mr_stream_segment_file(segment);
    mr_entry_cursor cursor = {.least = PEEK};
    size_t size = strlen(s->folder.path) + sizeof name + 2;
    int fd = -1;
    s->paths[i] = malloc(size);
    if (!s->paths[i]) {
        return mr_fail_memory(err, size);
    }
    snprintf(s->paths[i], size, "%s/%s", s->folder.path, name.text);
    if (i == 0 || s->segments[i - 1].partition != segment->partition) {
        s->next = segment->first;
    }
    MR_TRY(mr_stream_segment_open(&s->folder, segment, &fd, err));
    mr_entry_cursor_start(&cursor, fd, segment);
    mr_status status = cut_segment(s, i, &cursor, err);
    mr_entry_cursor_free(&cursor);
    close(fd);
    return status;
}

static void say_what_is_missing(const stream *s, const mr_log *log) {
    char text[700];
    if (s->missing > 0 && log->write) {
        snprintf(text, sizeof text, "%s: %" PRId64 " entries between segments are damaged or gone",
                 s->folder.path, s->missing);
        log->write(log->user, text);
    }
}

static mr_status open_stream(stream *s, const char *path, mr_error *err) {
    MR_TRY(mr_stream_folder_open(&s->folder, path, 0, err));
    MR_TRY(mr_stream_segments(&s->folder, MR_ALL_PARTITIONS, &s->segments, &s->n_segments, err));
    s->paths = mr_zalloc((size_t)s->n_segments + 1, sizeof *s->paths);
    if (!s->paths) {
        return mr_fail_memory(err, (size_t)s->n_segments * sizeof *s->paths);
    }
    MR_TRY(reserve_block(s, err));
    for (int64_t i = 0; i < s->n_segments; i++) {
        MR_TRY(open_segment(s, i, err));
    }
    s->blocks[s->n_blocks] = (block){.first = s->samples};
    return s->samples > 0 ? MR_OK : mr_fail(err, MR_E_NOT_FOUND, "the stream has no entries");
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    const params *own = p;
    stream *s = mr_zalloc(1, sizeof *s);
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    *state = s;
    s->format = &own->format;
    s->folder.dir = -1;
    if (own->follow) {
        const mr_segments_follow_config config = {own->path, own->partitions, own->quantum,
                                                  own->from, own->until,      &own->format};
        return mr_segments_follow_open(&s->follow, &config, err);
    }
    if (strlen(own->path) >= sizeof s->folder.path) {
        return mr_fail(err, MR_E_PARAM, "the folder's path is too long");
    }
    MR_TRY(open_stream(s, own->path, err));
    say_what_is_missing(s, wanted->log);
    return MR_OK;
}

static void close_(void *state) {
    stream *s = state;
    if (s) {
        mr_segments_follow_close(s->follow);
        for (int64_t i = 0; s->paths && i < s->n_segments; i++) {
            free(s->paths[i]);
        }
        mr_free(s->paths);
        mr_free(s->segments);
        free(s->blocks);
        mr_stream_folder_close(&s->folder);
        mr_free(s);
    }
}

/* Numbers alone: a stream may be copied to another disk, and its id goes with it. */
static void shape(const void *state, mr_shape *out) {
    const stream *s = state;
    if (s->follow) {
        mr_segments_follow_shape(s->follow, out);
        return;
    }
    uint64_t words[4] = {s->folder.id, (uint64_t)s->samples, 0, 0};
    for (int64_t i = 0; i < s->n_blocks; i++) {
        const uint64_t own[3] = {s->segments[s->blocks[i].segment].partition,
                                 (uint64_t)s->blocks[i].number, (uint64_t)s->blocks[i].first};
        words[2] = mr_hash64(own, sizeof own, words[2]);
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out->samples = s->samples;
    out->blocks = s->n_blocks;
    out->fingerprint[0] = hash.low;
    out->fingerprint[1] = hash.high;
    out->keeps_bytes = true;
}

/* ---- Blocks ---- */
static int64_t first_sample(const void *state, int64_t which) {
    return ((const stream *)state)->blocks[which].first;
}

static int64_t block_bytes(const void *state, int64_t which) {
    const block *b = &((const stream *)state)->blocks[which];
    return b->length + (b[1].first - b->first) * (int64_t)sizeof(mr_arrival);
}

static const block *block_of(const stream *s, int64_t sample) {
    int64_t low = 0, high = s->n_blocks;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(s->blocks[middle].first <= sample ? &low : &high) = middle;
    }
    return &s->blocks[low];
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const stream *s = state;
    if (s->follow) {
        mr_segments_follow_name(s->follow, sample, buffer, size);
        return;
    }
    const block *b = block_of(s, sample);
    snprintf(buffer, size, "%s (partition %" PRIu32 ", entry %" PRId64 ")", s->folder.path,
             s->segments[b->segment].partition, b->number + sample - b->first);
}

static mr_status locate(const void *state, int64_t which, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    const stream *s = state;
    const block *b = &s->blocks[which];
    (void)err;
    *n = 1;
    if (capacity >= 1) {
        extents[0] = (mr_extent){.path = s->paths[b->segment],
                                 .offset = b->offset,
                                 .length = b->length,
                                 .limit = INT64_MAX,
                                 .object = b->segment + 1};
    }
    return MR_OK;
}

/* The entries of a block by their numbers; one without a value is damaged. */
static mr_status unpack(const void *state, const mr_block *given, int32_t part, void **out,
                        mr_error *err) {
    const stream *s = state;
    const block *b = &s->blocks[given->number];
    int64_t n = b[1].first - b->first;
    mr_arrival *entries = mr_zalloc((size_t)n, sizeof *entries);
    mr_entry entry;
    (void)part;
    if (!entries) {
        return mr_fail_memory(err, (size_t)n * sizeof *entries);
    }
    uint64_t seed = mr_stream_segment_seed(&s->segments[b->segment]);
    const unsigned char *bytes = given->bytes[0].data;
    for (size_t at = 0; mr_entry_find(bytes, given->bytes[0].size, seed, &at, &entry);) {
        if (entry.number >= b->number && entry.number - b->number < n) {
            entries[entry.number - b->number] = (mr_arrival){.entry = entry, .weight = 1};
        }
        at += mr_entry_bytes(entry.size, entry.key_size);
    }
    *out = entries;
    return MR_OK;
}

static void drop(const void *state, int32_t part, void *unpacked) {
    (void)state;
    (void)part;
    mr_free(unpacked);
}

/* ---- As it grows ---- */
static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    (void)err;
    return mr_entry_describe(&((const params *)p)->format, fields, capacity, n_fields);
}

static mr_status fill(const void *state, const mr_block *given, int64_t sample, mr_view *fields,
                      mr_error *err) {
    return mr_entry_fill(((const stream *)state)->format, given, sample, fields, err);
}

static void forget_params(void *p) {
    mr_entry_format_free(&((params *)p)->format);
}

static bool is_stream(const void *p) {
    return ((const params *)p)->follow;
}

static mr_status advance(void *state, int32_t partition, int64_t number, const mr_entry_sink *sink,
                         mr_error *err) {
    return mr_segments_follow_advance(((stream *)state)->follow, partition, number, sink, err);
}

static mr_status recall(const void *state, int32_t partition, int64_t number,
                        const mr_entry_sink *sink, mr_error *err) {
    return mr_segments_follow_recall(((const stream *)state)->follow, partition, number, sink, err);
}

static mr_status oldest(const void *state, int32_t partition, int64_t *number, mr_error *err) {
    return mr_segments_follow_oldest(((const stream *)state)->follow, partition, number, err);
}

static mr_status newest(const void *state, int32_t partition, int64_t *number, mr_error *err) {
    return mr_segments_follow_newest(((const stream *)state)->follow, partition, number, err);
}

extern const mr_source_class mr_source_segments;
const mr_source_class mr_source_segments = {
    MR_SOURCE_HEADER,
    .name = "segments",
    .summary = "The entries of a stream in a folder, as it is now or as it grows.",
    .doc = MR_ENTRY_FIELDS_DOC
    "`millrace append` writes such streams (docs/streams.md). As it is now: all partitions, one "
    "after the other; what is appended after the run began is not looked at. About 4 MB are a "
    "block, so \"shuffle\": true is a shuffle in windows (docs/shuffle.md). With \"follow\": true "
    "the run waits for what is appended: `quantum` entries of each partition in turn, whatever "
    "comes first. An entry that is damaged is a bad sample. Samples cannot be stored in a cache.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .forget = forget_params,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .first_sample = first_sample,
    .block_bytes = block_bytes,
    .sample_name = sample_name,
    .locate = locate,
    .unpack = unpack,
    .drop = drop,
    .fill = fill,
    .is_stream = is_stream,
    .advance = advance,
    .recall = recall,
    .oldest = oldest,
    .newest = newest,
};
