/* SPDX-License-Identifier: Apache-2.0 */
/* decode_npy.c - the op decode_npy: the bytes of a .npy file as the array that it holds.
 *
 * Shards keep arrays as .npy files, whose headers only the sample has; what every sample has in
 * common is said by the parameters, so that types are known before anything is read. */
#include <string.h>

#include "codecs/npy.h"
#include "core/error.h"

#include <millrace/millrace.h>

typedef struct npy_params {
    int32_t dtype, layout;
    mr_ints shape;
} npy_params;

static const char *const dtype_names[] = {"uint8",   "int8",   "uint16", "int16",   "uint32",
                                          "int32",   "uint64", "int64",  "float16", "float32",
                                          "float64", "bool",   NULL};
static const mr_dtype dtypes[] = {MR_U8,  MR_I8,  MR_U16, MR_I16, MR_U32, MR_I32,
                                  MR_U64, MR_I64, MR_F16, MR_F32, MR_F64, MR_BOOL};
static const char *const layout_names[] = {"plain", "hwc", "chw", NULL};
static const mr_layout layouts[] = {MR_PLAIN, MR_HWC, MR_CHW};

static mr_status check(void *params, mr_error *err) {
    const npy_params *p = params;
    if (p->layout > 0 && p->shape.n != 3) {
        return mr_fail(err, MR_E_PARAM, "layout %s has three dimensions, shape has %d",
                       layout_names[p->layout], p->shape.n);
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const npy_params *p = params;
    if (in->dtype != MR_U8 || in->n_dims != 1) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs the bytes of a .npy file, not %s",
                       mr_type_text(in, text, sizeof text));
    }
    *out = (mr_type){.dtype = dtypes[p->dtype], .layout = layouts[p->layout], .n_dims = p->shape.n};
    memcpy(out->dims, p->shape.v, (size_t)p->shape.n * sizeof *out->dims);
    return MR_OK;
}

static mr_status check_shape(const mr_npy *npy, const mr_type *want, mr_error *err) {
    bool same = npy->dtype == want->dtype && npy->n_dims == want->n_dims;
    for (int32_t i = 0; same && i < want->n_dims; i++) {
        same = want->dims[i] < 0 || want->dims[i] == npy->dims[i];
    }
    if (!same) {
        char wanted[96], found[96];
        mr_type type = {.dtype = npy->dtype, .n_dims = npy->n_dims};
        type.n_dims = npy->n_dims < MR_MAX_DIMS ? npy->n_dims : MR_MAX_DIMS;
        memcpy(type.dims, npy->dims, (size_t)type.n_dims * sizeof *type.dims);
        return mr_fail(err, MR_E_CORRUPT, "the array is %s, not %s",
                       mr_type_text(&type, found, sizeof found),
                       mr_type_text(want, wanted, sizeof wanted));
    }
    return MR_OK;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    mr_npy npy;
    (void)call;
    MR_TRY(plan(params, &in->type, out, err));
    MR_TRY(mr_npy_parse(in->data, in->size, &npy, err));
    MR_TRY(check_shape(&npy, out, err));
    memcpy(out->dims, npy.dims, (size_t)out->n_dims * sizeof *out->dims);
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    mr_npy npy;
    mr_type want;
    (void)call;
    MR_TRY(plan(params, &in->type, &want, err));
    MR_TRY(mr_npy_parse(in->data, in->size, &npy, err));
    MR_TRY(check_shape(&npy, &want, err));
    if ((size_t)npy.bytes != out->size) {
        return mr_fail(err, MR_E_INTERNAL, "the array has %lld bytes, room is for %zu",
                       (long long)npy.bytes, out->size);
    }
    memcpy(out->data, (const unsigned char *)in->data + npy.offset, out->size);
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(npy_params, dtype),
     .choices = dtype_names,
     .doc = "Element type of every array; another one is an error of the sample."},
    {.name = "shape",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(npy_params, shape),
     .fallback = "[]",
     .min = -1,
     .max = 1e15,
     .max_len = MR_MAX_DIMS,
     .doc = "Shape of every array; -1 stands for a dimension that varies. Empty: a single number."},
    {.name = "layout",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(npy_params, layout),
     .fallback = "\"plain\"",
     .choices = layout_names,
     .doc = "What the axes mean: hwc and chw are images."},
    {.name = NULL},
};

/* np.save of np.array([[1, 2], [3, 4]], np.int16) */
#define TWO_BY_TWO                                                                                 \
    "bytes:934e554d5059010076007b276465736372273a20273c6932272c2027666f727472616e5f6f72646572"     \
    "273a2046616c73652c20277368617065273a2028322c2032292c207d20202020202020202020202020202020"     \
    "2020202020202020202020202020202020202020202020202020202020202020202020202020202020200a01"     \
    "00020003000400"

static const mr_example examples[] = {
    {"{\"dtype\": \"int16\", \"shape\": [-1, 2]}", TWO_BY_TWO, "9cce7c8a5a7ba149e9bcf28d00ee6127"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_decode_npy = {
    MR_OP_HEADER,
    .name = "decode_npy",
    .summary = "Reads an array from the bytes of a .npy file.",
    .doc =
        "Equal to numpy.load, for arrays of numbers in C order and little-endian. What dtype and "
        "shape do not say of all samples is an error of the sample that differs. Shards that "
        "millrace pack writes are loaded by it.",
    .version = 1,
    .param_size = sizeof(npy_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .peek = peek,
    .run = run,
    .examples = examples,
};
