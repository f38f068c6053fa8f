/* SPDX-License-Identifier: Apache-2.0 */
/* shared_store_absent.c - stands for shared_store.c in a build without LMDB: there is no store. */
#include "core/error.h"
#include "run/cache/shared_store.h"

mr_status mr_shared_store_open(mr_shared_store **out, const char *params, const char *space,
                               const mr_log *log, mr_error *err) {
    (void)out;
    (void)params;
    (void)space;
    (void)log;
    mr_fail(err, MR_E_UNSUPPORTED, "this build was made without lmdb: it has no store");
    mr_hint(err, "name a fabric and no store");
    return MR_E_UNSUPPORTED;
}

void mr_shared_store_close(mr_shared_store *shared) {
    (void)shared;
}

mr_status mr_shared_store_find(mr_shared_store *shared, mr_hash128 name, void **value, size_t *size,
                               mr_error *err) {
    (void)shared;
    (void)name;
    (void)value;
    (void)size;
    (void)err;
    return MR_LATER;
}

mr_claim mr_shared_store_claim(mr_shared_store *shared, mr_hash128 name) {
    (void)shared;
    (void)name;
    return MR_CLAIM_VOID;
}

void mr_shared_store_abandon(mr_shared_store *shared, mr_hash128 name) {
    (void)shared;
    (void)name;
}

bool mr_shared_store_keep(mr_shared_store *shared, mr_hash128 name, const void *value,
                          size_t size) {
    (void)shared;
    (void)name;
    (void)value;
    (void)size;
    return false;
}

bool mr_shared_store_trouble(mr_shared_store *shared, char *text, size_t size) {
    (void)shared;
    (void)text;
    (void)size;
    return false;
}
