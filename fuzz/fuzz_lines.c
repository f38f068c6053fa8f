/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of lines and of CSV; the first byte is the delimiter. Rows follow each
 * other, every byte belongs to one or lies between two, and cells lie inside their row. */
#include <stdlib.h>

#include "codecs/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_cells(mr_text row, char delimiter, bool is_bad) {
    const char *end = row.end;
    bool is_last = false, bad = false;
    while (!is_last) {
        const char *before = row.at;
        mr_cell cell;
        is_last = mr_csv_cell(&row, delimiter, &cell);
        want(cell.data >= before && cell.data + cell.size <= row.at && row.at <= end);
        want(is_last || row.at > before);
        char *copy = malloc(cell.size + 1);
        want(copy && mr_cell_copy(&cell, copy) <= cell.size);
        free(copy);
        bad = bad || cell.is_bad;
    }
    want(row.at == end && bad == is_bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || data[0] == '"' || data[0] == '\n' || data[0] == '\r') {
        return 0;
    }
    const char *begin = (const char *)data + 1, *end = (const char *)data + size;
    mr_text text = {begin, end}, row;
    bool is_bad;
    const char *last = begin;
    while (mr_csv_row(&text, (char)data[0], &row, &is_bad)) {
        want(row.at >= last && row.end > row.at && row.end == text.at);
        check_cells(row, (char)data[0], is_bad);
        last = row.end;
    }
    want(text.at == end);
    text.at = last = begin;
    while (mr_text_line(&text, data[0] & 1, &row)) {
        want(row.at >= last && row.end >= row.at && row.end <= text.at && text.at > last);
        last = text.at;
    }
    want(text.at == end);
    return 0;
}
