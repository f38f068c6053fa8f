/* SPDX-License-Identifier: Apache-2.0 */
/* leaf.h - does a page of LMDB's tree hold together? LMDB believes its pages: where a node says
 * that it is longer than it is, deleting it moves memory beyond the page. So pages that nothing
 * vouches for are looked at, with LMDB's layout of version 0.9, before anything is changed. */
#ifndef MR_STORE_LEAF_H
#define MR_STORE_LEAF_H

#include <stdbool.h>
#include <stddef.h>

/* A leaf whose nodes have their data beside their key, fill the page from its upper mark to its
 * end, and lie nowhere else. */
bool mr_leaf_is_sound(const void *page, size_t size);

#endif
