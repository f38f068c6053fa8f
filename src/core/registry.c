/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the tables that the build found, in order of their names. The lists are generated
 * from the folders; adding an op, a source or a codec edits nothing here. */
#include "core/registry.h"

#include <string.h>

#include "core/error.h"

#define X(stem) extern const mr_op_class mr_op_##stem;
#include "op_list.inc"
#undef X
#define X(stem) extern const mr_source_class mr_source_##stem;
#include "source_list.inc"
#undef X
#define X(stem) extern const struct mr_codec mr_codec_##stem;
#include "codec_list.inc"
#undef X

/* The NULL at the end keeps the arrays valid C when a list is empty. */
static const mr_op_class *const ops[] = {
#define X(stem) &mr_op_##stem,
#include "op_list.inc"
#undef X
    NULL};

static const mr_source_class *const sources[] = {
#define X(stem) &mr_source_##stem,
#include "source_list.inc"
#undef X
    NULL};

static const struct mr_codec *const codecs[] = {
#define X(stem) &mr_codec_##stem,
#include "codec_list.inc"
#undef X
    NULL};

static const mr_missing missing[] = {
#include "missing_list.inc"
    {NULL, NULL, NULL}};

#define COUNT_OF(array) ((int32_t)(sizeof(array) / sizeof *(array)) - 1)

int32_t mr_n_ops(void) {
    return COUNT_OF(ops);
}

const mr_op_class *mr_op_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(ops) ? ops[i] : NULL;
}

const mr_op_class *mr_op_find(const char *name) {
    for (int32_t i = 0; i < COUNT_OF(ops); i++) {
        if (strcmp(ops[i]->name, name) == 0) {
            return ops[i];
        }
    }
    return NULL;
}

int32_t mr_n_sources(void) {
    return COUNT_OF(sources);
}

const mr_source_class *mr_source_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(sources) ? sources[i] : NULL;
}

const mr_source_class *mr_source_find(const char *name) {
    for (int32_t i = 0; i < COUNT_OF(sources); i++) {
        if (strcmp(sources[i]->name, name) == 0) {
            return sources[i];
        }
    }
    return NULL;
}

int32_t mr_n_codecs(void) {
    return COUNT_OF(codecs);
}

const struct mr_codec *mr_codec_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(codecs) ? codecs[i] : NULL;
}

int32_t mr_n_missing(void) {
    return COUNT_OF(missing);
}

const mr_missing *mr_missing_at(int32_t i) {
    return i >= 0 && i < COUNT_OF(missing) ? &missing[i] : NULL;
}

/* ---- Tables from elsewhere ---- */
static mr_status refuse_abi(const char *what, const char *name, uint32_t abi, uint32_t size,
                            mr_error *err) {
    mr_fail(err, MR_E_UNSUPPORTED,
            "%s \"%s\" was built for another interface (version %u, %u bytes) than this library's",
            what, name, abi, size);
    mr_hint(err, "build it again with the headers of millrace %s", mr_version());
    return MR_E_UNSUPPORTED;
}

mr_status mr_op_check_abi(const mr_op_class *op, mr_error *err) {
    bool same = op->abi == MR_OP_ABI && op->size == sizeof *op;
    return same ? MR_OK : refuse_abi("op", op->name, op->abi, op->size, err);
}

mr_status mr_source_check_abi(const mr_source_class *source, mr_error *err) {
    bool same = source->abi == MR_SOURCE_ABI && source->size == sizeof *source;
    return same ? MR_OK : refuse_abi("source", source->name, source->abi, source->size, err);
}
