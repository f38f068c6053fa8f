/* SPDX-License-Identifier: Apache-2.0 */
/* course.c - a course's configuration, checked, and its blocks counted. */
#include "plan/course_epoch.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/order.h"

#include <millrace/millrace.h>

/* ---- Checks ---- */

static mr_status check_counts(const mr_course_config *c, mr_error *err) {
    if (c->samples < 1 || c->samples > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_LIMIT, "cannot order %lld samples: from 1 to %lld are possible",
                       (long long)c->samples, (long long)MR_MAX_SAMPLES);
    }
    if (c->n_blocks < 0 || c->n_blocks > MR_MAX_BLOCKS) {
        return mr_fail(err, MR_E_LIMIT, "cannot order %lld blocks: at most %lld are possible",
                       (long long)c->n_blocks, (long long)MR_MAX_BLOCKS);
    }
    if (c->lanes < 1 || c->lanes > MR_MAX_LANES) {
        return mr_fail(err, MR_E_PARAM, "the number of lanes is %d, but must be from 1 to %d",
                       (int)c->lanes, MR_MAX_LANES);
    }
    if (c->window < 0) {
        return mr_fail(err, MR_E_PARAM, "a window of %lld blocks is not possible",
                       (long long)c->window);
    }
    return MR_OK;
}

static mr_status check_blocks(const mr_course_config *c, mr_error *err) {
    for (int64_t b = 0; b < c->n_blocks; b++) {
        if (c->first[b] > c->first[b + 1]) {
            return mr_fail(err, MR_E_CORRUPT, "block %lld begins at sample %lld, behind its end",
                           (long long)b, (long long)c->first[b]);
        }
    }
    if (c->n_blocks > 0 && (c->first[0] != 0 || c->first[c->n_blocks] != c->samples)) {
        return mr_fail(
            err, MR_E_CORRUPT, "the blocks have samples %lld to %lld, but there are %lld",
            (long long)c->first[0], (long long)c->first[c->n_blocks], (long long)c->samples);
    }
    return MR_OK;
}

static mr_status check_selection(const mr_course_config *c, mr_error *err) {
    if (c->selection && mr_selection_samples(c->selection) != c->samples) {
        return mr_fail(err, MR_E_INTERNAL, "a selection from %lld samples for a course of %lld",
                       (long long)mr_selection_samples(c->selection), (long long)c->samples);
    }
    return MR_OK;
}

/* ---- Blocks ---- */

/* How many visits a lane's window may have. */
static int64_t visits_of_window(const mr_course_config *c) {
    if (!c->shuffle) {
        return 1;
    }
    if (c->window == 0) {
        return MR_MAX_BLOCKS;
    }
    return c->window < c->lanes ? 1 : c->window / c->lanes;
}

static mr_status open_blocks(mr_course *course, mr_error *err) {
    const mr_course_config *c = &course->config;
    MR_TRY(mr_selection_blocks_open(&course->blocks, c->selection, c->n_blocks, c->first,
                                    c->shuffle, c->seed, err));
    course->n_units = mr_selection_blocks_units(course->blocks);
    course->length = mr_selection_blocks_rows(course->blocks);
    course->plain = !c->selection || mr_selection_is_subset(c->selection) ||
                    (!c->shuffle && !mr_selection_is_drawn(c->selection));
    course->lanes = c->shuffle ? c->lanes : 1;
    course->window_visits = visits_of_window(c);
    course->config.first = NULL;
    return MR_OK;
}

/* ---- Courses ---- */

mr_status mr_course_open(mr_course **out, const mr_course_config *config, mr_error *err) {
    MR_TRY(check_counts(config, err));
    MR_TRY(check_blocks(config, err));
    MR_TRY(check_selection(config, err));
    mr_course *course = mr_zalloc(1, sizeof *course);
    if (!course) {
        return mr_fail_memory(err, sizeof *course);
    }
    course->config = *config;
    course->length = config->selection ? mr_selection_length(config->selection) : config->samples;
    course->lanes = config->lanes;
    mr_status status = config->n_blocks > 0 ? open_blocks(course, err) : MR_OK;
    if (status < 0) {
        mr_course_free(course);
        return status;
    }
    *out = course;
    return MR_OK;
}

void mr_course_free(mr_course *course) {
    if (course) {
        mr_selection_blocks_free(course->blocks);
        mr_free(course);
    }
}

int64_t mr_course_length(const mr_course *course) {
    return course->length;
}

int32_t mr_course_lanes(const mr_course *course) {
    return course->lanes;
}

bool mr_course_needs_no_table(const mr_course *course) {
    const mr_course_config *c = &course->config;
    bool drawn = c->selection && mr_selection_is_drawn(c->selection);
    return !course->blocks && !drawn && (!c->shuffle || course->length > MR_ORDER_TABLE_MAX);
}

int64_t mr_course_max_visits(const mr_course *course) {
    return course->n_units > 0 ? course->n_units + course->lanes - 1 : 0;
}
