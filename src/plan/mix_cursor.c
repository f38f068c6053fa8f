/* SPDX-License-Identifier: Apache-2.0 */
/* mix_cursor.c - positions of a mix to picks of its children.
 *
 * Positions are taken lane by lane and round by round. The groups of a child that lie in a stretch
 * of a round follow one another in the child too, so each child is asked for all of them at once,
 * and its picks are then dealt out. */
#include "plan/mix_round.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

enum { STRETCH = 256 }; /* groups at once */

struct mr_mix_cursor {
    const mr_mix *mix;
    mr_mix_round round;
    mr_course_cursor **children;
    int64_t *taken; /* picks of each child that are dealt out, in a stretch */
    mr_pick picks[STRETCH];
};

/* ---- Places ---- */

static mr_status run_position(const mr_mix *mix, uint32_t epoch, int64_t position, int64_t *out,
                              mr_error *err) {
    if (__builtin_mul_overflow((int64_t)epoch, mix->length, out) ||
        __builtin_add_overflow(*out, position, out) || *out >= MR_MAX_RUN) {
        return mr_fail(err, MR_E_LIMIT, "epoch %lu of the mix is beyond the longest run",
                       (unsigned long)epoch);
    }
    return MR_OK;
}

/* A child's run position as one of an epoch. */
static mr_status place_of(const mr_mix *mix, int32_t child, int64_t run, mr_mix_place *out,
                          mr_error *err) {
    int64_t length = mix->children[child].epoch, epoch = run / length;
    if (epoch > UINT32_MAX) {
        return mr_fail(err, MR_E_LIMIT, "child %d of the mix would begin its epoch %lld",
                       (int)child, (long long)epoch);
    }
    *out = (mr_mix_place){.child = child, .epoch = (uint32_t)epoch, .position = run % length};
    return MR_OK;
}

mr_status mr_mix_at(mr_mix_cursor *cursor, uint32_t epoch, int64_t position, mr_mix_place *out,
                    mr_error *err) {
    const mr_mix *mix = cursor->mix;
    int64_t run = 0;
    MR_TRY(run_position(mix, epoch, position, &run, err));
    int64_t group = run / mix->lanes, number = group / mix->round, at = group % mix->round;
    MR_TRY(mr_mix_round_enter(&cursor->round, mix, number, err));
    int32_t child = cursor->round.child[at];
    int64_t child_group = number * mix->children[child].quota + cursor->round.rank[at];
    return place_of(mix, child, child_group * mix->lanes + run % mix->lanes, out, err);
}

/* ---- Picks ---- */

/* `count` picks of a child in one lane, from its run position on. */
static mr_status list_child(mr_mix_cursor *cursor, int32_t child, int64_t run, int64_t count,
                            mr_pick *picks, mr_error *err) {
    const mr_mix *mix = cursor->mix;
    int64_t lanes = mix->lanes, length = mix->children[child].epoch;
    for (int64_t done = 0; done < count;) {
        mr_mix_place place = {0};
        MR_TRY(place_of(mix, child, run + done * lanes, &place, err));
        int64_t inside = (length - place.position + lanes - 1) / lanes, rest = count - done;
        mr_positions positions = {place.position, inside < rest ? inside : rest, 1, lanes};
        MR_TRY(mr_course_list(cursor->children[child], place.epoch, &positions, picks + done, err));
        done += positions.count;
    }
    for (int64_t i = 0; i < count; i++) {
        picks[i].child = child;
    }
    return MR_OK;
}

/* The picks of each child in groups [first, end) of the round, one child after the other, to the
 * cursor. taken[c] becomes where those of c begin. */
static mr_status list_children(mr_mix_cursor *cursor, int64_t lane, int64_t first, int64_t end,
                               mr_error *err) {
    const mr_mix *mix = cursor->mix;
    int64_t filled = 0;
    for (int32_t c = 0; c < mix->n_children; c++) {
        int64_t before = mr_mix_round_before(&cursor->round, mix, c, first);
        int64_t count = mr_mix_round_before(&cursor->round, mix, c, end) - before;
        int64_t group = cursor->round.number * mix->children[c].quota + before;
        cursor->taken[c] = filled;
        if (count > 0) {
            MR_TRY(list_child(cursor, c, group * mix->lanes + lane, count, cursor->picks + filled,
                              err));
        }
        filled += count;
    }
    return MR_OK;
}

/* `count` groups of the run in one lane, from `group` on, to every `stride`-th pick. */
static mr_status list_lane(mr_mix_cursor *cursor, int64_t lane, int64_t group, int64_t count,
                           mr_pick *picks, int64_t stride, mr_error *err) {
    const mr_mix *mix = cursor->mix;
    for (int64_t done = 0; done < count;) {
        int64_t first = (group + done) % mix->round, left = mix->round - first;
        int64_t rest = count - done, n = rest < left ? rest : left;
        n = n < STRETCH ? n : STRETCH;
        MR_TRY(mr_mix_round_enter(&cursor->round, mix, (group + done) / mix->round, err));
        MR_TRY(list_children(cursor, lane, first, first + n, err));
        for (int64_t i = 0; i < n; i++) {
            int32_t child = cursor->round.child[first + i];
            picks[(done + i) * stride] = cursor->picks[cursor->taken[child]++];
        }
        done += n;
    }
    return MR_OK;
}

/* Positions of an epoch of which none is behind the last, with a stride of K: each of the first
 * `run` is the first of a lane. */
static mr_status list_lanes(mr_mix_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                            mr_pick *picks, mr_error *err) {
    int64_t lanes = cursor->mix->lanes;
    for (int64_t i = 0; i < positions->run && i < positions->count; i++) {
        int64_t run = 0, count = (positions->count - i + positions->run - 1) / positions->run;
        MR_TRY(run_position(cursor->mix, epoch, positions->first + i, &run, err));
        MR_TRY(list_lane(cursor, run % lanes, run / lanes, count, picks + i, positions->run, err));
    }
    return MR_OK;
}

/* Consecutive positions; behind the last comes the first again. */
static mr_status list_run(mr_mix_cursor *cursor, uint32_t epoch, int64_t first, int64_t count,
                          mr_pick *picks, mr_error *err) {
    int64_t lanes = cursor->mix->lanes;
    first %= cursor->mix->length;
    for (int64_t done = 0; done < count;) {
        int64_t left = cursor->mix->length - first, rest = count - done;
        mr_positions all_lanes = {first, rest < left ? rest : left, lanes, lanes};
        MR_TRY(list_lanes(cursor, epoch, &all_lanes, picks + done, err));
        done += all_lanes.count;
        first = 0;
    }
    return MR_OK;
}

/* Whether a pattern goes through the epoch a lane at a time. */
static bool goes_by_lane(const mr_mix *mix, const mr_positions *positions) {
    return positions->stride == mix->lanes && positions->run <= mix->lanes &&
           mr_positions_at(positions, positions->count - 1) < mix->length;
}

mr_status mr_mix_list(mr_mix_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                      mr_pick *picks, mr_error *err) {
    if (positions->run == positions->stride || positions->count <= positions->run) {
        return list_run(cursor, epoch, positions->first, positions->count, picks, err);
    }
    if (goes_by_lane(cursor->mix, positions)) {
        return list_lanes(cursor, epoch, positions, picks, err);
    }
    for (int64_t done = 0; done < positions->count;) {
        int64_t left = positions->run - done % positions->run, rest = positions->count - done;
        int64_t n = left < rest ? left : rest;
        MR_TRY(list_run(cursor, epoch, mr_positions_at(positions, done), n, picks + done, err));
        done += n;
    }
    return MR_OK;
}

mr_status mr_mix_substitute(mr_mix_cursor *cursor, uint32_t epoch, int64_t position,
                            uint32_t attempt, mr_pick *pick, mr_error *err) {
    mr_mix_place place = {0};
    MR_TRY(mr_mix_at(cursor, epoch, position, &place, err));
    MR_TRY(mr_course_substitute(cursor->children[place.child], place.epoch, place.position, attempt,
                                pick, err));
    pick->child = place.child;
    return MR_OK;
}

/* ---- Cursors ---- */

static mr_status open_children(mr_mix_cursor *cursor, mr_error *err) {
    size_t n = (size_t)cursor->mix->n_children;
    cursor->children = mr_zalloc(n, sizeof(mr_course_cursor *));
    cursor->taken = mr_zalloc(n, sizeof *cursor->taken);
    if (!cursor->children || !cursor->taken) {
        return mr_fail_memory(err, n * 16);
    }
    for (size_t i = 0; i < n; i++) {
        MR_TRY(mr_course_cursor_open(&cursor->children[i], cursor->mix->children[i].course, err));
    }
    return mr_mix_round_init(&cursor->round, cursor->mix, err);
}

mr_status mr_mix_cursor_open(mr_mix_cursor **out, const mr_mix *mix, mr_error *err) {
    mr_mix_cursor *cursor = mr_zalloc(1, sizeof *cursor);
    if (!cursor) {
        return mr_fail_memory(err, sizeof *cursor);
    }
    cursor->mix = mix;
    mr_status status = open_children(cursor, err);
    if (status < 0) {
        mr_mix_cursor_free(cursor);
        return status;
    }
    *out = cursor;
    return MR_OK;
}

void mr_mix_cursor_free(mr_mix_cursor *cursor) {
    if (!cursor) {
        return;
    }
    for (int32_t i = 0; cursor->children && i < cursor->mix->n_children; i++) {
        mr_course_cursor_free(cursor->children[i]);
    }
    mr_free(cursor->children);
    mr_free(cursor->taken);
    mr_mix_round_free(&cursor->round);
    mr_free(cursor);
}
