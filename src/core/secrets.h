/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.h - documents as others may see them: without passwords and signatures. */
#ifndef MR_CORE_SECRETS_H
#define MR_CORE_SECRETS_H

#include <jansson.h>
#include <stdbool.h>

/* The document as text, for mr_free: signed addresses end before their "?", a name and a password
 * before a host are "...", and so are values of keys and options that name a password, a secret or
 * a token. NULL: no memory, or no document. */
char *mr_secrets_covered(const char *document);

#endif
