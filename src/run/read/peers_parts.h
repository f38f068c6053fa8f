/* SPDX-License-Identifier: Apache-2.0 */
/* peers_parts.h - what ranks that send each other what they keep are made of, for peers*.c. One
 * lock guards all that threads share; the link is the speaker's alone. */
#ifndef MR_RUN_PEERS_PARTS_H
#define MR_RUN_PEERS_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/hash.h"
#include "fabric/link.h"
#include "io/common.h"
#include "io/process.h"
#include "run/read/intake.h"
#include "run/read/peers.h"
#include "run/threads.h"

enum {
    MOST_ASKED =
        MR_LINK_SHORT / (int)sizeof(int64_t), /* items of a message: none overtakes another */
    MAGIC = 0x314b4c4d,
};
#define WARN_SECONDS 5.0 /* of waiting for another rank, before it is said */

typedef enum kind {
    ASK = 1, /* items; ~item: what was pushed has been let go of */
    GIVE,
    NOT_HERE, /* item -1: nothing of all that was asked for and not answered */
    KEEP,     /* a sample as it is at the cache op, for its owner */
    BEAT,
    DONE,
    BYE,
    BYE_TOO,
    LOST,
    PUSH,  /* an item that the plan says the other will ask for */
    BLIND, /* the sender cannot look into this rank's memory: see peers_node.c */
    THERE  /* an item that was asked for: it lies in the sender's memory, and can be seen there */
} kind;

typedef enum form { RAW, RECORD, FORMS } form; /* the bytes of files; a sample at the cache op */

typedef struct head {
    uint32_t magic, kind;
    int64_t item;
    uint64_t hash[2];       /* of the body */
    uint32_t form, insists; /* insists: see peers_push.c */
} head;
_Static_assert(sizeof(head) <= MR_LINK_HEAD, "a head must fit");

/* Bytes that are kept, sent or lent; they begin ROOM behind it. */
typedef struct goods {
    atomic_int references;
    form form;
    bool is_common; /* it lies where other ranks of this machine can see it, and is never freed */
    size_t size;
    mr_hash128 hash;
} goods;
enum { ROOM = 64 };
_Static_assert(sizeof(goods) <= ROOM, "what stands before bytes must fit");

/* Somebody who waits for an item. */
typedef struct waiter {
    struct waiter *next;
    int32_t peer;  /* -1: */
    mr_load *load; /* this rank's own */
} waiter;

/* An item that is read or kept here, or that was asked for. */
typedef struct mr_peer_entry {
    struct mr_peer_entry *next; /* in its cell */
    struct mr_peer_entry *next_job;
    int64_t item;
    int32_t owner;           /* the rank that was asked last */
    uint32_t asked_of, open; /* copies: asked for, and of these not answered yet; a bit each */
    double since;
    uint64_t asked; /* in ticks */
    goods *goods;   /* NULL: being read, or on its way */
    waiter *waiters;
    uint32_t promise; /* see peers_push.c */
    int32_t times;    /* likewise */
    bool is_in_line;  /* likewise */
    size_t size;      /* likewise */
} mr_peer_entry;

typedef struct table {
    mr_peer_entry **cells;
    size_t n, mask;
} table;

/* A message that waits to be sent. */
typedef struct letter {
    struct letter *next;
    mr_link_message message;
    uint64_t sent; /* in ticks */
    goods *goods;  /* whose bytes they are; NULL: the body is its own */
    bool is_spare; /* a peer's: never freed */
} letter;

typedef struct line {
    letter *first, **last;
} line;

typedef struct peer {
    bool done;           /* it needs nothing more */
    bool left, left_too; /* it has said goodbye; it knows that we have */
    double heard;
    int64_t *asks; /* items to ask it for */
    int32_t n_asks, room;
    int64_t open;   /* items that it was asked for and has not answered */
    table promises; /* what it will ask for, or has asked for: see peers_push.c */
    mr_peer_entry *first_due, **last_due;
    bool insists;           /* what is asked of it is to be sent even where it was pushed */
    int64_t pushed, parked; /* bytes that were pushed to it, and by it, and are not taken yet */
    letter spare;           /* for what must be said when there is no memory */
    bool is_spare_out;
    uint32_t unsaid; /* such words, a bit for each kind */
    mr_process process;
    char host[64];
    bool is_here;        /* on this machine */
    mr_common_view view; /* of its memory; see peers_node.c */
    uint64_t n_cells;    /* there */
    atomic_bool sees;    /* it can look into ours */
} peer;

struct mr_peers {
    mr_peers_config config;
    mr_link_module module;
    void *link;
    mr_threads speaker, readers;
    int64_t max_in_flight;
    size_t piece;   /* the most that the link gives its network at once; 0: as it likes */
    int64_t window; /* bytes that a rank has pushed to another and that are not taken yet */
    bool maps;      /* ranks of this machine look into each other's memory */
    mr_common common;
    pthread_mutex_t common_lock; /* for who takes of it */
    uint64_t n_cells;            /* in common */
    atomic_bool is_partial;      /* something is kept that cannot be seen there */
    double rate, patience, patience_at_end, paid_until;

    pthread_mutex_t lock; /* of all below that is not atomic */
    pthread_cond_t mail, jobs, calm;
    table here, wanted, came; /* came: pushed by others, and not taken yet */
    peer *peers;
    mr_peer_entry *first_job, **last_job;
    line words, parcels; /* parcels have goods; words do not wait for them */
    int64_t in_flight;   /* bytes */
    int64_t offered;     /* bytes of samples on their way to their owners */
    int32_t lost;        /* the rank whose loss is to be told */
    bool is_short;       /* there was no memory to ask */
    int64_t answering;   /* threads that answer loads */
    bool has_due;        /* something may be pushed */
    int32_t next_push;
    bool has_asks, stopping, drained, closing, leaving, ended, failed;
    bool lingers;    /* all was delivered here */
    bool is_broken;  /* the link ended with messages under way */
    double asked_at; /* by a peer, last */
    mr_error failure;
    double warned;
    mr_peers_counts counts;
};

double mr_peers_now(void); /* seconds */

/* ---- peers_items.c ---- */
char *mr_goods_bytes(goods *g);
goods *mr_goods_at(const void *bytes);
void mr_goods_release(goods *g); /* NULL allowed */

/* For cells: neighbours far apart. */
static inline uint64_t mr_item_mixed(int64_t item) {
    return (uint64_t)item * 0x9E3779B97F4A7C15u >> 20;
}

mr_peer_entry *mr_items_find(const table *t, int64_t item);
mr_peer_entry *mr_items_add(table *t, int64_t item); /* NULL: no memory */
void mr_items_take_out(table *t, const mr_peer_entry *e);
bool mr_items_wait(mr_peer_entry *e, int32_t from, mr_load *load);
void mr_items_free(table *t);

/* ---- peers_letters.c: with the lock held ---- */
/* False: there is no memory. Then nothing was taken but goods; what must not be lost is said later,
 * in the peer's spare letter: who asked for something is told that nothing is here. */
bool mr_letters_post(mr_peers *x, int32_t to, const head *what, void *body, size_t size, goods *g);
void mr_letters_post_word(mr_peers *x, int32_t to, kind what, int64_t item);
bool mr_letters_post_goods(mr_peers *x, int32_t to, kind what, int64_t item, goods *g);
void mr_letters_post_unsaid(mr_peers *x);
void mr_letters_end(mr_peers *x, letter *l); /* it went out, or never will */
letter *mr_letters_take(line *from);         /* the first; NULL: there is none */
void mr_letters_drop_goods(mr_peers *x);     /* those that were not sent */
void mr_letters_free(mr_peers *x);

bool mr_load_fits_goods(const mr_load *load, size_t size);
bool mr_extents_can_travel(const mr_extent *extents, int32_t n);
/* Here, kept, or what does not fit: not here. */
mr_answer mr_load_lend(mr_load *load, form as, char *bytes, size_t size);
mr_answer mr_load_lend_goods(mr_load *load, goods *g);

/* Tells those who wait; no lock held. NULL: it is not here, or (failure) never will be. Threads
 * that answer loads say so: begin has the lock held, end has not. */
void mr_peers_answer(mr_peers *x, int64_t item, waiter *list, goods *g, const mr_error *failure);
void mr_peers_begin_answering(mr_peers *x);
void mr_peers_end_answering(mr_peers *x);

/* ---- peers_here.c ---- */
bool mr_peers_wait_here(mr_peers *x, int64_t item, int32_t from, mr_load *load); /* lock held */
void mr_peers_serve(mr_peers *x, int64_t item, int32_t from, bool insists);
bool mr_peers_wants_record(const mr_peers *x, int64_t item, size_t size, size_t raw);
void mr_peers_keep_record(mr_peers *x, int64_t item, goods *g);
void mr_peers_keep_copy(mr_peers *x, int64_t item, goods *g); /* that came from another rank */

/* ---- peers_ask.c: with the lock held ---- */
/* Asks a rank for an item that waits, one that was not asked before. False: there is none. */
bool mr_peers_ask_another(mr_peers *x, mr_peer_entry *e);
bool mr_peers_note_ask(mr_peers *x, int32_t rank, int64_t item); /* ~item: it was taken */
void mr_peers_forget_asked(mr_peers *x, mr_peer_entry *e);       /* nobody is waited for any more */
int32_t mr_peers_copy_asked(const mr_peers *x, const mr_peer_entry *e,
                            int32_t rank); /* -1: it was not */
void mr_peers_name_load(mr_peers *x, mr_load *load);
void *mr_peers_reader_main(void *context);

/* ---- peers_speak.c ---- */
void *mr_peers_speaker_main(void *context);

/* ---- peers_node.c: memory that other ranks of this machine can see ---- */
void mr_node_open(mr_peers *x, mr_common_name *own);
void mr_node_look(mr_peers *x, int32_t rank, const mr_common_name *name); /* before threads start */
void mr_node_settle(mr_peers *x); /* where nobody sees it, memory is like any other */
void mr_node_close(mr_peers *x);
bool mr_node_may_show(const mr_peers *x, int64_t item, form as);
goods *mr_node_take(mr_peers *x, size_t size);          /* NULL: there is no such memory */
void mr_node_drop(mr_peers *x, goods *g);               /* the only reference; it was not shown */
void mr_node_show(mr_peers *x, int64_t item, goods *g); /* lock held */
bool mr_node_sees(const mr_peers *x, int64_t item, int32_t owner);

/* ---- peers_meet.c ---- */
/* What ranks tell each other first. */
typedef struct mr_peers_hello {
    uint32_t magic, size;
    mr_peers_terms terms;
    mr_process process;
    mr_common_name common;
    char host[64];
} mr_peers_hello;

mr_status mr_peers_read_url(mr_peers *x, mr_error *err);
mr_status mr_peers_meet(mr_peers *x, mr_error *err);

/* ---- peers_push.c: with the lock held ---- */
/* The owner: posts the next letter that nobody has asked for. False: there is none. */
bool mr_pushes_post_next(mr_peers *x);
/* A rank asks for an item (true: it is on its way already), or has taken what was pushed. */
bool mr_pushes_asked(mr_peers *x, int64_t item, int32_t by, bool insists);
void mr_pushes_taken(mr_peers *x, int64_t item, int32_t by);
void mr_pushes_free(mr_peers *x);

/* The other side: keeps what came until it is needed; false: it is not wanted. */
bool mr_pushes_park(mr_peers *x, int64_t item, int32_t from, goods *g);
void mr_pushes_let_go(mr_peers *x, int64_t item, int32_t from); /* tells the owner */
goods *mr_pushes_take(mr_peers *x, int64_t item); /* the caller's now; NULL: it has not come */

#endif
