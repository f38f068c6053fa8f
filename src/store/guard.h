/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - reading mapped files whose pages may be gone.
 *
 * A bad sector or a file cut short under a memory map is not an error code but SIGBUS, and damage
 * that leads beyond the map is SIGSEGV. While a store is open, a handler for both is installed; a
 * fault inside a guarded call ends that call, and any other goes to whoever handled it before. */
#ifndef MR_STORE_GUARD_H
#define MR_STORE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Installs and removes the handler; the caller counts and serialises. Never fails: without a
 * handler the guarded calls are merely unguarded. */
void mr_guard_install(void);
void mr_guard_remove(void);

/* Runs body(user). False: it was ended by a fault. The body must own nothing that needs freeing,
 * and touch no lock. */
bool mr_guard_call(void (*body)(void *user), void *user);

/* Inside a guarded call: ends it as a fault would. Elsewhere it returns. */
void mr_guard_escape(void);

/* memcpy; false: the source could not be read. */
bool mr_guard_copy(void *to, const void *from, size_t size);

/* memcpy and XXH3 of the bytes, in one go; `to` may be NULL: only the hash. */
bool mr_guard_copy_hashed(void *to, const void *from, size_t size, uint64_t *hash);

#endif
