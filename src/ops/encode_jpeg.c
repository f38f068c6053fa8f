/* SPDX-License-Identifier: Apache-2.0 */
/* encode_jpeg.c - images to JPEG, through libjpeg-turbo: for packs and caches that shall be small.
 * MR_REQUIRES(libjpeg)
 *
 * libjpeg reports failure through a callback that must not return: it jumps back into encode().
 * What is alive across the jump lives in the writer, and all memory of libjpeg's is freed by
 * destroying it. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "core/error.h"
#include "core/memory.h"
#include "ops/kept.h"
#include <millrace/millrace.h>

typedef struct encode_params {
    int64_t quality;
    int32_t subsampling;
} encode_params;

static const char *const samplings[] = {"4:2:0", "4:2:2", "4:4:4", NULL};
static const struct { int across, down; } factors[] = {{2, 2}, {2, 1}, {1, 1}};

/* ---- libjpeg with a way back ---- */
typedef struct writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf trap;
    unsigned char *bytes; /* of jpeg_mem_dest, which grows them with malloc */
    unsigned long size;
    mr_error *err;
    mr_status status;
} writer;

static _Noreturn void on_error(j_common_ptr jpeg) {
    writer *w = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    w->status = mr_fail(w->err, strstr(text, "emory") ? MR_E_MEMORY : MR_E_CORRUPT,
                        "cannot encode JPEG: %s", text);
    longjmp(w->trap, 1);
}

static void on_message(j_common_ptr jpeg) {
    (void)jpeg; /* nothing is printed */
}

static void set_up(writer *w, const encode_params *p, const mr_view *in) {
    struct jpeg_compress_struct *jpeg = &w->jpeg;
    bool colour = in->type.dims[2] == 3;
    jpeg_mem_dest(jpeg, &w->bytes, &w->size);
    jpeg->image_height = (JDIMENSION)in->type.dims[0];
    jpeg->image_width = (JDIMENSION)in->type.dims[1];
    jpeg->input_components = colour ? 3 : 1;
    jpeg->in_color_space = colour ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, (int)p->quality, TRUE);
    if (colour) {
        jpeg->comp_info[0].h_samp_factor = factors[p->subsampling].across;
        jpeg->comp_info[0].v_samp_factor = factors[p->subsampling].down;
    }
}

static void write_rows(writer *w, const mr_view *in) {
    size_t row = (size_t)(in->type.dims[1] * in->type.dims[2]);
    const unsigned char *at = in->data;
    jpeg_start_compress(&w->jpeg, TRUE);
    while (w->jpeg.next_scanline < w->jpeg.image_height) {
        JSAMPROW rows[1] = {(unsigned char *)(uintptr_t)at};
        jpeg_write_scanlines(&w->jpeg, rows, 1);
        at += row;
    }
    jpeg_finish_compress(&w->jpeg);
}

static mr_status encode(writer *w, const encode_params *p, const mr_view *in) {
    w->jpeg.err = jpeg_std_error(&w->errors);
    w->errors.error_exit = on_error;
    w->errors.output_message = on_message;
    w->jpeg.client_data = w;
    if (setjmp(w->trap) == 0) {
        jpeg_create_compress(&w->jpeg);
        set_up(w, p, in);
        write_rows(w, in);
    }
    jpeg_destroy_compress(&w->jpeg);
    return w->status;
}

/* ---- The op ---- */
static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    bool channels = in->n_dims == 3 && (in->dims[2] == 1 || in->dims[2] == 3);
    if (in->dtype != MR_U8 || in->layout != MR_HWC || !channels) {
        char text[96];
        mr_fail(err, MR_E_TYPE, "needs an image uint8[H, W, C] HWC with 1 or 3 channels, not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "put it behind decode_image and before cast and normalize");
        return MR_E_TYPE;
    }
    *out = (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    return MR_OK;
}

static mr_status keep(mr_kept *kept, const writer *w, const mr_view *in, mr_error *err) {
    void *to = mr_kept_room(kept, w->size);
    if (!to) {
        return mr_fail_memory(err, w->size);
    }
    memcpy(to, w->bytes, w->size);
    kept->size += w->size;
    const mr_type type = {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)kept->size}};
    mr_kept_end(kept, &type, in);
    return MR_OK;
}

static mr_status make(const encode_params *p, mr_call *call, const mr_view *in, mr_error *err) {
    const int64_t *dims = in->type.dims;
    mr_kept_begin(call->state);
    if (dims[0] < 1 || dims[1] < 1 || dims[0] > JPEG_MAX_DIMENSION ||
        dims[1] > JPEG_MAX_DIMENSION) {
        return mr_fail(err, MR_E_LIMIT, "a JPEG is 1 to %ld pixels wide and high, not %lld x %lld",
                       (long)JPEG_MAX_DIMENSION, (long long)dims[1], (long long)dims[0]);
    }
    writer *w = mr_scratch(call, sizeof *w);
    if (!w) {
        return mr_fail_memory(err, sizeof *w);
    }
    memset(w, 0, sizeof *w);
    w->err = err;
    mr_status status = encode(w, p, in);
    status = status == MR_OK ? keep(call->state, w, in, err) : status;
    free(w->bytes);
    return status;
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    MR_TRY(make(params, call, in, err));
    *out = ((const mr_kept *)call->state)->type;
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    if (!mr_kept_has(call->state, in)) {
        MR_TRY(make(params, call, in, err));
    }
    return mr_kept_give(call->state, out, err);
}

static mr_status open_kept(const void *params, void **state, mr_error *err) {
    (void)params;
    *state = mr_zalloc(1, sizeof(mr_kept));
    return *state ? MR_OK : mr_fail_memory(err, sizeof(mr_kept));
}

static void close_kept(void *state) {
    if (state) {
        mr_kept_free(state);
        mr_free(state);
    }
}

static void libraries(char *text, size_t size) {
    const int version = LIBJPEG_TURBO_VERSION_NUMBER; /* MMMmmmrrr, in decimal digits */
    snprintf(text, size, "libjpeg-turbo %d.%d.%d", version / 1000000, version / 1000 % 1000,
             version % 1000);
}

static const mr_param rows[] = {
    {.name = "quality",
     .kind = MR_PARAM_INT,
     .offset = offsetof(encode_params, quality),
     .fallback = "90",
     .min = 1,
     .max = 100,
     .doc = "As libjpeg counts it; higher is larger and nearer to the image."},
    {.name = "subsampling",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(encode_params, subsampling),
     .fallback = "\"4:2:0\"",
     .choices = samplings,
     .doc = "Of colour: 4:2:0 has a quarter of it, 4:2:2 half, 4:4:4 all."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "852a6b5c4733808dce16461798302d40"},
    {"{\"quality\": 50, \"subsampling\": \"4:4:4\"}", "image:5x7x1",
     "e0166028fe06fb4bc37f38f48bdeed7e"},
    {NULL, NULL, NULL},
};

extern const mr_op_class mr_op_encode_jpeg;
const mr_op_class mr_op_encode_jpeg = {
    MR_OP_HEADER,
    .name = "encode_jpeg",
    .summary = "Encodes an image as JPEG.",
    .doc = "To keep photos smaller than they came: decode_image, resize, encode_jpeg; cut there "
           "(millrace "
           "pack --upto encode_jpeg), and decode_image again behind it. Other pixels than without, "
           "as any "
           "JPEG has. Equal to Pillow's save(quality=..., subsampling=...).",
    .flags = MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(encode_params),
    .params = rows,
    .plan = plan,
    .open = open_kept,
    .close = close_kept,
    .peek = peek,
    .run = run,
    .examples = examples,
    .libraries = libraries,
};
