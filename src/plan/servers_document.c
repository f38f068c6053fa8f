/* SPDX-License-Identifier: Apache-2.0 */
/* servers_document.c - see servers_document.h. */
#include "plan/servers_document.h"

#include <millrace/millrace.h>

#include "core/error.h"
#include "core/params.h"

static const mr_param servers_rows[] = {
    {.name = "attempts",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_servers_terms, attempts),
     .fallback = "0",
     .max = 100,
     .doc = "Attempts to read the same bytes, at most; 0: MILLRACE_FAR_ATTEMPTS, else 8."},
    {.name = "seconds",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_servers_terms, seconds),
     .fallback = "0",
     .max = 86400,
     .doc = "Seconds after the first of them in which others may follow; 0: MILLRACE_FAR_SECONDS, "
            "else 600."},
    {.name = "stall",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_servers_terms, stall),
     .fallback = "0",
     .max = 3600,
     .doc = "Seconds at less than 1 KB/s after which a request has failed; 0: MILLRACE_FAR_STALL, "
            "else 20."},
    {.name = "objects",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(mr_servers_terms, objects),
     .fallback = "\"\"",
     .doc = "The folder of a store in which the bytes that were read are kept, or \"auto\" for the "
            "user's own; MILLRACE_OBJECTS, where it is set, in its place."},
    {.name = "objects_size",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(mr_servers_terms, objects_size),
     .fallback = "0",
     .max = 0x1p60,
     .doc = "Its size where it is new; 0: as of a cache. MILLRACE_OBJECTS_SIZE in its place."},
    {.name = NULL},
};

const mr_param *mr_servers_params(void) {
    return servers_rows;
}

mr_status mr_servers_terms_read(mr_servers_terms *out, json_t *value, mr_error *err) {
    if (value && !json_is_object(value)) {
        mr_error_at_json(err, "$.servers");
        mr_fail(err, MR_E_TYPE, "servers must be an object");
        mr_hint(err, "write \"servers\": {\"attempts\": 4, \"stall\": 10}; see docs/far.md");
        return MR_E_TYPE;
    }
    json_t *object = value ? json_incref(value) : json_object();
    if (!object) {
        return mr_fail_memory(err, 64);
    }
    out->given = value != NULL;
    mr_status status = mr_params_fill(servers_rows, object, "$.servers", "servers", NULL, out, err);
    json_decref(object);
    return status;
}

void mr_servers_terms_free(mr_servers_terms *terms) {
    mr_params_free(servers_rows, terms);
}

json_t *mr_servers_terms_json(const mr_servers_terms *terms) {
    return mr_params_json(servers_rows, terms);
}

mr_far_limits mr_servers_limits(const mr_servers_terms *terms) {
    return (mr_far_limits){terms->attempts, terms->seconds, terms->stall};
}
