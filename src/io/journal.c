/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c - see journal.h. */
#include "io/journal.h"

#include <endian.h>
#include <millrace/millrace.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/partition.h"

enum { HEAD_KIND = -1, RUN_BYTES = 16 };

struct mr_journal {
    mr_stream_writer *writer;
};

struct mr_journal_reader {
    mr_stream_reader *stream;
    bool follows;
    char folder[512];
};

/* ---- Reading ---- */
static mr_status damaged(const mr_journal_reader *reader, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "the journal is damaged: what a run decided is not known any more");
    mr_hint(err, "go on from a saved state without replaying, with a new journal");
    mr_error_at_sample(err, -1, reader->folder);
    return MR_E_CORRUPT;
}

static mr_status no_journal(const mr_journal_reader *reader, mr_error *err) {
    mr_fail(err, MR_E_PARAM, "this is no journal of a run, but a stream of entries");
    mr_hint(err, "a journal is the folder that a run was given as such: --journal FOLDER, or "
                 "journal=... of loader()");
    mr_error_at_sample(err, -1, reader->folder);
    return MR_E_PARAM;
}

static mr_stream_counts counts_of(const mr_journal_reader *reader) {
    mr_stream_counts counts = {.size = (uint32_t)sizeof counts};
    mr_stream_reader_counts(reader->stream, &counts);
    return counts;
}

static mr_status next_whole(mr_journal_reader *reader, mr_entry *entry, mr_error *err) {
    mr_status status = mr_stream_next(reader->stream, entry, err);
    bool gap = counts_of(reader).lost > 0 ||
               (status == MR_END && !reader->follows && mr_stream_tail_is_damaged(reader->stream));
    return status >= 0 && gap ? damaged(reader, err) : status;
}

static mr_status read_head(mr_journal_reader *reader, uint64_t run[2], mr_error *err) {
    mr_entry entry;
    mr_status status = next_whole(reader, &entry, err);
    if (status < 0) {
        return status;
    }
    if (status == MR_END) {
        return mr_fail(err, MR_E_NOT_FOUND, "the journal is empty");
    }
    if (entry.label != HEAD_KIND || entry.size != RUN_BYTES) { /* whole, and none of ours */
        return no_journal(reader, err);
    }
    memcpy(run, entry.value, RUN_BYTES);
    run[0] = le64toh(run[0]);
    run[1] = le64toh(run[1]);
    return MR_OK;
}

mr_status mr_journal_reader_open(mr_journal_reader **out, const char *folder, uint32_t partition,
                                 uint64_t run[2], mr_error *err) {
    mr_journal_reader *reader = mr_zalloc(1, sizeof *reader);
    *out = NULL;
    if (!reader) {
        mr_fail_memory(err, sizeof *reader);
        return MR_E_MEMORY;
    }
    mr_text_escape(reader->folder, sizeof reader->folder, folder);
    mr_status status = mr_stream_reader_open(&reader->stream, folder, partition, 0, err);
    status = status == MR_OK ? read_head(reader, run, err) : status;
    if (status < 0) {
        mr_journal_reader_close(reader);
        return status;
    }
    *out = reader;
    return MR_OK;
}

void mr_journal_follow(mr_journal_reader *reader) {
    reader->follows = true;
}

mr_status mr_journal_next(mr_journal_reader *reader, int64_t *kind, mr_entry *entry,
                          mr_error *err) {
    mr_status status = next_whole(reader, entry, err);
    *kind = status == MR_OK ? entry->label : 0;
    return status;
}

void mr_journal_reader_close(mr_journal_reader *reader) {
    if (reader) {
        mr_stream_reader_close(reader->stream);
        mr_free(reader);
    }
}

/* ---- Writing ---- */
static mr_status append(mr_journal *journal, int64_t kind, const void *bytes, size_t size,
                        mr_error *err) {
    const mr_entry entry = {.label = kind, .value = bytes, .size = size};
    MR_TRY(mr_stream_append(journal->writer, &entry, NULL, err));
    return mr_stream_flush(journal->writer, err);
}

bool mr_journal_is_new(const mr_journal *journal) {
    return mr_stream_next_number(journal->writer) == 1;
}

mr_status mr_journal_append(mr_journal *journal, int64_t kind, const void *bytes, size_t size,
                            mr_error *err) {
    return kind >= 0 ? append(journal, kind, bytes, size, err)
                     : mr_fail(err, MR_E_PARAM, "kinds of entries are not negative");
}

static mr_status begin(mr_journal *journal, const uint64_t run[2], mr_error *err) {
    const uint64_t words[2] = {htole64(run[0]), htole64(run[1])};
    return append(journal, HEAD_KIND, words, sizeof words, err);
}

/* Reads all of it, `n` entries: nothing is appended to a journal with a gap. */
static mr_status check_own(const char *folder, uint32_t partition, int64_t n, const uint64_t run[2],
                           mr_error *err) {
    mr_journal_reader *reader = NULL;
    uint64_t theirs[2] = {0, 0};
    mr_entry entry;
    int64_t kind;
    MR_TRY(mr_journal_reader_open(&reader, folder, partition, theirs, err));
    mr_status status = MR_OK;
    while (status == MR_OK) {
        status = mr_journal_next(reader, &kind, &entry, err);
    }
    if (status == MR_END && counts_of(reader).entries != n) {
        status = damaged(reader, err);
    }
    mr_journal_reader_close(reader);
    if (status >= 0 && (theirs[0] != run[0] || theirs[1] != run[1])) {
        mr_fail(err, MR_E_STATE, "this journal is that of another run");
        mr_hint(err, "a journal goes with one pipeline, stream and seed: give another folder");
        mr_error_at_sample(err, -1, folder);
        return MR_E_STATE;
    }
    return status < 0 ? status : MR_OK;
}

mr_status mr_journal_open(mr_journal **out, const char *folder, uint32_t partition,
                          const uint64_t run[2], mr_error *err) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_journal *journal = mr_zalloc(1, sizeof *journal);
    *out = NULL;
    if (!journal) {
        return mr_fail_memory(err, sizeof *journal);
    }
    options.sync = MR_SYNC_FLUSH;
    options.partition = partition;
    (void)mkdir(folder, 0700); /* it holds the document, which may hold a server's password */
    mr_status status = mr_stream_writer_open(&journal->writer, folder, &options, err);
    if (status == MR_OK) {
        int64_t n = mr_stream_next_number(journal->writer);
        status = n == 0 ? begin(journal, run, err) : check_own(folder, partition, n, run, err);
    }
    if (status < 0) {
        mr_journal_close(journal, NULL);
        return status;
    }
    *out = journal;
    return MR_OK;
}

mr_status mr_journal_close(mr_journal *journal, mr_error *err) {
    mr_status status = journal ? mr_stream_writer_close(journal->writer, err) : MR_OK;
    mr_free(journal);
    return status;
}
