/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h - results of ops that know the size of their output only once they have made it.
 *
 * Such an op does its work in peek and keeps what it made in its state; run copies it. Should run
 * ever come for another input than peek did, it finds that out and does the work again. */
#ifndef MR_OPS_KEPT_H
#define MR_OPS_KEPT_H

#include <millrace/op.h>

typedef struct mr_kept {
    unsigned char *bytes;
    size_t size, capacity;
    bool is_whole;  /* what follows is known */
    mr_type type;   /* of the result */
    const void *in; /* the input it was made of */
    size_t in_size;
    uint64_t in_hash;
} mr_kept;

/* Begins anew: nothing is kept. */
void mr_kept_begin(mr_kept *kept);

/* Room for `more` bytes behind those that are there; the caller adds to size what it used. NULL: no
 * memory. */
void *mr_kept_room(mr_kept *kept, size_t more);

/* The result is whole: `type`, made of `in`. */
void mr_kept_end(mr_kept *kept, const mr_type *type, const mr_view *in);

/* Whether the result of `in` is kept. */
bool mr_kept_has(const mr_kept *kept, const mr_view *in);

/* Copies the result to where run is told to, and lets go of memory beyond what is usual. */
mr_status mr_kept_give(mr_kept *kept, mr_view *out, mr_error *err);
void mr_kept_free(mr_kept *kept);

#endif
