/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - see guard.h. The handler is the process's, as handlers are: the one piece of state here
 * that no object owns. */
#include "store/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "core/hash.h"

typedef struct guard {
    sigjmp_buf jump;
    const char *low, *high; /* faults that are ours; both NULL: any */
} guard;

/* Initial-exec: reading it in a signal handler must not allocate. */
static __attribute__((tls_model("initial-exec"))) _Thread_local guard *active;
static struct sigaction before;

static bool is_ours(const guard *g, const char *address) {
    return g && (!g->low || (address >= g->low && address < g->high));
}

static void pass_on(int signal_number, siginfo_t *info, void *context) {
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal_number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal_number);
    } else {
        signal(signal_number, SIG_DFL); /* returning faults again, as without us */
    }
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    guard *g = active;
    if (is_ours(g, info->si_addr)) {
        siglongjmp(g->jump, 1);
    }
    pass_on(signal_number, info, context);
}

/* NODEFER: the mask need not be restored by the jump, which saves a system call per guard. */
void mr_guard_install(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

/* Somebody may have put a handler over ours: then ours stays below theirs. */
void mr_guard_remove(void) {
    struct sigaction current;
    if (sigaction(SIGBUS, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
        current.sa_sigaction == on_fault) {
        sigaction(SIGBUS, &before, NULL);
    }
}

static bool guarded(guard *g, void (*body)(void *user), void *user) {
    guard *outer = active;
    if (sigsetjmp(g->jump, 0) != 0) {
        active = outer;
        return false;
    }
    active = g;
    body(user);
    active = outer;
    return true;
}

bool mr_guard_call(void (*body)(void *user), void *user) {
    guard g = {.low = NULL, .high = NULL};
    return guarded(&g, body, user);
}

/* ---- Copies ---- */
typedef struct copy {
    char *to;
    const char *from;
    size_t size;
    uint64_t hash;
} copy;

static void copy_bytes(void *user) {
    const copy *c = user;
    memcpy(c->to, c->from, c->size);
}

bool mr_guard_copy(void *to, const void *from, size_t size) {
    copy c = {to, from, size, 0};
    guard g = {.low = c.from, .high = c.from + size};
    return size == 0 || guarded(&g, copy_bytes, &c);
}

/* Hashes what was copied, not what it was copied from: the copy is what will be used. */
static void copy_and_hash(void *user) {
    copy *c = user;
    if (c->to) {
        memcpy(c->to, c->from, c->size);
    }
    c->hash = mr_hash64(c->to ? c->to : c->from, c->size, 0);
}

bool mr_guard_copy_hashed(void *to, const void *from, size_t size, uint64_t *hash) {
    copy c = {to, from, size, 0};
    guard g = {.low = c.from, .high = c.from + (size ? size : 1)};
    bool whole = guarded(&g, copy_and_hash, &c);
    *hash = c.hash;
    return whole;
}
