/* SPDX-License-Identifier: Apache-2.0 */
/* hash_avx2.c - mr_hash64_copy for CPUs with AVX2; compiled with -mavx2 where there are such. */
#include "core/hash.h"

#ifdef __AVX2__
#include "core/hash_copy.h"

uint64_t mr_hash64_copy_avx2(void *to, const void *from, size_t size) {
    return hash_copy(to, from, size);
}
#endif
