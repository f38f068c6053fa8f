/* SPDX-License-Identifier: Apache-2.0 */
/* symbols.c - see symbols.h. A path need not lead to the file that was loaded, nor to a file
 * at all: a relative one is that of another folder by now, a pipe would never end. So nothing but
 * whole files by whole paths is opened, and nothing is taken from one that cannot be told from
 * another build. */
#include "run/record/symbols.h"

#include <fcntl.h>
#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"

/* ---- Reading ---- */
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

static bool load_sections(mr_symbols *s, int fd) {
    ElfW(Ehdr) head;
    if (!read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_shentsize != sizeof *s->sections) {
        return false;
    }
    s->n_sections = head.e_shnum;
    s->sections = load_part(fd, head.e_shoff, s->n_sections * sizeof *s->sections);
    return s->sections != NULL;
}

static const ElfW(Shdr) * find_section(const mr_symbols *s, uint32_t type) {
    for (size_t i = 0; i < s->n_sections; i++) {
        if (s->sections[i].sh_type == type && s->sections[i].sh_entsize == sizeof(ElfW(Sym)) &&
            s->sections[i].sh_link < s->n_sections) {
            return &s->sections[i];
        }
    }
    return NULL;
}

static bool load_list(mr_symbols *s, int fd) {
    const ElfW(Shdr) *table = find_section(s, SHT_SYMTAB);
    table = table ? table : find_section(s, SHT_DYNSYM);
    if (!table) {
        return false;
    }
    const ElfW(Shdr) *strings = &s->sections[table->sh_link];
    s->n = table->sh_size / sizeof *s->list;
    s->names_at = strings->sh_offset;
    s->names_size = strings->sh_size;
    s->list = load_part(fd, table->sh_offset, s->n * sizeof *s->list);
    return s->list != NULL;
}

/* ---- Which of them count ---- */
static bool is_function(const mr_symbols *s, const ElfW(Sym) * symbol) {
    unsigned type = symbol->st_info & 0xfu;
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_name < s->names_size && symbol->st_size < UINT64_MAX - symbol->st_value;
}

/* The first of the wanted offsets that is not below `value`. */
static size_t first_from(const mr_offsets *wanted, uint64_t value) {
    size_t low = 0, high = wanted->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (wanted->addresses[middle] - wanted->base < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Which wanted offset is the first that a function may hold; as many as there are: none. */
static size_t first_held(const mr_symbols *s, const ElfW(Sym) * symbol, const mr_offsets *wanted) {
    return is_function(s, symbol) ? first_from(wanted, symbol->st_value) : wanted->n;
}

static bool holds(const ElfW(Sym) * symbol, const mr_offsets *wanted, size_t at) {
    return at < wanted->n &&
           wanted->addresses[at] - wanted->base < symbol->st_value + symbol->st_size;
}

/* Libraries name functions by the hundred thousand, and few are wanted: those that hold an offset,
 * and the last that ends before it, which tells that one without a size does not reach there. */
static bool keep_wanted(mr_symbols *s, const mr_offsets *wanted) {
    ElfW(Sym) *before = mr_zalloc(wanted->n + 1, sizeof *before);
    size_t n = 0;
    for (size_t i = 0; before && i < s->n; i++) {
        ElfW(Sym) symbol = s->list[i];
        size_t at = first_held(s, &symbol, wanted);
        if (holds(&symbol, wanted, at)) {
            s->list[n++] = symbol;
        } else if (at < wanted->n && symbol.st_value >= before[at].st_value) {
            before[at] = symbol;
        }
    }
    for (size_t at = 0; before && at < wanted->n; at++) {
        if (before[at].st_info != 0) {
            s->list[n++] = before[at];
        }
    }
    s->n = n;
    mr_free(before);
    return before != NULL;
}

/* Of those that begin together the largest comes first. */
static int by_place(const void *a, const void *b) {
    const ElfW(Sym) *x = a, *y = b;
    int order = (x->st_value > y->st_value) - (x->st_value < y->st_value);
    order = order ? order : (x->st_size < y->st_size) - (x->st_size > y->st_size);
    return order ? order : (x->st_name < y->st_name) - (x->st_name > y->st_name);
}

/* What assemblers mark inside a function is a part of it, as is what begins with it. */
static void drop_inner(mr_symbols *s) {
    size_t n = 0;
    uint64_t reach = 0;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t from = s->list[i].st_value, to = from + s->list[i].st_size;
        bool beside = n > 0 && from == s->list[n - 1].st_value;
        if (!beside && (from >= reach || to > reach)) {
            s->list[n++] = s->list[i];
            reach = to;
        }
    }
    s->n = n;
}

/* Assemblers may leave sizes out: such a function reaches to the next one, within its section. */
static uint64_t end_of(const mr_symbols *s, const ElfW(Sym) * symbol) {
    uint64_t end = symbol->st_value + symbol->st_size;
    if (symbol->st_size == 0 && symbol->st_shndx < s->n_sections) {
        const ElfW(Shdr) *section = &s->sections[symbol->st_shndx];
        end = section->sh_addr + section->sh_size;
    }
    bool last = symbol + 1 == s->list + s->n;
    return !last && symbol[1].st_value < end ? symbol[1].st_value : end;
}

/* ---- Opening ---- */
static bool is_same_build(const mr_build *build, int fd) {
    uint8_t notes[MR_BUILD_NOTES];
    return build->size > 0 && read_at(fd, notes, build->size, build->at) &&
           memcmp(notes, build->notes, build->size) == 0;
}

static int open_file(const char *path) {
    struct stat info;
    int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Names of those that are left alone: all of them are a hundred megabytes. Long ones are cut. */
static bool load_names(mr_symbols *s, int fd) {
    s->names = mr_zalloc(s->n + 1, sizeof *s->names);
    for (size_t i = 0; s->names && i < s->n; i++) {
        uint64_t at = s->list[i].st_name, left = s->names_size - at;
        size_t size = left < MR_SYMBOL_NAME - 1 ? (size_t)left : MR_SYMBOL_NAME - 1;
        if (!read_at(fd, s->names[i], size, (off_t)(s->names_at + at))) {
            return false;
        }
    }
    return s->names != NULL;
}

static bool load_wanted(mr_symbols *s, int fd, const mr_offsets *wanted) {
    if (!load_sections(s, fd) || !load_list(s, fd) || !keep_wanted(s, wanted)) {
        return false;
    }
    if (s->n > 0) {
        qsort(s->list, s->n, sizeof *s->list, by_place);
    }
    drop_inner(s);
    return load_names(s, fd);
}

/* ---- Public ---- */
bool mr_symbols_open(mr_symbols *s, const char *path, const mr_build *build,
                     const mr_offsets *wanted) {
    int fd = open_file(path);
    if (fd < 0) {
        return false;
    }
    bool ok = (!build || is_same_build(build, fd)) && load_wanted(s, fd, wanted);
    close(fd);
    if (!ok) {
        mr_symbols_free(s);
    }
    return ok;
}

void mr_symbols_free(mr_symbols *s) {
    mr_free(s->sections);
    mr_free(s->list);
    mr_free(s->names);
    *s = (mr_symbols){0};
}

const char *mr_symbols_find(const mr_symbols *s, uint64_t offset, mr_range *where) {
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->list[middle].st_value <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || offset >= end_of(s, &s->list[low - 1])) {
        return NULL;
    }
    *where = (mr_range){s->list[low - 1].st_value, end_of(s, &s->list[low - 1])};
    return s->names[low - 1];
}
