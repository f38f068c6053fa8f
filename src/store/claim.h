/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h - who is making a value right now: one byte of a lock file per key, locked by the process
 * that makes it. The kernel lets go of a dead process's locks, so a claim never outlives its
 * maker. Keys that share a byte wait for each other without need, and nothing worse. */
#ifndef MR_STORE_CLAIM_H
#define MR_STORE_CLAIM_H

#include "store/place.h"
#include "store/record.h"

int mr_claims_open(const mr_place *place);               /* a file descriptor, or -1 */
bool mr_claim_take(int claims, const mr_store_key *key); /* false: another process has it */
void mr_claim_drop(int claims, const mr_store_key *key);

#endif
