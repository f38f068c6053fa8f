/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - a tiny dataset in a folder of its own, one whole run over it, and child processes to run
 * it in, so that a crash or a hang is one failed test and not the end of them all. */
#ifndef MR_FAULT_RIG_H
#define MR_FAULT_RIG_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "faults.h"
#include "images.h"
#include "test.h"

static char rig_folder[64]; /* holds pipeline.json and photos/ */
static bool rig_traced;     /* runs write rig_folder/trace */

static void rig_path(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s/%s", rig_folder, name);
}

static void rig_file(const char *name, const void *data, size_t size) {
    char path[256];
    rig_path(path, sizeof path, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

static void rig_make_folder(const char *name) {
    char path[256];
    rig_path(path, sizeof path, name);
    if (mkdir(path, 0777) != 0) {
        perror(path);
        exit(2);
    }
}

static void rig_remove(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", rig_folder);
    if (system(command) != 0) {
        fprintf(stderr, "could not remove %s\n", rig_folder);
    }
}

/* on_error is "fail" or "skip"; cache is an op and a comma, or "". */
static void rig_write_pipeline(const char *on_error, const char *cache) {
    char json[1024];
    int n =
        snprintf(json, sizeof json,
                 "{\"source\": {\"files\": {\"path\": \"%s/photos\"}},"
                 " \"ops\": [{\"decode_image\": {}}, %s {\"random_resized_crop\": {\"size\": 8}},"
                 " {\"random_flip\": {}}, {\"normalize\": {\"mean\": [0.5], \"std\": [0.5]}}],"
                 " \"batch\": 4, \"epochs\": 2, \"seed\": 7, \"on_error\": \"%s\"}",
                 rig_folder, cache, on_error);
    rig_file("pipeline.json", json, (size_t)n);
}

static void rig_make(const char *on_error) {
    char name[64];
    snprintf(rig_folder, sizeof rig_folder, "/tmp/millrace-fault-XXXXXX");
    if (!mkdtemp(rig_folder)) {
        perror(rig_folder);
        exit(2);
    }
    rig_make_folder("photos");
    rig_make_folder("photos/a");
    rig_make_folder("photos/b");
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "photos/%s/%d.%s", i % 2 ? "b" : "a", i, i < 4 ? "jpg" : "png");
        rig_file(name, i < 4 ? tiny_jpeg : tiny_png, i < 4 ? sizeof tiny_jpeg : sizeof tiny_png);
    }
    rig_write_pipeline(on_error, "");
}

typedef struct outcome {
    mr_status status; /* MR_END: the whole stream was delivered */
    char digest[33], fingerprint[33];
    int64_t skipped;
    mr_error err;
} outcome;

static mr_status rig_save(const mr_loader *loader, mr_error *err) {
    size_t room = mr_loader_state_bytes(loader);
    char *state = malloc(room);
    mr_status status = state ? mr_loader_save(loader, state, room, err)
                             : mr_fail(err, MR_E_MEMORY, "no memory for the state");
    free(state);
    return status < 0 ? status : MR_END;
}

static mr_status rig_consume(mr_loader *loader, mr_error *err) {
    mr_batch *batch = NULL;
    mr_status status;
    while ((status = mr_loader_next(loader, &batch, err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    return status == MR_END ? rig_save(loader, err) : status;
}

/* Opens, consumes and closes with whatever fault is armed. */
static outcome rig_run(void) {
    outcome result = {.status = MR_END, .err = MR_ERROR_INIT};
    char path[256], trace[256];
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.io = MR_IO_PREAD;
    options.digest = true;
    rig_path(trace, sizeof trace, "trace");
    options.trace = rig_traced ? trace : NULL;
    rig_path(path, sizeof path, "pipeline.json");
    result.status = mr_pipeline_load(&pipeline, path, NULL, &result.err);
    if (result.status == MR_OK) {
        result.status = mr_loader_open(&loader, pipeline, &options, &result.err);
    }
    if (result.status == MR_OK) {
        mr_stats stats = {.size = (uint32_t)sizeof stats};
        result.status = rig_consume(loader, &result.err);
        mr_loader_digest(loader, result.digest);
        snprintf(result.fingerprint, sizeof result.fingerprint, "%s",
                 mr_pipeline_fingerprint(pipeline));
        mr_loader_stats(loader, &stats);
        result.skipped = stats.skipped;
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return result;
}

/* ---- Children ------------------------------------------------------------------------------- */

enum { CHILD_GOOD = 0, CHILD_BAD = 1, CHILD_NO_STRIKE = 10, CHILD_DIED = 20 };

/* Runs a function in a child; a crash, and 60 seconds without an end, are CHILD_DIED. */
static inline int rig_child(int (*run)(const fault *wanted), const fault *wanted) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        int result = run(wanted);
        fflush(NULL);
        _exit(result);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    fprintf(stderr, "call %" PRId64 ": ended by signal %d (%s)\n", wanted->at, WTERMSIG(status),
            WTERMSIG(status) == SIGALRM ? "it hangs" : "it crashed");
    return CHILD_DIED;
}

/* What every failed call must look like. */
static inline bool rig_is_clean_error(const outcome *result) {
    return result->status < 0 && result->err.code == result->status && result->err.text[0];
}

static inline void rig_show(const fault *wanted, const outcome *result, const char *why) {
    char text[2048];
    mr_error_format(&result->err, text, sizeof text);
    fprintf(stderr, "call %" PRId64 ": %s: status %d, digest %s, skipped %" PRId64 "\n%s",
            wanted->at, why, result->status, result->digest, result->skipped, text);
}

#endif
