/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - see spill.h. */
#include "run/stream/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <millrace/millrace.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/entry_cursor.h"
#include "io/partition.h"

/* A partition: entries [first, end), or none. */
typedef struct part {
    mr_stream_writer *writer; /* NULL: nothing was put since it was empty */
    mr_stream_reader *reader; /* NULL: nothing was taken yet */
    mr_entry refused;         /* read, and the sink took no more */
    bool has_refused;
    int64_t first, end; /* end -1: empty */
    int64_t kept_from;  /* the last word of mr_spill_keep */
    int64_t filled;     /* bytes of the newest segment */
    int64_t gathered;   /* that may be in memory yet */
} part;

struct mr_spill {
    mr_spill_config config;
    mr_stream_folder folder;
    int lock;
    part *parts;
    _Atomic int64_t entries, bytes;
};

enum { LEAST_SEGMENT = 64 << 10, MOST_SEGMENT = 64 << 20 };

/* ---- Files ---- */
static mr_status list(const mr_spill *spill, uint32_t partition, mr_stream_segment **out,
                      int64_t *n, mr_error *err) {
    return mr_stream_segments(&spill->folder, partition, out, n, err);
}

static int64_t bytes_of(const mr_spill *spill, const mr_stream_segment *segment) {
    struct stat info;
    const mr_stream_segment_file_name name = mr_stream_segment_file(segment);
    return fstatat(spill->folder.dir, name.text, &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_size
                                                                                  : 0;
}

mr_status mr_spill_flush(mr_spill *spill, int32_t partition, mr_error *err) {
    part *p = &spill->parts[partition];
    if (!spill->config.lent && p->gathered > 0) {
        MR_TRY(mr_stream_flush(p->writer, err));
        p->gathered = 0;
    }
    return MR_OK;
}

/* What is there, over all partitions: also what other partitions of a run before left behind. */
static mr_status measure(mr_spill *spill, mr_error *err) {
    mr_stream_segment *segments = NULL;
    int64_t n = 0, bytes = 0;
    for (int32_t i = 0; i < spill->config.partitions; i++) {
        MR_TRY(mr_spill_flush(spill, i, err));
    }
    MR_TRY(list(spill, MR_ALL_PARTITIONS, &segments, &n, err));
    for (int64_t i = 0; i < n; i++) {
        bytes += bytes_of(spill, &segments[i]);
    }
    mr_free(segments);
    spill->bytes = bytes;
    return MR_OK;
}

static void let_go(part *p) {
    mr_stream_reader_close(p->reader);
    p->reader = NULL;
    p->has_refused = false;
}

/* Files of a partition are removed; the lock stays. */
static mr_status forget(mr_spill *spill, int32_t partition, mr_error *err) {
    part *p = &spill->parts[partition];
    mr_stream_segment *segments = NULL;
    int64_t n = 0;
    let_go(p);
    mr_stream_writer_close(p->writer, NULL); /* what it could not write is not wanted */
    p->writer = NULL;
    p->end = -1;
    p->gathered = 0;
    MR_TRY(list(spill, (uint32_t)partition, &segments, &n, err));
    for (int64_t i = 0; i < n; i++) {
        (void)unlinkat(spill->folder.dir, mr_stream_segment_file(&segments[i]).text, 0);
    }
    mr_free(segments);
    return measure(spill, err);
}

static int64_t segment_bytes(const mr_spill_config *c) {
    int64_t bytes = c->bytes / (8 * (int64_t)c->partitions);
    return bytes < LEAST_SEGMENT ? LEAST_SEGMENT : bytes > MOST_SEGMENT ? MOST_SEGMENT : bytes;
}

static mr_status open_writer(mr_spill *spill, int32_t partition, mr_error *err) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    options.partition = (uint32_t)partition;
    options.segment_bytes = segment_bytes(&spill->config);
    options.sync = MR_SYNC_NEVER;
    return mr_stream_writer_open(&spill->parts[partition].writer, spill->config.folder, &options,
                                 err);
}

/* ---- Opening ---- */
/* Two runs that spill to one folder would read each other's entries. */
static mr_status take_lock(mr_spill *spill, mr_error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    spill->lock = openat(spill->folder.dir, "spill.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (spill->lock >= 0 && fcntl(spill->lock, F_OFD_SETLK, &lock) == 0) {
        return MR_OK;
    }
    if (spill->lock < 0 || (errno != EAGAIN && errno != EACCES)) {
        return mr_fail_errno(err, MR_E_IO, errno, "cannot lock the folder to spill to");
    }
    mr_fail(err, MR_E_IO, "another run spills to %s", spill->folder.path);
    mr_hint(err, "end it, or give this run a folder of its own (pace.spill)");
    return MR_E_IO;
}

static mr_status open_folder(mr_spill *spill, mr_error *err) {
    const mr_spill_config *c = &spill->config;
    if (strlen(c->folder) >= sizeof spill->folder.path) {
        return mr_fail(err, MR_E_PARAM, "the path of the folder to spill to is too long");
    }
    MR_TRY(mr_stream_folder_open(&spill->folder, c->folder, c->id, err));
    if (spill->folder.id != c->id) {
        mr_fail(err, MR_E_STATE, "the folder to spill to has entries of another stream");
        mr_hint(err, "give this run a folder of its own (pace.spill)");
        return MR_E_STATE;
    }
    MR_TRY(take_lock(spill, err));
    return measure(spill, err);
}

mr_status mr_spill_open(mr_spill **out, const mr_spill_config *config, mr_error *err) {
    mr_spill *spill = mr_zalloc(1, sizeof *spill);
    *out = spill;
    if (!spill) {
        return mr_fail_memory(err, sizeof *spill);
    }
    spill->config = *config;
    spill->folder.dir = spill->lock = -1;
    spill->parts = mr_zalloc((size_t)config->partitions, sizeof *spill->parts);
    if (!spill->parts) {
        return mr_fail_memory(err, (size_t)config->partitions * sizeof *spill->parts);
    }
    for (int32_t i = 0; i < config->partitions; i++) {
        spill->parts[i].end = -1;
    }
    if (config->lent) {
        return MR_OK;
    }
    mr_status status = open_folder(spill, err);
    spill->config.folder = spill->folder.path;
    return status;
}

void mr_spill_close(mr_spill *spill) {
    if (spill) {
        for (int32_t i = 0; spill->parts && i < spill->config.partitions; i++) {
            let_go(&spill->parts[i]);
            mr_stream_writer_close(spill->parts[i].writer, NULL); /* the stream has it too */
        }
        mr_free(spill->parts);
        mr_lent_close(spill->config.lent);
        if (spill->lock >= 0) { /* a process that was forked meanwhile has the file open too */
            struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
            (void)fcntl(spill->lock, F_OFD_SETLK, &lock);
            close(spill->lock);
        }
        mr_stream_folder_close(&spill->folder);
        mr_free(spill);
    }
}

/* A run that was killed may leave a part of an entry behind. Its number was not lost, as it would
 * be for a writer that gives numbers: the stream has the entry, so what is there of it is cut off.
 */
static mr_status mend_tail(const mr_spill *spill, const mr_stream_segment *last, mr_error *err) {
    mr_entry_cursor cursor = {.fd = -1};
    mr_entry entry;
    mr_status status = MR_OK;
    const mr_stream_segment_file_name name = mr_stream_segment_file(last);
    int fd = openat(spill->folder.dir, name.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return mr_fail_errno(err, MR_E_IO, errno, "cannot open a segment of the spill");
    }
    mr_entry_cursor_start(&cursor, fd, last);
    while (status == MR_OK) {
        status = mr_entry_cursor_next(&cursor, &entry, err);
    }
    if (status == MR_END && ftruncate(fd, (off_t)cursor.at) != 0) {
        status = mr_fail_errno(err, MR_E_IO, errno, "cannot mend a segment of the spill");
    }
    mr_entry_cursor_free(&cursor);
    close(fd);
    return status == MR_END ? MR_OK : status;
}

static mr_status look_at_end(mr_spill *spill, int32_t partition, const mr_stream_segment *last,
                             mr_error *err) {
    part *p = &spill->parts[partition];
    MR_TRY(mend_tail(spill, last, err));
    MR_TRY(open_writer(spill, partition, err));
    p->end = mr_stream_next_number(p->writer);
    p->filled = INT64_MAX / 2; /* not known: a head too many is counted */
    return MR_OK;
}

mr_status mr_spill_begin(mr_spill *spill, int32_t partition, int64_t number, mr_error *err) {
    part *p = &spill->parts[partition];
    mr_stream_segment *segments = NULL;
    int64_t n = 0;
    if (spill->config.lent) {
        return MR_OK;
    }
    MR_TRY(list(spill, (uint32_t)partition, &segments, &n, err));
    p->first = n > 0 ? segments[0].first : 0;
    p->kept_from = number;
    mr_status status = n > 0 ? look_at_end(spill, partition, &segments[n - 1], err) : MR_OK;
    mr_free(segments);
    MR_TRY(status);
    bool fits = p->first <= number && number < p->end;
    return fits || n == 0 ? MR_OK : forget(spill, partition, err);
}

int64_t mr_spill_end(const mr_spill *spill, int32_t partition) {
    return spill->config.lent ? mr_lent_end(spill->config.lent, partition)
                              : spill->parts[partition].end;
}

/* ---- Putting ---- */
bool mr_spill_has_room(const mr_spill *spill, const mr_entry *entry) {
    if (spill->config.lent) {
        return mr_lent_has_room(spill->config.lent, entry);
    }
    int64_t bytes = (int64_t)mr_entry_bytes(entry->size, entry->key_size) + MR_ENTRY_HEAD;
    return spill->bytes + bytes <= spill->config.bytes;
}

/* As the writer does: a segment that is full is followed by one that begins with a head. */
static void count(mr_spill *spill, part *p, const mr_entry *entry) {
    int64_t bytes = (int64_t)mr_entry_bytes(entry->size, entry->key_size);
    if (p->filled + bytes > segment_bytes(&spill->config)) {
        p->filled = MR_ENTRY_HEAD;
        p->gathered += MR_ENTRY_HEAD;
        spill->bytes += MR_ENTRY_HEAD;
    }
    p->filled += bytes;
    p->gathered += bytes;
    spill->bytes += bytes;
    spill->entries++;
}

static mr_status begin_run(mr_spill *spill, int32_t partition, int64_t number, mr_error *err) {
    part *p = &spill->parts[partition];
    if (!p->writer) {
        MR_TRY(open_writer(spill, partition, err));
    }
    p->first = p->end = number;
    p->filled = INT64_MAX / 2;
    return MR_OK;
}

/* A bad entry, without a value, is a number that is left out. */
mr_status mr_spill_put(mr_spill *spill, int32_t partition, const mr_entry *entry, mr_error *err) {
    part *p = &spill->parts[partition];
    if (spill->config.lent) {
        return mr_lent_put(spill->config.lent, partition, entry, err);
    }
    if (p->end < 0) {
        MR_TRY(begin_run(spill, partition, entry->number, err));
    }
    if (entry->value) {
        MR_TRY(mr_stream_writer_jump(p->writer, entry->number, err));
        MR_TRY(mr_stream_append(p->writer, entry, NULL, err));
        count(spill, p, entry);
    }
    p->end = entry->number + 1;
    return MR_OK;
}

/* ---- Taking back ---- */
static mr_status give(part *p, const mr_entry_sink *sink, mr_error *err) {
    mr_status status = MR_OK;
    if (p->has_refused) {
        p->has_refused = !sink->take(sink->user, &p->refused);
        status = p->has_refused ? MR_END : MR_OK;
    }
    while (status == MR_OK) {
        status = mr_stream_next(p->reader, &p->refused, err);
        p->has_refused = status == MR_OK && !sink->take(sink->user, &p->refused);
        status = p->has_refused ? MR_END : status;
    }
    return status == MR_END ? MR_OK : status;
}

mr_status mr_spill_take(mr_spill *spill, int32_t partition, int64_t from, const mr_entry_sink *sink,
                        mr_error *err) {
    part *p = &spill->parts[partition];
    if (spill->config.lent) {
        return mr_lent_take(spill->config.lent, partition, sink, err);
    }
    MR_TRY(mr_spill_flush(spill, partition, err));
    if (!p->reader) {
        MR_TRY(mr_stream_reader_open(&p->reader, spill->config.folder, (uint32_t)partition, from,
                                     err));
    }
    return give(p, sink, err);
}

bool mr_spill_is_given(const mr_spill *spill, int32_t partition) {
    return spill->config.lent ? mr_lent_end(spill->config.lent, partition) < 0
                              : !spill->parts[partition].has_refused;
}

mr_status mr_spill_keep(mr_spill *spill, int32_t partition, int64_t number, mr_error *err) {
    part *p = &spill->parts[partition];
    int64_t dropped = 0;
    if (spill->config.lent || p->end < 0 || number <= p->kept_from) {
        return MR_OK;
    }
    p->kept_from = number;
    if (number >= p->end) {
        return forget(spill, partition, err);
    }
    MR_TRY(mr_stream_trim(spill->config.folder, (uint32_t)partition, number, &dropped, err));
    return dropped > 0 ? measure(spill, err) : MR_OK;
}

void mr_spill_counts_of(const mr_spill *spill, mr_spill_counts *out) {
    if (spill->config.lent) {
        mr_lent_counts lent;
        mr_lent_counts_of(spill->config.lent, &lent);
        *out = (mr_spill_counts){.entries = lent.entries, .bytes = lent.bytes};
        return;
    }
    *out = (mr_spill_counts){.entries = spill->entries, .bytes = spill->bytes};
}
