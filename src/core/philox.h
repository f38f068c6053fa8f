/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h - Philox4x32-10, the only source of randomness.
 *
 * A 128-bit counter and a 64-bit key give 128 bits; there is no state. The words of the counter
 * are never sums, so no two (epoch, sample, op, draw) share a value:
 *     word 0  epoch
 *     word 1  low 32 bits of the sample
 *     word 2  op
 *     word 3  high 16 bits of the sample's 48, then 16 bits of the draw
 */
#ifndef MR_CORE_PHILOX_H
#define MR_CORE_PHILOX_H

#include <millrace/op.h>

#define MR_MAX_SAMPLES ((int64_t)1 << 48)

void mr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* mr_draw_u64 with the keys of samples key->sample, key->sample + 1, ... + count - 1. Several are
 * computed side by side, so that none waits for the rounds of the one before. */
void mr_draw_u64_run(const mr_key *key, uint32_t draw, int64_t count, uint64_t *out);

/* mr_exact_log of each, in place, the same bits. Only positive numbers that are normal and finite;
 * what others give is no use. */
void mr_exact_logs(double *values, size_t n);

/* The op word of an op: a hash of its name and of how many of that name come before it, so that
 * inserting another op into a pipeline does not change this one's randomness. */
uint32_t mr_op_word(const char *name, uint32_t occurrence);

#endif
