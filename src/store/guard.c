/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - see guard.h. The handlers are the process's, as handlers are: the one piece of state
 * here that no object owns. */
#include "store/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "core/hash.h"

/* The handlers block nothing, so there is no mask to restore, which saves a system call per guard;
 * ThreadSanitizer's block everything. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SAVE_MASK 1
#endif
#endif
#ifndef SAVE_MASK
#define SAVE_MASK 0
#endif

typedef struct guard {
    sigjmp_buf jump;
    const char *low, *high; /* faults that are ours; both NULL: any */
} guard;

/* Initial-exec: reading it in a signal handler must not allocate. */
static __attribute__((tls_model("initial-exec"))) _Thread_local guard *active;

/* SIGSEGV: a damaged page may lead LMDB beyond the end of its map. */
typedef struct fault_signal {
    int number;
    struct sigaction before;
    bool below; /* removed while another handler stood over ours: it may still call ours */
} fault_signal;

static fault_signal signals[] = {{.number = SIGBUS}, {.number = SIGSEGV}};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

static bool is_ours(const guard *g, const char *address) {
    return g && (!g->low || (address >= g->low && address < g->high));
}

static void pass_on(const struct sigaction *to, int number, siginfo_t *info, void *context) {
    if (to->sa_flags & SA_SIGINFO) {
        to->sa_sigaction(number, info, context);
    } else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) {
        to->sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* returning faults again, as without us */
    }
}

static void on_fault(int number, siginfo_t *info, void *context) {
    guard *g = active;
    if (is_ours(g, info->si_addr)) {
        siglongjmp(g->jump, 1);
    }
    pass_on(&signals[number == SIGSEGV].before, number, info, context);
}

static bool is_handler(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static bool is_on_top(const struct sigaction *current) {
    return (current->sa_flags & SA_SIGINFO) && current->sa_sigaction == on_fault;
}

/* NODEFER: see SAVE_MASK. Where another handler stands over ours from last time, ours over it would
 * make a circle. */
static void install(fault_signal *s) {
    struct sigaction current, action = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    if (sigaction(s->number, NULL, &current) != 0 || is_on_top(&current) ||
        (s->below && is_handler(&current))) {
        return;
    }
    s->before = current;
    sigaction(s->number, &action, NULL);
}

/* Somebody may have put a handler over ours: then ours stays below theirs. */
static void restore(fault_signal *s) {
    struct sigaction current;
    if (sigaction(s->number, NULL, &current) == 0 && is_on_top(&current)) {
        sigaction(s->number, &s->before, NULL);
    } else {
        s->below = true;
    }
}

void mr_guard_install(void) {
    for (int i = 0; i < N_SIGNALS; i++) {
        install(&signals[i]);
    }
}

void mr_guard_remove(void) {
    for (int i = 0; i < N_SIGNALS; i++) {
        restore(&signals[i]);
    }
}

static bool guarded(guard *g, void (*body)(void *user), void *user) {
    guard *outer = active;
    if (sigsetjmp(g->jump, SAVE_MASK) != 0) {
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
    c->hash = mr_hash64_copy(c->to, c->from, c->size);
}

bool mr_guard_copy_hashed(void *to, const void *from, size_t size, uint64_t *hash) {
    copy c = {to, from, size, 0};
    guard g = {.low = c.from, .high = c.from + (size ? size : 1)};
    bool whole = guarded(&g, copy_and_hash, &c);
    *hash = c.hash;
    return whole;
}
