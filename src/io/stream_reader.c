/* SPDX-License-Identifier: Apache-2.0 */
/* stream_reader.c - reading a partition while it grows (millrace/stream.h). */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/entry_cursor.h"
#include "io/partition.h"

struct mr_stream_reader {
    mr_stream_folder folder;
    mr_stream_segment segment;
    mr_entry_cursor cursor;
    bool ended;   /* a later segment is there: nobody appends to this one any more */
    int64_t next; /* number */
    mr_stream_counts counts;
};

/* ---- Which segment ---- */
/* The last one that begins at or before `from`; NULL: what it asks for is kept no more. */
static const mr_stream_segment *segment_with(const mr_stream_segment *names, int64_t n,
                                             int64_t from) {
    const mr_stream_segment *found = from == MR_STREAM_OLDEST ? &names[0] : NULL;
    for (int64_t i = 0; i < n && names[i].first <= from; i++) {
        found = &names[i];
    }
    return found;
}

static mr_status enter(mr_stream_reader *reader, const mr_stream_segment *segment, mr_error *err) {
    unsigned char head[MR_ENTRY_HEAD];
    int fd = -1;
    MR_TRY(mr_stream_segment_open(&reader->folder, segment, &fd, err));
    if (reader->cursor.fd >= 0) {
        close(reader->cursor.fd);
    }
    reader->segment = *segment;
    reader->ended = false;
    mr_entry_cursor_start(&reader->cursor, fd, segment);
    if (pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
        !mr_stream_segment_head_check(segment, head)) {
        reader->counts.skipped_bytes += MR_ENTRY_HEAD;
    }
    return MR_OK;
}

static mr_status enter_first(mr_stream_reader *reader, const mr_stream_segment *names, int64_t n,
                             int64_t from, mr_error *err) {
    if (!names) {
        mr_fail(err, MR_E_NOT_FOUND, "the stream has no partition %" PRIu32,
                reader->segment.partition);
        return MR_E_NOT_FOUND;
    }
    const mr_stream_segment *segment = segment_with(names, n, from);
    if (!segment) {
        mr_fail(err, MR_E_STATE,
                "entry %" PRId64 " of partition %" PRIu32 " is kept no more: the first is %" PRId64,
                from, reader->segment.partition, names[0].first);
        mr_hint(err, "keep more of the stream, or begin anew at entry %" PRId64, names[0].first);
        return MR_E_STATE;
    }
    reader->next = from == MR_STREAM_OLDEST ? segment->first : from;
    return enter(reader, segment, err);
}

static mr_status open_reader(mr_stream_reader *reader, const char *folder, uint32_t partition,
                             int64_t from, mr_error *err) {
    mr_stream_segment *names = NULL;
    int64_t n = 0;
    MR_TRY(mr_stream_folder_open(&reader->folder, folder, 0, err));
    reader->segment.partition = partition;
    MR_TRY(mr_stream_segments(&reader->folder, partition, &names, &n, err));
    mr_status status = enter_first(reader, names, n, from, err);
    mr_free(names);
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, folder);
    }
    return status;
}

mr_status mr_stream_reader_open(mr_stream_reader **out, const char *folder, uint32_t partition,
                                int64_t from, mr_error *err) {
    *out = NULL;
    if (from < MR_STREAM_OLDEST || partition >= MR_PARTITIONS_MAX) {
        return mr_fail(err, MR_E_PARAM, "entries and partitions are numbered from 0 on");
    }
    mr_stream_reader *reader = mr_zalloc(1, sizeof *reader);
    if (!reader) {
        return mr_fail_memory(err, sizeof *reader);
    }
    reader->folder.dir = reader->cursor.fd = -1;
    mr_status status = open_reader(reader, folder, partition, from, err);
    if (status < 0) {
        mr_stream_reader_close(reader);
        return status;
    }
    *out = reader;
    return MR_OK;
}

void mr_stream_reader_close(mr_stream_reader *reader) {
    if (!reader) {
        return;
    }
    if (reader->cursor.fd >= 0) {
        close(reader->cursor.fd);
    }
    mr_entry_cursor_free(&reader->cursor);
    mr_stream_folder_close(&reader->folder);
    mr_free(reader);
}

/* ---- Reading ---- */
static int64_t rest_of_segment(const mr_stream_reader *reader) {
    struct stat info;
    bool known = fstat(reader->cursor.fd, &info) == 0 && info.st_size > reader->cursor.at;
    return known ? info.st_size - reader->cursor.at : 0;
}

/* The oldest segment that comes after this one. MR_END: there is none. */
static mr_status successor(const mr_stream_reader *reader, mr_stream_segment *out, mr_error *err) {
    mr_stream_segment *names = NULL;
    int64_t n = 0, i = 0;
    MR_TRY(mr_stream_segments(&reader->folder, reader->segment.partition, &names, &n, err));
    while (i < n && names[i].first <= reader->segment.first) {
        i++;
    }
    if (i < n) {
        *out = names[i];
    }
    mr_free(names);
    return i < n ? MR_OK : MR_END;
}

/* Once a later segment has been seen, this one is read to its end once more: what was written to it
 * before the later one was begun. MR_OK: read on. */
static mr_status go_on(mr_stream_reader *reader, mr_error *err) {
    mr_stream_segment later;
    mr_status status = successor(reader, &later, err);
    if (status != MR_OK) {
        return status;
    }
    if (!reader->ended) {
        reader->ended = true;
        return MR_OK;
    }
    int64_t rest = rest_of_segment(reader);
    status = enter(reader, &later, err);
    if (status == MR_E_NOT_FOUND) { /* forgotten meanwhile: its successor is looked for */
        reader->segment = later;
        return MR_OK;
    }
    reader->counts.skipped_bytes += status == MR_OK ? rest : 0;
    return status;
}

/* MR_LATER: not one that was asked for. */
static mr_status step(mr_stream_reader *reader, mr_entry *entry, mr_error *err) {
    int64_t skipped = reader->cursor.skipped;
    mr_status status = mr_entry_cursor_next(&reader->cursor, entry, err);
    if (status == MR_END) {
        status = go_on(reader, err);
        return status == MR_OK ? MR_LATER : status;
    }
    reader->counts.skipped_bytes += reader->cursor.skipped - skipped;
    return status == MR_OK && entry->number < reader->next ? MR_LATER : status;
}

mr_status mr_stream_next(mr_stream_reader *reader, mr_entry *entry, mr_error *err) {
    mr_status status;
    do {
        status = step(reader, entry, err);
    } while (status == MR_LATER);
    if (status == MR_OK) {
        reader->counts.entries++;
        reader->counts.lost += entry->number - reader->next;
        reader->next = entry->number + 1;
    }
    return status;
}

void mr_stream_reader_counts(const mr_stream_reader *reader, mr_stream_counts *out) {
    mr_give_sized(out, &reader->counts, sizeof reader->counts);
}

bool mr_stream_tail_is_damaged(const mr_stream_reader *reader) {
    return reader->cursor.strayed > 0 || reader->cursor.claimed > reader->cursor.expected;
}
