/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - see functions.h. The file says for each probe at which address it was, in most
 * cases what was running, and in its last chunk which functions those addresses are in. A probe
 * that does not know what was running belongs to the op whose span it falls into: Python's calls
 * lie too deep for a mark to be seen, but never run row by row with another op. None of it is
 * believed: places, times and functions may be any numbers in a damaged file. */
#include "trace/functions.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"

/* ---- Functions ---- */
static int by_address(const void *a, const void *b) {
    const mr_function *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static uint64_t count_of(const json_t *object, const char *name) {
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

/* ---- One function in several processes, at an address of its own in each ---- */
static int by_name(const mr_function *x, const mr_function *y) {
    int order = (x->offset > y->offset) - (x->offset < y->offset);
    order = order ? order : strcmp(x->object, y->object);
    return order ? order : strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

/* Equal ones in the order of their addresses. */
static int by_name_and_address(const void *a, const void *b) {
    const mr_function *x = *(const mr_function *const *)a, *y = *(const mr_function *const *)b;
    int order = by_name(x, y);
    return order ? order : (x > y) - (x < y);
}

static mr_status find_same(mr_function_table *t, mr_error *err) {
    size_t n = (size_t)t->n_functions;
    mr_function **sorted = mr_zalloc(n, sizeof *sorted);
    if (!sorted) {
        return mr_fail_memory(err, n * sizeof *sorted);
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &t->functions[i];
    }
    if (n > 0) {
        qsort(sorted, n, sizeof *sorted, by_name_and_address);
    }
    for (size_t i = 0; i < n; i++) {
        bool again = i > 0 && by_name(sorted[i - 1], sorted[i]) == 0;
        sorted[i]->same = again ? sorted[i - 1]->same : sorted[i] - t->functions;
    }
    mr_free(sorted);
    return MR_OK;
}

static mr_status read_functions(mr_function_table *t, const json_t *list, mr_error *err) {
    size_t n = json_array_size(list), i;
    json_t *entry;
    t->functions = mr_zalloc(n, sizeof *t->functions);
    if (!t->functions) {
        return mr_fail_memory(err, n * sizeof *t->functions);
    }
    json_array_foreach(list, i, entry) {
        const char *object = json_string_value(json_object_get(entry, "object"));
        t->functions[i] = (mr_function){.from = count_of(entry, "from"),
                                        .to = count_of(entry, "to"),
                                        .offset = count_of(entry, "offset"),
                                        .object = object ? object : "?",
                                        .name = json_string_value(json_object_get(entry, "name"))};
    }
    t->n_functions = (int64_t)n;
    if (n > 0) {
        qsort(t->functions, n, sizeof *t->functions, by_address);
    }
    return find_same(t, err);
}

/* Its number, or n_functions: none. */
static int64_t function_at(const mr_function_table *t, uint64_t address) {
    int64_t low = 0, high = t->n_functions;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t->functions[middle].from <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && address < t->functions[low - 1].to ? t->functions[low - 1].same
                                                         : t->n_functions;
}

/* ---- Places: ops, kinds of spans, none ---- */
static mr_status make_places(mr_function_table *t, const mr_trace *trace, mr_error *err) {
    int32_t n = trace->n_ops + MR_SPAN_KINDS + 1;
    t->places = mr_zalloc((size_t)n, sizeof *t->places);
    if (!t->places) {
        return mr_fail_memory(err, (size_t)n * sizeof *t->places);
    }
    t->n_places = n;
    for (int32_t i = 0; i < n; i++) {
        int32_t kind = i - trace->n_ops;
        t->places[i].op = kind < 0 ? i : -1;
        t->places[i].name = kind < 0               ? trace->ops[i].name
                            : kind < MR_SPAN_KINDS ? mr_span_names[kind]
                                                   : "elsewhere";
    }
    return MR_OK;
}

/* -1: there is no such place. */
static int32_t place_of(const mr_trace *trace, const mr_probe *probe) {
    if (probe->kind == MR_SPAN_OP) {
        return probe->op < trace->n_ops ? probe->op : -1;
    }
    return probe->kind < MR_SPAN_KINDS       ? trace->n_ops + probe->kind
           : probe->kind == MR_PROBE_NOWHERE ? trace->n_ops + MR_SPAN_KINDS
                                             : -1;
}

/* ---- Finding what each probe was in ---- */
typedef struct found {
    int32_t place;
    int32_t track;
    uint64_t at;
    int64_t function;
} found;

static int64_t find_all(mr_function_table *t, const mr_trace *trace, found *out) {
    int64_t n = 0;
    for (int64_t p = 0; p < trace->n_pieces; p++) {
        const mr_trace_piece *piece = &trace->pieces[p];
        for (int64_t i = 0; i < piece->n_probes; i++) {
            const mr_probe *probe = &piece->probes[i];
            int32_t place = place_of(trace, probe);
            t->damaged += place < 0;
            if (place >= 0) {
                out[n++] = (found){place, piece->track, probe->at, function_at(t, probe->address)};
            }
        }
    }
    return n;
}

/* ---- What ran, by the time, where no mark tells ---- */
static int by_time(const void *a, const void *b) {
    const found *x = a, *y = b;
    int order = (x->track > y->track) - (x->track < y->track);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Not of fused ops: which of them ran is not known. */
static bool is_of_one(const mr_trace *trace, const mr_time_span *span) {
    return (span->kind == MR_SPAN_OP || span->kind == MR_SPAN_FILL ||
            span->kind == MR_SPAN_UNPACK) &&
           mr_trace_is_sound(trace, span);
}

/* Spans of one kind of work follow each other on a track, and so do probes: `from` is the first
 * that no span has passed yet. Returns the next one's. */
static int64_t give(const mr_trace *trace, const mr_time_span *span, int32_t track, found *all,
                    int64_t from, int64_t n) {
    const mr_probe like = {.kind = span->kind, .op = span->op};
    int32_t nowhere = trace->n_ops + MR_SPAN_KINDS;
    while (from < n && all[from].track == track && all[from].at < span->start) {
        from++;
    }
    for (; from < n && all[from].track == track && all[from].at < span->start + span->duration;
         from++) {
        all[from].place = all[from].place == nowhere ? place_of(trace, &like) : all[from].place;
    }
    return from;
}

/* The probes are sorted by time; `next` has room for each track. */
static void give_all(const mr_trace *trace, found *all, int64_t n, int64_t *next) {
    for (int64_t i = n - 1; i >= 0; i--) {
        next[all[i].track] = i;
    }
    for (int64_t p = 0; p < trace->n_pieces; p++) {
        const mr_trace_piece *piece = &trace->pieces[p];
        int64_t from = next[piece->track];
        for (int64_t i = 0; i < piece->n; i++) {
            if (is_of_one(trace, &piece->spans[i])) {
                from = give(trace, &piece->spans[i], piece->track, all, from, n);
            }
        }
        next[piece->track] = from;
    }
}

static mr_status find_by_time(const mr_trace *trace, found *all, int64_t n, mr_error *err) {
    int64_t *next = mr_zalloc((size_t)trace->n_tracks, sizeof *next);
    if (!next) {
        return mr_fail_memory(err, (size_t)trace->n_tracks * sizeof *next);
    }
    if (n > 0) {
        qsort(all, (size_t)n, sizeof *all, by_time);
        give_all(trace, all, n, next);
    }
    mr_free(next);
    return MR_OK;
}

/* ---- Counting: sorted by place and function, so that equal ones follow each other ---- */
static int by_place(const void *a, const void *b) {
    const found *x = a, *y = b;
    int order = (x->place > y->place) - (x->place < y->place);
    return order ? order : (x->function > y->function) - (x->function < y->function);
}

static int most_first(const void *a, const void *b) {
    const mr_function_line *x = a, *y = b;
    int order = (x->probes < y->probes) - (x->probes > y->probes);
    return order ? order : (x->function > y->function) - (x->function < y->function);
}

static void count(mr_function_table *t, const found *all, int64_t n) {
    int64_t lines = 0;
    for (int64_t i = 0; i < n; i++) {
        mr_function_place *place = &t->places[all[i].place];
        if (i == 0 || by_place(&all[i - 1], &all[i]) != 0) {
            place->first = place->probes ? place->first : lines;
            place->n++;
            bool known = all[i].function < t->n_functions;
            t->lines[lines++].function = known ? &t->functions[all[i].function] : NULL;
        }
        t->lines[lines - 1].probes++;
        place->probes++;
    }
    for (int32_t i = 0; i < t->n_places; i++) {
        if (t->places[i].n > 0) {
            qsort(t->lines + t->places[i].first, (size_t)t->places[i].n, sizeof *t->lines,
                  most_first);
        }
    }
}

static mr_status count_all(mr_function_table *t, const mr_trace *trace, mr_error *err) {
    size_t room = (size_t)trace->n_probes;
    found *all = mr_zalloc(room, sizeof *all);
    t->lines = mr_zalloc(room, sizeof *t->lines);
    if (!all || !t->lines) {
        mr_free(all);
        return mr_fail_memory(err, room * sizeof *all);
    }
    t->probes = find_all(t, trace, all);
    mr_status status = find_by_time(trace, all, t->probes, err);
    if (status == MR_OK && t->probes > 0) {
        qsort(all, (size_t)t->probes, sizeof *all, by_place);
        count(t, all, t->probes);
    }
    mr_free(all);
    return status;
}

/* ---- Public ---- */
mr_status mr_function_table_make(mr_function_table *out, const mr_trace *trace, mr_error *err) {
    const json_t *probes = json_object_get(trace->end, "probes");
    const char *note = json_string_value(json_object_get(probes, "note"));
    *out = (mr_function_table){.note = note ? note : ""};
    out->lost = (int64_t)count_of(probes, "lost");
    out->period = (double)count_of(probes, "period_ns") * 1e-9;
    MR_TRY(read_functions(out, json_object_get(probes, "functions"), err));
    MR_TRY(make_places(out, trace, err));
    return count_all(out, trace, err);
}

void mr_function_table_free(mr_function_table *table) {
    mr_free(table->functions);
    mr_free(table->places);
    mr_free(table->lines);
    *table = (mr_function_table){.probes = 0};
}

/* Where there is no name, the place in the object file. */
static const char *label_of(const mr_function *function, char *buffer, size_t size) {
    if (!function) {
        return "code that the trace does not name";
    }
    if (function->name) {
        return function->name;
    }
    snprintf(buffer, size, "+0x%llx", (unsigned long long)function->offset);
    return buffer;
}

static json_t *lines_json(const mr_function_table *t, const mr_function_place *place, bool *lost) {
    enum { MOST = 100 };
    json_t *array = json_array();
    for (int64_t i = place->first; i < place->first + place->n && i < place->first + MOST; i++) {
        const mr_function *function = t->lines[i].function;
        char buffer[32];
        mr_json_append(array,
                       json_pack("{s:s, s:s, s:I}", "name",
                                 label_of(function, buffer, sizeof buffer), "object",
                                 function ? function->object : "", "probes",
                                 (json_int_t)t->lines[i].probes),
                       lost);
    }
    return array;
}

json_t *mr_function_table_json(const mr_function_table *t, bool *lost) {
    json_t *places = json_array();
    for (int32_t i = 0; i < t->n_places; i++) {
        const mr_function_place *place = &t->places[i];
        if (place->probes > 0) {
            mr_json_append(places,
                           json_pack("{s:s, s:i, s:I, s:o}", "name", place->name, "op",
                                     (int)place->op, "probes", (json_int_t)place->probes,
                                     "functions", lines_json(t, place, lost)),
                           lost);
        }
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:o}", "note", t->note, "probes",
                     (json_int_t)t->probes, "lost", (json_int_t)t->lost, "left_out",
                     (json_int_t)t->damaged, "period", t->period, "places", places);
}

static void put_place(FILE *out, const mr_function_table *t, const mr_function_place *place) {
    enum { SHOWN = 4 };
    char buffer[32];
    fprintf(out, "  %-20.20s %5.1f %%\n", place->name,
            100 * (double)place->probes / (double)t->probes);
    for (int64_t i = place->first; i < place->first + place->n && i < place->first + SHOWN; i++) {
        const mr_function_line *line = &t->lines[i];
        double share = (double)line->probes / (double)place->probes;
        if (share >= 0.02) {
            fprintf(out, "    %5.1f %% of it in %s%s%s\n", 100 * share,
                    label_of(line->function, buffer, sizeof buffer), line->function ? ", " : "",
                    line->function ? line->function->object : "");
        }
    }
}

void mr_function_table_put(FILE *out, const mr_function_table *t) {
    if (t->probes > 0) {
        fprintf(out, "  functions below the ops, by %lld probes of the workers' CPU time\n",
                (long long)t->probes);
    }
    for (int32_t i = 0; i < t->n_places; i++) {
        const mr_function_place *place = &t->places[i];
        if (place->probes > 0 && (double)place->probes >= 0.01 * (double)t->probes) {
            put_place(out, t, place);
        }
    }
    if (t->note[0]) {
        fprintf(out, "  Note: %s\n", t->note);
    }
}
