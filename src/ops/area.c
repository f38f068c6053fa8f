/* SPDX-License-Identifier: Apache-2.0 */
/* area.c - see area.h. */
#include "ops/area.h"

#include <string.h>

#include "core/error.h"

mr_region mr_whole_region(const mr_type *image) {
    return (mr_region){0, 0, image->dims[1], image->dims[0]};
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

mr_region mr_region_around(const mr_type *image, const mr_region *region, int64_t radius) {
    int64_t left = larger(region->x - radius, 0), top = larger(region->y - radius, 0);
    int64_t right = smaller(region->x + region->width + radius, image->dims[1]);
    int64_t bottom = smaller(region->y + region->height + radius, image->dims[0]);
    return (mr_region){left, top, right - left, bottom - top};
}

/* ---- The whole image at once ---- */
mr_status mr_area_run(mr_area_maker *make, const void *params, mr_call *call, const mr_view *in,
                      mr_view *out, mr_error *err) {
    const mr_region needed = mr_whole_region(&in->type), wanted = mr_whole_region(&out->type);
    const mr_flow flow = {&in->type, &out->type, &needed, &wanted};
    const mr_pixels image = mr_image_pixels(in);
    mr_area area = {0};
    MR_TRY(make(params, call, &flow, &area, err));
    if (!area.row) {
        memcpy(out->data, in->data, in->size);
        return MR_OK;
    }
    if (area.begin) {
        MR_TRY(area.begin(area.user, &image, err));
    }
    size_t row_bytes = (size_t)(wanted.width * out->type.dims[2]);
    for (int64_t y = 0; y < wanted.height; y++) {
        area.row(area.user, &image, y, (uint8_t *)out->data + (size_t)y * row_bytes);
    }
    return MR_OK;
}

/* ---- Row by row ---- */
typedef struct gathering {
    mr_area area;
    mr_region needed, wanted;
    mr_pixels part;
    uint8_t *memory; /* of the part */
    uint8_t *row;
    int64_t next; /* output row */
    mr_rows to;
} gathering;

/* Whether output row `y` can be made of the input rows up to `last`. */
static bool is_ready(const gathering *g, int64_t y, int64_t last) {
    bool all = last == g->needed.y + g->needed.height - 1;
    return all || (g->area.reach != MR_AREA_ALL && y + g->area.reach <= last);
}

static mr_status gather_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    gathering *g = user;
    memcpy(g->memory + (size_t)(y - g->needed.y) * g->part.stride, pixels, g->part.stride);
    if (g->area.begin && is_ready(g, g->next, y)) {
        MR_TRY(g->area.begin(g->area.user, &g->part, err));
    }
    while (g->next < g->wanted.y + g->wanted.height && is_ready(g, g->next, y)) {
        g->area.row(g->area.user, &g->part, g->next, g->row);
        MR_TRY(g->to.row(g->to.user, g->next, g->row, err));
        g->next++;
    }
    return MR_OK;
}

static mr_pixels part_of(const mr_region *needed, int64_t channels, const uint8_t *memory) {
    size_t stride = (size_t)(needed->width * channels);
    return (mr_pixels){.data = memory,
                       .stride = stride,
                       .height = needed->height,
                       .width = needed->width,
                       .channels = (int32_t)channels,
                       .end = memory + stride * (size_t)needed->height};
}

mr_status mr_area_pass(mr_area_maker *make, const void *params, mr_call *call, const mr_flow *flow,
                       const mr_rows *to, mr_rows *own, mr_error *err) {
    mr_area area = {0};
    MR_TRY(make(params, call, flow, &area, err));
    if (!area.row) {
        *own = *to;
        return MR_OK;
    }
    size_t bytes = (size_t)(flow->needed->width * flow->needed->height * flow->in->dims[2]);
    gathering *g = mr_scratch(call, sizeof *g);
    uint8_t *memory = mr_scratch(call, bytes);
    uint8_t *row = mr_scratch(call, (size_t)(flow->wanted->width * flow->out->dims[2]));
    if (!g || !memory || !row) {
        return mr_fail_memory(err, bytes);
    }
    *g = (gathering){.area = area,
                     .needed = *flow->needed,
                     .wanted = *flow->wanted,
                     .part = part_of(flow->needed, flow->in->dims[2], memory),
                     .memory = memory,
                     .row = row,
                     .next = flow->wanted->y,
                     .to = *to};
    *own = (mr_rows){gather_row, g};
    return MR_OK;
}
