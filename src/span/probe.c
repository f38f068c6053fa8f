/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - see probe.h. The event is a clock of the kernel's, so it is there in virtual machines
 * too; it counts the thread's own code alone, which needs no privilege where the kernel's setting
 * is the usual one. */
#include "span/probe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <asm/perf_regs.h>
#define STACK_POINTER PERF_REG_X86_SP
#elif defined(__aarch64__)
#include <asm/perf_regs.h>
#define STACK_POINTER PERF_REG_ARM64_SP
#endif

/* Pages of data: 15 probes, while the ring is emptied after two. The kernel lets a user have 516 KB
 * per CPU for all rings; less where that is used up. */
enum { MOST_PAGES = 16, LEAST_PAGES = 4 };

/* ---- Opening ---- */
#ifdef STACK_POINTER
static int open_event(void) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_CPU_CLOCK;
    attributes.sample_period = MR_PROBE_PERIOD;
    attributes.sample_type =
        PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attributes.sample_regs_user = 1ull << STACK_POINTER;
    attributes.sample_stack_user = MR_PROBE_STACK;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    attributes.use_clockid = 1;
    attributes.clockid = CLOCK_MONOTONIC;
    attributes.watermark = 1; /* nobody waits for it: the ring is looked at now and then */
    attributes.wakeup_watermark = UINT32_MAX;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}
#else
static int open_event(void) {
    errno = EOPNOTSUPP;
    return -1;
}
#endif

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* NULL: errno says why. Memory that is locked is limited; a smaller ring may still be allowed. */
static void *map_ring(int fd, size_t *size) {
    void *ring = MAP_FAILED;
    for (size_t pages = MOST_PAGES; ring == MAP_FAILED && pages >= LEAST_PAGES; pages /= 2) {
        *size = pages * page_size();
        ring = mmap(NULL, page_size() + *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    return ring == MAP_FAILED ? NULL : ring;
}

void mr_probes_open(mr_probes *probes) {
    int fd = open_event();
    void *ring = fd < 0 ? NULL : map_ring(fd, &probes->size);
    probes->fd = fd;
    probes->refused = ring ? 0 : errno;
    probes->no_memory = fd >= 0 && !ring;
    if (fd >= 0 && !ring) {
        close(fd);
    }
    atomic_store_explicit(&probes->ring, ring, memory_order_release);
}

void mr_probes_close(mr_probes *probes) {
    void *ring = atomic_load(&probes->ring);
    if (ring) {
        munmap(ring, page_size() + probes->size);
        close(probes->fd);
        atomic_store(&probes->ring, NULL);
    }
}

/* ---- Taking ---- */
/* What a record holds, in words of 8 bytes, after its head: address, time, whether registers
 * follow, the stack pointer, bytes of stack, the stack, and how much of it is one. */
enum { ADDRESS, TIME, REGISTERS, POINTER, STACK_SIZE, STACK };
enum { RECORD_WORDS = STACK + MR_PROBE_STACK / 8 + 1 };

/* The innermost mark; false: none within reach. */
static bool find_mark(const uint64_t *stack, size_t n, uint64_t pointer, mr_probe *probe) {
    for (size_t i = 0; i + 1 < n; i++) {
        if (stack[i] == (MR_MARK_SEAL ^ (pointer + 8 * i))) {
            probe->kind = (uint8_t)(stack[i + 1] >> 16);
            probe->op = (uint16_t)stack[i + 1];
            return true;
        }
    }
    return false;
}

static bool read_probe(const uint64_t *words, size_t n, int64_t start_ns, mr_probe *out) {
    int64_t at = (int64_t)words[TIME] - start_ns;
    *out = (mr_probe){.at = at > 0 ? (uint64_t)at : 0, .address = words[ADDRESS]};
    out->kind = MR_PROBE_NOWHERE;
    bool whole = n > STACK && words[REGISTERS] != 0 && words[STACK_SIZE] / 8 < n - STACK;
    if (whole && words[POINTER] % 8 == 0) {
        size_t size = words[STACK_SIZE] / 8, there = (size_t)words[STACK + size] / 8;
        find_mark(words + STACK, there < size ? there : size, words[POINTER], out);
    }
    return n > TIME;
}

/* Out of a ring: what begins at its end goes on at its beginning. */
static void copy_out(const mr_probes *probes, const char *data, uint64_t at, void *out,
                     size_t size) {
    size_t from = (size_t)(at & (probes->size - 1)), first = probes->size - from;
    first = first < size ? first : size;
    memcpy(out, data + from, first);
    memcpy((char *)out + first, data, size - first);
}

/* True: the record was a probe. */
static bool read_record(mr_probes *probes, const char *data, uint64_t at,
                        struct perf_event_header head, int64_t start_ns, mr_probe *out) {
    uint64_t words[RECORD_WORDS] = {0};
    size_t size = head.size - sizeof head;
    size = size < sizeof words ? size : sizeof words;
    copy_out(probes, data, at + sizeof head, words, size);
    if (head.type == PERF_RECORD_LOST) {
        probes->lost += words[1];
    }
    return head.type == PERF_RECORD_SAMPLE && read_probe(words, size / 8, start_ns, out);
}

size_t mr_probes_take(mr_probes *probes, int64_t start_ns, mr_probe *out, size_t most) {
    struct perf_event_mmap_page *ring = atomic_load_explicit(&probes->ring, memory_order_acquire);
    if (!ring) {
        return 0;
    }
    const char *data = (const char *)ring + page_size();
    uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE), at = ring->data_tail;
    size_t n = 0;
    while (at < head && n < most) {
        struct perf_event_header record;
        copy_out(probes, data, at, &record, sizeof record);
        if (record.size < sizeof record || record.size > head - at) {
            at = head; /* not to be had from the kernel */
            break;
        }
        n += read_record(probes, data, at, record, start_ns, &out[n]);
        at += record.size;
    }
    __atomic_store_n(&ring->data_tail, at, __ATOMIC_RELEASE);
    return n;
}
