/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - messages between the ranks of a run.
 *
 * A kind of link is a table in a shared library of its own ("module") that is loaded on demand, so
 * that the core is bound to no library of messages: binaries of Open MPI and MPICH do not fit each
 * other. A module uses nothing of this library but this header, and words its failures itself.
 *
 * One thread uses a link at a time. Nothing waits but open and collect, and these no longer than
 * the timeout. Messages from one rank to another arrive in the order in which they were sent, but
 * for bodies above MR_LINK_SHORT, which later messages may overtake. */
#ifndef MR_FABRIC_LINK_H
#define MR_FABRIC_LINK_H

#include <millrace/types.h>

#define MR_LINK_ABI 2
enum { MR_LINK_HEAD = 64, MR_LINK_WHY = 400, MR_LINK_SHORT = 8 << 10 };

typedef struct mr_link_message {
    int32_t peer; /* whom it goes to, or who sent it */
    unsigned char head[MR_LINK_HEAD];
    void *body; /* may be NULL. Sent: the caller's, until it is reported as gone. Come: new memory
                   of `room` bytes more, behind which it begins; freed with free(body - room) */
    size_t size;
    void *token; /* sent: the caller's own */
} mr_link_message;

typedef enum mr_link_event_kind {
    MR_LINK_CAME,
    MR_LINK_GONE, /* what was sent need not be kept any longer */
    MR_LINK_LOST  /* the peer (-1: somebody) cannot be reached any more; `why` */
} mr_link_event_kind;

typedef struct mr_link_event {
    mr_link_event_kind kind;
    mr_link_message message;
} mr_link_event;

typedef struct mr_link_config {
    int32_t rank, world; /* as the run has them; other figures of the launcher's are refused */
    size_t room;         /* before bodies that come */
    size_t max_body;     /* longer ones that come are a failure of their sender */
    size_t piece;        /* the most that the network is given at once of a body; 0: 1 GB */
    double timeout;      /* seconds for open and collect */

    /* For links over servers (mail.h); MPI needs neither. */
    const char *url;
    const char *name; /* of the run: what its ranks have in common, and others have not */
} mr_link_config;

/* Functions that return false have written why. */
typedef struct mr_link_class {
    uint32_t abi;
    const char *name;
    bool (*open)(void **link, const mr_link_config *config, char why[MR_LINK_WHY]);

    /* Each rank's `size` bytes, in order of their ranks, to `all`. Once, after open. */
    bool (*collect)(void *link, const void *own, size_t size, void *all, char why[MR_LINK_WHY]);

    bool (*send)(void *link, const mr_link_message *message, char why[MR_LINK_WHY]);

    /* What happened since, at most `most` of it. */
    int32_t (*poll)(void *link, mr_link_event *events, int32_t most, char why[MR_LINK_WHY]);

    bool (*is_quiet)(void *link); /* nothing is on its way, as far as is known here */

    /* broken: others may be gone, so nobody is waited for. */
    void (*close)(void *link, bool broken);
} mr_link_class;

/* ---- link.c: modules ---- */
typedef struct mr_link_module {
    void *handle;
    const mr_link_class *class;
} mr_link_module;

/* The module for a URL such as "mpi": the kind of MPI that this process has, or was started by.
 * Modules stay loaded: MPI cannot be started twice. */
mr_status mr_link_load(mr_link_module *out, const char *url, mr_error *err);

#endif
