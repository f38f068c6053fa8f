/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - which known word a mistyped one was meant to be. */
#ifndef MR_CLI_NEAREST_H
#define MR_CLI_NEAREST_H

/* NULL if none is near. next() gives the words, then NULL. */
const char *mr_nearest_word(const char *word, const char *(*next)(void *user), void *user);

#endif
