/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - all spans, for other programs: Chrome's trace events and CSV.
 *
 * Chrome's format (which ui.perfetto.dev reads too) wants the complete events of a thread to nest.
 * Reads of one thread overlap, so they are asynchronous events, told apart by a number; what
 * happens to a batch is tied together by flow arrows from its last worker to the consumer. Numbers
 * are written by hand: ten million lines through printf would take most of the time. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/whole.h"
#include "trace/reader.h"

enum { BUFFER = 1 << 20, LONGEST_LINE = 2048 };

typedef struct writer {
    int fd;
    int failed; /* errno */
    size_t used;
    char *buffer;
} writer;

/* ---- Text ---- */
static void flush(writer *w) {
    for (size_t done = 0; done < w->used && !w->failed;) {
        ssize_t n = write(w->fd, w->buffer + done, w->used - done);
        if (n < 0 && errno != EINTR) {
            w->failed = errno;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    w->used = 0;
}

static void make_room(writer *w) {
    if (w->used > BUFFER - LONGEST_LINE) {
        flush(w);
    }
}

static void put(writer *w, const char *text) {
    size_t n = strnlen(text, LONGEST_LINE / 4);
    memcpy(w->buffer + w->used, text, n);
    w->used += n;
}

static void put_number(writer *w, uint64_t number) {
    char digits[20];
    int n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0) {
        w->buffer[w->used++] = digits[--n];
    }
}

/* Microseconds with three digits after the point. */
static void put_micros(writer *w, uint64_t ns) {
    put_number(w, ns / 1000);
    w->buffer[w->used++] = '.';
    w->buffer[w->used++] = (char)('0' + ns / 100 % 10);
    w->buffer[w->used++] = (char)('0' + ns / 10 % 10);
    w->buffer[w->used++] = (char)('0' + ns % 10);
}

static void put_field(writer *w, const char *before, uint64_t number) {
    put(w, before);
    put_number(w, number);
}

/* ---- Names ---- */
/* The names of ops come from the header of a file: nothing in them may end a string. */
static void put_name(writer *w, const char *name) {
    for (size_t i = 0; name[i] && i < 64; i++) {
        bool special = (unsigned char)name[i] < 0x20 || strchr("\"\\,", name[i]);
        w->buffer[w->used++] = (char)(special ? '_' : name[i]);
    }
}

static void put_span_name(writer *w, const mr_trace *trace, const mr_time_span *span) {
    if (span->kind == MR_SPAN_OP || span->kind == MR_SPAN_PART) {
        put_name(w, trace->ops[span->op].name);
    } else if (span->kind == MR_SPAN_FUSED) {
        for (int32_t k = 0; k < span->n_ops && k < 8; k++) {
            put(w, k ? "+" : "");
            put_name(w, trace->ops[span->op + k].name);
        }
    } else {
        put(w, mr_span_names[span->kind]);
    }
}

/* ---- Chrome's trace events ---- */
static void put_event_start(writer *w, const mr_trace *trace, const mr_time_span *span,
                            int32_t track, const char *phase) {
    put(w, ",\n{\"name\":\"");
    put_span_name(w, trace, span);
    put(w, "\",\"cat\":\"");
    put(w, mr_span_names[span->kind]);
    put(w, "\",\"ph\":\"");
    put(w, phase);
    put_field(w, "\",\"pid\":1,\"tid\":", (uint64_t)track + 1);
}

static void put_arguments(writer *w, const mr_time_span *span) {
    bool about_batch = mr_span_is_about_batch((mr_span_kind)span->kind);
    put_field(w, about_batch ? ",\"args\":{\"batch\":" : ",\"args\":{\"sample\":",
              (uint64_t)mr_span_item(span));
    if (!about_batch && span->batch != MR_SPAN_NO_BATCH) {
        put_field(w, ",\"batch\":", span->batch);
    }
    if (mr_span_rows(span) > 1) {
        put_field(w, ",\"rows\":", (uint64_t)mr_span_rows(span));
    }
    if (span->bytes_in || span->bytes_out) {
        put_field(w, ",\"bytes_in\":", span->bytes_in);
        put_field(w, ",\"bytes_out\":", span->bytes_out);
    }
    put(w, "}}");
}

/* From the seal of a batch to its delivery. */
static void put_flow(writer *w, const mr_time_span *span, int32_t track) {
    bool begins = span->kind == MR_SPAN_SEAL;
    put(w, ",\n{\"name\":\"batch\",\"cat\":\"batch\",\"ph\":\"");
    put(w, begins ? "s" : "f\",\"bp\":\"e");
    put_field(w, "\",\"pid\":1,\"tid\":", (uint64_t)track + 1);
    put_field(w, ",\"id\":", (uint64_t)mr_span_item(span));
    put(w, ",\"ts\":");
    put_micros(w, span->start);
    put(w, "}");
}

static void put_async(writer *w, const mr_trace *trace, const mr_time_span *span, int32_t track,
                      uint64_t number) {
    put_event_start(w, trace, span, track, "b");
    put_field(w, ",\"id\":", number);
    put(w, ",\"ts\":");
    put_micros(w, span->start);
    put_arguments(w, span);
    put_event_start(w, trace, span, track, "e");
    put_field(w, ",\"id\":", number);
    put(w, ",\"ts\":");
    put_micros(w, span->start + span->duration);
    put(w, "}");
}

static void put_event(writer *w, const mr_trace *trace, const mr_time_span *span, int32_t track,
                      uint64_t number) {
    if (span->kind == MR_SPAN_READ) {
        put_async(w, trace, span, track, number);
        return;
    }
    if (span->kind == MR_SPAN_PART) {
        return; /* an op's own time among those it is fused with: not an interval */
    }
    put_event_start(w, trace, span, track, "X");
    put(w, ",\"ts\":");
    put_micros(w, span->start);
    put(w, ",\"dur\":");
    put_micros(w, span->duration);
    put_arguments(w, span);
    if (span->kind == MR_SPAN_SEAL || span->kind == MR_SPAN_DELIVER) {
        put_flow(w, span, track);
    }
}

static void put_chrome_start(writer *w, const mr_trace *trace) {
    put(w, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"millrace\":\"");
    put(w, mr_version());
    put(w, "\"},\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{"
           "\"name\":\"millrace\"}}");
    for (int32_t i = 0; i < trace->n_tracks; i++) {
        make_room(w);
        put_field(w,
                  ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":", (uint64_t)i + 1);
        put(w, ",\"args\":{\"name\":\"");
        put_name(w, trace->tracks[i].name);
        put(w, "\"}}");
    }
}

/* ---- CSV ---- */
static void put_csv_line(writer *w, const mr_trace *trace, const mr_time_span *span, int32_t track,
                         uint64_t number) {
    (void)number;
    put_name(w, trace->tracks[track].name);
    put(w, ",");
    put(w, mr_span_names[span->kind]);
    put(w, ",");
    put_span_name(w, trace, span);
    put_field(w, ",", span->start);
    put_field(w, ",", span->duration);
    bool about_batch = mr_span_is_about_batch((mr_span_kind)span->kind);
    put(w, ",");
    if (!about_batch) {
        put_number(w, (uint64_t)mr_span_item(span));
    }
    put(w, ",");
    if (about_batch || span->batch != MR_SPAN_NO_BATCH) {
        put_number(w, about_batch ? (uint64_t)mr_span_item(span) : span->batch);
    }
    put_field(w, ",", span->bytes_in);
    put_field(w, ",", span->bytes_out);
    put_field(w, ",", (uint64_t)mr_span_rows(span));
    put(w, "\n");
}

/* ---- Public ---- */
typedef void put_line(writer *w, const mr_trace *trace, const mr_time_span *span, int32_t track,
                      uint64_t number);

typedef struct exporting {
    writer *w;
    const mr_trace *trace;
    put_line *line;
    uint64_t number;
} exporting;

static void put_span(exporting *e, const mr_trace_piece *piece, int64_t i) {
    if (!e->w->failed && mr_trace_is_sound(e->trace, &piece->spans[i])) {
        make_room(e->w);
        e->line(e->w, e->trace, &piece->spans[i], piece->track, e->number);
    }
    e->number++;
}

/* Where the sample ends that span i is a part of; i where it is none's. */
static int64_t end_of_sample(const mr_trace_piece *piece, int64_t i) {
    enum { MOST_PARTS = 64 };
    for (int64_t k = i; k < piece->n && k < i + MOST_PARTS; k++) {
        if (piece->spans[k].kind == MR_SPAN_SAMPLE) {
            return k;
        }
    }
    return i;
}

/* Spans lie in the order in which they ended, so a sample comes after its parts. Some readers take
 * of two that begin together the first for the outer one: it is written first. */
static void put_piece(exporting *e, const mr_trace_piece *piece) {
    bool worker = strcmp(e->trace->tracks[piece->track].kind, "worker") == 0;
    for (int64_t i = 0; i < piece->n && !e->w->failed; i++) {
        int64_t sample = worker ? end_of_sample(piece, i) : i;
        put_span(e, piece, sample);
        for (; i < sample; i++) {
            put_span(e, piece, i);
        }
    }
}

static void put_spans(writer *w, const mr_trace *trace, put_line *line) {
    exporting e = {w, trace, line, 0};
    for (int64_t p = 0; p < trace->n_pieces; p++) {
        put_piece(&e, &trace->pieces[p]);
    }
}

static void put_all(writer *w, const mr_trace *trace, mr_trace_export_kind kind) {
    if (kind == MR_TRACE_CHROME) {
        put_chrome_start(w, trace);
        put_spans(w, trace, put_event);
        put(w, "\n]}\n");
    } else {
        put(w, "track,kind,name,start_ns,duration_ns,sample,batch,bytes_in,bytes_out,rows\n");
        put_spans(w, trace, put_csv_line);
    }
    flush(w);
}

mr_status mr_export_apart(const mr_trace *trace, const char *path, mr_error *err) {
    struct stat own, target;
    if (stat(trace->path, &own) != 0 || stat(path, &target) != 0 || !S_ISREG(own.st_mode) ||
        own.st_dev != target.st_dev || own.st_ino != target.st_ino) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "%s is the trace itself: it would be lost", path);
    mr_hint(err, "name another file for what is made of it");
    return MR_E_PARAM;
}

mr_status mr_export_failed(const char *path, const char *what, int sys, mr_error *err) {
    mr_fail_errno(err, MR_E_IO, sys, "cannot write %s to %s", what, path);
    if (sys == ENOSPC || sys == EDQUOT) {
        mr_hint(err, "nothing of it was left there; make room, or name another place");
    }
    return MR_E_IO;
}

mr_status mr_trace_export(const mr_trace *trace, mr_trace_export_kind kind, const char *path,
                          mr_error *err) {
    mr_whole_file file;
    MR_TRY(mr_export_apart(trace, path, err));
    writer w = {.buffer = mr_zalloc(1, BUFFER)};
    if (!w.buffer) {
        return mr_fail_memory(err, BUFFER);
    }
    w.failed = mr_whole_open(&file, path);
    if (!w.failed) {
        w.fd = file.fd;
        put_all(&w, trace, kind);
        w.failed = mr_whole_close(&file, w.failed);
    }
    mr_free(w.buffer);
    return w.failed ? mr_export_failed(path, "the spans", w.failed, err) : MR_OK;
}
