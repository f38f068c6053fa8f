/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - see functions.h. Done by the process itself, when its trace ends: its object files
 * are certainly the right ones then, and who reads a trace need not open files that it names.
 *
 * Names are those of the object's symbols, or of its debug file's where that is installed. Most
 * libraries are stripped of the names of functions they do not export; what remains of these is
 * where they begin and end, which the tables for unwinding tell. An address between two known
 * functions is never given to the one before it: hand-written code, which often has neither, is
 * told by the page it is in. */
#include "run/record/functions.h"

#include <link.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/record/symbols.h"

enum { PIECE_OF_UNKNOWN = 4096 };

/* An object file that some of the addresses lie in. */
typedef struct object {
    char path[1024];
    uint64_t base;
    size_t first, n;      /* its addresses */
    mr_build build;       /* as it is in memory */
    char debug_path[128]; /* where its debug file would be; "": not known */
} object;

typedef struct finder {
    const uint64_t *addresses;
    size_t n;
    mr_range *ranges; /* of each address, by the tables for unwinding; empty: not known */
    object *objects;
    size_t n_objects, room;
    bool no_memory;
} finder;

/* The first of the ascending values that is not below `value`. */
static size_t lower_bound(const uint64_t *values, size_t n, uint64_t value) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- Tables for unwinding: .eh_frame_hdr, as linkers write it, in memory ---- */
static int32_t word_at(const uint8_t *at) {
    int32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint64_t plus(const uint8_t *at, int32_t by) {
    return (uint64_t)(uintptr_t)at + (uint64_t)(int64_t)by;
}

static bool is_usual_table(const uint8_t *table, size_t size, size_t *n) {
    static const uint8_t usual[4] = {1, 0x1b, 0x03, 0x3b};
    if (size < 12 || memcmp(table, usual, sizeof usual) != 0) {
        return false;
    }
    *n = (uint32_t)word_at(table + 8);
    return *n > 0 && *n <= (size - 12) / 8;
}

/* The entry's function, if the address lies in it. The entry repeats where the function begins:
 * where that differs it is written in another way than the usual one. */
static mr_range entry_range(const uint8_t *table, size_t i, uint64_t address) {
    const uint8_t *pair = table + 12 + 8 * i;
    const uint8_t *entry = table + word_at(pair + 4);
    uint64_t from = plus(table, word_at(pair));
    uint64_t to = from + (uint32_t)word_at(entry + 12);
    bool usual = plus(entry + 8, word_at(entry + 8)) == from;
    return usual && address < to ? (mr_range){from, to} : (mr_range){0, 0};
}

static mr_range unwind_range(const uint8_t *table, size_t size, uint64_t address) {
    size_t n = 0, low = 0;
    if (!is_usual_table(table, size, &n) || plus(table, word_at(table + 12)) > address) {
        return (mr_range){0, 0};
    }
    for (size_t high = n; high - low > 1;) {
        size_t middle = low + (high - low) / 2;
        if (plus(table, word_at(table + 12 + 8 * middle)) <= address) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return entry_range(table, low, address);
}

/* ---- What is loaded ---- */
static mr_range loaded_range(const struct dl_phdr_info *info) {
    mr_range all = {UINT64_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD) {
            uint64_t from = info->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
            all = (mr_range){from < all.from ? from : all.from, to > all.to ? to : all.to};
        }
    }
    return all;
}

static const uint8_t *memory_of(const object *o, const ElfW(Phdr) * segment) {
    return (const uint8_t *)(uintptr_t)(o->base + segment->p_vaddr);
}

/* The debug file is named after the build's id. */
static void name_debug_file(object *o, const uint8_t *id, size_t length) {
    int used = snprintf(o->debug_path, sizeof o->debug_path, "/usr/lib/debug/.build-id/");
    for (size_t i = 0; i < length; i++) {
        used += snprintf(o->debug_path + used, 4, i == 0 ? "%02x/" : "%02x", id[i]);
    }
    snprintf(o->debug_path + used, 8, ".debug");
}

/* Notes are sizes of a name and of what it is about, a type, and these two. */
static void note_build(object *o, const ElfW(Phdr) * segment) {
    const uint8_t *notes = memory_of(o, segment);
    size_t size = segment->p_filesz < MR_BUILD_NOTES ? segment->p_filesz : MR_BUILD_NOTES;
    for (size_t at = 0; at + 12 <= size;) {
        uint32_t name = (uint32_t)word_at(notes + at), length = (uint32_t)word_at(notes + at + 4);
        bool is_id = word_at(notes + at + 8) == NT_GNU_BUILD_ID && name == 4;
        if (is_id && length > 2 && length <= 32 && at + 16 + length <= size) {
            name_debug_file(o, notes + at + 16, length);
            memcpy(o->build.notes, notes, size);
            o->build.size = size;
            o->build.at = (off_t)segment->p_offset;
        }
        if (name > MR_BUILD_NOTES || length > MR_BUILD_NOTES) {
            return;
        }
        at += 12 + (name + 3) / 4 * 4 + (length + 3) / 4 * 4;
    }
}

static void look_at_segments(finder *f, object *o, const struct dl_phdr_info *info) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint8_t *there = memory_of(o, segment);
        for (size_t k = o->first; segment->p_type == PT_GNU_EH_FRAME && k < o->first + o->n; k++) {
            f->ranges[k] = unwind_range(there, segment->p_memsz, f->addresses[k]);
        }
        if (segment->p_type == PT_NOTE) {
            note_build(o, segment);
        }
    }
}

/* NULL: no memory. */
static object *add_object(finder *f) {
    if (f->n_objects == f->room) {
        size_t larger = f->room ? 2 * f->room : 16;
        object *objects = mr_zalloc(larger, sizeof *objects);
        if (!objects) {
            f->no_memory = true;
            return NULL;
        }
        if (f->n_objects > 0) {
            memcpy(objects, f->objects, f->n_objects * sizeof *objects);
        }
        mr_free(f->objects);
        f->objects = objects;
        f->room = larger;
    }
    return &f->objects[f->n_objects++];
}

static int visit(struct dl_phdr_info *info, size_t size, void *user) {
    finder *f = user;
    mr_range all = loaded_range(info);
    size_t first = lower_bound(f->addresses, f->n, all.from);
    size_t end = lower_bound(f->addresses, f->n, all.to);
    object *o = first < end ? add_object(f) : NULL;
    (void)size;
    if (o) {
        const char *path = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "";
        snprintf(o->path, sizeof o->path, "%s", path);
        o->base = info->dlpi_addr;
        o->first = first;
        o->n = end - first;
        look_at_segments(f, o, info);
    }
    return 0;
}

/* ---- Names ---- */
static json_t *function_json(const object *o, mr_range where, const char *name) {
    char file[256], safe[256];
    const char *slash = strrchr(o->path, '/');
    json_t *function =
        json_pack("{s:I, s:I, s:I, s:s}", "from", (json_int_t)where.from, "to",
                  (json_int_t)where.to, "offset", (json_int_t)(where.from - o->base), "object",
                  mr_text_escape(file, sizeof file, slash ? slash + 1 : o->path));
    if (function && name) {
        json_object_set_new(function, "name", json_string(mr_text_escape(safe, sizeof safe, name)));
    }
    return function;
}

/* A function, or a stretch of unknown code. */
typedef struct piece {
    mr_range where;
    bool known;
    const char *name; /* NULL: the object does not tell */
} piece;

static piece piece_at(const finder *f, const object *o, const mr_symbols *s, size_t k) {
    uint64_t page = f->addresses[k] / PIECE_OF_UNKNOWN * PIECE_OF_UNKNOWN;
    mr_range where = {0, 0};
    const char *name = mr_symbols_find(s, f->addresses[k] - o->base, &where);
    if (name) {
        return (piece){{o->base + where.from, o->base + where.to}, true, name};
    }
    bool known = f->ranges[k].to > 0;
    return (piece){known ? f->ranges[k] : (mr_range){page, page + PIECE_OF_UNKNOWN}, known, NULL};
}

static void append(const object *o, const piece *p, json_t *array) {
    if (p->where.to > p->where.from) {
        json_array_append_new(array, function_json(o, p->where, p->name));
    }
}

/* Addresses ascend, so a function's follow each other. Symbols and the tables for unwinding may
 * differ on where one begins and ends, and stretches of unknown code may reach into a known one:
 * each ends where the next begins, and begins where the last ended. */
static void add_functions(const finder *f, const object *o, const mr_symbols *s, json_t *array) {
    piece last = {0};
    for (size_t k = o->first; k < o->first + o->n; k++) {
        piece here = piece_at(f, o, s, k);
        bool inside = f->addresses[k] < last.where.to;
        if (inside && (!here.known || here.where.from <= last.where.from)) {
            continue;
        }
        if (inside) {
            last.where.to = here.where.from;
        } else if (here.where.from < last.where.to) {
            here.where.from = last.where.to;
        }
        append(o, &last, array);
        last = here;
    }
    append(o, &last, array);
}

static void name_object(const finder *f, const object *o, json_t *array) {
    mr_symbols s = {0};
    const mr_offsets wanted = {f->addresses + o->first, o->n, o->base};
    if (!mr_symbols_open(&s, o->debug_path, NULL, &wanted)) {
        mr_symbols_open(&s, o->path, &o->build, &wanted);
    }
    add_functions(f, o, &s, array);
    mr_symbols_free(&s);
}

/* ---- Public ---- */
static int lowest_first(const void *a, const void *b) {
    const object *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static json_t *name_all(finder *f) {
    json_t *array = json_array();
    if (f->n_objects > 0) {
        qsort(f->objects, f->n_objects, sizeof *f->objects, lowest_first);
    }
    for (size_t i = 0; array && i < f->n_objects; i++) {
        object *o = &f->objects[i];
        if (!o->path[0] && readlink("/proc/self/exe", o->path, sizeof o->path - 1) < 0) {
            snprintf(o->path, sizeof o->path, "the program");
        }
        name_object(f, o, array);
    }
    return array;
}

json_t *mr_functions_json(const uint64_t *addresses, size_t n) {
    finder f = {.addresses = addresses, .n = n};
    f.ranges = mr_zalloc(n, sizeof *f.ranges);
    json_t *array = NULL;
    if (f.ranges) {
        dl_iterate_phdr(visit, &f);
        array = f.no_memory ? NULL : name_all(&f);
    }
    mr_free(f.ranges);
    mr_free(f.objects);
    return array;
}
