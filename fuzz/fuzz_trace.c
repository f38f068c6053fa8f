/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of traces, and what it accepts to everything that reads one. Since a
 * fuzzer hardly guesses a header, the bytes also become the chunks behind a good one. */
#include <stdlib.h>
#include <string.h>

#include "trace/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char header[] =
    "{\"setup\":{\"threads\":2,\"cpus\":2,\"batch\":4},\"ops\":[{\"name\":\"a\",\"fused\":2},"
    "{\"name\":\"b\",\"host\":true}],\"tracks\":[{\"kind\":\"consumer\",\"number\":0},"
    "{\"kind\":\"worker\",\"number\":0},{\"kind\":\"reader\",\"number\":0}]}      ";

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void use(mr_trace *trace) {
    char *text = NULL;
    for (int kind = MR_TRACE_REPORT; kind <= MR_TRACE_JSON; kind += MR_TRACE_JSON) {
        want(mr_trace_ranks(&trace, 1, (mr_trace_text_kind)kind, &text, NULL) == MR_OK);
        mr_free(text);
    }
    for (int kind = MR_TRACE_REPORT; kind <= MR_TRACE_JSON; kind++) {
        want(mr_trace_text(trace, (mr_trace_text_kind)kind, &text, NULL) == MR_OK);
        mr_free(text);
    }
    want(mr_trace_export(trace, MR_TRACE_CHROME, "/dev/null", NULL) == MR_OK);
    want(mr_trace_export(trace, MR_TRACE_CSV, "/dev/null", NULL) == MR_OK);
}

static void read_trace(char *bytes, size_t size) {
    mr_trace *trace = NULL;
    mr_error err = MR_ERROR_INIT;
    if (mr_trace_parse(&trace, "input", bytes, size, &err) == MR_OK) {
        use(trace);
    } else {
        want(err.text[0] != '\0');
    }
    mr_trace_close(trace);
}

static char *copy_of(const void *data, size_t size, size_t before) {
    char *copy = malloc(before + size + 1);
    want(copy != NULL);
    memcpy(copy + before, data, size);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t length = (sizeof header - 1) / 8 * 8;
    mr_trace_head head = {.version = MR_TRACE_VERSION, .header_size = (uint32_t)length};
    read_trace(copy_of(data, size, 0), size);
    char *whole = copy_of(data, size, sizeof head + length);
    memcpy(head.magic, MR_TRACE_MAGIC, sizeof head.magic);
    memcpy(whole, &head, sizeof head);
    memcpy(whole + sizeof head, header, length);
    read_trace(whole, sizeof head + length + size);
    return 0;
}
