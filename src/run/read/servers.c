/* SPDX-License-Identifier: Apache-2.0 */
/* servers.c - see servers.h. */
#include "run/read/servers.h"

#include <stdlib.h>

#include "plan/pipeline.h"

#include <millrace/millrace.h>

const char *mr_servers_objects(const mr_servers_terms *terms) {
    const char *environment = getenv("MILLRACE_OBJECTS");
    const char *document = terms->objects ? terms->objects : "";
    return environment ? environment : document;
}

int64_t mr_servers_objects_size(const mr_servers_terms *terms) {
    const char *environment = getenv("MILLRACE_OBJECTS_SIZE");
    return environment && environment[0] ? strtoll(environment, NULL, 10) : terms->objects_size;
}

const char *mr_pipeline_objects(const mr_pipeline *pipeline) {
    return mr_servers_objects(&pipeline->servers);
}
