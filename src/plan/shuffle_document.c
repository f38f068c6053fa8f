/* SPDX-License-Identifier: Apache-2.0 */
/* shuffle_document.c - "shuffle" of a pipeline document: yes, no, or a window and lanes. */
#include "plan/view_document.h"

#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/params.h"
#include "plan/course.h"

/* What the object form has; the window's kind depends on its value. */
typedef struct shuffle_params {
    int64_t window, lanes;
} shuffle_params;

static const mr_param lanes_rows[] = {
    {.name = "lanes",
     .kind = MR_PARAM_INT,
     .offset = offsetof(shuffle_params, lanes),
     .fallback = "8",
     .min = 1,
     .max = MR_MAX_LANES,
     .doc = "How many interleaved orders the rows are dealt into."},
    {.name = NULL},
};
_Static_assert(MR_SHUFFLE_LANES == 8, "lanes has this fallback");

/* A number counts blocks, text with a unit bytes. */
static const mr_param blocks_rows[] = {
    {.name = "window",
     .kind = MR_PARAM_INT,
     .offset = offsetof(shuffle_params, window),
     .min = 1,
     .max = 0x1p30,
     .doc = "How many blocks are shuffled together."},
    {.name = NULL},
};
static const mr_param bytes_rows[] = {
    {.name = "window",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(shuffle_params, window),
     .min = 1,
     .max = 0x1p60,
     .doc = "How many unpacked bytes are shuffled together."},
    {.name = NULL},
};

static mr_status read_window(mr_shuffle *shuffle, json_t *object, mr_error *err) {
    static const char *const others[] = {"lanes", NULL};
    json_t *window = json_object_get(object, "window");
    const char *text = json_string_value(window);
    shuffle_params params = {0};
    if (!window) {
        return MR_OK;
    }
    shuffle->window_bytes = 0;
    if (text && strcmp(text, "all") == 0) {
        return MR_OK;
    }
    MR_TRY(mr_params_fill(text ? bytes_rows : blocks_rows, object, "$.shuffle", "shuffle", others,
                          &params, err));
    shuffle->window_bytes = text ? params.window : 0;
    shuffle->window_blocks = text ? 0 : params.window;
    return MR_OK;
}

static mr_status read_object(mr_shuffle *shuffle, json_t *object, mr_error *err) {
    static const char *const others[] = {"window", NULL};
    shuffle_params params = {0};
    MR_TRY(mr_params_fill(lanes_rows, object, "$.shuffle", "shuffle", others, &params, err));
    shuffle->lanes = (int32_t)params.lanes;
    return read_window(shuffle, object, err);
}

mr_status mr_shuffle_read(mr_shuffle *out, json_t *value, mr_error *err) {
    mr_shuffle shuffle = {.on = true, .window_bytes = MR_SHUFFLE_BYTES, .lanes = MR_SHUFFLE_LANES};
    if (json_is_object(value)) {
        MR_TRY(read_object(&shuffle, value, err));
    } else if (json_is_boolean(value)) {
        shuffle.on = json_is_true(value);
    } else if (value) {
        mr_error_at_json(err, "$.shuffle");
        mr_fail(err, MR_E_TYPE, "shuffle must be true, false or an object");
        mr_hint(err, "write \"shuffle\": {\"window\": \"1GB\", \"lanes\": 8}");
        return MR_E_TYPE;
    }
    *out = shuffle;
    return MR_OK;
}

static json_t *window_json(const mr_shuffle *shuffle) {
    if (shuffle->window_blocks > 0) {
        return json_integer(shuffle->window_blocks);
    }
    return shuffle->window_bytes > 0 ? json_sprintf("%lldB", (long long)shuffle->window_bytes)
                                     : json_string("all");
}

json_t *mr_shuffle_json(const mr_shuffle *shuffle) {
    if (!shuffle->on) {
        return json_false();
    }
    bool lost = false;
    json_t *object = json_object();
    mr_json_set(object, "window", window_json(shuffle), &lost);
    mr_json_set(object, "lanes", json_integer(shuffle->lanes), &lost);
    return mr_json_whole(object, lost);
}

int64_t mr_shuffle_window(const mr_shuffle *shuffle, int64_t largest) {
    if (shuffle->window_bytes == 0) {
        return shuffle->window_blocks;
    }
    int64_t fit = shuffle->window_bytes / (largest > 0 ? largest : 1);
    return fit < 1 ? 1 : fit;
}
