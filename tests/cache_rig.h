/* SPDX-License-Identifier: Apache-2.0 */
/* cache_rig.h - what tests of the store need: an op that counts how often a sample is made, also
 * over several processes, and a whole run in one line with all that is to be known of it. */
#ifndef MR_CACHE_RIG_H
#define MR_CACHE_RIG_H

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "fixture.h"

/* ---- The counting op: what comes out is what went in, with every bit turned over ---- */
static _Atomic int64_t *rig_makings; /* shared with forked children */

static inline mr_status rig_plan(const void *params, const mr_type *in, mr_type *out,
                                 mr_error *err) {
    (void)params;
    (void)err;
    *out = *in;
    return MR_OK;
}

static inline mr_status rig_turn(const mr_view *in, mr_view *out, unsigned char with) {
    const unsigned char *from = in->data;
    unsigned char *to = out->data;
    for (size_t i = 0; i < out->size; i++) {
        to[i] = from[i] ^ with;
    }
    atomic_fetch_add(rig_makings, 1);
    return MR_OK;
}

static inline mr_status rig_run_op(const void *params, mr_call *call, const mr_view *in,
                                   mr_view *out, mr_error *err) {
    const struct timespec work = {0, 200000};
    (void)params;
    (void)call;
    (void)err;
    nanosleep(&work, NULL); /* so that others come while it is being made */
    return rig_turn(in, out, 0xFF);
}

static inline mr_status rig_run_second(const void *params, mr_call *call, const mr_view *in,
                                       mr_view *out, mr_error *err) {
    (void)params;
    (void)call;
    (void)err;
    return rig_turn(in, out, 0x0F);
}

static const mr_op_class rig_tally = {
    MR_OP_HEADER, .name = "tally",  .summary = "Turns every bit over, and counts.",
    .version = 1, .plan = rig_plan, .run = rig_run_op};
static const mr_op_class rig_tally_second = {
    MR_OP_HEADER, .name = "tally",  .summary = "Turns half of the bits over, and counts.",
    .version = 2, .plan = rig_plan, .run = rig_run_second};
static const mr_op_class *const rig_ops[] = {&rig_tally, NULL};
static const mr_op_class *const rig_second_ops[] = {&rig_tally_second, NULL};

__attribute__((constructor)) static void rig_share_counter(void) {
    rig_makings =
        mmap(NULL, sizeof *rig_makings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* ---- Runs ---- */
typedef struct rig_log {
    int lines;
    char text[4096];
} rig_log;

typedef struct rig_result {
    mr_status status;
    char digest[33], error[512];
    int32_t n_caches;
    mr_cache_stats caches[4];
    mr_traffic traffic;
    int64_t bytes_read;  /* from files */
    int64_t bytes_ahead; /* by the first origin: of a store, what was read ahead from its disk */
    rig_log log;
    int64_t made; /* by the counting op, in all processes meanwhile */
} rig_result;

static inline void rig_write_log(void *user, const char *text) {
    rig_log *log = user;
    size_t used = strlen(log->text);
    log->lines++;
    snprintf(log->text + used, sizeof log->text - used, "%s\n", text);
}

typedef struct rig_hook { /* (optional) called after each batch */
    void (*batch)(void *user, int64_t n);
    void *user;
} rig_hook;

static inline void rig_consume(mr_loader *loader, const rig_hook *hook, rig_result *result) {
    mr_error err = MR_ERROR_INIT;
    mr_batch *batch = NULL;
    for (int64_t n = 1; (result->status = mr_loader_next(loader, &batch, &err)) == MR_OK; n++) {
        mr_batch_unref(batch);
        if (hook) {
            hook->batch(hook->user, n);
        }
    }
    snprintf(result->error, sizeof result->error, "%s", err.text);
    mr_loader_digest(loader, result->digest);
    mr_loader_flush(loader); /* so that all is counted */
    result->traffic.size = (uint32_t)sizeof result->traffic;
    mr_loader_traffic(loader, &result->traffic);
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_stats(loader, &stats);
    result->bytes_read = stats.bytes_read;
    mr_origin_stats origin = {.size = (uint32_t)sizeof origin};
    if (mr_loader_origin(loader, 0, &origin) == MR_OK) {
        result->bytes_ahead = origin.bytes;
    }
    result->n_caches = mr_loader_n_caches(loader);
    for (int32_t i = 0; i < result->n_caches && i < 4; i++) {
        result->caches[i].size = (uint32_t)sizeof result->caches[i];
        mr_loader_cache(loader, i, &result->caches[i]);
    }
}

static const char *rig_fabric; /* (optional) of all runs */
static const char *rig_trace;  /* likewise */

static inline rig_result rig_run_with(const char *json, const mr_op_class *const *ops,
                                      uint32_t threads, const rig_hook *hook) {
    rig_result result = {.status = MR_E_INTERNAL};
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_options options = MR_OPTIONS_INIT;
    options.threads = threads;
    options.digest = true;
    options.poison = true;
    options.fabric = rig_fabric;
    options.trace = rig_trace;
    options.log = (mr_log){rig_write_log, &result.log};
    int64_t before = *rig_makings;
    result.status = mr_pipeline_parse(&pipeline, json, strlen(json), ops, &err);
    if (result.status == MR_OK) {
        result.status = mr_loader_open(&loader, pipeline, &options, &err);
    }
    if (result.status == MR_OK) {
        rig_consume(loader, hook, &result);
    } else {
        snprintf(result.error, sizeof result.error, "%s", err.text);
    }
    mr_loader_close(loader);
    for (int32_t i = 0; i < 4; i++) {
        result.caches[i].path = NULL; /* was the loader's */
    }
    mr_pipeline_free(pipeline);
    result.made = *rig_makings - before;
    return result;
}

static inline rig_result rig_run(const char *json) {
    return rig_run_with(json, rig_ops, 2, NULL);
}

/* ---- Files ---- */
static inline void rig_nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Photos that were changed so long ago that a store takes them. */
static inline char *rig_photos(int n) {
    char *folder = fixture_photos(n);
    rig_nap(80);
    return folder;
}

/* What the folder takes on disk. */
static inline int64_t rig_folder_bytes(const char *folder) {
    int64_t total = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        struct stat info;
        if (fstatat(dirfd(listing), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode)) {
            total += (int64_t)info.st_blocks * 512;
        }
    }
    if (listing) {
        closedir(listing);
    }
    return total;
}

/* A pseudo-random number for tests; seeds are printed. */
static inline uint64_t rig_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state ^ (*state >> 33);
    return (x * 0xff51afd7ed558ccdu) >> 16;
}

/* Turns bits over in a file's bytes from `low` to `high`, every `step` bytes. */
static inline int64_t rig_damage(const char *path, int64_t low, int64_t high, int64_t step) {
    int64_t n = 0;
    int fd = open(path, O_RDWR);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        return 0;
    }
    for (int64_t at = low; at < high && at < info.st_size; at += step) {
        unsigned char byte;
        if (pread(fd, &byte, 1, at) == 1) {
            byte ^= 0x55;
            n += pwrite(fd, &byte, 1, at) == 1;
        }
    }
    close(fd);
    return n;
}

#endif
