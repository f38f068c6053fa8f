/* SPDX-License-Identifier: Apache-2.0 */
/* mix_visits.c - the visits of all children's blocks in the order in which a mix needs them.
 *
 * A child's positions stand in the mix in the order they have in the child, so each child's own
 * walk, one epoch after the other, is in order already; the earliest of their next visits comes
 * first. */
#include "plan/mix_round.h"

#include "core/error.h"
#include "core/memory.h"
#include "plan/schedule.h"

#include <millrace/millrace.h>

typedef struct child_walk {
    mr_visit_walk *walk; /* NULL: the child has no blocks, or no more epochs */
    int64_t epoch, from; /* visits that are over by this position of the epoch do not come */
    mr_visit next;       /* positions are the run's, of the mix */
    mr_visit placed;     /* the same with the child's positions */
} child_walk;

struct mr_mix_walk {
    const mr_mix *mix;
    child_walk *children;
    mr_mix_round round;
    int32_t first_lane, end_lane;
};

/* ---- Positions ---- */

/* A child's position of an epoch as the run's, of the mix. */
static mr_status position_in_mix(mr_mix_walk *walk, int32_t c, int64_t epoch, int64_t position,
                                 int64_t *out, mr_error *err) {
    const mr_mix *mix = walk->mix;
    const mr_mix_child *child = &mix->children[c];
    int64_t run = epoch * child->epoch + position, group = run / mix->lanes;
    int64_t number = group / child->quota;
    MR_TRY(mr_mix_round_enter(&walk->round, mix, number, err));
    int64_t at = walk->round.group[child->first + group % child->quota];
    *out = (number * mix->round + at) * mix->lanes + run % mix->lanes;
    return MR_OK;
}

/* The first run position of a child that stands in the mix at or behind one of the mix. */
static mr_status child_position_from(mr_mix_walk *walk, int32_t c, int64_t run, int64_t *out,
                                     mr_error *err) {
    const mr_mix *mix = walk->mix;
    int64_t group = run / mix->lanes, number = group / mix->round, at = group % mix->round;
    MR_TRY(mr_mix_round_enter(&walk->round, mix, number, err));
    int64_t before = mr_mix_round_before(&walk->round, mix, c, at);
    bool inside = walk->round.child[at] == c;
    *out =
        (number * mix->children[c].quota + before) * mix->lanes + (inside ? run % mix->lanes : 0);
    return MR_OK;
}

/* ---- A child's visits ---- */

/* Whether the whole of a child's epoch lies within the longest run. */
static bool is_possible(const mr_mix *mix, const mr_mix_child *child, int64_t epoch) {
    int64_t end = 0, rounds_apart = mix->round / child->quota + 2;
    return epoch < MR_MAX_EPOCHS && !__builtin_mul_overflow(epoch + 1, child->epoch, &end) &&
           !__builtin_mul_overflow(end, rounds_apart, &end) && end < MR_MAX_RUN;
}

static mr_status enter_epoch(mr_mix_walk *walk, int32_t c, int64_t epoch, int64_t position,
                             mr_error *err) {
    const mr_mix_child *child = &walk->mix->children[c];
    child_walk *of = &walk->children[c];
    mr_visit_walk_free(of->walk);
    of->walk = NULL;
    of->epoch = epoch;
    of->from = position;
    of->placed = (mr_visit){0};
    if (!is_possible(walk->mix, child, epoch)) {
        return MR_OK;
    }
    int32_t first = child->aligned ? walk->first_lane : 0;
    int32_t end = child->aligned ? walk->end_lane : mr_course_lanes(child->course);
    return mr_visit_walk_open(&of->walk, child->course, (uint32_t)epoch, position, first, end, err);
}

/* Positions from child->epoch on are left out: fewer than K, so one of a lane at most. False where
 * that was all, or all that was left. */
static bool cut_visit(const mr_mix_walk *walk, int32_t c, mr_visit *visit) {
    const mr_mix_child *child = &walk->mix->children[c];
    if (visit->end_position > child->epoch && child->aligned) {
        visit->end_position -= walk->mix->lanes;
    }
    return visit->end_position > visit->first_position &&
           visit->end_position > walk->children[c].from;
}

/* The visits of a window follow one another and have its positions in common, which are looked up
 * in the tables of other rounds: once will do. */
static mr_status place_visit(mr_mix_walk *walk, int32_t c, const mr_visit *visit, mr_error *err) {
    child_walk *of = &walk->children[c];
    mr_visit next = *visit;
    next.first_position = of->next.first_position;
    next.end_position = of->next.end_position;
    if (visit->first_position != of->placed.first_position ||
        visit->end_position != of->placed.end_position) {
        int64_t last = 0;
        MR_TRY(
            position_in_mix(walk, c, of->epoch, visit->first_position, &next.first_position, err));
        MR_TRY(position_in_mix(walk, c, of->epoch, visit->end_position - 1, &last, err));
        next.end_position = last + 1;
    }
    of->placed = *visit;
    of->next = next;
    return MR_OK;
}

static mr_status advance(mr_mix_walk *walk, int32_t c, mr_error *err) {
    child_walk *of = &walk->children[c];
    while (of->walk) {
        mr_visit visit;
        if (!mr_visit_walk_next(of->walk, &visit)) {
            MR_TRY(enter_epoch(walk, c, of->epoch + 1, 0, err));
        } else if (cut_visit(walk, c, &visit)) {
            return place_visit(walk, c, &visit, err);
        }
    }
    return MR_OK;
}

static mr_status start_child(mr_mix_walk *walk, int32_t c, int64_t run, mr_error *err) {
    const mr_mix_child *child = &walk->mix->children[c];
    int64_t position = 0;
    bool nobody = child->aligned && walk->first_lane == walk->end_lane;
    if (mr_course_max_visits(child->course) == 0 || nobody) {
        return MR_OK; /* no visit would ever come */
    }
    MR_TRY(child_position_from(walk, c, run, &position, err));
    MR_TRY(enter_epoch(walk, c, position / child->epoch, position % child->epoch, err));
    return advance(walk, c, err);
}

/* ---- Walks ---- */

static mr_status start(mr_mix_walk *walk, int64_t run, mr_error *err) {
    size_t n = (size_t)walk->mix->n_children;
    walk->children = mr_zalloc(n, sizeof *walk->children);
    if (!walk->children) {
        return mr_fail_memory(err, n * sizeof *walk->children);
    }
    MR_TRY(mr_mix_round_init(&walk->round, walk->mix, err));
    for (int32_t c = 0; c < walk->mix->n_children; c++) {
        MR_TRY(start_child(walk, c, run, err));
    }
    return MR_OK;
}

mr_status mr_mix_walk_open(mr_mix_walk **out, const mr_mix *mix, uint32_t epoch, int64_t position,
                           int32_t first_lane, int32_t end_lane, mr_error *err) {
    int64_t run = 0;
    if (first_lane < 0 || first_lane > end_lane || end_lane > mix->lanes || position < 0 ||
        __builtin_mul_overflow((int64_t)epoch, mix->length, &run) ||
        __builtin_add_overflow(run, position, &run) || run >= MR_MAX_RUN) {
        return mr_fail(err, MR_E_PARAM, "lanes %d to %d from position %lld do not exist",
                       (int)first_lane, (int)end_lane, (long long)position);
    }
    mr_mix_walk *walk = mr_zalloc(1, sizeof *walk);
    if (!walk) {
        return mr_fail_memory(err, sizeof *walk);
    }
    *walk = (mr_mix_walk){.mix = mix, .first_lane = first_lane, .end_lane = end_lane};
    mr_status status = start(walk, run, err);
    if (status < 0) {
        mr_mix_walk_free(walk);
        return status;
    }
    *out = walk;
    return MR_OK;
}

void mr_mix_walk_free(mr_mix_walk *walk) {
    if (!walk) {
        return;
    }
    for (int32_t c = 0; walk->children && c < walk->mix->n_children; c++) {
        mr_visit_walk_free(walk->children[c].walk);
    }
    mr_free(walk->children);
    mr_mix_round_free(&walk->round);
    mr_free(walk);
}

mr_status mr_mix_walk_next(mr_mix_walk *walk, mr_mix_visit *out, mr_error *err) {
    int32_t first = -1;
    for (int32_t c = 0; c < walk->mix->n_children; c++) {
        const child_walk *of = &walk->children[c];
        bool earlier =
            first < 0 || of->next.first_position < walk->children[first].next.first_position;
        first = of->walk && earlier ? c : first;
    }
    if (first < 0) {
        return MR_END;
    }
    const child_walk *of = &walk->children[first];
    *out = (mr_mix_visit){.child = first, .epoch = (uint32_t)of->epoch, .visit = of->next};
    return advance(walk, first, err);
}
