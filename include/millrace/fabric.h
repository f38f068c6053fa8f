/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.h - bytes that others have: named values kept by other processes and nodes.
 *
 * A fabric is an origin beside files and the store. It answers "here are the bytes" or "not here";
 * whatever is wrong with it (a server that is dead, slow, full, or has damaged bytes) is "not here"
 * within a bounded time, and the caller reads or makes the value as it would without one. Errors
 * are those of the caller or of this machine: a wrong configuration, no memory. */
#ifndef MILLRACE_FABRIC_H
#define MILLRACE_FABRIC_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_fabric_config {
    uint32_t size;     /* sizeof(mr_fabric_config) */
    const char *url;   /* "redis://HOST:PORT", see docs/fabric.md */
    const char *space; /* namespace: values of different ones never meet; NULL: "default" */
    double timeout;    /* seconds that one get or put takes at most; 0: 0.5 */
    double ttl;        /* seconds that values are kept; 0: as the URL says, or without end */
    int64_t max_bytes; /* of one value; larger ones are neither put nor taken; 0: 256 MB */
} mr_fabric_config;

/* A named value on its way. */
typedef struct mr_parcel {
    const void *key;
    size_t key_size;
    void *value; /* put: the bytes. get: NULL, not here; else the caller's, freed with mr_free */
    size_t size;
    bool done; /* get: the bytes came, as they were put. put: the value is kept */

    /* For claims: a put that only counts where the key has no value yet. */
    bool only_new;  /* put: leave a value alone that is there; then `taken` */
    bool taken;     /* set by put */
    double seconds; /* put: so long it is kept; 0: the fabric's ttl */
} mr_parcel;

typedef struct mr_fabric_stats {
    uint32_t size;        /* sizeof(mr_fabric_stats), set by the caller */
    int64_t asked, found; /* values */
    int64_t damaged;      /* came, but not as they were put */
    int64_t offered, kept;
    int64_t full;                /* refused for want of memory there */
    int64_t failures;            /* connections that were refused, lost or too slow */
    int64_t bytes_in, bytes_out; /* of values */
    int32_t servers, up;         /* that are usable now */
    char trouble[192];           /* the last failure in words, or "" */
} mr_fabric_stats;

/* Used from one thread at a time. Opening waits for nobody: servers may come later. */
typedef struct mr_fabric mr_fabric;
MR_API mr_status mr_fabric_open(mr_fabric **out, const mr_fabric_config *config, mr_error *err);
MR_API void mr_fabric_close(mr_fabric *fabric); /* NULL allowed */

/* Asks for all parcels at once (so that n of them take one round trip), or offers all of them.
 * Returns when all are answered or the time is over. */
MR_API mr_status mr_fabric_get(mr_fabric *fabric, mr_parcel *parcels, int32_t n, mr_error *err);
MR_API mr_status mr_fabric_put(mr_fabric *fabric, mr_parcel *parcels, int32_t n, mr_error *err);

MR_API void mr_fabric_stats_now(const mr_fabric *fabric, mr_fabric_stats *out);

/* ---- Ranks ---- */
/* What started this process: torchrun and Ray Train, mpirun, srun; false: none of them. */
typedef struct mr_launch {
    uint32_t size; /* sizeof(mr_launch), set by the caller */
    uint32_t rank, world;
    const char *launcher; /* for people; NULL: none */
} mr_launch;
MR_API bool mr_launch_detect(mr_launch *out);

/* Tries the links of a fabric: between all pairs of ranks ("mpi"; rank 0 is told of them), or to
 * the servers (from and to are -1). bytes: of a long message; 0: 1 MB. */
typedef struct mr_fabric_figures {
    int32_t from, to;
    double latency;   /* seconds, of a short message one way; servers: to get a value */
    double bandwidth; /* bytes a second */
} mr_fabric_figures;
typedef void mr_fabric_checked(void *context, const mr_fabric_figures *figures);
MR_API mr_status mr_fabric_check(const char *url, uint32_t rank, uint32_t world, int64_t bytes,
                                 mr_fabric_checked *each, void *context, mr_error *err);

/* ---- For authors: a kind of fabric is a file under src/fabric with one table --------------------
 */
typedef struct mr_fabric_class {
    const char *name; /* the URL's scheme begins with it */
    const char *doc;
    mr_status (*open)(void **state, const mr_fabric_config *config, mr_error *err);
    void (*close)(void *state);
    mr_status (*get)(void *state, mr_parcel *parcels, int32_t n, mr_error *err);
    mr_status (*put)(void *state, mr_parcel *parcels, int32_t n, mr_error *err);
    mr_fabric_stats (*stats)(const void *state);
} mr_fabric_class;

#ifdef __cplusplus
}
#endif
#endif
