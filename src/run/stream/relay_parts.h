/* SPDX-License-Identifier: Apache-2.0 */
/* relay_parts.h - what a relay is made of, for relay*.c. One lock guards all that threads share;
 * the link is the speaker's alone. */
#ifndef MR_RUN_RELAY_PARTS_H
#define MR_RUN_RELAY_PARTS_H

#include <pthread.h>

#include "fabric/link.h"
#include "io/process.h"
#include "run/stream/relay.h"
#include "run/stream/relay_record.h"
#include "run/threads.h"
#include "span/ticks.h"

/* A new kind of letter is a new magic: ranks of another build would not understand it. */
enum { RELAY_MAGIC = 0x324c524d, RELAY_CELLS = 1024, MOST_JOBS = 4096, MOST_MISSING = 1 << 22 };
#define LETTER_BYTES ((size_t)256 << 10) /* from which a letter is closed */
#define WINDOW_BYTES ((int64_t)32 << 20) /* that a rank was sent and has not taken yet */
#define PARKED_BYTES (2 * WINDOW_BYTES)  /* of a rank's; words that nothing is sent come on top */
#define TOLD_BYTES ((int64_t)64 << 20)   /* of records of all partitions, told and not taken in */
#define TOLD_LEAST ((int64_t)128 << 10)  /* of one partition: two records of any size */

typedef enum relay_kind {
    TOLD = 1,
    GIVEN,
    BEAT,
    BYE,
    BYE_TOO,
    LOST,
    KEEP,
    ASK,
    BACK,
    HEARD /* records: the partition, and how many bytes told of it were taken in, as a number */
} relay_kind;

typedef struct relay_head {
    uint32_t magic, kind;
    int64_t number; /* of the letters to this rank: long ones are overtaken */
    int64_t id;     /* of a chunk that is lent; else the sample that the first record is about */
    int64_t taken;  /* bytes that were given by it, and taken or dropped */
    uint64_t hash[2];
} relay_head;
_Static_assert(sizeof(relay_head) <= MR_LINK_HEAD, "a head must fit");

typedef struct relay_letter {
    struct relay_letter *next;
    relay_kind kind;
    int32_t peer;
    int64_t id;    /* see relay_head */
    uint64_t sent; /* ticks */
    mr_relay_bytes body;
} relay_letter;

/* A letter that came before its turn. */
typedef struct relay_early {
    struct relay_early *next;
    relay_head head;
    void *body;
    size_t size;
    uint64_t came; /* ticks */
} relay_early;

typedef struct relay_peer {
    relay_letter *first, *last; /* to be sent */
    int64_t sent, got;          /* letters */
    relay_early *early;
    int64_t given, acknowledged; /* bytes; of these, that it took */
    int64_t taken, told_taken;   /* bytes of what it gave; as it knows */
    int64_t parked;              /* bytes of what it gave and nobody took yet */
    double heard;
    bool left, left_too;
    mr_process process;
    char host[64];
    bool is_near; /* its process can be seen */
} relay_peer;

/* Entries of a partition that were told of and not taken in yet. */
typedef struct relay_told {
    mr_held **ring;
    size_t room, first, n; /* room is a power of two, or 0 */
    int64_t end;           /* the number behind the last; 0: none came */
    int64_t bytes;         /* of their records */
    int64_t taken, heard;  /* bytes of those that were taken in, ever; as their reader knows */
} relay_told;

/* Bytes that a rank was told of a partition of this rank's; of these, that it took in. */
typedef struct relay_ahead {
    int64_t told, heard;
} relay_ahead;

/* What came for a row. */
typedef struct relay_parked {
    struct relay_parked *next;
    int64_t step, row;
    int32_t from;
    int64_t bytes;
    mr_held *held; /* NULL: it is not sent */
} relay_parked;

/* A chunk of a rank's that is kept here, or of this rank's that was asked for or has come back. */
typedef struct relay_loan {
    struct relay_loan *next;
    int32_t rank;
    int64_t id;
    mr_relay_bytes bytes;
} relay_loan;

/* An entry to be read for another rank, or that was. */
typedef struct relay_job {
    struct relay_job *next;
    mr_relay_row row;
    mr_held *held;
} relay_job;

struct mr_relay {
    mr_relay_config config;
    const mr_link_class *class;
    void *link;
    bool is_vital; /* the death of a rank is an error */
    double patience;
    mr_threads speaker, reader;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t mail;  /* for the speaker */
    pthread_cond_t came;  /* for workers */
    pthread_cond_t jobs;  /* for the reader */
    relay_peer *peers;
    relay_letter *under_way; /* the speaker's */
    int32_t served;          /* the speaker's: the rank that the last letter went to */
    int32_t waiting;         /* workers */
    relay_told *told;        /* by partition */
    relay_ahead *ahead;      /* by partition of this rank's and rank */
    relay_parked *parked[RELAY_CELLS];
    int64_t n_parked, passed;
    relay_job *first_job, **last_job, *found;
    int64_t n_jobs;
    relay_loan *kept, *asked, *back;
    int64_t kept_bytes;
    mr_relay_wake *wake;
    void *wake_user;
    bool stopping, closing;
    mr_status failed;
    mr_error failure;
    char news[200];
    mr_relay_counts counts;
};

/* Of a partition's records, that its reader may be ahead of a rank. */
static inline int64_t mr_relay_told_most(const mr_relay *x) {
    int64_t own = TOLD_BYTES / x->config.merge.partitions;
    return own > TOLD_LEAST ? own : TOLD_LEAST;
}

static inline double mr_relay_now(void) { /* seconds */
    return 1e-9 * (double)mr_monotonic_ns();
}

/* A thread of the relay's begins, and ends; without a track nothing is recorded. */
static inline void mr_relay_attach(mr_track *track) {
    if (track) {
        mr_track_attach(track);
    }
}

static inline void mr_relay_detach(mr_track *track) {
    if (track) {
        mr_track_detach(track);
    }
}

/* ---- relay.c: with the lock held ---- */
/* Adds a record to the last letter of its kind, or a letter without one. */
size_t mr_relay_post(mr_relay *x, int32_t to, relay_kind kind, const mr_relay_record *where,
                     const mr_entry *entry);
bool mr_relay_post_bytes(mr_relay *x, int32_t to, relay_kind kind, int64_t id,
                         mr_relay_bytes *body);
void mr_relay_take_told(mr_relay *x, int32_t from, const mr_relay_record *r, const mr_entry *e);
void mr_relay_take_heard(mr_relay *x, int32_t from, const mr_relay_record *r);
void mr_relay_take_given(mr_relay *x, int32_t from, const mr_relay_record *r, const mr_entry *e,
                         size_t bytes);
void mr_relay_lose(mr_relay *x, int32_t who, const char *why);
void mr_relay_drop_letters(relay_peer *p);
void mr_relay_free_letter(relay_letter *l);

/* ---- relay_lend.c: with the lock held ---- */
void mr_relay_take_loan(mr_relay *x, int32_t from, int64_t id, const void *bytes, size_t size);
void mr_relay_return_loan(mr_relay *x, int32_t to, int64_t id);
void mr_relay_take_back(mr_relay *x, int32_t from, int64_t id, const void *bytes, size_t size);
void mr_relay_free_loans(mr_relay *x, int32_t rank); /* those of a rank; -1: all */

/* ---- relay_meet.c ---- */
mr_status mr_relay_meet(mr_relay *x, mr_error *err);

/* ---- relay_speak.c ---- */
void *mr_relay_speaker_main(void *context);

#endif
