/* SPDX-License-Identifier: Apache-2.0 */
/* simulate_file.c - a simulation from a file. Apart from simulating, which is pure. */
#include <millrace/millrace.h>
#include <millrace/simulate.h>

#include "core/error.h"
#include "io/file.h"

mr_status mr_simulate_file(const char *path, mr_simulated_fn *each, void *context, mr_error *err) {
    enum { MOST = 1 << 20 };
    char *text = NULL;
    size_t size = 0;
    MR_TRY(mr_file_load(path, MOST, &text, &size, err));
    mr_status status = mr_simulate(text, size, each, context, err);
    mr_free(text);
    if (status < 0 && err && err->source[0] == '\0') {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}
