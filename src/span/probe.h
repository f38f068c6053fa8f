/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - where a thread is, looked at some two hundred times a second while a trace is written.
 *
 * Each time a thread has used so much CPU time the kernel notes, unless it is at work itself, the
 * address the thread is at and copies the top of its stack into a ring (perf_event_open). Which op
 * is running stands on that stack: whoever calls an op leaves a mark there for as long as the call
 * lasts, and the mark nearest to the stack pointer is that of the innermost op. So no frame is
 * walked, which libraries built without frame pointers would not allow; and ops that run together
 * row by row are told apart in every sample. Code that lies deeper than what is copied, as where
 * Python calls C, has no mark: whoever reads the trace finds its op by the time
 * (trace/functions.c).
 */
#ifndef MR_SPAN_PROBE_H
#define MR_SPAN_PROBE_H

#include <stdatomic.h>
#include <stddef.h>

#include "span/span.h"

/* ---- Marks ---- */
typedef struct mr_mark {
    volatile uint64_t seal; /* made of its own address: nothing else on a stack looks like it */
    volatile uint64_t place;
} mr_mark;

#define MR_MARK_SEAL 0x8d6f3b52c19ae047u

/* In a frame of its own, close to what is called: see MR_PROBE_STACK. */
#define MR_MARKED __attribute__((noinline, no_sanitize("address")))

static inline void mr_mark_set(mr_mark *mark, mr_span_kind kind, int32_t op) {
    mark->place = (uint64_t)kind << 16 | (uint16_t)op;
    mark->seal = MR_MARK_SEAL ^ (uintptr_t)mark;
}

/* Before the frame goes: a mark that stayed behind would be believed. */
static inline void mr_mark_clear(mr_mark *mark) {
    mark->seal = 0;
}

/* ---- Probes of one thread ---- */
enum {
    MR_PROBE_PERIOD = 5025125, /* ns of CPU time: 199 a second, a prime number. A probe costs
                                  16 us in a virtual machine, nearly all of it the interrupt */
    MR_PROBE_STACK = 4096      /* bytes from the stack pointer on that are looked for marks */
};

typedef struct mr_probes {
    struct perf_event_mmap_page *_Atomic ring; /* NULL: not opened, or refused */
    int fd;                                    /* where there is a ring */
    int refused;                               /* errno of the call that was refused, or 0 */
    bool no_memory;                            /* it was the one for the ring's memory */
    size_t size;                               /* of the ring's data; a power of two */
    uint64_t lost;                             /* that found no room; of the thread that takes */
} mr_probes;

/* Begins with the calling thread; where that is not permitted, sets `refused`. */
void mr_probes_open(mr_probes *probes);

/* Any thread, after the one that opened has ended; zeroed probes may be closed. */
void mr_probes_close(mr_probes *probes);

/* The thread that empties rings: at most `most` probes, their times counted from the moment
 * start_ns of CLOCK_MONOTONIC. */
size_t mr_probes_take(mr_probes *probes, int64_t start_ns, mr_probe *out, size_t most);

#endif
