/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - see reader.h. A trace is read into memory: it is a file that somebody may cut off, and
 * a mapping would end the program there. What comes after a damaged place is not believed, nor
 * read: the heads of the chunks are looked at first. */
#include "trace/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "io/file.h"

enum { MOST_HEADER = 64 << 20 };

/* ---- Header ---- */
static mr_status not_a_trace(const char *path, const char *why, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "%s is not a trace: %s", path, why);
    mr_hint(err, "millrace run PIPELINE.json --trace FILE writes one");
    return MR_E_CORRUPT;
}

static mr_status not_whole(const char *path, size_t size, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "%s is the beginning of a trace, cut off after %zu bytes", path,
            size);
    mr_hint(err, "the disk was full, or the run ended before its first span was written");
    return MR_E_CORRUPT;
}

static bool is_harmless(const char *text) {
    while (*text && mr_text_visible(text) > 0) {
        text += mr_text_visible(text);
    }
    return *text == '\0';
}

static bool escape(json_t *string) {
    size_t size = 4 * json_string_length(string) + 1;
    char *safe = mr_zalloc(1, size);
    bool ok =
        safe && json_string_set(string, mr_text_escape(safe, size, json_string_value(string))) == 0;
    mr_free(safe);
    return ok;
}

/* Who wrote the file wrote no control characters into it. Others may have, and names out of it
 * reach terminals: every text is made harmless here, before anybody sees it. False: no memory. */
static bool escape_all(json_t *value) {
    const char *key;
    json_t *member;
    size_t i;
    bool ok = !json_is_string(value) || is_harmless(json_string_value(value)) || escape(value);
    json_array_foreach(value, i, member) {
        ok = escape_all(member) && ok;
    }
    json_object_foreach(value, key, member) {
        ok = escape_all(member) && ok;
    }
    return ok;
}

static mr_status load_json(const char *text, size_t size, json_t **out, mr_error *err) {
    json_error_t error;
    mr_status status = mr_json_load(out, text, size, JSON_REJECT_DUPLICATES, &error);
    if (status == MR_OK && !escape_all(*out)) {
        status = MR_E_MEMORY;
    }
    return status == MR_E_MEMORY ? mr_fail_memory(err, size) : status;
}

static mr_status read_header(mr_trace *trace, size_t *used, mr_error *err) {
    mr_trace_head head;
    size_t known = trace->size < sizeof head.magic ? trace->size : sizeof head.magic;
    if (trace->size == 0) {
        return not_a_trace(trace->path, "it is empty", err);
    }
    if (memcmp(trace->bytes, MR_TRACE_MAGIC, known) != 0) {
        return not_a_trace(trace->path, "it begins otherwise", err);
    }
    if (trace->size < sizeof head) {
        return not_whole(trace->path, trace->size, err);
    }
    memcpy(&head, trace->bytes, sizeof head);
    if (head.version != MR_TRACE_VERSION) {
        mr_fail(err, MR_E_UNSUPPORTED,
                "%s is a trace of version %" PRIu32 ", this reads version %u", trace->path,
                head.version, MR_TRACE_VERSION);
        mr_hint(err, "read it with the millrace that wrote it");
        return MR_E_UNSUPPORTED;
    }
    if (head.header_size % 8 != 0 || head.header_size > MOST_HEADER) {
        return not_a_trace(trace->path, "its header is damaged", err);
    }
    if (head.header_size > trace->size - sizeof head) {
        return not_whole(trace->path, trace->size, err);
    }
    mr_status status = load_json(trace->bytes + sizeof head, head.header_size, &trace->header, err);
    *used = sizeof head + head.header_size;
    return status == MR_E_PARAM || (status == MR_OK && !json_is_object(trace->header))
               ? not_a_trace(trace->path, "its header is damaged", err)
               : status;
}

/* ---- What the header lists ---- */
/* Older traces call it "stream". */
static int32_t fused_length(const json_t *op) {
    const json_t *length = json_object_get(op, "fused");
    return (int32_t)json_integer_value(length ? length : json_object_get(op, "stream"));
}

static mr_status read_ops(mr_trace *trace, mr_error *err) {
    const json_t *ops = json_object_get(trace->header, "ops");
    size_t n = json_array_size(ops), i;
    json_t *op;
    trace->ops = mr_zalloc(n, sizeof *trace->ops);
    if (!trace->ops) {
        return mr_fail_memory(err, n * sizeof *trace->ops);
    }
    json_array_foreach(ops, i, op) {
        const char *name = json_string_value(json_object_get(op, "name"));
        trace->ops[i] = (mr_trace_op){
            .name = name ? name : "?",
            .host = json_is_true(json_object_get(op, "host")),
            .random = json_is_true(json_object_get(op, "random")),
            .opaque = json_is_true(json_object_get(op, "opaque")),
            .fused = fused_length(op),
            .mapped = json_is_true(json_object_get(op, "mapped")),
        };
    }
    trace->n_ops = (int32_t)n;
    return MR_OK;
}

static mr_status read_tracks(mr_trace *trace, mr_error *err) {
    const json_t *tracks = json_object_get(trace->header, "tracks");
    size_t n = json_array_size(tracks), i;
    json_t *track;
    trace->tracks = mr_zalloc(n, sizeof *trace->tracks);
    if (!trace->tracks) {
        return mr_fail_memory(err, n * sizeof *trace->tracks);
    }
    json_array_foreach(tracks, i, track) {
        const char *kind = json_string_value(json_object_get(track, "kind"));
        json_int_t number = json_integer_value(json_object_get(track, "number"));
        trace->tracks[i].kind = kind ? kind : "?";
        snprintf(trace->tracks[i].name, sizeof trace->tracks[i].name,
                 strcmp(trace->tracks[i].kind, "consumer") == 0 ? "%.12s" : "%.12s %lld",
                 trace->tracks[i].kind, (long long)number);
    }
    trace->n_tracks = (int32_t)n;
    return MR_OK;
}

/* ---- Chunks ---- */
static bool is_of_track(const mr_chunk_head *head) {
    return head->tag == MR_CHUNK_SPANS || head->tag == MR_CHUNK_PROBES;
}

/* Chunks of kinds that came later are passed over. */
static bool is_sane(const mr_trace *trace, const mr_chunk_head *head, size_t left) {
    if (is_of_track(head)) {
        size_t each = head->tag == MR_CHUNK_SPANS ? sizeof(mr_time_span) : sizeof(mr_probe);
        return head->track < (uint32_t)trace->n_tracks && head->size % each == 0;
    }
    bool later = head->tag > 0 && head->tag <= MR_CHUNK_LAST && head->size <= left;
    return head->size % 8 == 0 && (head->tag == MR_CHUNK_END || later);
}

/* The next chunk's head, and how much of its payload is there; false: there is no more, or none
 * that is believed. */
static bool next_chunk(mr_trace *trace, size_t *at, mr_chunk_head *head, size_t *there) {
    if (trace->size - *at < sizeof *head) {
        return false;
    }
    memcpy(head, trace->bytes + *at, sizeof *head);
    size_t left = trace->size - *at - sizeof *head;
    bool sane = is_sane(trace, head, left);
    trace->damaged_at = sane ? 0 : *at;
    *at += sizeof *head;
    *there = head->size < left ? (size_t)head->size : left;
    return sane;
}

static mr_status add_piece(mr_trace *trace, int64_t *room, const mr_chunk_head *head,
                           const char *payload, size_t there, mr_error *err) {
    if (trace->n_pieces == *room) {
        int64_t larger = *room ? *room * 2 : 64;
        mr_trace_piece *pieces = mr_zalloc((size_t)larger, sizeof *pieces);
        if (!pieces) {
            return mr_fail_memory(err, (size_t)larger * sizeof *pieces);
        }
        if (trace->n_pieces > 0) {
            memcpy(pieces, trace->pieces, (size_t)trace->n_pieces * sizeof *pieces);
        }
        mr_free(trace->pieces);
        trace->pieces = pieces;
        *room = larger;
    }
    mr_trace_piece *piece = &trace->pieces[trace->n_pieces++];
    piece->track = (int32_t)head->track;
    if (head->tag == MR_CHUNK_SPANS) {
        piece->spans = (const mr_time_span *)(const void *)payload;
        piece->n = (int64_t)(there / sizeof(mr_time_span));
    } else {
        piece->probes = (const mr_probe *)(const void *)payload;
        piece->n_probes = (int64_t)(there / sizeof(mr_probe));
    }
    trace->n_spans += piece->n;
    trace->n_probes += piece->n_probes;
    return MR_OK;
}

/* The last word: where it is there and is no object, it is damaged. */
static mr_status read_end(mr_trace *trace, size_t at, size_t size, bool whole, mr_error *err) {
    mr_status status = load_json(trace->bytes + at, size, &trace->end, err);
    trace->damaged_at = whole && !json_is_object(trace->end) ? at : 0;
    return status == MR_E_MEMORY ? status : MR_OK;
}

static mr_status read_chunks(mr_trace *trace, size_t at, mr_error *err) {
    mr_chunk_head head;
    size_t there = 0;
    int64_t room = 0;
    while (next_chunk(trace, &at, &head, &there)) {
        if (head.tag == MR_CHUNK_END) {
            return read_end(trace, at, there, there == head.size, err);
        }
        if (is_of_track(&head)) {
            MR_TRY(add_piece(trace, &room, &head, trace->bytes + at, there, err));
        }
        at += there;
    }
    return MR_OK;
}

/* ---- What is missing ---- */
static void note_missing(mr_trace *trace) {
    const json_t *dropped = json_object_get(trace->end, "dropped");
    json_t *n;
    size_t i;
    json_array_foreach(dropped, i, n) {
        trace->dropped += json_integer_value(n);
    }
    if (trace->damaged_at) {
        snprintf(trace->missing, sizeof trace->missing,
                 "the trace is damaged at byte %zu of %zu: it has the %" PRId64
                 " spans before, and neither names of samples nor the run's totals",
                 trace->damaged_at, trace->file_size, trace->n_spans);
    } else if (!json_is_object(trace->end)) {
        snprintf(trace->missing, sizeof trace->missing,
                 "the trace was cut off: it has the first %" PRId64
                 " spans, and neither names of samples nor the run's totals",
                 trace->n_spans);
    } else if (trace->dropped > 0) {
        snprintf(trace->missing, sizeof trace->missing,
                 "%" PRId64 " of %" PRId64
                 " spans are missing: they came faster than they could be written",
                 trace->dropped, trace->dropped + trace->n_spans);
    }
}

/* ---- Public ---- */
int64_t mr_trace_setup(const mr_trace *trace, const char *name) {
    return json_integer_value(json_object_get(json_object_get(trace->header, "setup"), name));
}

static mr_status parse(mr_trace **out, const char *path, char *bytes, size_t size, size_t file_size,
                       mr_error *err) {
    size_t used = 0;
    mr_trace *trace = mr_zalloc(1, sizeof *trace);
    if (!trace) {
        mr_free(bytes);
        return mr_fail_memory(err, sizeof *trace);
    }
    trace->bytes = bytes;
    trace->size = size;
    trace->file_size = file_size;
    trace->path = strdup(path);
    mr_status status = trace->path ? read_header(trace, &used, err) : mr_fail_memory(err, 64);
    if (status == MR_OK) {
        status = read_ops(trace, err);
    }
    if (status == MR_OK) {
        status = read_tracks(trace, err);
    }
    if (status == MR_OK) {
        status = read_chunks(trace, used, err);
    }
    if (status < 0) {
        mr_trace_close(trace);
        return status;
    }
    note_missing(trace);
    *out = trace;
    return MR_OK;
}

mr_status mr_trace_parse(mr_trace **out, const char *path, char *bytes, size_t size,
                         mr_error *err) {
    return parse(out, path, bytes, size, size, err);
}

/* ---- Files ---- */
/* Reads `size` bytes from `at` on where the file has them. */
static bool read_part(const mr_open_extent *file, size_t at, void *out, size_t size) {
    const mr_open_extent part = {.fd = file->fd, .offset = (int64_t)at, .size = size};
    return at <= file->size && size <= file->size - at && mr_extent_read(&part, out, NULL) == MR_OK;
}

/* How much of a file is worth reading: its header, and its chunks up to the last one or to the
 * first whose head cannot be one. */
static size_t believed_size(const mr_open_extent *file) {
    mr_trace_head head;
    mr_chunk_head chunk;
    if (!read_part(file, 0, &head, sizeof head) ||
        memcmp(head.magic, MR_TRACE_MAGIC, sizeof head.magic) != 0 ||
        head.version != MR_TRACE_VERSION || head.header_size > MOST_HEADER) {
        return file->size < sizeof head ? file->size : sizeof head;
    }
    size_t at = sizeof head + head.header_size;
    for (bool more = true; more && read_part(file, at, &chunk, sizeof chunk);) {
        size_t left = file->size - at - sizeof chunk;
        more = chunk.tag > 0 && chunk.tag <= MR_CHUNK_LAST && chunk.tag != MR_CHUNK_END &&
               chunk.size <= left;
        bool payload = chunk.tag == MR_CHUNK_END || chunk.tag == MR_CHUNK_SPANS ||
                       chunk.tag == MR_CHUNK_PROBES || more;
        at += sizeof chunk + (!payload ? 0 : chunk.size < left ? (size_t)chunk.size : left);
    }
    return at < file->size ? at : file->size;
}

static mr_status load(const mr_open_extent *file, char **out, size_t *size, mr_error *err) {
    *size = believed_size(file);
    *out = mr_zalloc(1, *size + 1);
    const mr_open_extent believed = {.fd = file->fd, .size = *size};
    mr_status status = *out ? mr_extent_read(&believed, *out, err) : mr_fail_memory(err, *size + 1);
    if (status < 0) {
        mr_free(*out);
    }
    return status;
}

mr_status mr_trace_open(mr_trace **out, const char *path, mr_error *err) {
    const mr_extent whole = {.path = path, .length = -1, .limit = (int64_t)1 << 40};
    mr_open_extent file = {.fd = -1};
    char *bytes = NULL;
    size_t size = 0;
    mr_status status = mr_extent_open(&whole, &file, err);
    if (status == MR_OK) {
        status = load(&file, &bytes, &size, err);
        mr_extent_close(&file);
    }
    if (status < 0) {
        mr_error_at_sample(err, -1, path);
        return status;
    }
    return parse(out, path, bytes, size, file.size, err);
}

void mr_trace_close(mr_trace *trace) {
    if (trace) {
        mr_free(trace->pieces);
        mr_free(trace->tracks);
        mr_free(trace->ops);
        json_decref(trace->header);
        json_decref(trace->end);
        mr_free(trace->path);
        mr_free(trace->bytes);
        mr_free(trace);
    }
}

const char *mr_trace_missing(const mr_trace *trace) {
    return trace->missing;
}
