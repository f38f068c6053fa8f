/* SPDX-License-Identifier: Apache-2.0 */
/* far_absent.c - in place of far.c and what is below it, where the library is built without
 * libcurl: names of objects are known, and cannot be read. */
#include "core/error.h"
#include "io/far.h"

#include <millrace/millrace.h>

static mr_status absent(const char *name, mr_error *err) {
    mr_fail(err, MR_E_UNSUPPORTED, "this build cannot read from servers: it has no libcurl");
    mr_error_at_sample(err, -1, name);
    return MR_E_UNSUPPORTED;
}

mr_status mr_far_pin_names(char **names, int32_t n, const mr_far_limits *limits, mr_error *err) {
    (void)limits;
    for (int32_t i = 0; i < n; i++) {
        if (mr_is_far(names[i]) && names[i][mr_far_bare(names[i])] == '\0') {
            return absent(names[i], err);
        }
    }
    return MR_OK;
}

mr_status mr_far_read(const char *path, int64_t offset, size_t size, void *to,
                      const mr_far_limits *limits, mr_error *err) {
    (void)limits;
    (void)offset;
    (void)size;
    (void)to;
    return absent(path, err);
}

mr_status mr_far_list(const char *path, mr_far_visit *visit, void *user, mr_error *err) {
    (void)visit;
    (void)user;
    return absent(path, err);
}
