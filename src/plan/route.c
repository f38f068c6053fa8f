/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - see route.h. */
#include "plan/route.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

/* ---- Routes ---- */
/* Lanes that all courses with blocks have; where they differ there is one. */
static int32_t common_lanes(const mr_route *route) {
    int32_t lanes = 0;
    for (int32_t i = 0; i < route->n_courses; i++) {
        int32_t own = mr_course_lanes(route->courses[i]);
        if (mr_course_max_visits(route->courses[i]) > 0) {
            lanes = lanes == 0 || lanes == own ? own : 1;
        }
    }
    return lanes > 0 ? lanes : 1;
}

mr_status mr_route_open(mr_route *route, mr_course *const *courses, const mr_mix_terms *terms,
                        uint64_t seed, mr_error *err) {
    int32_t n = terms->weights ? terms->n_children : 1;
    route->courses = mr_zalloc((size_t)n, sizeof(mr_course *));
    if (!route->courses) {
        return mr_fail_memory(err, (size_t)n * sizeof(mr_course *));
    }
    for (; route->n_courses < n; route->n_courses++) {
        route->courses[route->n_courses] = courses[route->n_courses];
    }
    if (!terms->weights) {
        return MR_OK;
    }
    const mr_mix_config config = {.courses = route->courses,
                                  .weights = terms->weights,
                                  .n_children = n,
                                  .round = terms->round,
                                  .length = terms->length,
                                  .lanes = common_lanes(route),
                                  .seed = seed};
    return mr_mix_open(&route->mix, &config, err);
}

void mr_route_free(mr_route *route) {
    mr_mix_free(route->mix);
    mr_free(route->courses);
    *route = (mr_route){0};
}

int64_t mr_route_length(const mr_route *route) {
    return route->mix ? mr_mix_length(route->mix) : mr_course_length(route->courses[0]);
}

static int32_t own_lanes(const mr_route *route) {
    return route->mix ? common_lanes(route) : mr_course_lanes(route->courses[0]);
}

static bool has_bucket(const mr_route *route) {
    return route->bucket.length > 0;
}

int32_t mr_route_lanes(const mr_route *route) {
    return has_bucket(route) ? route->bucket.lanes : own_lanes(route);
}

bool mr_route_needs_no_table(const mr_route *route) {
    return !route->mix && !has_bucket(route) && mr_course_needs_no_table(route->courses[0]);
}

void mr_route_bucket(mr_route *route, int64_t group, int64_t stretch, bool by_lanes, bool shuffle,
                     uint64_t seed, const uint32_t *const *lengths) {
    int32_t lanes = own_lanes(route);
    route->bucket = (mr_bucketing){.length = mr_route_length(route),
                                   .group = group,
                                   .stretch = stretch,
                                   .lanes = by_lanes && group % lanes == 0 ? lanes : 1,
                                   .shuffle = shuffle,
                                   .seed = seed,
                                   .lengths = lengths};
}

int64_t mr_route_run(const mr_route *route, int64_t epoch, int64_t position) {
    int64_t run;
    if (__builtin_mul_overflow(epoch, mr_route_length(route), &run) ||
        __builtin_add_overflow(run, position, &run)) {
        return INT64_MAX;
    }
    return run;
}

/* ---- Cursors ---- */
struct mr_route_cursor {
    mr_course_cursor *course; /* one of these */
    mr_mix_cursor *mix;
    mr_bucket_cursor *bucket; /* and this upon it; or NULL */
};

static mr_status list_own(void *user, uint32_t epoch, const mr_positions *positions, mr_pick *picks,
                          mr_error *err) {
    mr_route_cursor *cursor = user;
    return cursor->mix ? mr_mix_list(cursor->mix, epoch, positions, picks, err)
                       : mr_course_list(cursor->course, epoch, positions, picks, err);
}

static mr_status open_bucket(mr_route_cursor *cursor, const mr_route *route, mr_error *err) {
    const mr_pick_lister lister = {list_own, cursor};
    return has_bucket(route) ? mr_bucket_cursor_open(&cursor->bucket, &route->bucket, &lister, err)
                             : MR_OK;
}

mr_status mr_route_cursor_open(mr_route_cursor **out, const mr_route *route, mr_error *err) {
    mr_route_cursor *cursor = mr_zalloc(1, sizeof *cursor);
    if (!cursor) {
        return mr_fail_memory(err, sizeof *cursor);
    }
    mr_status status = route->mix ? mr_mix_cursor_open(&cursor->mix, route->mix, err)
                                  : mr_course_cursor_open(&cursor->course, route->courses[0], err);
    status = status < 0 ? status : open_bucket(cursor, route, err);
    if (status < 0) {
        mr_route_cursor_free(cursor);
        return status;
    }
    *out = cursor;
    return MR_OK;
}

void mr_route_cursor_free(mr_route_cursor *cursor) {
    if (cursor) {
        mr_bucket_cursor_free(cursor->bucket);
        mr_course_cursor_free(cursor->course);
        mr_mix_cursor_free(cursor->mix);
        mr_free(cursor);
    }
}

mr_status mr_route_list(mr_route_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                        mr_pick *picks, mr_error *err) {
    return cursor->bucket ? mr_bucket_list(cursor->bucket, epoch, positions, picks, err)
                          : list_own(cursor, epoch, positions, picks, err);
}

mr_status mr_route_substitute(mr_route_cursor *cursor, uint32_t epoch, int64_t position,
                              uint32_t attempt, mr_pick *pick, mr_error *err) {
    if (cursor->bucket) {
        MR_TRY(mr_bucket_origin(cursor->bucket, epoch, position, &position, err));
    }
    return cursor->mix ? mr_mix_substitute(cursor->mix, epoch, position, attempt, pick, err)
                       : mr_course_substitute(cursor->course, epoch, position, attempt, pick, err);
}

/* ---- Walks ---- */
struct mr_route_walk {
    const mr_route *route;
    mr_mix_walk *mix;
    mr_visit_walk *visits; /* of one epoch of the one course */
    uint32_t epoch;
    int32_t first_lane, end_lane;
};

static mr_status enter_epoch(mr_route_walk *walk, uint32_t epoch, int64_t position, mr_error *err) {
    mr_visit_walk_free(walk->visits);
    walk->visits = NULL;
    walk->epoch = epoch;
    return mr_visit_walk_open(&walk->visits, walk->route->courses[0], epoch, position,
                              walk->first_lane, walk->end_lane, err);
}

mr_status mr_route_walk_open(mr_route_walk **out, const mr_route *route, uint32_t epoch,
                             int64_t position, int32_t first_lane, int32_t end_lane,
                             mr_error *err) {
    mr_route_walk *walk = mr_zalloc(1, sizeof *walk);
    if (!walk) {
        return mr_fail_memory(err, sizeof *walk);
    }
    *walk = (mr_route_walk){.route = route, .first_lane = first_lane, .end_lane = end_lane};
    if (has_bucket(route)) { /* what stands at the position may be from the stretch's beginning */
        position -= position % route->bucket.stretch;
        bool keeps_lanes = route->bucket.lanes == own_lanes(route);
        walk->end_lane = keeps_lanes || end_lane == 0 ? end_lane : own_lanes(route);
    }
    mr_status status = route->mix ? mr_mix_walk_open(&walk->mix, route->mix, epoch, position,
                                                     walk->first_lane, walk->end_lane, err)
                                  : enter_epoch(walk, epoch, position, err);
    if (status < 0) {
        mr_route_walk_free(walk);
        return status;
    }
    *out = walk;
    return MR_OK;
}

void mr_route_walk_free(mr_route_walk *walk) {
    if (walk) {
        mr_mix_walk_free(walk->mix);
        mr_visit_walk_free(walk->visits);
        mr_free(walk);
    }
}

/* An epoch without visits is followed by others that have none either, unless the walk began at its
 * end or has lanes that are empty in it: so two of them are looked at. */
static mr_status next_of_course(mr_route_walk *walk, mr_mix_visit *out, mr_error *err) {
    for (int entered = 0; walk->visits == NULL || !mr_visit_walk_next(walk->visits, &out->visit);
         entered++) {
        if (entered == 2 || walk->epoch == UINT32_MAX) {
            return MR_END;
        }
        MR_TRY(enter_epoch(walk, walk->epoch + (walk->visits ? 1 : 0), 0, err));
    }
    out->child = 0;
    out->epoch = walk->epoch;
    out->visit.first_position = mr_route_run(walk->route, walk->epoch, out->visit.first_position);
    out->visit.end_position = mr_route_run(walk->route, walk->epoch, out->visit.end_position);
    return MR_OK;
}

mr_status mr_route_walk_next(mr_route_walk *walk, mr_mix_visit *out, mr_error *err) {
    mr_status status =
        walk->mix ? mr_mix_walk_next(walk->mix, out, err) : next_of_course(walk, out, err);
    if (status == MR_OK && has_bucket(walk->route)) {
        mr_bucket_widen(&walk->route->bucket, &out->visit.first_position, &out->visit.end_position);
    }
    return status;
}
