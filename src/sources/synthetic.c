/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.c - samples made of nothing: for measuring the engine alone and for trying things out
 * without data. */
#include <millrace/source.h>
#include <stdio.h>
#include <string.h>

typedef struct params {
    int64_t samples;
    mr_ints shape;
} params;

static const mr_param rows[] = {
    {.name = "samples",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, samples),
     .fallback = "1000",
     .min = 1,
     .max = 281474976710656.0,
     .doc = "Number of samples."},
    {.name = "shape",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(params, shape),
     .fallback = "[1024]",
     .min = 1,
     .max = 1 << 24,
     .min_len = 1,
     .max_len = MR_MAX_DIMS,
     .doc = "Shape of a sample; three numbers make it an image (height, width, channels)."},
    {.name = NULL},
};

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    const mr_ints *shape = &((const params *)p)->shape;
    mr_type type = {
        .dtype = MR_U8, .layout = shape->n == 3 ? MR_HWC : MR_PLAIN, .n_dims = shape->n};
    memcpy(type.dims, shape->v, (size_t)shape->n * sizeof *shape->v);
    if (mr_type_bytes(&type) < 0 || mr_type_bytes(&type) > (int64_t)1 << 32) {
        return mr_fail(err, MR_E_LIMIT, "a sample of this shape does not fit into memory");
    }
    const mr_field own[] = {{.name = "data", .type = type},
                            {.name = "index", .type = {.dtype = MR_I64}}};
    return mr_describe_fields(own, 2, fields, capacity, n_fields);
}

/* The parameters are all there is to know. */
static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    (void)wanted;
    (void)err;
    *state = (void *)(uintptr_t)p;
    return MR_OK;
}

static void close_(void *state) {
    (void)state;
}

static void fingerprint(const params *p, uint64_t out[2]) {
    out[0] = (uint64_t)p->samples;
    out[1] = 0;
    for (int32_t i = 0; i < p->shape.n; i++) {
        out[1] = out[1] * 0x9E3779B97F4A7C15u + (uint64_t)p->shape.v[i];
    }
}

static void shape(const void *state, mr_shape *out) {
    const params *p = state;
    out->samples = p->samples;
    fingerprint(p, out->fingerprint);
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    (void)state;
    snprintf(buffer, size, "synthetic sample %lld", (long long)sample);
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    fingerprint(state, out);
    out[0] = (uint64_t)sample; /* whatever their number */
    return true;
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    (void)state;
    (void)block;
    (void)err;
    if (mr_is_wanted(&fields[0])) {
        memset(fields[0].data, (int)(sample & 0xFF), fields[0].size);
    }
    if (mr_is_wanted(&fields[1])) {
        memcpy(fields[1].data, &sample, sizeof sample);
    }
    return MR_OK;
}

extern const mr_source_class mr_source_synthetic;
const mr_source_class mr_source_synthetic = {
    MR_SOURCE_HEADER,
    .name = "synthetic",
    .summary = "Samples made of nothing: every byte of sample i is i mod 256.",
    .doc = "Fields: data (uint8 of the given shape) and index (int64).",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .sample_name = sample_name,
    .fill = fill,
    .identify = identify,
};
