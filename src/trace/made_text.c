/* SPDX-License-Identifier: Apache-2.0 */
/* made_text.c - see made_text.h. */
#include "trace/made_text.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/number.h"

mr_status mr_make_text(char **out, mr_text_writer *write, const void *context, mr_error *err) {
    char *bytes = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&bytes, &size);
    if (!memory) {
        return mr_fail_memory(err, 4096);
    }
    mr_point point = mr_point_begin();
    mr_status status = write(memory, context, err);
    mr_point_end(point);
    bool lost = ferror(memory) != 0;
    lost = fclose(memory) != 0 || lost || !bytes; /* glibc does not tell of the last realloc */
    status = status == MR_OK && lost ? mr_fail_memory(err, size) : status;
    if (status == MR_OK) {
        *out = bytes;
    } else {
        free(bytes);
    }
    return status;
}

mr_status mr_put_json(FILE *out, json_t *object, mr_error *err) {
    bool ok = object && json_dumpf(object, out, JSON_COMPACT) == 0 && fputc('\n', out) != EOF;
    json_decref(object);
    return ok ? MR_OK : mr_fail_memory(err, 4096);
}
