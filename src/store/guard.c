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
static bool below; /* removed while another handler stood over ours: it may still call ours */

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

static bool is_handler(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static bool is_on_top(const struct sigaction *current) {
    return (current->sa_flags & SA_SIGINFO) && current->sa_sigaction == on_fault;
}

/* NODEFER: the mask need not be restored by the jump, which saves a system call per guard.
 * Where another handler stands over ours from last time, ours over it would make a circle. */
void mr_guard_install(void) {
    struct sigaction current, action = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &current) != 0 || is_on_top(&current) ||
        (below && is_handler(&current))) {
        return;
    }
    before = current;
    sigaction(SIGBUS, &action, NULL);
}

/* Somebody may have put a handler over ours: then ours stays below theirs. */
void mr_guard_remove(void) {
    struct sigaction current;
    if (sigaction(SIGBUS, NULL, &current) == 0 && is_on_top(&current)) {
        sigaction(SIGBUS, &before, NULL);
    } else {
        below = true;
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

void mr_guard_escape(void) {
    if (active) {
        siglongjmp(active->jump, 1);
    }
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
