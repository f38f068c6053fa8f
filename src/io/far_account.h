/* SPDX-License-Identifier: Apache-2.0 */
/* far_account.h - where S3 is, who signs requests, and which hosts may be reached; from the
 * environment and the files that Amazon's own tools use. Secrets stay in here and in requests: they
 * are never worded, traced or stored. */
#ifndef MR_IO_FAR_ACCOUNT_H
#define MR_IO_FAR_ACCOUNT_H

#include <millrace/types.h>

typedef struct mr_far_account {
    char key[256], secret[512], token[4096]; /* key "": nobody, requests are not signed */
    char region[64], endpoint[512];          /* endpoint "": Amazon's */
    bool path_style;
    int64_t expires;  /* seconds since 1970; 0: never */
    int64_t asked_at; /* likewise */
    bool is_known;
} mr_far_account;

/* Fetches a small document: for credentials that a server on this machine gives. header: NULL, or
 * "Name: value"; put: with method PUT. False: there is none. */
typedef bool mr_far_get(void *user, const char *url, const char *header, bool put, char *out,
                        size_t size);

/* Finds them, or finds them anew where they have run out, in the order of Amazon's tools:
 * environment, shared files with a profile, container, instance. */
void mr_far_account_find(mr_far_account *account, mr_far_get *get, void *user);

/* What an ini file says: the value of `name` in [section] or [profile section]. */
bool mr_far_ini(const char *text, size_t size, const char *section, const char *name, char *out,
                size_t out_size);

/* Where an s3 name's object is; query: NULL, or what follows the question mark. False: it is no s3
 * name, or longer than there is room. */
bool mr_far_account_address(const mr_far_account *account, const char *path, const char *query,
                            char *out, size_t size);

/* Whether MILLRACE_HOSTS (names separated by commas, "*.example.org" for all below; unset: any
 * host) has the host. */
bool mr_far_host_allowed(const char *host);

#endif
