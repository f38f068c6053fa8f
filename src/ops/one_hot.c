/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot.c - the op one_hot: a class number as a row of zeros with a one in its place. */
#include "ops/numbers.h"

#include "core/error.h"

typedef struct one_hot_params {
    int64_t classes;
    int32_t dtype;
} one_hot_params;

static const char *const dtype_names[] = {"float32", "uint8", "int64", NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_U8, MR_I64};

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const one_hot_params *p = params;
    if (!mr_is_whole(in->dtype) || in->n_dims == MR_MAX_DIMS) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs whole numbers of at most %d axes, not %s",
                       MR_MAX_DIMS - 1, mr_type_text(in, text, sizeof text));
    }
    *out = *in;
    out->dtype = dtypes[p->dtype];
    out->layout = MR_PLAIN;
    out->dims[out->n_dims++] = p->classes;
    if (mr_type_bytes(out) == -2) {
        return mr_fail(err, MR_E_TYPE, "so many classes for so many numbers fit into no memory");
    }
    return MR_OK;
}

static void put_one(mr_dtype dtype, void *out, size_t i) {
    if (dtype == MR_F32) {
        ((float *)out)[i] = 1.0f;
    } else if (dtype == MR_I64) {
        ((int64_t *)out)[i] = 1;
    } else {
        ((uint8_t *)out)[i] = 1;
    }
}

/* The place of the first number that is no class, or n. */
static size_t one_hot_values(mr_view *out, mr_dtype dtype, const void *in, size_t n,
                             int64_t classes) {
    memset(out->data, 0, out->size);
    for (size_t i = 0; i < n; i++) {
        int64_t value = mr_load_whole(dtype, in, i);
        if (value < 0 || value >= classes) {
            return i;
        }
        put_one(out->type.dtype, out->data, i * (size_t)classes + (size_t)value);
    }
    return n;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const one_hot_params *p = params;
    size_t n = mr_count(in);
    (void)call;
    size_t bad = one_hot_values(out, in->type.dtype, in->data, n, p->classes);
    if (bad < n) {
        return mr_fail(err, MR_E_CORRUPT, "number %zu is %lld, which is none of %lld classes", bad,
                       (long long)mr_load_whole(in->type.dtype, in->data, bad),
                       (long long)p->classes);
    }
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_param rows[] = {
    {.name = "classes",
     .kind = MR_PARAM_INT,
     .offset = offsetof(one_hot_params, classes),
     .min = 1,
     .max = 1 << 24,
     .doc = "How many classes there are; numbers go from 0 to one less."},
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(one_hot_params, dtype),
     .fallback = "\"float32\"",
     .choices = dtype_names,
     .doc = "Element type of the output."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"classes\": 256}", "uint8:5", "116086364840e0482c1f304a4299fa4e"},
    {"{\"classes\": 300, \"dtype\": \"int64\"}", "uint16:2x3", "0f7ae93126ce228220ac7b9185907854"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_one_hot = {
    MR_OP_HEADER,
    .name = "one_hot",
    .summary = "Turns class numbers into rows of zeros with a one.",
    .doc =
        "Equal to torch.nn.functional.one_hot in another element type. A number that is no class "
        "is an error of the sample.",
    .version = 1,
    .param_size = sizeof(one_hot_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
