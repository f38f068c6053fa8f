/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_encode.c - the op bpe_encode: text to token ids by a tokenizer.json. How many there will be
 * is known only once they are made: see kept.h. */
#include <string.h>

#include "codecs/bpe.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/asset.h"
#include "ops/kept.h"

#include <millrace/millrace.h>

typedef struct bpe_params {
    const char *tokenizer, *digest;
    bool add_special_tokens;
    int32_t dtype;
} bpe_params;

static const char *const dtype_names[] = {"int32", "int64", NULL};
static const mr_dtype dtypes[] = {MR_I32, MR_I64};

typedef struct worker {
    mr_tokenizer *tokenizer;
    mr_bpe *bpe;
    mr_kept kept;
} worker;

static mr_status open_worker(const void *params, void **state, mr_error *err) {
    const bpe_params *p = params;
    mr_asset file = {0};
    worker *w = *state = mr_zalloc(1, sizeof *w);
    if (!w) {
        return mr_fail_memory(err, sizeof *w);
    }
    mr_status status = mr_asset_open(&file, p->tokenizer, p->digest, err);
    if (status == MR_OK) {
        status = mr_tokenizer_make(&w->tokenizer, file.data, file.size, err);
    }
    mr_asset_close(&file);
    MR_TRY(status);
    w->bpe = mr_bpe_new(w->tokenizer);
    return w->bpe ? MR_OK : mr_fail_memory(err, sizeof(mr_tokenizer));
}

static void close_worker(void *state) {
    worker *w = state;
    if (w) {
        mr_bpe_free(w->bpe);
        mr_tokenizer_free(w->tokenizer);
        mr_kept_free(&w->kept);
        mr_free(w);
    }
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const bpe_params *p = params;
    if (in->dtype != MR_U8 || in->layout != MR_PLAIN || in->n_dims != 1) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs text, uint8[?], not %s",
                       mr_type_text(in, text, sizeof text));
    }
    *out = (mr_type){.dtype = dtypes[p->dtype], .n_dims = 1, .dims = {-1}};
    return MR_OK;
}

static void store(mr_dtype dtype, void *out, const int32_t *ids, size_t n) {
    if (dtype == MR_I32) {
        memcpy(out, ids, n * sizeof *ids);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t id = ids[i];
        memcpy((unsigned char *)out + i * sizeof id, &id, sizeof id);
    }
}

static mr_status encode(const bpe_params *p, worker *w, const mr_view *in, mr_error *err) {
    const int32_t *ids = NULL;
    size_t n = 0;
    mr_dtype dtype = dtypes[p->dtype];
    mr_kept_begin(&w->kept);
    MR_TRY(mr_bpe_encode(w->bpe, in->data, in->size, p->add_special_tokens, &ids, &n, err));
    void *out = mr_kept_room(&w->kept, n * mr_dtype_size(dtype));
    if (!out) {
        return mr_fail_memory(err, n * mr_dtype_size(dtype));
    }
    store(dtype, out, ids, n);
    w->kept.size = n * mr_dtype_size(dtype);
    const mr_type type = {.dtype = dtype, .n_dims = 1, .dims = {(int64_t)n}};
    mr_kept_end(&w->kept, &type, in);
    return MR_OK;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    worker *w = call->state;
    MR_TRY(encode(params, w, in, err));
    *out = w->kept.type;
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    worker *w = call->state;
    if (!mr_kept_has(&w->kept, in)) {
        MR_TRY(encode(params, w, in, err));
    }
    return mr_kept_give(&w->kept, out, err);
}

static uint32_t flags_for(const void *params) {
    const bpe_params *p = params;
    return MR_OP_HEAVY | mr_asset_flags(p->tokenizer, p->digest);
}

static const mr_param rows[] = {
    {.name = "tokenizer",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(bpe_params, tokenizer),
     .doc = "A tokenizer.json file of Hugging Face's tokenizers."},
    {.name = "digest",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(bpe_params, digest),
     .fallback = "\"\"",
     .doc = MR_ASSET_DIGEST_DOC},
    {.name = "add_special_tokens",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(bpe_params, add_special_tokens),
     .fallback = "true",
     .doc = "Put the tokens around a text that the file's template has, a begin of text for "
            "instance."},
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(bpe_params, dtype),
     .fallback = "\"int32\"",
     .choices = dtype_names,
     .doc = "Element type of the ids."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"tokenizer\": "
     "\"data:;base64,eyJ2ZXJzaW9uIjoiMS4wIiwidHJ1bmNhdGlvbiI6bnVsbCwicGFkZGluZyI6bnVsbCwiYWRkZWR"
     "fdG9rZW5zIjpbeyJpZCI6MjYyLCJjb250ZW50IjoiPGVuZD4iLCJzaW5nbGVfd29yZCI6ZmFsc2UsImxzdHJpcCI"
     "6ZmFsc2UsInJzdHJpcCI6ZmFsc2UsIm5vcm1hbGl6ZWQiOmZhbHNlLCJzcGVjaWFsIjp0cnVlfV0sIm5vcm1hbGl"
     "6ZXIiOm51bGwsInByZV90b2tlbml6ZXIiOnsidHlwZSI6IkJ5dGVMZXZlbCIsImFkZF9wcmVmaXhfc3BhY2UiOmZ"
     "hbHNlLCJ0cmltX29mZnNldHMiOnRydWUsInVzZV9yZWdleCI6dHJ1ZX0sInBvc3RfcHJvY2Vzc29yIjpudWxsLCJ"
     "kZWNvZGVyIjpudWxsLCJtb2RlbCI6eyJ0eXBlIjoiQlBFIiwiZHJvcG91dCI6bnVsbCwidW5rX3Rva2VuIjpudWx"
     "sLCJjb250aW51aW5nX3N1YndvcmRfcHJlZml4IjpudWxsLCJlbmRfb2Zfd29yZF9zdWZmaXgiOm51bGwsImZ1c2V"
     "fdW5rIjpmYWxzZSwiYnl0ZV9mYWxsYmFjayI6ZmFsc2UsImlnbm9yZV9tZXJnZXMiOmZhbHNlLCJ2b2NhYiI6eyL"
     "EgCI6MCwixIEiOjEsIsSCIjoyLCLEgyI6MywixIQiOjQsIsSFIjo1LCLEhiI6NiwixIciOjcsIsSIIjo4LCLEiSI"
     "6OSwixIoiOjEwLCLEiyI6MTEsIsSMIjoxMiwixI0iOjEzLCLEjiI6MTQsIsSPIjoxNSwixJAiOjE2LCLEkSI6MTc"
     "sIsSSIjoxOCwixJMiOjE5LCLElCI6MjAsIsSVIjoyMSwixJYiOjIyLCLElyI6MjMsIsSYIjoyNCwixJkiOjI1LCL"
     "EmiI6MjYsIsSbIjoyNywixJwiOjI4LCLEnSI6MjksIsSeIjozMCwixJ8iOjMxLCLEoCI6MzIsIiEiOjMzLCJcIiI"
     "6MzQsIiMiOjM1LCIkIjozNiwiJSI6MzcsIiYiOjM4LCInIjozOSwiKCI6NDAsIikiOjQxLCIqIjo0MiwiKyI6NDM"
     "sIiwiOjQ0LCItIjo0NSwiLiI6NDYsIi8iOjQ3LCIwIjo0OCwiMSI6NDksIjIiOjUwLCIzIjo1MSwiNCI6NTIsIjU"
     "iOjUzLCI2Ijo1NCwiNyI6NTUsIjgiOjU2LCI5Ijo1NywiOiI6NTgsIjsiOjU5LCI8Ijo2MCwiPSI6NjEsIj4iOjY"
     "yLCI/Ijo2MywiQCI6NjQsIkEiOjY1LCJCIjo2NiwiQyI6NjcsIkQiOjY4LCJFIjo2OSwiRiI6NzAsIkciOjcxLCJ"
     "IIjo3MiwiSSI6NzMsIkoiOjc0LCJLIjo3NSwiTCI6NzYsIk0iOjc3LCJOIjo3OCwiTyI6NzksIlAiOjgwLCJRIjo"
     "4MSwiUiI6ODIsIlMiOjgzLCJUIjo4NCwiVSI6ODUsIlYiOjg2LCJXIjo4NywiWCI6ODgsIlkiOjg5LCJaIjo5MCw"
     "iWyI6OTEsIlxcIjo5MiwiXSI6OTMsIl4iOjk0LCJfIjo5NSwiYCI6OTYsImEiOjk3LCJiIjo5OCwiYyI6OTksImQ"
     "iOjEwMCwiZSI6MTAxLCJmIjoxMDIsImciOjEwMywiaCI6MTA0LCJpIjoxMDUsImoiOjEwNiwiayI6MTA3LCJsIjo"
     "xMDgsIm0iOjEwOSwibiI6MTEwLCJvIjoxMTEsInAiOjExMiwicSI6MTEzLCJyIjoxMTQsInMiOjExNSwidCI6MTE"
     "2LCJ1IjoxMTcsInYiOjExOCwidyI6MTE5LCJ4IjoxMjAsInkiOjEyMSwieiI6MTIyLCJ7IjoxMjMsInwiOjEyNCw"
     "ifSI6MTI1LCJ+IjoxMjYsIsShIjoxMjcsIsSiIjoxMjgsIsSjIjoxMjksIsSkIjoxMzAsIsSlIjoxMzEsIsSmIjo"
     "xMzIsIsSnIjoxMzMsIsSoIjoxMzQsIsSpIjoxMzUsIsSqIjoxMzYsIsSrIjoxMzcsIsSsIjoxMzgsIsStIjoxMzk"
     "sIsSuIjoxNDAsIsSvIjoxNDEsIsSwIjoxNDIsIsSxIjoxNDMsIsSyIjoxNDQsIsSzIjoxNDUsIsS0IjoxNDYsIsS"
     "1IjoxNDcsIsS2IjoxNDgsIsS3IjoxNDksIsS4IjoxNTAsIsS5IjoxNTEsIsS6IjoxNTIsIsS7IjoxNTMsIsS8Ijo"
     "xNTQsIsS9IjoxNTUsIsS+IjoxNTYsIsS/IjoxNTcsIsWAIjoxNTgsIsWBIjoxNTksIsWCIjoxNjAsIsKhIjoxNjE"
     "sIsKiIjoxNjIsIsKjIjoxNjMsIsKkIjoxNjQsIsKlIjoxNjUsIsKmIjoxNjYsIsKnIjoxNjcsIsKoIjoxNjgsIsK"
     "pIjoxNjksIsKqIjoxNzAsIsKrIjoxNzEsIsKsIjoxNzIsIsWDIjoxNzMsIsKuIjoxNzQsIsKvIjoxNzUsIsKwIjo"
     "xNzYsIsKxIjoxNzcsIsKyIjoxNzgsIsKzIjoxNzksIsK0IjoxODAsIsK1IjoxODEsIsK2IjoxODIsIsK3IjoxODM"
     "sIsK4IjoxODQsIsK5IjoxODUsIsK6IjoxODYsIsK7IjoxODcsIsK8IjoxODgsIsK9IjoxODksIsK+IjoxOTAsIsK"
     "/IjoxOTEsIsOAIjoxOTIsIsOBIjoxOTMsIsOCIjoxOTQsIsODIjoxOTUsIsOEIjoxOTYsIsOFIjoxOTcsIsOGIjo"
     "xOTgsIsOHIjoxOTksIsOIIjoyMDAsIsOJIjoyMDEsIsOKIjoyMDIsIsOLIjoyMDMsIsOMIjoyMDQsIsONIjoyMDU"
     "sIsOOIjoyMDYsIsOPIjoyMDcsIsOQIjoyMDgsIsORIjoyMDksIsOSIjoyMTAsIsOTIjoyMTEsIsOUIjoyMTIsIsO"
     "VIjoyMTMsIsOWIjoyMTQsIsOXIjoyMTUsIsOYIjoyMTYsIsOZIjoyMTcsIsOaIjoyMTgsIsObIjoyMTksIsOcIjo"
     "yMjAsIsOdIjoyMjEsIsOeIjoyMjIsIsOfIjoyMjMsIsOgIjoyMjQsIsOhIjoyMjUsIsOiIjoyMjYsIsOjIjoyMjc"
     "sIsOkIjoyMjgsIsOlIjoyMjksIsOmIjoyMzAsIsOnIjoyMzEsIsOoIjoyMzIsIsOpIjoyMzMsIsOqIjoyMzQsIsO"
     "rIjoyMzUsIsOsIjoyMzYsIsOtIjoyMzcsIsOuIjoyMzgsIsOvIjoyMzksIsOwIjoyNDAsIsOxIjoyNDEsIsOyIjo"
     "yNDIsIsOzIjoyNDMsIsO0IjoyNDQsIsO1IjoyNDUsIsO2IjoyNDYsIsO3IjoyNDcsIsO4IjoyNDgsIsO5IjoyNDk"
     "sIsO6IjoyNTAsIsO7IjoyNTEsIsO8IjoyNTIsIsO9IjoyNTMsIsO+IjoyNTQsIsO/IjoyNTUsImhlIjoyNTYsImx"
     "sIjoyNTcsImhlbGwiOjI1OCwiaGVsbG8iOjI1OSwixKB3IjoyNjAsIm9yIjoyNjF9LCJtZXJnZXMiOltbImgiLCJ"
     "lIl0sWyJsIiwibCJdLFsiaGUiLCJsbCJdLFsiaGVsbCIsIm8iXSxbIsSgIiwidyJdLFsibyIsInIiXV19fQ=="
     "\"}",
     "bytes:68656c6c6f20776f726c642c20686527732077656c6c3c656e643e206f6b0a0a203432",
     "693aee15de4fa08fced597e39856e5c1"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_bpe_encode = {
    MR_OP_HEADER,
    .name = "bpe_encode",
    .summary = "Turns text into the ids of a byte-level BPE tokenizer.",
    .doc =
        "Equal to the tokenizers package's Tokenizer.from_file(f).encode(text).ids, on any text; "
        "letters and numbers are those of Unicode 16. The pre-tokenizers of GPT-2 and Llama 3, "
        "added tokens, and templates; a file that asks for more is refused. Text that is not "
        "UTF-8 is an error of the sample.",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(bpe_params),
    .params = rows,
    .plan = plan,
    .peek = peek,
    .open = open_worker,
    .close = close_worker,
    .run = run,
    .examples = examples,
    .flags_for = flags_for,
    .also = "tokenize",
};
