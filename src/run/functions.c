/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - see functions.h. Done by the process itself, when its trace ends: its object files
 * are certainly the right ones then, and who reads a trace need not open files that it names.
 *
 * Names are those of the object's symbols, or of its debug file's where that is installed. Most
 * libraries are stripped of the names of functions they do not export; what remains of these is
 * where they begin and end, which the tables for unwinding tell. An address between two known
 * functions is never given to the one before it: hand-written code, which often has neither, is
 * told by the page it is in. */
#include "run/functions.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"

enum { OBJECTS = 64, NOTE = 256, PIECE_OF_UNKNOWN = 4096 };

typedef struct range {
    uint64_t from, to;
} range;

/* An object file that some of the addresses lie in. */
typedef struct object {
    char path[1024];
    uint64_t base;
    size_t first, n;      /* its addresses */
    uint8_t note[NOTE];   /* the part of it that tells builds apart, as it is in memory */
    size_t note_size;     /* 0: it has none */
    off_t note_at;        /* in the file */
    char debug_path[128]; /* where its debug file would be; "": not known */
} object;

typedef struct finder {
    const uint64_t *addresses;
    size_t n;
    range *ranges; /* of each address, by the tables for unwinding; empty: not known */
    object *objects;
    int n_objects;
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
static range entry_range(const uint8_t *table, size_t i, uint64_t address) {
    const uint8_t *pair = table + 12 + 8 * i;
    const uint8_t *entry = table + word_at(pair + 4);
    uint64_t from = plus(table, word_at(pair));
    uint64_t to = from + (uint32_t)word_at(entry + 12);
    bool usual = plus(entry + 8, word_at(entry + 8)) == from;
    return usual && address < to ? (range){from, to} : (range){0, 0};
}

static range unwind_range(const uint8_t *table, size_t size, uint64_t address) {
    size_t n = 0, low = 0;
    if (!is_usual_table(table, size, &n) || plus(table, word_at(table + 12)) > address) {
        return (range){0, 0};
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
static range loaded_range(const struct dl_phdr_info *info) {
    range all = {UINT64_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD) {
            uint64_t from = info->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
            all = (range){from < all.from ? from : all.from, to > all.to ? to : all.to};
        }
    }
    return all;
}

static const uint8_t *memory_of(const object *o, const ElfW(Phdr) * segment) {
    return (const uint8_t *)(uintptr_t)(o->base + segment->p_vaddr);
}

/* A build's id, where the segment of notes has one: it is the name of the debug file. */
static void note_build(object *o, const ElfW(Phdr) * segment) {
    const uint8_t *notes = memory_of(o, segment);
    size_t size = segment->p_filesz < NOTE ? segment->p_filesz : NOTE, at = 0;
    while (at + 12 <= size) {
        uint32_t name = (uint32_t)word_at(notes + at), length = (uint32_t)word_at(notes + at + 4);
        uint32_t type = (uint32_t)word_at(notes + at + 8);
        if (type == NT_GNU_BUILD_ID && name == 4 && length > 2 && length <= 32 &&
            at + 16 + length <= size) {
            int used = snprintf(o->debug_path, sizeof o->debug_path, "/usr/lib/debug/.build-id/");
            for (uint32_t i = 0; i < length; i++) {
                used += snprintf(o->debug_path + used, 4, i == 0 ? "%02x/" : "%02x",
                                 notes[at + 16 + i]);
            }
            snprintf(o->debug_path + used, 8, ".debug");
            memcpy(o->note, notes, size);
            o->note_size = size;
            o->note_at = (off_t)segment->p_offset;
        }
        if (name > NOTE || length > NOTE) {
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

static int visit(struct dl_phdr_info *info, size_t size, void *user) {
    finder *f = user;
    range all = loaded_range(info);
    size_t first = lower_bound(f->addresses, f->n, all.from);
    size_t end = lower_bound(f->addresses, f->n, all.to);
    (void)size;
    if (first < end && f->n_objects < OBJECTS) {
        object *o = &f->objects[f->n_objects++];
        const char *path = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "";
        snprintf(o->path, sizeof o->path, "%s", path);
        o->base = info->dlpi_addr;
        o->first = first;
        o->n = end - first;
        look_at_segments(f, o, info);
    }
    return 0;
}

/* ---- Symbols, out of files ---- */
typedef struct symbols {
    ElfW(Shdr) * sections;
    size_t n_sections;
    ElfW(Sym) * list;
    size_t n;
    char *strings; /* ended by a zero byte of ours */
    size_t n_strings;
} symbols;

static bool read_at(int fd, void *out, size_t size, off_t at) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, (char *)out + done, size - done, at + (off_t)done);
        if (n <= 0) {
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* NULL: it is not there, or too much. One byte more than asked for, which is zero. */
static void *load_part(int fd, uint64_t at, uint64_t size) {
    enum { MOST = 1 << 28 };
    char *part = size < MOST && at < INT64_MAX - MOST ? mr_zalloc(1, (size_t)size + 1) : NULL;
    if (part && !read_at(fd, part, (size_t)size, (off_t)at)) {
        mr_free(part);
        part = NULL;
    }
    return part;
}

static void free_symbols(symbols *s) {
    mr_free(s->sections);
    mr_free(s->list);
    mr_free(s->strings);
    *s = (symbols){0};
}

static const ElfW(Shdr) * find_section(const symbols *s, uint32_t type) {
    for (size_t i = 0; i < s->n_sections; i++) {
        if (s->sections[i].sh_type == type && s->sections[i].sh_entsize == sizeof(ElfW(Sym)) &&
            s->sections[i].sh_link < s->n_sections) {
            return &s->sections[i];
        }
    }
    return NULL;
}

static bool load_symbols(symbols *s, int fd) {
    ElfW(Ehdr) head;
    if (!read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_shentsize != sizeof *s->sections) {
        return false;
    }
    s->n_sections = head.e_shnum;
    s->sections = load_part(fd, head.e_shoff, s->n_sections * sizeof *s->sections);
    if (!s->sections) {
        return false;
    }
    const ElfW(Shdr) *table = find_section(s, SHT_SYMTAB);
    table = table ? table : find_section(s, SHT_DYNSYM);
    if (!table) {
        return false;
    }
    const ElfW(Shdr) *strings = &s->sections[table->sh_link];
    s->n = table->sh_size / sizeof *s->list;
    s->n_strings = strings->sh_size;
    s->list = load_part(fd, table->sh_offset, s->n * sizeof *s->list);
    s->strings = load_part(fd, strings->sh_offset, s->n_strings);
    return s->list && s->strings;
}

/* Whether a file is what was loaded, and not what has taken its place since. */
static bool is_same_build(const object *o, int fd) {
    uint8_t note[NOTE];
    return o->note_size == 0 || (read_at(fd, note, o->note_size, o->note_at) &&
                                 memcmp(note, o->note, o->note_size) == 0);
}

static bool open_symbols(symbols *s, const char *path, const object *same) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return false;
    }
    bool ok = (!same || is_same_build(same, fd)) && load_symbols(s, fd);
    close(fd);
    if (!ok) {
        free_symbols(s);
    }
    return ok;
}

/* ---- Names ---- */
static bool is_function(const symbols *s, const ElfW(Sym) * symbol) {
    unsigned type = symbol->st_info & 0xfu;
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_name < s->n_strings;
}

/* Of those that begin together the largest comes last, and is found. */
static int by_place(const void *a, const void *b) {
    const ElfW(Sym) *x = a, *y = b;
    int order = (x->st_value > y->st_value) - (x->st_value < y->st_value);
    order = order ? order : (x->st_size > y->st_size) - (x->st_size < y->st_size);
    return order ? order : (x->st_name > y->st_name) - (x->st_name < y->st_name);
}

static void sort_functions(symbols *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (is_function(s, &s->list[i])) {
            s->list[n++] = s->list[i];
        }
    }
    s->n = n;
    if (n > 0) {
        qsort(s->list, n, sizeof *s->list, by_place);
    }
}

/* Assemblers may leave sizes out: such a function reaches to the next one, within its section. */
static uint64_t end_of(const symbols *s, const ElfW(Sym) * symbol) {
    if (symbol->st_size || symbol->st_shndx >= s->n_sections) {
        return symbol->st_value + symbol->st_size;
    }
    const ElfW(Shdr) *section = &s->sections[symbol->st_shndx];
    uint64_t end = section->sh_addr + section->sh_size;
    bool last = symbol + 1 == s->list + s->n;
    return !last && symbol[1].st_value < end ? symbol[1].st_value : end;
}

/* The function that begins last before an offset, if it reaches that far. */
static const ElfW(Sym) * find_symbol(const symbols *s, uint64_t offset) {
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->list[middle].st_value <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && offset < end_of(s, &s->list[low - 1]) ? &s->list[low - 1] : NULL;
}

/* Where a function lies, or where a stretch of unknown code begins: `after` is the end of what was
 * known before it. */
static range range_of(const finder *f, const object *o, const symbols *s, const ElfW(Sym) * symbol,
                      size_t k, uint64_t after) {
    uint64_t page = f->addresses[k] / PIECE_OF_UNKNOWN * PIECE_OF_UNKNOWN;
    if (symbol) {
        return (range){o->base + symbol->st_value, o->base + end_of(s, symbol)};
    }
    return f->ranges[k].to ? f->ranges[k]
                           : (range){page > after ? page : after, page + PIECE_OF_UNKNOWN};
}

static json_t *function_json(const object *o, range where, const char *name) {
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

/* Addresses ascend, so a function's follow each other; stretches of unknown code may begin before
 * and go on behind a known one. */
static void add_functions(const finder *f, const object *o, const symbols *s, json_t *array) {
    range last = {0, 0};
    for (size_t k = o->first; k < o->first + o->n; k++) {
        const ElfW(Sym) *symbol = find_symbol(s, f->addresses[k] - o->base);
        range where = range_of(f, o, s, symbol, k, last.to);
        bool known = symbol || f->ranges[k].to;
        if (f->addresses[k] >= last.to || (known && where.from != last.from)) {
            const char *name = symbol ? s->strings + symbol->st_name : NULL;
            json_array_append_new(array, function_json(o, where, name));
            last = where;
        }
    }
}

static void name_object(const finder *f, const object *o, json_t *array) {
    symbols s = {0};
    if (open_symbols(&s, o->debug_path, NULL) || open_symbols(&s, o->path, o)) {
        sort_functions(&s);
    }
    add_functions(f, o, &s, array);
    free_symbols(&s);
}

/* ---- Public ---- */
static json_t *name_all(finder *f) {
    json_t *array = json_array();
    for (int i = 0; array && i < f->n_objects; i++) {
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
    f.objects = mr_zalloc(OBJECTS, sizeof *f.objects);
    json_t *array = NULL;
    if (f.ranges && f.objects) {
        dl_iterate_phdr(visit, &f);
        array = name_all(&f);
    }
    mr_free(f.ranges);
    mr_free(f.objects);
    return array;
}
