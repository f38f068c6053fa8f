/* SPDX-License-Identifier: Apache-2.0 */
/* origin.h - where the bytes of a block may come from before its file is read.
 *
 * A loader has a list of origins in order of cost: own memory, the store, a peer, an object; the
 * files that the readers read are what comes last. Every load (intake.h) is taken through the list
 * in plan order by a thread of its own (the "asker"), never by the thread with the io_uring:
 *
 *     planned --ask--> origin 0 --not here--> origin 1 ... --not here--> read from its file
 *                          '-- here, kept or failed: settled, nothing is read
 *
 * The contract of an origin:
 *  - ask may take as long as a look-up on this machine takes (a stat, a page of an index) and not
 *    longer. What waits for a network or for another process answers MR_ANSWER_LATER, and gives the
 *    real answer with mr_load_answer from a thread of its own, in bounded time; from LATER until
 *    then the load belongs to the origin.
 *  - An origin that is broken, slow or gone says "not here". It fails a load only where asking
 *    others would give wrong bytes or none, as for an object that only it can read.
 *  - Bytes are those that the file has: for each extent of the load as many as it says, put to
 *    load->bytes[i]. Memory for them is reserved with mr_load_reserve, which counts it; or they are
 *    lent (load->lent): then release is called when the load is let go.
 *  - Questions come in the order of load->turn, and answers may come in any order. An origin with
 *    fewer threads than questions works them off in that order: the oldest load that a worker waits
 *    for is the one that always gets memory, so nothing waits in a circle.
 *  - stop: what is open is answered at once, and what is asked from then on too; "not here" will
 * do. end comes after it: no answer and no thread of the origin's follows; release still may.
 *
 * An origin may also be offered the bytes that a later one gave, once nobody needs them any more.
 */
#ifndef MR_RUN_ORIGIN_H
#define MR_RUN_ORIGIN_H

#include <stdatomic.h>

#include <millrace/types.h>

struct mr_load;

typedef enum mr_answer {
    MR_ANSWER_NOT_HERE, /* ask the next */
    MR_ANSWER_HERE,     /* load->bytes has them */
    MR_ANSWER_KEPT,     /* workers find its samples prepared, in a store, or the one in load->buffer
                           (load->record_size): see recall.h */
    MR_ANSWER_FAILED,   /* see mr_load_fail, which was called before */
    MR_ANSWER_LATER     /* mr_load_answer follows; for ask alone */
} mr_answer;

typedef struct mr_origin_class {
    const char *name; /* for people: "store" */
    bool is_peer;     /* other nodes and ranks: waiting for its bytes is waiting for them */

    /* What of the load may be looked at: dataset, block.number, block.first, turn, extents, and
     * n_extents. */
    mr_answer (*ask)(void *state, struct mr_load *load);

    /* (where loads are lent to) The load's bytes are no longer used. Any thread; does not wait. */
    void (*release)(void *state, struct mr_load *load);

    /* (optional) A later origin, or the file, gave load->bytes, which go after this call: copies
     * what it wants to keep. Workers or the consumer call it; does not wait. */
    void (*offer)(void *state, const struct mr_load *load);

    void (*stop)(void *state); /* (optional) any thread, also more than once; does not wait */
    void (*end)(void *state);  /* (optional) once, or more often */
} mr_origin_class;

typedef struct mr_origin {
    const mr_origin_class *class;
    void *state;
    _Atomic int64_t asked, found, bytes; /* loads; loads; bytes that it gave */
} mr_origin;

/* The answer to a question that was MR_ANSWER_LATER. Any thread, no lock held. */
void mr_load_answer(struct mr_load *load, mr_answer answer);

/* Memory for all of a load's bytes, in load->buffer. wait: until there is some; without, false is
 * "not now". False, too, where the run ends. Where there is none at all, the load has failed. */
bool mr_load_reserve(struct mr_load *load, size_t size, bool wait);

/* Points load->bytes into load->buffer, one extent behind the other, each with its length. */
void mr_load_lay_out(struct mr_load *load);

#endif
