/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a pipeline document: refused with an error, or accepted and read back as itself. */
#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_pipeline *first = NULL, *second = NULL;
    mr_error err = MR_ERROR_INIT;
    if (mr_pipeline_parse(&first, (const char *)data, size, NULL, &err) < 0) {
        if (err.code == MR_OK || err.text[0] == '\0') {
            abort(); /* a failure without words */
        }
        return 0;
    }
    const char *json = mr_pipeline_json(first);
    if (mr_pipeline_parse(&second, json, strlen(json), NULL, &err) < 0 ||
        strcmp(json, mr_pipeline_json(second)) != 0 ||
        strcmp(mr_pipeline_fingerprint(first), mr_pipeline_fingerprint(second)) != 0) {
        abort();
    }
    mr_pipeline_free(first);
    mr_pipeline_free(second);
    return 0;
}
