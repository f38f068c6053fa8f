/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal.h - which samples of a stream are kept to be shown again, and which of them when.
 *
 * A buffer is an index: ids, labels and a few numbers, not the samples. It is a function of what
 * was offered and of the seed: what is offered at a step takes effect `lag` steps later, in the
 * order of ids, whoever offered it and when. So every rank that hears of all offers within `lag`
 * steps has the same buffer, the union over ranks, and knows without asking what every other rank
 * draws.
 *
 * Draws are independent of each other and numbered: (seed, step, slot of the global batch). A rank
 * has a run of slots, so the number of ranks does not change what is drawn. */
#ifndef MR_PLAN_REHEARSAL_H
#define MR_PLAN_REHEARSAL_H

#include <millrace/types.h>

typedef enum mr_rehearsal_policy {
    /* The `size` largest random keys, each a function of seed and id: uniform over all that was
     * seen, and a function of the set alone. */
    MR_REHEARSE_RESERVOIR,
    /* As many of each label as there is room for, of each those with the largest keys: a function
     * of the set alone too. */
    MR_REHEARSE_CLASS_BALANCED,
    /* Class-balancing reservoir: labels that never were the most frequent are all kept; the others
     * are each a reservoir. */
    MR_REHEARSE_CBRS,
    MR_REHEARSE_GDUMB,      /* the first of each label, up to an equal share */
    MR_REHEARSE_FIXED_RATE, /* each label has size / classes places; when they are full a sample
                               takes a random one with probability `rate`, however many came before
                             */
    MR_REHEARSE_RECENT,     /* the last ones */
    MR_REHEARSE_PRIORITY,   /* those of the largest value; drawn in proportion to it */
    MR_REHEARSE_CUSTOM,     /* what somebody else chooses: mr_rehearsal_choose */
    MR_REHEARSE_POLICIES
} mr_rehearsal_policy;

typedef struct mr_rehearsal_options {
    mr_rehearsal_policy policy;
    int64_t size;    /* samples */
    int64_t lag;     /* steps, at least 1 */
    int64_t classes; /* for MR_REHEARSE_FIXED_RATE */
    double rate;     /* likewise, 0 to 1 */
    uint64_t seed;
} mr_rehearsal_options;

#define MR_REHEARSAL_MAX ((int64_t)1 << 30)
#define MR_REHEARSAL_VALUE_MAX 65535.0

typedef struct mr_rehearsal mr_rehearsal;

mr_status mr_rehearsal_new(mr_rehearsal **out, const mr_rehearsal_options *options, mr_error *err);
void mr_rehearsal_free(mr_rehearsal *buffer);

typedef struct mr_offer {
    int64_t step;
    uint64_t id;
    int64_t label;
    double value; /* for MR_REHEARSE_PRIORITY: 0 to MR_REHEARSAL_VALUE_MAX */
} mr_offer;

/* In any order. An id that is already there changes nothing but its value. */
mr_status mr_rehearsal_offer(mr_rehearsal *buffer, const mr_offer *offer, mr_error *err);

/* Another value for an id that is in the buffer, or offered to it, at once; for others nothing. */
mr_status mr_rehearsal_value(mr_rehearsal *buffer, uint64_t id, double value, mr_error *err);

/* The buffer becomes that of `step`: offers of steps up to step - lag are in it. Steps only grow.
 * An offer for a step that is already in is refused by mr_rehearsal_offer. */
mr_status mr_rehearsal_advance(mr_rehearsal *buffer, int64_t step, mr_error *err);

/* ---- For MR_REHEARSE_CUSTOM ----
 * Which offers the next mr_rehearsal_advance takes in, in that order: how many. Valid until then.
 */
int64_t mr_rehearsal_due(mr_rehearsal *buffer, int64_t step, const mr_offer **out);

/* Where they go: places below mr_rehearsal_count are others', that place itself is a new one as
 * long as there are fewer than `size`, -1 is nowhere. Must stay until the advance, which says
 * MR_E_PARAM to places that there are none of. */
void mr_rehearsal_choose(mr_rehearsal *buffer, const int64_t *places, int64_t n);

/* Random numbers of an id, and of a slot of a step: those that the other policies use. */
uint64_t mr_rehearsal_key(const mr_rehearsal *buffer, uint64_t id);
uint64_t mr_rehearsal_draw_key(const mr_rehearsal *buffer, int64_t step, uint32_t slot);

typedef struct mr_representative {
    uint64_t id;
    int64_t label;
    double weight; /* how much more often its like was seen than it is drawn: for unbiased sums */
} mr_representative;

/* What slot `slot` of step `step` shows again; false: the buffer is empty. Uniform over the buffer,
 * except for MR_REHEARSE_PRIORITY. */
bool mr_rehearsal_draw(const mr_rehearsal *buffer, int64_t step, uint32_t slot,
                       mr_representative *out);

/* What is at a place; its weight is 1. */
mr_representative mr_rehearsal_at(const mr_rehearsal *buffer, int64_t place);

/* So many samples were drawn, by all ranks; how many ever were, and how many offered. */
void mr_rehearsal_drew(mr_rehearsal *buffer, int64_t n);
int64_t mr_rehearsal_drawn(const mr_rehearsal *buffer);
int64_t mr_rehearsal_offered(const mr_rehearsal *buffer);

/* From now on somebody is told, once for each, of ids that are offered and not taken, or go. */
typedef void mr_rehearsal_left(void *user, uint64_t id);
void mr_rehearsal_watch(mr_rehearsal *buffer, mr_rehearsal_left *left, void *user);

int64_t mr_rehearsal_count(const mr_rehearsal *buffer);
int64_t mr_rehearsal_count_of(const mr_rehearsal *buffer, int64_t label);
bool mr_rehearsal_has(const mr_rehearsal *buffer, uint64_t id);
bool mr_rehearsal_knows(const mr_rehearsal *buffer, uint64_t id); /* has it, or was offered it */
void mr_rehearsal_ids(const mr_rehearsal *buffer, uint64_t *out); /* mr_rehearsal_count of them */

size_t mr_rehearsal_bytes(const mr_rehearsal *buffer); /* that saving it takes */

/* All of it as bytes, and back. *out is freed with free. MR_E_STATE: these bytes are none. */
mr_status mr_rehearsal_save(const mr_rehearsal *buffer, unsigned char **out, size_t *size,
                            mr_error *err);
mr_status mr_rehearsal_restore(mr_rehearsal **out, const unsigned char *bytes, size_t size,
                               mr_error *err);

/* The same as letters of base64, mr_base64_length(mr_rehearsal_bytes) of them and no zero byte.
 * With a mirror, which every change keeps up to date from then on, that is a matter of copying. */
mr_status mr_rehearsal_write(mr_rehearsal *buffer, char *out, mr_error *err);
mr_status mr_rehearsal_mirror(mr_rehearsal *buffer, mr_error *err);

/* The letters of a buffer that has a mirror where they lie there, until it changes or is freed. */
mr_status mr_rehearsal_letters(mr_rehearsal *buffer, mr_piece *out, mr_error *err);

#endif
