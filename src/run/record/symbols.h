/* SPDX-License-Identifier: Apache-2.0 */
/* symbols.h - the functions that an object file names, and where they lie in it. */
#ifndef MR_RUN_SYMBOLS_H
#define MR_RUN_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct mr_range {
    uint64_t from, to;
} mr_range;

/* A part of a file that no other build has: its notes, with the build's id. */
enum { MR_BUILD_NOTES = 256 };
typedef struct mr_build {
    uint8_t notes[MR_BUILD_NOTES];
    size_t size; /* 0: there is no id */
    off_t at;    /* in the file */
} mr_build;

enum { MR_SYMBOL_NAME = 256 };
typedef struct mr_symbols {
    ElfW(Shdr) * sections;
    size_t n_sections;
    ElfW(Sym) * list; /* functions, ascending, none inside another */
    size_t n;
    uint64_t names_at, names_size; /* in the file */
    char (*names)[MR_SYMBOL_NAME];
} mr_symbols;

/* Offsets in an object, ascending, counted from `base`. */
typedef struct mr_offsets {
    const uint64_t *addresses;
    size_t n;
    uint64_t base;
} mr_offsets;

/* Reads of a file what tells the wanted offsets; with `build`, only if it is what that says.
 * False: there are no functions to be had; the symbols are empty then. */
bool mr_symbols_open(mr_symbols *symbols, const char *path, const mr_build *build,
                     const mr_offsets *wanted);
void mr_symbols_free(mr_symbols *symbols);

/* The name of the function that a wanted offset lies in, and its place; NULL: it lies in none. */
const char *mr_symbols_find(const mr_symbols *symbols, uint64_t offset, mr_range *where);

#endif
