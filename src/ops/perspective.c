/* SPDX-License-Identifier: Apache-2.0 */
/* perspective.c - the op perspective: the image seen from a drawn place. */
#include "ops/warping.h"

#include <math.h>
#include <stddef.h>

#include "core/error.h"

enum { DRAW_APPLY, DRAW_CORNERS };
enum { UNKNOWNS = 8 };

typedef struct perspective_params {
    mr_warp_params warp;
    double distortion, p;
} perspective_params;

/* ---- Drawing ---- */
/* Where the corners go: upper left, upper right, lower right, lower left; x and y. */
typedef struct corners {
    double at[4][2];
} corners;

/* A place up to `most` inside of the near side, or up to `most` + 1 inside of the far one. */
static double draw_near(const mr_key *key, uint32_t draw, int64_t most) {
    return (double)mr_draw_below(key, draw, most + 1);
}

static double draw_far(const mr_key *key, uint32_t draw, int64_t most, int64_t side) {
    return (double)(side - most - 1 + mr_draw_below(key, draw, most + 1));
}

static corners draw_corners(const perspective_params *p, const mr_key *key, const mr_type *in) {
    int64_t height = in->dims[0], width = in->dims[1];
    int64_t half_width = width / 2, half_height = height / 2;
    int64_t across = (int64_t)(p->distortion * (double)half_width);
    int64_t down = (int64_t)(p->distortion * (double)half_height);
    corners c;
    for (uint32_t i = 0; i < 4; i++) {
        bool right = i == 1 || i == 2, low = i >= 2;
        uint32_t draw = DRAW_CORNERS + 2 * i;
        c.at[i][0] = right ? draw_far(key, draw, across, width) : draw_near(key, draw, across);
        c.at[i][1] = low ? draw_far(key, draw + 1, down, height) : draw_near(key, draw + 1, down);
    }
    return c;
}

/* ---- The map of four corners ---- */
typedef struct equations {
    double row[UNKNOWNS][UNKNOWNS + 1];
} equations;

static equations equations_of(const corners *c, const mr_type *in) {
    const double right = (double)(in->dims[1] - 1), bottom = (double)(in->dims[0] - 1);
    const double from[4][2] = {{0, 0}, {right, 0}, {right, bottom}, {0, bottom}};
    equations e;
    for (size_t i = 0; i < 4; i++) {
        double x = c->at[i][0], y = c->at[i][1], u = from[i][0], v = from[i][1];
        const double first[] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
        const double second[] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
        for (int k = 0; k <= UNKNOWNS; k++) {
            e.row[2 * i][k] = first[k];
            e.row[2 * i + 1][k] = second[k];
        }
    }
    return e;
}

static void exchange(equations *e, int a, int b) {
    for (int k = 0; k <= UNKNOWNS; k++) {
        double swap = e->row[a][k];
        e->row[a][k] = e->row[b][k];
        e->row[b][k] = swap;
    }
}

static void eliminate(equations *e, int column) {
    for (int i = 0; i < UNKNOWNS; i++) {
        double factor = e->row[i][column] / e->row[column][column];
        for (int k = column; i != column && k <= UNKNOWNS; k++) {
            e->row[i][k] -= factor * e->row[column][k];
        }
    }
}

/* Gauss and Jordan, with the largest pivot. False: the corners lie on a line. */
static bool solve(equations *e, double out[UNKNOWNS]) {
    for (int column = 0; column < UNKNOWNS; column++) {
        int best = column;
        for (int i = column + 1; i < UNKNOWNS; i++) {
            best = fabs(e->row[i][column]) > fabs(e->row[best][column]) ? i : best;
        }
        if (fabs(e->row[best][column]) < 1e-9) {
            return false;
        }
        exchange(e, column, best);
        eliminate(e, column);
    }
    for (int i = 0; i < UNKNOWNS; i++) {
        out[i] = (double)(float)(e->row[i][UNKNOWNS] / e->row[i][i]);
    }
    return true;
}

static mr_warp_draw draw(const void *params, const mr_key *key, const mr_type *in,
                         const mr_type *out) {
    const perspective_params *p = params;
    mr_warp_draw drawn = {.map = {.perspective = true}};
    (void)out;
    if (!mr_applies(p->p, key, DRAW_APPLY)) {
        return (mr_warp_draw){.identity = true};
    }
    const corners c = draw_corners(p, key, in);
    equations e = equations_of(&c, in);
    drawn.identity = !solve(&e, drawn.map.m);
    return drawn;
}

static mr_status check(void *params, mr_error *err) {
    perspective_params *p = params;
    (void)err;
    p->warp.draw = draw;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "distortion",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(perspective_params, distortion),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .doc = "How far corners may move inwards, as a share of half a side."},
    {.name = "p",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(perspective_params, p),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Probability of doing it."},
    MR_WARP_FILTER_ROW(perspective_params),
    MR_FILL_ROW(perspective_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"p\": 1}", "image:12x16x3", "3712a9caadb95ad558b827d6d9238231"},
    {"{\"p\": 1, \"filter\": \"bilinear\", \"fill\": 9}", "image:12x16x1",
     "535c9b16c3ad7cbcf04388966e6ba6dc"},
    {"{\"distortion\": 0.2}", "image:12x16x3", "a038fde26764b5601e6c2c03234d2f4c"},
    {"{\"p\": 1}", "image:1x16x3", "2e62744dd280880ffef880b0537d4e25"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_perspective = {
    MR_OP_HEADER,
    .name = "perspective",
    .summary = "Moves the four corners of the image inwards by random amounts.",
    .doc =
        "For the same corners equal to torchvision's perspective over Pillow 13's Image.transform "
        "(the map's numbers are rounded to float32, as torchvision does; it solves for them by "
        "least "
        "squares, here it is Gauss, so the last bit may differ). Done if draw 0, uniform in [0, "
        "1), "
        "is below p. With a = floor(distortion * floor(side / 2)): upper left x = below(draw 1, "
        "a + 1), y by draw 2; upper right x = W - a - 1 + below(draw 3, a + 1), y by draw 4; lower "
        "right by draws 5 and 6, lower left by 7 and 8. Corners that would lie on a line leave the "
        "image as it is.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(perspective_params),
    .params = rows,
    .check = check,
    .plan = mr_warp_plan,
    .run = mr_warp_run,
    .follow = mr_warp_follow,
    .want = mr_warp_want,
    .pass = mr_warp_pass,
    .examples = examples,
    .also = "random_perspective",
};
