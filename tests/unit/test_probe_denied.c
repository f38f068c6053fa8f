/* SPDX-License-Identifier: Apache-2.0 */
/* Where perf_event_open is not permitted, as in most containers, a trace is whole and says what it
 * cannot tell. The whole program runs under such a rule. */
#include "fixture.h"
#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "trace/summary.h"

static bool deny(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
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

TEST(a_trace_is_whole_and_says_what_it_cannot_tell) {
    char path[128], *text = NULL;
    mr_trace *trace = NULL;
    mr_summary s;
    if (!deny()) {
        printf("this machine has no seccomp filters: nothing is checked\n");
        return;
    }
    snprintf(path, sizeof path, "/tmp/millrace-denied-%d", (int)getpid());
    run_traced(path);
    CHECK_INT(mr_trace_open(&trace, path, NULL), ==, MR_OK);
    CHECK_TEXT(mr_trace_missing(trace), "");
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    CHECK_INT(s.samples, ==, 64);
    CHECK_INT(s.functions.probes, ==, 0);
    CHECK_INT(mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), ==, MR_OK);
    CHECK_HAS(text,
              "lets no thread be probed (Permission denied); kernel.perf_event_paranoid above 2");
    mr_free(text);
    mr_summary_free(&s);
    mr_trace_close(trace);
    unlink(path);
}

TEST_MAIN()
