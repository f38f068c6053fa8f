/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - opens the kind of fabric that a URL names. The list of kinds is the build's. */
#include <millrace/fabric.h>
#include <millrace/millrace.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

#define X(stem) extern const mr_fabric_class mr_fabric_##stem;
#include "fabric_list.inc"
#undef X

/* The NULL at the end keeps the array valid C when the list is empty. */
static const mr_fabric_class *const classes[] = {
#define X(stem) &mr_fabric_##stem,
#include "fabric_list.inc"
#undef X
    NULL};

struct mr_fabric {
    const mr_fabric_class *class;
    void *state;
};

static const double TIMEOUT = 0.5;
static const int64_t MAX_BYTES = (int64_t)256 << 20;

static const mr_fabric_class *find_class(const char *url) {
    for (int32_t i = 0; classes[i]; i++) {
        if (strncmp(url, classes[i]->name, strlen(classes[i]->name)) == 0) {
            return classes[i];
        }
    }
    return NULL;
}

/* Does not repeat the URL: it may hold a password. */
static mr_status refuse(mr_error *err) {
    mr_status status = mr_fail(err, MR_E_UNSUPPORTED, "no fabric of this build has such a URL");
    if (classes[0]) {
        mr_hint(err, "URLs begin with redis://, rediss:// or redis+unix://");
    } else {
        mr_hint(err, "this build has no fabric at all: build millrace with hiredis");
    }
    return status;
}

static mr_fabric_config with_defaults(const mr_fabric_config *config) {
    mr_fabric_config c;
    mr_take_sized(&c, sizeof c, config);
    c.space = c.space ? c.space : "default";
    c.timeout = c.timeout > 0 ? c.timeout : TIMEOUT;
    c.max_bytes = c.max_bytes > 0 ? c.max_bytes : MAX_BYTES;
    return c;
}

mr_status mr_fabric_open(mr_fabric **out, const mr_fabric_config *config, mr_error *err) {
    mr_fabric_config whole = with_defaults(config);
    *out = NULL;
    if (!whole.url) {
        mr_fail(err, MR_E_PARAM, "a fabric needs a URL");
        mr_hint(err, "set url, and size to sizeof(mr_fabric_config)");
        return MR_E_PARAM;
    }
    const mr_fabric_class *class = find_class(whole.url);
    if (!class) {
        return refuse(err);
    }
    mr_fabric *fabric = mr_zalloc(1, sizeof *fabric);
    if (!fabric) {
        return mr_fail_memory(err, sizeof *fabric);
    }
    fabric->class = class;
    mr_status status = class->open(&fabric->state, &whole, err);
    if (status < 0) {
        mr_free(fabric);
        return status;
    }
    *out = fabric;
    return MR_OK;
}

void mr_fabric_close(mr_fabric *fabric) {
    if (fabric) {
        fabric->class->close(fabric->state);
        mr_free(fabric);
    }
}

mr_status mr_fabric_get(mr_fabric *fabric, mr_parcel *parcels, int32_t n, mr_error *err) {
    for (int32_t i = 0; i < n; i++) {
        parcels[i].value = NULL;
        parcels[i].size = 0;
        parcels[i].done = false;
    }
    return fabric->class->get(fabric->state, parcels, n, err);
}

mr_status mr_fabric_put(mr_fabric *fabric, mr_parcel *parcels, int32_t n, mr_error *err) {
    for (int32_t i = 0; i < n; i++) {
        parcels[i].done = parcels[i].taken = false;
    }
    return fabric->class->put(fabric->state, parcels, n, err);
}

void mr_fabric_stats_now(const mr_fabric *fabric, mr_fabric_stats *out) {
    mr_fabric_stats stats = fabric->class->stats(fabric->state);
    mr_give_sized(out, &stats, sizeof stats);
}
