/* SPDX-License-Identifier: Apache-2.0 */
/* tune_lab.h - measures strategies on a part of the dataset, in a folder of its own.
 *
 * The part is a rank's of a run of `world` ranks without shuffle: the same samples in every epoch,
 * spread over the whole dataset. A pack for trying has the first samples, and is read in the
 * document's order, as the whole dataset is where it is measured whole. */
#ifndef MR_CLI_TUNE_LAB_H
#define MR_CLI_TUNE_LAB_H

#include <jansson.h>
#include <limits.h>
#include <millrace/tune.h>

#include "stop.h"
#include "storage.h"

enum { MR_ROUNDS_MAX = 16 };

typedef struct mr_lab {
    const mr_op_class *const *ops; /* beside the built-in ones */
    json_t *document;              /* without caches and view */
    json_t *view;                  /* (optional) of the document: samples are left out later */
    mr_storage storage;
    mr_pipeline *plain; /* likewise */
    char folder[PATH_MAX], memory[PATH_MAX];
    double seconds; /* of one measurement */
    int32_t rounds; /* that it is made of */
    uint32_t threads;
    int64_t samples, batch; /* of the dataset, of a step */
    int64_t world, subset;
    int32_t n_made; /* folders so far */
    const mr_stop *stop;
} mr_lab;

typedef struct mr_trial {
    mr_strategy figures;
    mr_pipeline *pipeline; /* NULL: it cannot be measured, and `why` says so */
    bool borrowed;         /* the pipeline is another trial's */
    int64_t world;
    mr_loader *keeper;         /* holds a store in memory */
    char files[PATH_MAX + 32]; /* what is read in every epoch; "": nobody knows, or no file */
    double cold_rate;          /* samples a second from the disk; 0: not measured */
    double rates[MR_ROUNDS_MAX];
    int32_t n_rates;
    char why[160];
    char bound[64];
} mr_trial;

/* Makes a folder below `scratch`; closing removes it and nothing else. */
mr_status mr_lab_open(mr_lab *lab, const mr_pipeline *pipeline, const char *scratch, mr_error *err);
void mr_lab_close(mr_lab *lab);

/* Runs the plain pipeline a little, to know how large a part of the dataset is enough. */
mr_status mr_lab_choose_subset(mr_lab *lab, mr_error *err);

/* A rewritten document beside the plain one: whether the part comes out the same, byte by byte, and
 * how much faster, in runs that take turns. */
typedef struct mr_compared {
    bool measured, same;
    double gain; /* 1.2: a fifth faster */
} mr_compared;
void mr_lab_compare(const mr_lab *lab, const char *text, mr_compared *out);

/* Takes it in place of the plain one. */
mr_status mr_lab_use(mr_lab *lab, const char *text, mr_error *err);

/* Samples a second that the part before a cut makes; 0: it cannot be made. */
double mr_lab_make_rate(mr_lab *lab, int32_t cut);

/* Makes what the strategy keeps, for the part. What goes wrong is noted in `why`. */
void mr_trial_prepare(mr_lab *lab, mr_trial *trial);
void mr_trial_round(mr_lab *lab, mr_trial *trial);   /* measures once more */
void mr_trial_cold(mr_lab *lab, mr_trial *trial);    /* once through the part, from the disk */
void mr_trial_explain(mr_lab *lab, mr_trial *trial); /* finds out what bounds it */
void mr_trial_free(mr_trial *trial);

/* The user's pipeline without its caches: what a pack that is chosen is made of. */
mr_status mr_lab_without_caches(const mr_lab *lab, const mr_pipeline *pipeline, mr_pipeline **out,
                                mr_error *err);

/* How a pack that a strategy keeps is written. */
void mr_lab_pack_options(mr_pack_options *options, mr_keep_kind keep);

/* The document of a strategy that needs no pack, with room for the whole dataset; or NULL. */
json_t *mr_lab_document(const mr_lab *lab, const mr_strategy *strategy);

#endif
