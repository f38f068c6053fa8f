/* SPDX-License-Identifier: Apache-2.0 */
/* packer.c - see packer.h. Levels are fixed and one thread does the work, so that the same bytes
 * give the same file; another version of the library may give another. */
#include "codecs/packer.h"

#include <millrace/millrace.h>

#include "core/error.h"
#include "core/memory.h"

#if defined(MR_HAVE_ZSTD)
#include <zstd.h>
#endif
#if defined(MR_HAVE_LZ4)
#include <lz4frame.h>
#endif

enum { PIECE = 256 << 10, ZSTD_LEVEL = 3 };

struct mr_packer {
    mr_packing packing;
    mr_packed_sink *sink;
    void *user;
    void *context;
    bool begun; /* the head of the frame is written */
    size_t room;
    unsigned char *out;
};

/* ---- zstd ---- */
#if defined(MR_HAVE_ZSTD)
static mr_status zstd_begin(mr_packer *p, mr_error *err) {
    p->context = ZSTD_createCCtx();
    p->room = ZSTD_CStreamOutSize();
    bool ready =
        p->context &&
        !ZSTD_isError(ZSTD_CCtx_setParameter(p->context, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
        !ZSTD_isError(ZSTD_CCtx_setParameter(p->context, ZSTD_c_checksumFlag, 1));
    return ready ? MR_OK : mr_fail_memory(err, 0);
}

static mr_status zstd_step(mr_packer *p, const void *data, size_t size, bool last, mr_error *err) {
    ZSTD_inBuffer in = {data, size, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {p->out, p->room, 0};
        left = ZSTD_compressStream2(p->context, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left)) {
            return mr_fail_memory(err,
                                  0); /* nothing else can fail: parameters and order are ours */
        }
        MR_TRY(p->sink(p->user, p->out, out.pos, err));
    } while (last ? left != 0 : in.pos < in.size);
    return MR_OK;
}

static void zstd_end(mr_packer *p) {
    ZSTD_freeCCtx(p->context);
}
#endif

/* ---- lz4 ---- */
#if defined(MR_HAVE_LZ4)
static const LZ4F_preferences_t lz4_settings = {
    .frameInfo = {.blockSizeID = LZ4F_max4MB, .contentChecksumFlag = LZ4F_contentChecksumEnabled}};

static mr_status lz4_begin(mr_packer *p, mr_error *err) {
    LZ4F_cctx *context = NULL;
    if (LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION))) {
        return mr_fail_memory(err, 0);
    }
    p->context = context;
    p->room = LZ4F_compressBound(PIECE, &lz4_settings);
    return MR_OK;
}

static mr_status lz4_give(mr_packer *p, size_t made, mr_error *err) {
    return LZ4F_isError(made) ? mr_fail_memory(err, 0) : p->sink(p->user, p->out, made, err);
}

static mr_status lz4_step(mr_packer *p, const void *data, size_t size, bool last, mr_error *err) {
    const unsigned char *at = data;
    if (!p->begun) {
        p->begun = true;
        MR_TRY(lz4_give(p, LZ4F_compressBegin(p->context, p->out, p->room, &lz4_settings), err));
    }
    while (size > 0) {
        size_t n = size < PIECE ? size : PIECE;
        MR_TRY(lz4_give(p, LZ4F_compressUpdate(p->context, p->out, p->room, at, n, NULL), err));
        at += n;
        size -= n;
    }
    return last ? lz4_give(p, LZ4F_compressEnd(p->context, p->out, p->room, NULL), err) : MR_OK;
}

static void lz4_end(mr_packer *p) {
    LZ4F_freeCompressionContext(p->context);
}
#endif

/* ---- Either ---- */
typedef struct kind {
    const char *library;
    mr_status (*begin)(mr_packer *p, mr_error *err);
    mr_status (*step)(mr_packer *p, const void *data, size_t size, bool last, mr_error *err);
    void (*end)(mr_packer *p);
} kind;

static const kind kinds[] = {
#if defined(MR_HAVE_ZSTD)
    [MR_ZSTD] = {"libzstd", zstd_begin, zstd_step, zstd_end},
#else
    [MR_ZSTD] = {"libzstd", NULL, NULL, NULL},
#endif
#if defined(MR_HAVE_LZ4)
    [MR_LZ4] = {"liblz4", lz4_begin, lz4_step, lz4_end},
#else
    [MR_LZ4] = {"liblz4", NULL, NULL, NULL},
#endif
};

mr_status mr_packer_open(mr_packer **out, mr_packing packing, mr_packed_sink *sink, void *user,
                         mr_error *err) {
    const kind *own = &kinds[packing];
    if (!own->begin) {
        return mr_fail(err, MR_E_UNSUPPORTED, "built without %s: nothing can be packed by it",
                       own->library ? own->library : "a library for it");
    }
    mr_packer *p = mr_zalloc(1, sizeof *p);
    if (!p) {
        return mr_fail_memory(err, sizeof *p);
    }
    *p = (mr_packer){.packing = packing, .sink = sink, .user = user};
    mr_status status = own->begin(p, err);
    p->out = status == MR_OK ? mr_zalloc(1, p->room) : NULL;
    if (status == MR_OK && !p->out) {
        status = mr_fail_memory(err, p->room);
    }
    if (status < 0) {
        mr_packer_close(p);
        return status;
    }
    *out = p;
    return MR_OK;
}

mr_status mr_packer_put(mr_packer *p, const void *data, size_t size, mr_error *err) {
    return kinds[p->packing].step(p, data, size, false, err);
}

mr_status mr_packer_end(mr_packer *p, mr_error *err) {
    return kinds[p->packing].step(p, NULL, 0, true, err);
}

void mr_packer_close(mr_packer *p) {
    if (p && p->context) {
        kinds[p->packing].end(p);
    }
    if (p) {
        mr_free(p->out);
        mr_free(p);
    }
}
