/* SPDX-License-Identifier: Apache-2.0 */
/* live_hear.c - what the trainer says of samples, and when it holds: it is written to the journal,
 * and both buffers know it from the same step on. */
#include <string.h>

#include "core/error.h"
#include "run/stream/live_parts.h"

static mr_status keep_extra(mr_live *live, const mr_said *said, mr_error *err) {
    for (int64_t i = 0; said->width > 0 && i < said->n; i++) {
        if (mr_rehearsal_knows(live->planned, said->ids[i])) {
            MR_TRY(mr_extras_set(&live->extras, said->ids[i], said->extra + i * said->width,
                                 said->width, err));
        }
    }
    return MR_OK;
}

static mr_status apply_values(mr_rehearsal *buffer, const mr_said *said, mr_error *err) {
    for (int64_t i = 0; said->has_values && i < said->n; i++) {
        MR_TRY(mr_rehearsal_value(buffer, said->ids[i], said->values[i], err));
    }
    return MR_OK;
}

mr_status mr_live_hear_planned(mr_live *live, int64_t step, mr_error *err) {
    const mr_said *said;
    while ((said = mr_hearsay_next(&live->hearsay, step, &live->heard_planned))) {
        MR_TRY(apply_values(live->planned, said, err));
        MR_TRY(keep_extra(live, said, err));
    }
    return MR_OK;
}

mr_status mr_live_hear_delivered(mr_live *live, int64_t step, mr_error *err) {
    const mr_said *said;
    while ((said = mr_hearsay_next(&live->hearsay, step, &live->heard_delivered))) {
        MR_TRY(apply_values(live->delivered, said, err));
    }
    mr_hearsay_forget(&live->hearsay, live->heard_delivered); /* planning is ahead of it */
    return MR_OK;
}

/* What held before a state was saved is in its buffer, but for what the journal alone has. */
mr_status mr_live_hear_the_past(mr_live *live, mr_error *err) {
    const mr_said *said;
    while (live->planned && live->first_step > 0 &&
           (said = mr_hearsay_next(&live->hearsay, live->first_step - 1, &live->heard_planned))) {
        MR_TRY(keep_extra(live, said, err));
    }
    live->heard_delivered = live->heard_planned;
    return MR_OK;
}

static mr_status check_feedback(const mr_live *live, const mr_feedback *f, mr_error *err) {
    if (!live->planned) {
        mr_fail(err, MR_E_PARAM, "nothing is shown again, so nobody wants to know of samples");
        mr_hint(err, "add \"rehearse\" to the pipeline");
        return MR_E_PARAM;
    }
    if (f->values && live->config.pipeline->rehearse.policy != MR_REHEARSE_PRIORITY) {
        mr_fail(err, MR_E_PARAM, "values are for the policy \"priority\"");
        mr_hint(err, "use \"policy\": \"priority\", or give extra alone");
        return MR_E_PARAM;
    }
    for (int64_t i = 0; i < f->n; i++) {
        bool in_range = !f->values || (f->values[i] >= 0 && f->values[i] <= MR_REHEARSAL_VALUE_MAX);
        if (!in_range || f->samples[i] < 0) {
            return mr_fail(err, MR_E_PARAM, "values are 0 to %g, samples are not negative",
                           MR_REHEARSAL_VALUE_MAX);
        }
    }
    return MR_OK;
}

static void fill_said(mr_said *said, const mr_feedback *f) {
    size_t n = (size_t)f->n;
    memcpy(said->ids, f->samples, n * sizeof *said->ids);
    if (f->values) {
        memcpy(said->values, f->values, n * sizeof *said->values);
    }
    if (said->width > 0) {
        memcpy(said->extra, f->extra, n * (size_t)said->width * sizeof *said->extra);
    }
}

/* What the journal has already, from before the run was killed, is said once more by a trainer that
 * sees the same batches again: it holds from where it held. */
mr_status mr_live_hear(mr_live *live, const mr_feedback *f, mr_error *err) {
    mr_said *said = NULL;
    MR_TRY(check_feedback(live, f, err));
    if (f->n == 0 || live->delivered_step - 1 <= live->hearsay.known_after) {
        return MR_OK;
    }
    MR_TRY(mr_said_new(&said, f->n, f->values != NULL, f->extra ? f->width : 0, err));
    said->after = live->delivered_step - 1;
    fill_said(said, f);
    return mr_decisions_hear(live->decisions, said, err);
}
