/* SPDX-License-Identifier: Apache-2.0 */
/* servers.h - what holds of objects on servers in a run: the environment's word, then the
 * document's. The one place where MILLRACE_OBJECTS and MILLRACE_OBJECTS_SIZE are read. */
#ifndef MR_RUN_SERVERS_H
#define MR_RUN_SERVERS_H

#include "plan/servers_document.h"

/* The store in which their bytes are kept; "": none. Lives as long as the terms and the
 * environment. */
const char *mr_servers_objects(const mr_servers_terms *terms);
int64_t mr_servers_objects_size(const mr_servers_terms *terms); /* 0: not said */

#endif
