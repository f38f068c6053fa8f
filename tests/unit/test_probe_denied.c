/* SPDX-License-Identifier: Apache-2.0 */
/* Where perf_event_open is not permitted, as in most containers, or no memory for its ring is left,
 * a trace is whole and says what it cannot tell. The program lays such rules upon itself, one after
 * the other. */
#include "fixture.h"
#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "span/probe.h"
#include "trace/summary.h"

static bool lay_down(const struct sock_fprog *program) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) == 0;
}

/* As the kernel does when a user's rings take too much: memory shared with a file, up to 17 pages
 * of it, for reading and writing. Nothing else in this program asks for that. */
static bool deny_memory(void) {
    enum { ARGS = offsetof(struct seccomp_data, args) };
    const uint32_t most = 17 * (uint32_t)sysconf(_SC_PAGESIZE);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGS + 3 * 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGS + 2 * 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGS + 1 * 8),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, most, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return lay_down(&(struct sock_fprog){sizeof rules / sizeof *rules, rules});
}

static bool deny(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return lay_down(&(struct sock_fprog){sizeof rules / sizeof *rules, rules});
}

static void run_traced(const char *path) {
    mr_pipeline *pipeline =
        fixture_pipeline("{\"source\": {\"synthetic\": {\"samples\": 64, \"shape\": [8, 8, 3]}}, "
                         "\"ops\": [{\"grayscale\": {}}], \"batch\": 8}");
    mr_options options = MR_OPTIONS_INIT;
    mr_batch *batch = NULL;
    options.trace = path;
    mr_loader *loader = fixture_loader(pipeline, &options);
    while (loader && mr_loader_next(loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static void check_whole(const char *reason) {
    char path[128], *text = NULL;
    mr_trace *trace = NULL;
    mr_summary s;
    snprintf(path, sizeof path, "/tmp/millrace-denied-%d", (int)getpid());
    run_traced(path);
    CHECK_INT(mr_trace_open(&trace, path, NULL), ==, MR_OK);
    CHECK_TEXT(mr_trace_missing(trace), "");
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    CHECK_INT(s.samples, ==, 64);
    CHECK_INT(s.functions.probes, ==, 0);
    CHECK_INT(mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), ==, MR_OK);
    CHECK_HAS(text, reason);
    mr_free(text);
    mr_summary_free(&s);
    mr_trace_close(trace);
    unlink(path);
}

static bool is_permitted(void) {
    mr_probes probes = {.fd = -1};
    mr_probes_open(&probes);
    mr_probes_close(&probes);
    return !probes.refused;
}

TEST(without_memory_a_trace_is_whole_and_says_so) {
    if (!is_permitted() || !deny_memory()) {
        printf("this machine lets no thread be probed, or has no seccomp: nothing is checked\n");
        return;
    }
    check_whole("lets no thread be probed (Operation not permitted); kernel.perf_event_mlock_kb");
}

TEST(without_permission_a_trace_is_whole_and_says_so) {
    if (!deny()) {
        printf("this machine has no seccomp filters: nothing is checked\n");
        return;
    }
    check_whole("lets no thread be probed (Permission denied); kernel.perf_event_paranoid above 2");
}

TEST_MAIN()
