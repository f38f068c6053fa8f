/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a pattern with braces to its expansion. Names have no pair of braces left, and are no
 * longer than the pattern and what its ranges put in. */
#include <stdlib.h>
#include <string.h>

#include "io/braces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

typedef struct names {
    int64_t n;
    size_t longest;
} names;

static mr_status take(void *user, const char *name, mr_error *err) {
    enum { ENOUGH = 2000 };
    names *own = user;
    const char *open = strchr(name, '{');
    want(!open || !strchr(open, '}'));
    want(strlen(name) <= own->longest);
    err->code = MR_E_LIMIT;
    return ++own->n < ENOUGH ? MR_OK : MR_E_LIMIT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    char *pattern = malloc(size + 1);
    names found = {.longest = size + 20 * (size_t)MR_BRACES_PAIRS};
    if (!pattern) {
        return 0;
    }
    memcpy(pattern, data, size);
    pattern[size] = '\0';
    mr_status status = mr_braces_expand(pattern, take, &found, &err);
    want(status == MR_OK ? found.n > 0 : status == MR_E_PARAM || status == MR_E_LIMIT);
    free(pattern);
    return 0;
}
