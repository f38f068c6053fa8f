/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.h - what steps would cost on any number of nodes: the plan of a real run (order, shares,
 * placement, balance) with rates in place of machines. docs/fabric.md has the document. */
#ifndef MILLRACE_SIMULATE_H
#define MILLRACE_SIMULATE_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One step on so many nodes. Seconds are those of each part by itself. */
typedef struct mr_simulated_step {
    int64_t nodes, ranks, local_batch; /* a rank's */
    const char *share;                 /* "storage": nothing is kept; "strict"; "local" */
    int64_t epoch, step, samples, bytes;
    int64_t from_storage, from_own, from_peers; /* bytes; together more than `bytes` in epoch 0,
                                                   where what moves is read before */
    double imbalance; /* local: moved samples of all; strict: those that others have */
    int64_t messages; /* pairs of nodes, one of which sends to the other */
    double storage_seconds, network_seconds, prepare_seconds, train_seconds;
    double seconds; /* the largest of them: parts overlap */
    double model;   /* the same in closed form, without simulation */
    double paper;   /* Yang & Cong's equations: reading, exchange and preparing one after the other,
                       or training, whichever is longer */
} mr_simulated_step;

typedef void mr_simulated_fn(void *context, const mr_simulated_step *step);

/* Calls `each` for the steps in the order of the document's local_batch, nodes, shares. */
MR_API mr_status mr_simulate(const char *document, size_t size, mr_simulated_fn *each,
                             void *context, mr_error *err);
MR_API mr_status mr_simulate_file(const char *path, mr_simulated_fn *each, void *context,
                                  mr_error *err);

#ifdef __cplusplus
}
#endif
#endif
