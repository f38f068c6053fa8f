/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - headers of pages, and the index of pages that newer files have. */
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

static void parse_data_v1(mr_thrift *in, mr_pq_header *out) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        int64_t value = field.id <= 4 ? mr_thrift_int(in, field.type, -1) : 0;
        switch (field.id) {
        case 1:
            out->n_values = value;
            break;
        case 2:
            out->encoding = (int32_t)value;
            break;
        case 3:
            out->def_encoding = (int32_t)value;
            break;
        case 4:
            out->rep_encoding = (int32_t)value;
            break;
        default:
            mr_thrift_skip(in, field.type);
        }
    }
}

static void parse_data_v2(mr_thrift *in, mr_pq_header *out) {
    mr_thrift_field field = {0};
    int64_t encoding = -1;
    out->compressed = true;
    out->def_encoding = out->rep_encoding = MR_PQ_RLE;
    while (mr_thrift_next(in, &field)) {
        int64_t *numbers[] = {NULL,      &out->n_values, &out->n_nulls, &out->n_rows,
                              &encoding, &out->def_size, &out->rep_size};
        if (field.id >= 1 && field.id <= 6) {
            *numbers[field.id] = mr_thrift_int(in, field.type, -1);
        } else if (field.id == 7) {
            out->compressed = mr_thrift_bool(in, field.type);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
    out->encoding = (int32_t)encoding;
}

static void parse_dictionary(mr_thrift *in, mr_pq_header *out) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        if (field.id == 1 || field.id == 2) {
            int64_t value = mr_thrift_int(in, field.type, -1);
            if (field.id == 1) {
                out->n_values = value;
            } else {
                out->encoding = (int32_t)value;
            }
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
}

static void parse_fields(mr_thrift *in, mr_pq_header *out) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        bool body = field.type == MR_THRIFT_STRUCT;
        if (field.id == 1) {
            out->type = (int32_t)mr_thrift_int(in, field.type, -1);
        } else if (field.id == 2) {
            out->unpacked_size = mr_thrift_int(in, field.type, -1);
        } else if (field.id == 3) {
            out->packed_size = mr_thrift_int(in, field.type, -1);
        } else if (field.id == 4) {
            out->crc = (uint32_t)mr_thrift_int(in, field.type, 0);
            out->has_crc = true;
        } else if (field.id == 5 && body) {
            out->seen = out->type == MR_PQ_DATA_PAGE;
            parse_data_v1(in, out);
        } else if (field.id == 7 && body) {
            out->seen = out->type == MR_PQ_DICTIONARY_PAGE;
            parse_dictionary(in, out);
        } else if (field.id == 8 && body) {
            out->seen = out->type == MR_PQ_DATA_PAGE_V2;
            parse_data_v2(in, out);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
}

mr_status mr_pq_header_parse(mr_pq_bytes bytes, mr_pq_header *out, mr_error *err) {
    mr_thrift in = {bytes.data, bytes.data + bytes.size, false};
    *out = (mr_pq_header){.type = -1,
                          .unpacked_size = -1,
                          .packed_size = -1,
                          .n_values = -1,
                          .n_rows = -1,
                          .encoding = -1,
                          .compressed = true};
    parse_fields(&in, out);
    out->size = (size_t)(in.at - bytes.data);
    bool known = out->seen || out->type == MR_PQ_INDEX_PAGE ||
                 out->type > MR_PQ_DATA_PAGE_V2; /* others may be skipped */
    if (in.bad || !known || out->unpacked_size < 0 || out->packed_size < 0 ||
        out->unpacked_size > INT32_MAX || out->packed_size > INT32_MAX ||
        (out->seen && (out->n_values < 0 || out->n_values > INT32_MAX)) || out->def_size < 0 ||
        out->rep_size < 0) {
        return mr_fail(err, MR_E_CORRUPT, "the header of a page is damaged");
    }
    return MR_OK;
}

/* ---- Page index ---- */
static bool parse_location(mr_thrift *in, mr_pq_page *out) {
    mr_thrift_field field = {0};
    *out = (mr_pq_page){.offset = -1, .size = -1, .first_row = -1, .statistics = {.nulls = -1}};
    while (mr_thrift_next(in, &field)) {
        int64_t *numbers[] = {NULL, &out->offset, &out->size, &out->first_row};
        if (field.id >= 1 && field.id <= 3) {
            *numbers[field.id] = mr_thrift_int(in, field.type, -1);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
    return !in->bad;
}

/* Pages lie in the chunk one after the other, and their rows ascend from 0. */
static bool pages_are_sound(const mr_pq_pages *pages, const mr_pq_chunk *chunk, int64_t rows) {
    int64_t at = chunk->offset, row = 0, end = chunk->offset + chunk->size;
    for (int32_t i = 0; i < pages->n; i++) {
        const mr_pq_page *page = &pages->pages[i];
        if (page->offset < at || page->size < 0 || page->offset > end ||
            page->size > end - page->offset || page->first_row < row || page->first_row > rows ||
            (i == 0 && page->first_row != 0)) {
            return false;
        }
        at = page->offset + page->size;
        row = page->first_row;
    }
    return pages->n > 0 || rows == 0;
}

static void parse_locations(mr_thrift *in, mr_pq_pages *out, bool *no_memory) {
    mr_thrift_field field = {0};
    int32_t n;
    while (mr_thrift_next(in, &field)) {
        if (field.id != 1 || out->pages) {
            mr_thrift_skip(in, field.type);
            continue;
        }
        if (!mr_thrift_list(in, field.type, MR_THRIFT_STRUCT, &n)) {
            continue;
        }
        out->pages = mr_zalloc((size_t)n + 1, sizeof *out->pages);
        *no_memory = !out->pages;
        for (int32_t i = 0; out->pages && i < n && parse_location(in, &out->pages[i]); i++) {
            out->n = i + 1;
        }
    }
}

/* null_pages, min_values, max_values, boundary order, null_counts: lists as long as there are
 * pages. */
static void parse_column_index(mr_thrift *in, mr_pq_pages *out) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        static const mr_thrift_type kinds[] = {
            0, MR_THRIFT_TRUE, MR_THRIFT_BINARY, MR_THRIFT_BINARY, 0, MR_THRIFT_I64};
        int32_t n = 0;
        bool list = field.id >= 1 && field.id <= 5 && field.id != 4;
        if (!list) {
            mr_thrift_skip(in, field.type);
            continue;
        }
        mr_thrift_list(in, field.type, kinds[field.id], &n);
        in->bad = in->bad || n != out->n;
        for (int32_t i = 0; i < n && !in->bad; i++) {
            mr_pq_page *page = &out->pages[i];
            if (field.id == 1) {
                page->all_null = mr_thrift_bool_item(in);
            } else if (field.id == 5) {
                page->statistics.nulls = mr_thrift_zigzag(in);
            } else {
                *(field.id == 2 ? &page->statistics.min : &page->statistics.max) =
                    mr_thrift_text(in);
            }
        }
    }
}

static void forget_statistics(mr_pq_pages *pages) {
    for (int32_t i = 0; i < pages->n; i++) {
        pages->pages[i].statistics = (mr_pq_statistics){.nulls = -1};
        pages->pages[i].all_null = false;
    }
}

mr_status mr_pq_pages_parse(const mr_pq_file *file, int32_t group, int32_t column,
                            mr_pq_bytes offset_index, mr_pq_bytes column_index, mr_pq_pages *out,
                            mr_error *err) {
    const mr_pq_group *g = &file->groups[group];
    mr_thrift in = {offset_index.data, offset_index.data + offset_index.size, false};
    bool no_memory = false;
    *out = (mr_pq_pages){0, NULL};
    parse_locations(&in, out, &no_memory);
    if (no_memory || in.bad || !out->pages || !pages_are_sound(out, &g->chunks[column], g->rows)) {
        free(out->pages);
        *out = (mr_pq_pages){0, NULL};
        return no_memory ? mr_fail_memory(err, offset_index.size)
                         : mr_fail(err, MR_E_CORRUPT,
                                   "row group %d, column \"%s\": the page index is damaged", group,
                                   file->columns[column].name);
    }
    in = (mr_thrift){column_index.data, column_index.data + column_index.size, false};
    if (column_index.size > 0) {
        parse_column_index(&in, out);
    }
    for (int32_t i = 0; i < out->n; i++) {
        if (out->pages[i].all_null) { /* bounds of such pages are empty and mean nothing */
            out->pages[i].statistics.min.data = out->pages[i].statistics.max.data = NULL;
        }
    }
    if (in.bad || !g->chunks[column].statistics.min.data) {
        forget_statistics(out); /* an order that is not known, or damage: nothing is skipped */
    }
    return MR_OK;
}

/* ---- Extents ---- */
mr_status mr_pq_chunk_extent(const mr_pq_file *file, int32_t group, int32_t column,
                             mr_pq_extent *out, mr_error *err) {
    const mr_pq_chunk *chunk = &file->groups[group].chunks[column];
    const char *refused =
        file->columns[column].refused ? file->columns[column].refused : chunk->refused;
    refused = !refused && chunk->file ? "it lies in another file" : refused;
    if (refused) {
        mr_fail(err, MR_E_UNSUPPORTED, "row group %d, column \"%s\" cannot be read: %s", group,
                file->columns[column].name, refused);
        mr_hint(err, "leave the column out, or write the file again without it");
        return MR_E_UNSUPPORTED;
    }
    *out = (mr_pq_extent){chunk->offset, chunk->size};
    return MR_OK;
}

static bool page_wanted(const mr_pq_pages *pages, int32_t page, int64_t rows,
                        const mr_pq_range *ranges, int32_t n_ranges) {
    int64_t from = pages->pages[page].first_row;
    int64_t to = page + 1 < pages->n ? pages->pages[page + 1].first_row : rows;
    for (int32_t r = 0; r < n_ranges; r++) {
        if (ranges[r].from < to && ranges[r].to > from) {
            return true;
        }
    }
    return false;
}

int32_t mr_pq_page_extents(const mr_pq_file *file, int32_t group, int32_t column,
                           const mr_pq_pages *pages, const mr_pq_range *ranges, int32_t n_ranges,
                           mr_pq_extent *out) {
    const mr_pq_group *g = &file->groups[group];
    const mr_pq_chunk *chunk = &g->chunks[column];
    int32_t n = 0;
    int64_t dictionary = pages->n > 0 ? pages->pages[0].offset - chunk->offset : 0;
    if (dictionary > 0) {
        out[n++] = (mr_pq_extent){chunk->offset, dictionary};
    }
    for (int32_t i = 0; i < pages->n; i++) {
        mr_pq_extent page = {pages->pages[i].offset, pages->pages[i].size};
        if (!page_wanted(pages, i, g->rows, ranges, n_ranges)) {
            continue;
        }
        if (n > 0 && out[n - 1].offset + out[n - 1].size == page.offset) {
            out[n - 1].size += page.size;
        } else {
            out[n++] = page;
        }
    }
    return n;
}
