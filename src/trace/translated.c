/* SPDX-License-Identifier: Apache-2.0 */
/* translated.c - see translated.h. Whoever profiled the loader noted for each step what the op in
 * its place costs against it ("as"), 1 where it stays a Python function. Putting batches together
 * and handing them over cost ops nothing that shows: the last one writes into the batch. Other
 * programs are taken to go on as they did; where workers waited for each other's CPUs, each step is
 * given its share of their CPU time. */
#include "trace/translated.h"

#include <math.h>

typedef struct costs {
    double then, host; /* seconds of all workers; `host`: of these under Python's lock */
} costs;

static costs costs_of(const mr_summary *s, const json_t *ops) {
    costs c = {0, 0};
    for (int32_t i = 0; i < s->trace->n_ops; i++) {
        const json_t *as = json_object_get(json_array_get(ops, (size_t)i), "as");
        double cost = json_is_number(as) ? fmax(json_number_value(as), 0) : 1;
        double seconds = s->ops[i].total;
        c.then += cost * seconds;
        c.host += cost >= 1 ? seconds : 0;
    }
    return c;
}

bool mr_translated_make(const mr_summary *s, mr_translated *out) {
    const mr_figures *f = &s->figures;
    if (!f->foreign || !json_object_get(s->trace->header, "translation")) {
        return false;
    }
    costs c = costs_of(s, json_object_get(s->trace->header, "ops"));
    double made = (double)s->kinds[MR_SPAN_SAMPLE].count;
    bool crowded = f->workers > f->cpus && f->cpu > 0;
    double running = crowded ? fmin(mr_divide(f->cpu, f->work + f->seal), 1) : 1;
    double each = mr_divide(running * c.then, made), host = mr_divide(running * c.host, made);
    double threads = fmin(f->workers > 0 ? f->workers : f->cpus, f->cpus);
    double rate = mr_lower(mr_divide(threads, each), mr_divide(1, host));
    rate = mr_lower(rate, mr_divide(f->samples, f->consume));
    *out = (mr_translated){rate, mr_divide(rate, s->verdict.rate), c.host > 0};
    return isfinite(rate) && rate > 0 && out->times > 0;
}
