/* SPDX-License-Identifier: Apache-2.0 */
/* mail.h - a link (link.h) over a fabric of named values: ranks that no MPI joins leave messages
 * for each other at the servers.
 *
 * Messages of a pair of ranks are numbered, and lie in a few places that are used in turn, so what
 * a server holds is bounded. How many were sent, and how many of the other's were read, is a value
 * of its own that is asked for again and again. Ranks of one run find each other by its name, and
 * tell those of now from those of an earlier run, whose values may still be there, by numbers that
 * each draws at its start and sees come back. */
#ifndef MR_FABRIC_MAIL_H
#define MR_FABRIC_MAIL_H

#include "fabric/link.h"

extern const mr_link_class mr_mail_link;

#endif
